"""Low-dimensional models: a distribution put together from small tables that may be noisy.

Whatever is done here with noisy tables is post-processing: it reads nothing else. The joint distribution is a
tree given the sensitive value, P(s) Π P(a_i | a_parent, s), with wide attributes in groups of neighbours and,
inside a group, spread as the attribute is by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ROUNDS = 20
"""How often margins are fitted one after the other: enough for four digits."""


def projected(noisy: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest table without negative cells that adds up to a total (least squares).

    The same amount is taken off every cell, and what falls below 0 stays at 0: small noisy cells vanish.

    >>> projected(np.array([6.0, 3.0, -1.0]), 7.0).tolist()
    [5.0, 2.0, 0.0]
    """
    flat = np.sort(noisy.ravel())[::-1]
    excess = (np.cumsum(flat) - max(0.0, total)) / np.arange(1, flat.size + 1)
    return np.maximum(noisy - excess[np.flatnonzero(flat > excess)[-1]], 0.0) if total > 0 else noisy * 0.0


def shrunk(noisy: NDArray[np.float64], variance: float, expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noisy cells drawn towards what was expected of them, small ones most (empirical Bayes).

    Cells are taken to lie around E with standard deviation tau E, and the noise around the cell: the best
    linear estimate is E + (noisy - E) w with w = tau² E² / (tau² E² + variance). tau² is estimated from all
    cells, by what their squared differences exceed the noise.
    """
    weights = np.maximum(expected, 0.0) ** 2
    difference = noisy - expected
    total = float(weights.sum())
    relative = max(0.0, float((difference**2).sum()) - difference.size * variance) / total if total else 0.0
    share = relative * weights / np.maximum(relative * weights + variance, np.finfo(float).tiny)
    return np.maximum(expected + share * difference, 0.0)


def evened(noisy: NDArray[np.float64], variance: float, groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Noisy cells drawn towards the mean of their group, as far as noise explains how they differ.

    The positive-part estimator of James and Stein, group by group: a share 1 - variance / (what is found).
    """
    n = np.bincount(groups)
    mean = (np.bincount(groups, noisy) / n)[groups]
    found = np.bincount(groups, (noisy - mean) ** 2) / np.maximum(n - 1, 1)
    share = np.maximum(0.0, 1.0 - np.divide(variance, found, out=np.ones_like(found), where=found > 0.0))
    return mean + share[groups] * (noisy - mean)


def raked(
    table: NDArray[np.float64], margins: Sequence[tuple[tuple[int, ...], NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """The table scaled until its margins are those given, nearly (iterative proportional fitting).

    Args:
        table: A table without negative cells.
        margins: Axes, rising, and the table of sums over all others.
    """
    for _ in range(ROUNDS):
        for axes, wanted in margins:
            found = table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in axes))
            factor = np.divide(wanted, found, out=np.zeros_like(found), where=found > 0.0)
            shape = [size if axis in axes else 1 for axis, size in enumerate(table.shape)]
            table = table * factor.reshape(shape)
    return table


def grouped(histogram: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The group of every position: at most so many runs of neighbours of about the same mass.

    >>> grouped(np.array([1.0, 1.0, 2.0, 4.0]), 2).tolist()
    [0, 0, 0, 1]
    """
    mass = np.maximum(histogram, 0.0)
    ends = np.cumsum(mass)
    if len(mass) <= most or not ends[-1]:
        return np.arange(len(mass)) if len(mass) <= most else np.arange(len(mass)) * most // len(mass)
    wanted = np.minimum((ends - mass / 2.0) / ends[-1] * most, most - 1).astype(np.int64)
    return np.unique(wanted, return_inverse=True)[1].astype(np.int64)


def misfit(table: NDArray[np.int64], expected: NDArray[np.float64]) -> int:
    """How far a table is from what is expected, Σ |n - E| with E in whole numbers.

    One record more or less changes it by at most 1, exactly: whole numbers have no rounding errors.
    """
    return int(np.abs(table - np.rint(expected).astype(np.int64)).sum())


@dataclass(frozen=True, eq=False)
class MarginalTree:
    """P(s) Π P(group of a_i | group of its parent, s) P(a_i | its group).

    Attributes:
        values: The mass of every sensitive value.
        groups: For each attribute, the group of every position.
        spread: For each attribute, the mass of every position: how a group is spread.
        order: The attributes, parents before their children.
        parents: The parent of each attribute, or None.
        tables: For each attribute the masses by (group of the parent, group, value); one parent group for
            an attribute without a parent.
    """

    values: NDArray[np.float64]
    groups: tuple[NDArray[np.int64], ...]
    spread: tuple[NDArray[np.float64], ...]
    order: tuple[int, ...]
    parents: tuple[int | None, ...]
    tables: tuple[NDArray[np.float64], ...]

    def draw(self, n: int, random: np.random.Generator) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Draws positions of every attribute, and values, n times."""
        values = _drawn(self.values[np.newaxis], np.zeros(n, np.int64), random)
        found: list[NDArray[np.int64]] = [np.zeros(n, np.int64)] * len(self.groups)
        for place in self.order:
            table, parent = self.tables[place], self.parents[place]
            given = np.zeros(n, np.int64) if parent is None else found[parent]
            rows = table.transpose(0, 2, 1).reshape(-1, table.shape[1])
            found[place] = _drawn(rows, given * self.values.size + values, random)
        return [self._spread(place, own, random) for place, own in enumerate(found)], values

    def _spread(self, place: int, own: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
        groups, mass = self.groups[place], np.maximum(self.spread[place], 0.0)
        n_groups = int(groups[-1]) + 1
        if n_groups == len(groups):
            return own
        empty = np.bincount(groups, mass, n_groups) <= 0.0
        mass = np.where(empty[groups], 1.0, mass)
        ends = np.cumsum(mass)
        first = np.searchsorted(groups, np.arange(n_groups + 1))
        below = np.append(0.0, ends)[first]
        at = below[own] + random.random(own.size) * (below[own + 1] - below[own])
        found = np.searchsorted(ends, at, side="right")
        return np.asarray(np.clip(found, first[own], first[own + 1] - 1), dtype=np.int64)


def _drawn(
    rows: NDArray[np.float64], which: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """For each entry a column, drawn by the masses of the row that it names; even where a row has none."""
    mass = np.maximum(rows, 0.0)
    mass = np.where(mass.sum(axis=1, keepdims=True) > 0.0, mass, 1.0)
    ends = np.cumsum(mass / mass.sum(axis=1, keepdims=True), axis=1)
    ends[:, -1] = 1.0
    # One search in all rows at once: row r lies between r and r + 1.
    flat = (ends + np.arange(len(ends))[:, np.newaxis]).ravel()
    found = np.searchsorted(flat, which + random.random(which.size), side="right")
    return np.asarray(np.clip(found - which * rows.shape[1], 0, rows.shape[1] - 1), dtype=np.int64)
