"""Compiled inner loops of the strain of a class: how near it comes to what is bounded.

Import this module inside the function that needs it, as with `kernels`. Strain falls as a class grows: it is
its failure (Theorem C) or, for closeness, the square of its likely distance over the limit, which falls
like 1 / n.
"""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.core.closeness_kernels import Nearness, likely_distance
from elldelta.core.kernels import compiled
from elldelta.core.occupancy_kernels import class_failure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TOTAL, EACH, NEAR = 0, 1, 2
"""What is bounded: the sum of the class failures, each of them, or how far each class is likely to be from
its reference, besides its failure."""


class Rule(NamedTuple):
    """What classes must fulfil and how cuts are scored."""

    start: int  # the values of this sensitive column, of which there may be several
    stop: int
    mode: int  # TOTAL, EACH or NEAR
    limit: float  # of the sum of the strains, or of each
    scale: float  # turns a mass into a probability
    threshold: float  # with NEAR the logarithm of the largest failure
    n_records: float
    poisson: NDArray[np.float64]
    ell: int  # 0 if nothing is asked of distinct values
    releases: int
    checked_by: int
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
def strain_of(cells: NDArray[Any], rules: tuple[Rule, ...], enough: float, scratch: Scratch) -> float:
    """The strain of a class; above `enough` it may come out larger than it is.

    The failures of several sensitive columns add up: a class fails if one of them does. Of distances the
    largest counts.
    """
    strain = 0.0
    for rule in rules:
        found = column_strain(cells[rule.start : rule.stop], rule, enough, scratch)
        strain = max(strain, found) if rule.mode == NEAR else strain + found
    return strain


@compiled
def column_strain(cells: NDArray[Any], rule: Rule, enough: float, scratch: Scratch) -> float:
    """The same of one sensitive column."""
    failure = 0.0
    if rule.ell > 0:
        failure, _ = class_failure(
            cells,
            scratch.ranks[rule.start : rule.stop],
            rule.scale,
            rule.n_records,
            rule.poisson,
            rule.ell,
            rule.releases,
            rule.checked_by,
            inf if rule.mode == NEAR else enough,
            scratch.missing,
            scratch.tails,
        )
    return with_nearness(cells, failure, rule) if rule.mode == NEAR else failure


@compiled
def with_nearness(cells: NDArray[Any], failure: float, rule: Rule) -> float:
    """The strain of a class that must also be close to its reference."""
    total = 0.0
    for value in range(cells.size):
        total += cells[value]
    mass = total * rule.scale
    distance = 0.0
    if rule.near.limit > 0.0:
        distance = likely_distance(cells, total, rule.near.n_records * mass, rule.near) / rule.near.limit
    if failure >= 1.0:
        return inf
    # Both are at most 1 if the class may be published, and fall about like 1 / n.
    return max(distance * distance, rule.threshold / log(failure) if failure > 0.0 else 0.0, 1e-300)
