"""Compiled inner loops of the strain of a class: how near it comes to what is bounded.

Import this module inside the function that needs it, as with `kernels`. Strain falls as a class grows: it is
its failure (Theorem C), p over its ell-th largest cell in the paper's criterion, or, for closeness, the
square of its likely distance over the limit, which falls like 1 / n.
"""

from __future__ import annotations

from math import expm1, inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.core.closeness_kernels import Nearness, failure_of, likely_distance
from elldelta.core.kernels import compiled
from elldelta.core.occupancy_kernels import class_failure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOTAL, EACH, CELLS, NEAR = 0, 1, 2, 3
"""What is bounded: the sum of the class failures, each of them, the ell-th largest cell of each class, or how
far each class is likely to be from its reference, besides its failure."""


class Rule(NamedTuple):
    """What classes must fulfil and how cuts are scored."""

    start: int  # the values of this sensitive column, of which there may be several
    stop: int
    mode: int  # TOTAL, EACH, CELLS or NEAR
    limit: float  # of the sum of the strains, or of each
    scale: float  # turns a mass into a probability
    threshold: float  # the mass that counts as p; with NEAR the logarithm of the largest failure
    eta: float  # paid for once
    n_records: float
    n_apart: float
    poisson: NDArray[np.float64]
    ell: int  # 0 if nothing is asked of distinct values
    releases: int
    certifiable: bool
    near: Nearness
    floor: float  # failure below which a cut counts as free
    power: float
    most_tries: int  # cuts of one box whose failure is computed


class Scratch(NamedTuple):
    """Memory for the strain of one class."""

    ranks: NDArray[np.int32]
    missing: NDArray[np.float64]
    tails: NDArray[np.float64]
    sides: NDArray[np.float64]  # the cells below and above a cut, 2 x |S|


@compiled
def ell_th_cell(cells: NDArray[np.float64], ell: int, largest: NDArray[np.float64]) -> float:
    """The ell-th largest cell; `largest` is memory for ell cells."""
    largest[:ell] = -inf
    for value in range(cells.size):
        cell = cells[value]
        if cell > largest[ell - 1]:
            place = ell - 1
            while place > 0 and largest[place - 1] < cell:
                largest[place] = largest[place - 1]
                place -= 1
            largest[place] = cell
    return float(largest[ell - 1])


@compiled
def strain_of(
    cells: NDArray[Any], rules: tuple[Rule, ...], enough: float, scratch: Scratch
) -> tuple[float, float]:
    """The strain of a class, and what an error eta of P can add to it (`total_failure_upper`).

    Above `enough` the strain may come out larger than it is.

    The failures of several sensitive columns add up: a class fails if one of them does. Of distances, and of
    what the paper asks, the largest counts.
    """
    strain, price = 0.0, 0.0
    for rule in rules:
        found, added = column_strain(cells[rule.start : rule.stop], rule, enough, scratch)
        strain = max(strain, found) if rule.mode in (NEAR, CELLS) else strain + found
        price += added
    return strain, price


@compiled
def column_strain(cells: NDArray[Any], rule: Rule, enough: float, scratch: Scratch) -> tuple[float, float]:
    """The same of one sensitive column."""
    if rule.mode == CELLS:
        cell = ell_th_cell(cells, rule.ell, scratch.tails)
        return (rule.threshold / cell if cell > 0.0 else inf), 0.0
    failure = 0.0
    ranks = scratch.ranks[rule.start : rule.stop]
    if rule.ell > 0:
        failure, _ = class_failure(
            cells,
            ranks,
            rule.scale,
            rule.n_records,
            rule.n_apart,
            rule.poisson,
            rule.ell,
            rule.releases,
            rule.certifiable,
            enough if rule.mode in (TOTAL, EACH) else inf,
            scratch.missing,
            scratch.tails,
        )
    if rule.near.limit > 0.0 or rule.mode == NEAR:
        return with_nearness(cells, failure, rule), 0.0
    if rule.eta == 0.0:
        return failure, 0.0
    peak = cells[ranks[0]] * rule.scale
    return failure, (failure * expm1(rule.n_records * rule.eta / (1.0 - peak)) if peak < 1.0 else inf)


@compiled
def with_nearness(cells: NDArray[Any], failure: float, rule: Rule) -> float:
    """The strain of a class that must also be close to its reference."""
    total = 0.0
    for value in range(cells.size):
        total += cells[value]
    mass = total * rule.scale
    if rule.mode == TOTAL:
        return failure + rule.near.weight * failure_of(cells, total, mass, rule.near)
    distance = 0.0
    if rule.near.limit > 0.0:
        distance = likely_distance(cells, total, rule.near.n_records * mass, rule.near) / rule.near.limit
    if failure >= 1.0:
        return inf
    # Both are at most 1 if the class may be published, and fall about like 1 / n.
    return max(distance * distance, rule.threshold / log(failure) if failure > 0.0 else 0.0, 1e-300)
