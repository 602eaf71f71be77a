"""Compiled inner loops that divide a box of merged base classes again, wherever its parts cost less.

Import this module inside the function that needs it, as with `kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.coarsen_kernels import hull_loss, lacking, present_values
from elldelta.core.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.coarsen_kernels import Demands, Shape


@compiled
def weigh_box(
    members: NDArray[np.int64],
    alone: NDArray[np.float64],
    counts: NDArray[np.int64],
    demands: tuple[Demands, ...],
    shape: Shape,
) -> NDArray[np.int64]:
    """Divides a box of base classes again wherever that costs less.

    The box is cut in two, again and again, where most loss is removed, down to single base classes. From the
    smallest parts upwards, a part is published as a whole if it satisfies every base class in it and costs
    less than the best of its two sides; base classes that stand alone may be left out. So the result never
    costs more than the box.

    Args:
        members: The base classes of the box; reordered in place.
        alone: What each base class costs by itself: its loss, or the price of leaving it out. One per class.
        counts: The owner's records by base class and value.
        demands: What base classes ask.
        shape: Where base classes lie.

    Returns:
        The part of every member, in the order that `members` now has; -1 for those that stand alone.
    """
    begins, ends, firsts, seconds = [0], [members.size], [-1], [-1]
    node = 0
    while node < len(begins):
        begin, end = begins[node], ends[node]
        place = best_cut(members[begin:end], shape) if end - begin > 1 else 0
        if place > 0:
            firsts[node], seconds[node] = len(begins), len(begins) + 1
            for side in ((begin, begin + place), (begin + place, end)):
                begins.append(side[0])
                ends.append(side[1])
                firsts.append(-1)
                seconds.append(-1)
        node += 1
    costs = np.empty(len(begins))
    is_whole = np.zeros(len(begins), dtype=np.bool_)
    for node in range(len(begins) - 1, -1, -1):
        costs[node], is_whole[node] = part_cost(
            members[begins[node] : ends[node]], alone, counts, demands, shape
        )
        if firsts[node] >= 0 and costs[firsts[node]] + costs[seconds[node]] <= costs[node]:
            costs[node] = costs[firsts[node]] + costs[seconds[node]]
            is_whole[node] = False
    parts = np.full(members.size, -1, dtype=np.int64)
    n_parts = 0
    for node in range(len(begins)):  # a node stands before what is below it
        if is_whole[node] and parts[begins[node]] < 0:
            parts[begins[node] : ends[node]] = n_parts
            n_parts += 1
    return parts


@compiled
def best_cut(box: NDArray[np.int64], shape: Shape) -> int:
    """Orders the base classes of a box so that the cut that removes most loss divides them.

    Returns:
        How many of them stand before the cut; 0 if there is no cut between base classes.
    """
    best, best_place, best_attribute = np.inf, 0, -1
    for attribute in range(shape.lows.shape[1]):
        order = box[np.argsort(shape.highs[box, attribute], kind="mergesort")]
        mass_after = 0.0
        first_low = np.iinfo(np.int64).max
        whole = np.sum(shape.mass[order])
        low, high = np.min(shape.lows[order, attribute]), shape.highs[order[-1], attribute]
        for place in range(order.size - 1, 0, -1):
            mass_after += shape.mass[order[place]]
            first_low = min(first_low, shape.lows[order[place], attribute])
            end = shape.highs[order[place - 1], attribute]
            if end >= first_low:
                continue
            left = (whole - mass_after) * (end - low) + mass_after * (high - first_low)
            loss = shape.weights[attribute] * (left - whole * (high - low))
            if loss < best:
                best, best_place, best_attribute = loss, place, attribute
    if best_attribute >= 0:
        box[:] = box[np.argsort(shape.highs[box, best_attribute], kind="mergesort")]
    return best_place


@compiled
def part_cost(
    part: NDArray[np.int64],
    alone: NDArray[np.float64],
    counts: NDArray[np.int64],
    demands: tuple[Demands, ...],
    shape: Shape,
) -> tuple[float, bool]:
    """What a part costs, and whether it is cheaper as a whole than class by class."""
    apart = 0.0
    mass = 0.0
    low, high = shape.lows[part[0]].copy(), shape.highs[part[0]].copy()
    for base in part:
        apart += alone[base]
        mass += shape.mass[base]
        low = np.minimum(low, shape.lows[base])
        high = np.maximum(high, shape.highs[base])
    whole = hull_loss(mass, low, high, shape.weights)
    if whole >= apart or part.size == 1:
        return apart, False
    shown = np.zeros(counts.shape[1], dtype=np.int64)
    for base in part:
        shown += counts[base]
    if shown.any():
        present = present_values(shown, demands[0].min_records)
        n_records = shown.sum() // len(demands)
        for base in part:
            if demands[0].barred[base] or lacking(demands, base, present, shown, n_records) > 0.0:
                return apart, False
    return whole, True
