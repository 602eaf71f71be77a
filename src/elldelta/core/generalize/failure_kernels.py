"""Compiled inner loops of the failure of a class: how near it comes to what is bounded.

Import this module inside the function that needs it, as with `kernels`. Failure falls as a class grows: it is
its failure (Theorem C), with the estimated chance that it is too far from its reference, where closeness is
asked for.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.core.closeness_kernels import Nearness, too_far_chance
from elldelta.core.kernels import compiled
from elldelta.core.occupancy_kernels import LEDGER, TINY, class_failure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOTAL, EACH = 0, 1
"""What is bounded: the sum of the class failures, or each of them."""


class Rule(NamedTuple):
    """What classes must fulfil and how cuts are scored."""

    start: int  # the values of this sensitive column, of which there may be several
    stop: int
    mode: int  # TOTAL or EACH
    limit: float  # of the sum of the failures, or of each
    scale: float  # turns a mass into a probability
    least_mass: float  # the smallest probability of a class: below it fewer than k records are too likely
    weight: float  # how much a failure of a whole release counts beside those of its parts
    n_records: float
    poisson: NDArray[np.float64]
    ell: int  # 0 if nothing is asked of distinct values
    releases: int
    checked_by: int
    near: Nearness
    fewest: float  # smaller cells do not count
    rungs: NDArray[np.float64]  # others are rounded down to one of these; empty if they count as they are
    floor: float  # failure below which a cut counts as free
    power: float
    most_tries: int  # cuts of one box whose failure is computed


class Scratch(NamedTuple):
    """Memory for the failure of one class."""

    ranks: NDArray[np.int32]
    missing: NDArray[np.float64]
    tails: NDArray[np.float64]
    sides: NDArray[np.float64]  # the cells below and above a cut, 2 x |S|
    told: NDArray[np.float64]  # the cells of a class as a plan tells them


@compiled
def failure_of(cells: NDArray[Any], rules: tuple[Rule, ...], enough: float, scratch: Scratch) -> float:
    """The failure of a class; above `enough` it may come out larger than it is.

    The failures of several sensitive columns add up: a class fails if one of them does.
    """
    failure = 0.0
    for rule in rules:
        failure += column_failure(cells[rule.start : rule.stop], rule, enough, scratch)
    return failure


@compiled
def column_failure(cells: NDArray[Any], rule: Rule, enough: float, scratch: Scratch) -> float:
    """The same of one sensitive column; without end for a class that is too small."""
    ranks = scratch.ranks[rule.start : rule.stop]
    total = 0.0
    for value in range(cells.size):
        total += cells[value]
    if total * rule.scale < rule.least_mass:
        return inf
    failure = TINY
    if rule.ell > 0:
        shown = scratch.told[rule.start : rule.stop]
        for value in range(cells.size):
            shown[value] = cells[value] if cells[value] >= rule.fewest else 0.0
            if rule.rungs.size > 0:
                shown[value] = rung_below(shown[value], rule.rungs)
        failure, n_witnesses = class_failure(
            shown,
            ranks,
            rule.scale,
            rule.n_records,
            rule.poisson,
            rule.ell,
            rule.releases,
            rule.checked_by,
            enough,
            scratch.missing,
            scratch.tails,
        )
        if rule.least_mass > 0.0 and rule.near.limit <= 0.0 and rule.checked_by != LEDGER:
            # A plan tells the cells of witnesses only: they must make sure of k by themselves.
            told = 0.0
            for place in range(n_witnesses):
                told += shown[ranks[place]]
            if told * rule.scale < rule.least_mass:
                return inf
    if rule.near.limit > 0.0 and failure <= enough:
        n_expected = rule.near.n_records * total * rule.scale
        failure += rule.weight * too_far_chance(cells, total, n_expected, rule.near)
    return failure


@compiled
def rung_below(cell: float, rungs: NDArray[np.float64]) -> float:
    """The highest rung that is not above a cell."""
    low, high = 0, rungs.size  # the rung at `low` is not above it, the one at `high` is
    while high - low > 1:
        middle = (low + high) // 2
        if rungs[middle] <= cell:
            low = middle
        else:
            high = middle
    found: float = rungs[low]
    return found
