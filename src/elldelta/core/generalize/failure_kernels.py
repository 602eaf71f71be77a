"""Compiled inner loops of the failure of a class: what classes are bounded by while they are made.

Import this module inside the function that needs it, as with `kernels`. The failure of a class falls as it
grows: it is that of Theorem C, D' or E, with the estimated chance that the class is too far from its
reference, where closeness is asked for.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elldelta.core.closeness_kernels import Nearness, too_far_chance
from elldelta.core.kernels import compiled, inner
from elldelta.core.occupancy_kernels import LEDGER, TINY, class_failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOTAL, EACH = 0, 1
"""What is bounded: the sum of the class failures, or each of them."""

START, STOP, ELL = range(3)
"""Of every sensitive column: its values, and ell; 0 if nothing is asked of distinct values."""


class Constraint(NamedTuple):
    """What classes must fulfil in every sensitive column, and how cuts are scored.

    Arrays, not a tuple of columns: there is one compiled program for any number of them.
    """

    columns: NDArray[np.int64]  # columns x START..ELL
    least_masses: NDArray[np.float64]  # of a class, per column: below it fewer than k records are too likely
    closeness_limits: NDArray[np.float64]  # per column; 0 if no closeness is asked for
    references: NDArray[np.float64]  # one per value (`Nearness`), or none at all
    priors: NDArray[np.float64]
    n_past: float
    n_whole: float  # the records of a whole release
    weight: float  # how much a failure of a whole release counts beside those of its parts
    mode: int  # TOTAL or EACH
    limit: float  # of the sum of the failures, or of each
    scale: float  # turns a mass into a probability
    n_records: float
    releases: int
    checked_by: int
    fewest_past: float  # smaller cells do not count
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
    counted: NDArray[np.float64]  # what counts of the cells of a class
    poisson: NDArray[np.float64]  # no rates: Lemma B gains next to nothing here


@inner
def scratch_for(constraint: Constraint, n_values: int) -> Scratch:
    """Memory for the failure of one class."""
    ranks = np.arange(n_values).astype(np.int32)
    for column in constraint.columns:  # every sensitive column ranks its own values
        for value in range(column[START], column[STOP]):
            ranks[value] -= column[START]
    return Scratch(
        ranks,
        np.empty(n_values, dtype=np.float64),
        np.empty(n_values + 3, dtype=np.float64),
        np.empty((2, n_values), dtype=np.float64),
        np.empty(n_values, dtype=np.float64),
        np.empty((0, 2), dtype=np.float64),
    )


@inner
def failure_of(cells: NDArray[Any], constraint: Constraint, enough: float, scratch: Scratch) -> float:
    """The failure of a class; above `enough` it may come out larger than it is.

    The failures of several sensitive columns add up: a class fails if one of them does.
    """
    failure = 0.0
    for index in range(constraint.least_masses.size):
        failure += column_failure(cells, index, constraint, enough, scratch)
    return failure


@compiled
def column_failure(
    all_cells: NDArray[Any], index: int, constraint: Constraint, enough: float, scratch: Scratch
) -> float:
    """The same of one sensitive column; without end for a class that is too small."""
    column = constraint.columns[index]
    start, stop, ell = column[START], column[STOP], column[ELL]
    least_mass, closeness = constraint.least_masses[index], constraint.closeness_limits[index]
    cells, ranks = all_cells[start:stop], scratch.ranks[start:stop]
    total = 0.0
    for value in range(cells.size):
        total += cells[value]
    if total * constraint.scale < least_mass:
        return inf
    failure = TINY
    if ell > 0:
        counted = scratch.counted[start:stop]
        for value in range(cells.size):
            counted[value] = cells[value] if cells[value] >= constraint.fewest_past else 0.0
            if constraint.rungs.size > 0:
                counted[value] = rung_below(counted[value], constraint.rungs)
        failure, n_witnesses = class_failure(
            counted,
            ranks,
            constraint.scale,
            constraint.n_records,
            scratch.poisson,
            ell,
            constraint.releases,
            constraint.checked_by,
            enough,
            scratch.missing,
            scratch.tails,
        )
        if least_mass > 0.0 and closeness <= 0.0 and constraint.checked_by != LEDGER:
            # A plan tells the cells of witnesses only: they must make sure of k by themselves.
            witnessed = 0.0
            for place in range(n_witnesses):
                witnessed += counted[ranks[place]]
            if witnessed * constraint.scale < least_mass:
                return inf
    if closeness > 0.0 and failure <= enough:
        near = Nearness(
            closeness,
            constraint.n_whole,
            constraint.references[start:stop],
            constraint.priors[start:stop],
            constraint.n_past,
        )
        n_expected = near.n_records * total * constraint.scale
        failure += constraint.weight * too_far_chance(cells, total, n_expected, near)
    return failure


@inner
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
