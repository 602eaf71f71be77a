"""Compiled inner loop of coarsening runs: the cheapest ones, by dynamic programming.

Import this module inside the function that needs it, as with `kernels`. Sets of values are rows of 64-bit
words. A base class is *satisfied* by a set of values if at most its allowance of witnesses is outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.core.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Demands(NamedTuple):
    """What base classes ask of the class they are published in."""

    witnesses: NDArray[np.uint64]  # R x words, the sets A_c
    allowances: NDArray[np.int64]  # R
    barred: NDArray[np.bool_]  # R, classes that must not be published together with a record
    min_records: int


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
def best_runs(
    units: NDArray[np.int64],
    passes: NDArray[np.bool_],
    demands: Demands,
    records: Records,
    shape: Shape,
    window: int,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The cheapest way to publish base classes in runs: fewest records left out first, then least loss.

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
        window: The longest run of which every one is tried.

    Returns:
        For every unit the unit at which its run begins, and whether its records are left out.
    """
    n_units = units.size
    n_words = demands.witnesses.shape[1]
    n_attributes = shape.lows.shape[1]
    reach = np.full(n_units + 1, n_units, dtype=np.int64)  # the first unit from here on that does not pass
    for unit in range(n_units - 1, -1, -1):
        reach[unit] = reach[unit + 1] if passes[unit] else unit
    n_left_out = np.full(n_units + 1, np.iinfo(np.int64).max, dtype=np.int64)
    loss = np.full(n_units + 1, np.inf)
    came_from = np.full(n_units + 1, 0, dtype=np.int64)
    by_leaving_out = np.zeros(n_units + 1, dtype=np.bool_)
    n_left_out[0] = 0
    loss[0] = 0.0
    tally = np.zeros(records.n_values, dtype=np.int64)
    present = np.zeros(n_words, dtype=np.uint64)
    waiting = np.empty(demands.allowances.size, dtype=np.int64)
    low = np.empty(n_attributes, dtype=np.int64)
    high = np.empty(n_attributes, dtype=np.int64)
    for begin in range(n_units):
        base = units[begin]
        if passes[begin]:
            length = 0.0
            for attribute in range(n_attributes):
                length += shape.weights[attribute] * (
                    shape.highs[base, attribute] - shape.lows[base, attribute]
                )
            step_left_out, step_loss = n_left_out[begin], loss[begin] + shape.mass[base] * length
        else:
            step_left_out, step_loss = n_left_out[begin], loss[begin]
            for place in range(records.places[base], records.places[base + 1]):
                step_left_out += records.counts[place]
        if step_left_out < n_left_out[begin + 1] or (
            step_left_out == n_left_out[begin + 1] and step_loss < loss[begin + 1]
        ):
            n_left_out[begin + 1] = step_left_out
            loss[begin + 1] = step_loss
            came_from[begin + 1] = begin
            by_leaving_out[begin + 1] = not passes[begin]
        stride = 1
        while True:
            limit = min(n_units, begin + stride * window)
            if begin % stride == 0 and reach[begin] < limit:
                tally[:] = 0
                present[:] = np.uint64(0)
                n_waiting = 0
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
                        if tally[value] >= demands.min_records:
                            present[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
                    is_barred = False
                    while next_class <= last:
                        is_barred = is_barred or demands.barred[next_class]
                        mass += shape.mass[next_class]
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
                    while n_waiting > 0 and (
                        n_outside(demands.witnesses[waiting[n_waiting - 1]], present)
                        <= demands.allowances[waiting[n_waiting - 1]]
                    ):
                        n_waiting -= 1
                    if n_waiting > 0:
                        continue
                    length = 0.0
                    for attribute in range(n_attributes):
                        length += shape.weights[attribute] * (high[attribute] - low[attribute])
                    run_loss = loss[begin] + mass * length - saved
                    if n_left_out[begin] < n_left_out[end + 1] or (
                        n_left_out[begin] == n_left_out[end + 1] and run_loss < loss[end + 1]
                    ):
                        n_left_out[end + 1] = n_left_out[begin]
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
