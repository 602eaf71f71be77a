"""Compiled inner loops of coarsening: what base classes lack, and the cheapest runs by dynamic programming.

Import this module inside the function that needs it, as with `kernels`. Sets of values are rows of 64-bit
words. A base class is *satisfied* by what its published class shows if it lacks nothing (`lacking`): at most
its allowance of witnesses is missing, what is shown keeps the reserve, if there is one, and its shares are
close to the reference of the class, if there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.core.kernels import compiled, one_more

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Demands(NamedTuple):
    """What base classes ask of the class they are published in, for one sensitive column."""

    start: int  # the values of the column among all
    stop: int
    witnesses: NDArray[np.uint64]  # R x words, the sets A_c
    allowances: NDArray[np.int64]  # R
    barred: NDArray[np.bool_]  # R, classes that must not be published together with a record
    min_records: int
    ell: int
    expected: NDArray[np.float64]  # R x values, or 0 x 0 without a reserve: see `Reserve`
    risks: NDArray[np.float64]  # R, or 0
    followers: int
    references: NDArray[np.float64]  # R x values, or 0 x 0 without closeness: see `ClosenessTerms`
    used: NDArray[np.float64]  # R x values, what other releases lack of the references, or 0 x 0
    limit: float  # of what is lacking of a reference, a little below the one that counts
    alone: float  # the same for what this release lacks, whatever others have shown


class Shape(NamedTuple):
    """Where base classes lie, and what it costs to blur them."""

    lows: NDArray[np.int64]  # R x d
    highs: NDArray[np.int64]  # R x d
    weights: NDArray[np.float64]  # d, loss per position of length
    mass: NDArray[np.float64]  # R


@compiled
def n_outside(witnesses: NDArray[np.uint64], present: NDArray[np.uint64]) -> int:
    """How many witnesses are not present."""
    total = 0
    for word in range(witnesses.size):
        bits = witnesses[word] & ~present[word]
        while bits != np.uint64(0):
            bits &= bits - np.uint64(1)
            total += 1
    return total


@compiled
def survival(columns: tuple[Demands, ...], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """The chance that all who follow show a value of which they expect so many records; per value."""
    return (-np.expm1(-expected)) ** columns[0].followers


@compiled
def fewer_than_ell(
    witnesses: NDArray[np.uint64], present: NDArray[np.uint64], survival: NDArray[np.float64], ell: int
) -> float:
    """The chance that fewer than ell of the witnesses that are present survive, each by itself."""
    chances = np.zeros(ell)  # of 0 ... ell - 1 survivors so far
    chances[0] = 1.0
    for value in range(survival.size):
        bit = np.uint64(1) << np.uint64(value & 63)
        if survival[value] <= 0.0 or not (witnesses[value >> 6] & present[value >> 6] & bit):
            continue
        one_more(chances, ell - 1, survival[value])
        chances[0] *= 1.0 - survival[value]
    return float(chances.sum())


@compiled
def lacking(
    columns: tuple[Demands, ...],
    base: int,
    present: NDArray[np.uint64],
    shown: NDArray[np.int64],
    n_records: int,
    survival: NDArray[np.float64],
) -> float:
    """What a base class lacks in all sensitive columns together; 0 if it is satisfied in each."""
    total = 0.0
    for demands in columns:
        own = shown[demands.start : demands.stop]
        total += lacking_in_column(demands, base, present, own, n_records, survival)
    return total


@compiled
def lacking_in_column(
    demands: Demands,
    base: int,
    present: NDArray[np.uint64],
    shown: NDArray[np.int64],
    n_records: int,
    survival: NDArray[np.float64],
) -> float:
    """What a base class lacks if its published class shows these values; 0 if it is satisfied.

    How many witnesses too many are missing, and how far beyond the limit the reference is, in limits. If
    neither: by how much the chance that those who follow leave fewer than ell values exceeds what is allowed.
    Without closeness it never grows with what is shown.
    """
    missing = n_outside(demands.witnesses[base], present) - demands.allowances[base]
    lack = float(max(0, missing))
    if demands.references.size > 0:
        excess = distance(demands, base, shown, n_records, True) - demands.limit
        lack += max(0.0, excess / demands.limit)
        if demands.alone < demands.limit:
            excess = distance(demands, base, shown, n_records, False) - demands.alone
            lack += max(0.0, excess / demands.alone)
    if lack > 0.0 or demands.risks.size == 0:
        return lack
    chance = fewer_than_ell(demands.witnesses[base], present, survival, demands.ell)
    return max(0.0, chance - float(demands.risks[base]))


@compiled
def distance(
    demands: Demands,
    base: int,
    shown: NDArray[np.int64],
    n_records: int,
    with_others: bool,
) -> float:
    """E of a base class (Theorem G): what is shown, or what others have shown, lacks of its reference."""
    total = 0.0
    for value in range(shown.size):
        short = demands.references[base, value] - shown[value] / n_records
        if with_others and demands.used.size > 0:
            short = max(short, demands.used[base, value])
        total += max(0.0, short)
    return total


@compiled
def lacking_of_each(
    demands: tuple[Demands, ...], shown: NDArray[np.int64], expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What each base class lacks if its published class shows so many records of each value, R x |S|.

    Those who follow expect so many there, if there is a reserve for them.
    """
    found = np.zeros(demands[0].allowances.size)
    for base in range(found.size):
        present = present_values(shown[base], demands[0].min_records)
        n_records = shown[base].sum() // len(demands)
        survives = survival(demands, expected[base] if expected.size else np.zeros(0))
        found[base] = lacking(demands, base, present, shown[base], max(1, n_records), survives)
    return found


@compiled
def present_values(counts: NDArray[np.int64], min_records: int) -> NDArray[np.uint64]:
    """The values with enough records, as a set."""
    present = np.zeros((counts.size + 63) // 64, dtype=np.uint64)
    for value in range(counts.size):
        if counts[value] >= min_records:
            present[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
    return present


@compiled
def hull_loss(
    mass: float, low: NDArray[np.int64], high: NDArray[np.int64], weights: NDArray[np.float64]
) -> float:
    """The loss of a class: its mass times the weighted lengths of its hull."""
    length = 0.0
    for attribute in range(weights.size):
        length += weights[attribute] * (high[attribute] - low[attribute])
    return mass * length
