"""Compiled inner loops of coarsening: what base classes lack, and the cheapest runs by dynamic programming.

Import this module inside the function that needs it, as with `kernels`. Sets of values are rows of 64-bit
words. A base class is *satisfied* by what its published class shows if it lacks nothing (`lacking`): at most
its allowance of witnesses is missing, what is shown keeps the reserve, if there is one, and its shares are
close to the reference of the class, if there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.core.kernels import compiled

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


class Records(NamedTuple):
    """The records of every base class, as the values that occur: row c holds places[c]:places[c + 1]."""

    places: NDArray[np.int64]
    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    n_values: int


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
        for n in range(ell - 1, 0, -1):
            chances[n] += survival[value] * (chances[n - 1] - chances[n])
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
def best_runs(
    units: NDArray[np.int64],
    passes: NDArray[np.bool_],
    demands: tuple[Demands, ...],
    records: Records,
    shape: Shape,
    price: float,
    window: int,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The cheapest way to publish base classes in runs: loss, and a price for the mass that is left out.

    Only classes with a record are steps of the programme: a class without one at the end of a run could leave
    it and lower the loss. A run of several classes that all pass by themselves could be taken apart and lower
    the loss, so a run that is tried holds a class that does not. Runs of up to `window` such classes are all
    tried; longer ones begin and end at multiples of 8, 64, ..., and the run of everything is always tried.

    Args:
        units: Base classes with a record, ascending.
        passes: Whether each of them is satisfied by itself.
        demands: What base classes ask.
        records: The records of base classes.
        shape: Where base classes lie.
        price: What it costs to leave out everything.
        window: The longest run of which every one is tried.

    Returns:
        For every unit the unit at which its run begins, and whether its records are left out.
    """
    n_units = units.size
    n_words = demands[0].witnesses.shape[1]
    is_near = False
    for column in demands:
        is_near = is_near or column.references.size > 0
    n_attributes = shape.lows.shape[1]
    reach = np.full(n_units + 1, n_units, dtype=np.int64)  # the first unit from here on that does not pass
    for unit in range(n_units - 1, -1, -1):
        reach[unit] = reach[unit + 1] if passes[unit] else unit
    loss = np.full(n_units + 1, np.inf)
    came_from = np.full(n_units + 1, 0, dtype=np.int64)
    by_leaving_out = np.zeros(n_units + 1, dtype=np.bool_)
    loss[0] = 0.0
    tally = np.zeros(records.n_values, dtype=np.int64)
    expected = np.zeros(demands[0].expected.shape[1])
    present = np.zeros(n_words, dtype=np.uint64)
    waiting = np.empty(demands[0].allowances.size, dtype=np.int64)
    low = np.empty(n_attributes, dtype=np.int64)
    high = np.empty(n_attributes, dtype=np.int64)
    for begin in range(n_units):
        base = units[begin]
        length = 0.0
        for attribute in range(n_attributes):
            length += shape.weights[attribute] * (shape.highs[base, attribute] - shape.lows[base, attribute])
        is_out = not passes[begin] or length > price
        step_loss = loss[begin] + shape.mass[base] * (price if is_out else length)
        if step_loss < loss[begin + 1]:
            loss[begin + 1] = step_loss
            came_from[begin + 1] = begin
            by_leaving_out[begin + 1] = is_out
        stride = 1
        while True:
            limit = min(n_units, begin + stride * window)
            if begin % stride == 0 and reach[begin] < limit:
                tally[:] = 0
                expected[:] = 0.0
                present[:] = np.uint64(0)
                n_waiting = 0
                n_records = 0
                mass = 0.0
                saved = 0.0
                low[:] = shape.lows[base]
                high[:] = shape.highs[base]
                next_class = base
                for end in range(begin, limit):
                    last = units[end]
                    for place in range(records.places[last], records.places[last + 1]):
                        value = records.values[place]
                        tally[value] += records.counts[place]
                        n_records += records.counts[place]
                        if tally[value] >= demands[0].min_records:
                            present[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
                    if is_near:  # what was close may not be so any more
                        n_waiting = next_class - base
                    is_barred = False
                    while next_class <= last:
                        is_barred = is_barred or demands[0].barred[next_class]
                        mass += shape.mass[next_class]
                        if expected.size:
                            expected += demands[0].expected[next_class]
                        has_records = records.places[next_class] < records.places[next_class + 1]
                        for attribute in range(n_attributes):
                            if not has_records:  # by itself it would have lost this much all the same
                                saved += (
                                    shape.mass[next_class]
                                    * shape.weights[attribute]
                                    * (shape.highs[next_class, attribute] - shape.lows[next_class, attribute])
                                )
                            low[attribute] = min(low[attribute], shape.lows[next_class, attribute])
                            high[attribute] = max(high[attribute], shape.highs[next_class, attribute])
                        waiting[n_waiting] = next_class
                        n_waiting += 1
                        next_class += 1
                    if is_barred:
                        break
                    if (end + 1) % stride != 0 and end + 1 != n_units:
                        continue
                    if end == begin or reach[begin] > end:
                        continue
                    # What is satisfied stays so while the run grows: look again only at the last one waiting.
                    n_each, survives = n_records // len(demands), survival(demands, expected)
                    while n_waiting > 0:
                        if lacking(demands, waiting[n_waiting - 1], present, tally, n_each, survives) > 0.0:
                            break
                        n_waiting -= 1
                    if n_waiting > 0:
                        continue
                    length = 0.0
                    for attribute in range(n_attributes):
                        length += shape.weights[attribute] * (high[attribute] - low[attribute])
                    run_loss = loss[begin] + mass * length - saved
                    if run_loss < loss[end + 1]:
                        loss[end + 1] = run_loss
                        came_from[end + 1] = begin
                        by_leaving_out[end + 1] = False
            if stride * window >= n_units:
                break
            stride *= 8
    begins = np.empty(n_units, dtype=np.int64)
    left_out = np.zeros(n_units, dtype=np.bool_)
    end = n_units
    while end > 0:
        begin = came_from[end]
        begins[begin:end] = begin
        left_out[begin:end] = by_leaving_out[end]
        end = begin
    return begins, left_out


@compiled
def hull_loss(
    mass: float, low: NDArray[np.int64], high: NDArray[np.int64], weights: NDArray[np.float64]
) -> float:
    """The loss of a class: its mass times the weighted lengths of its hull."""
    length = 0.0
    for attribute in range(weights.size):
        length += weights[attribute] * (high[attribute] - low[attribute])
    return mass * length
