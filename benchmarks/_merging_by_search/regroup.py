"""A published box and a neighbour are divided again as well as can be: compiled.

A local search: two boxes, and all
that their hull touches, make a box of some base classes. Among all ways to cut it in two, again and again,
the one that costs least is found; if it costs less than what is published now, it takes its place. So the
cost falls with every step, and hulls stay disjoint.
"""

from typing import NamedTuple

import numpy as np

from benchmarks._merging_by_search.demands import hull_loss
from benchmarks._merging_by_search.unions import whole_cost
from elldelta.core.kernels import compiled

MOST_MEMBERS = 16
"""Boxes of more base classes are not divided anew; at most 64, the bits of a word."""

MOST_PARTS = 1 << 12
"""Parts of a box that are looked at; what is left is not cut further."""

MOST_ROUNDS = 32


class Tiles(NamedTuple):
    """What is published; a group has the number of one of its members, and other numbers have size 0."""

    group_of: np.ndarray
    heads: np.ndarray  # first member
    following: np.ndarray  # next member, -1 at the end
    sizes: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    costs: np.ndarray


class Parts(NamedTuple):
    """Parts of a box by the set of their members, in a hash table that a stamp clears."""

    sets: np.ndarray
    stamps: np.ndarray
    costs: np.ndarray
    below: np.ndarray  # one side of the best cut; all members: published as a whole; 0: one by one


@compiled
def neighbours(shape):
    """The base classes that touch each one, also at corners: of c those in near[starts[c]:starts[c + 1]]."""
    n_classes, n_attributes = shape.lows.shape
    # Along the attribute in which base classes are shortest, few of them share a position.
    along, shortest = 0, np.inf
    for attribute in range(n_attributes):
        length = shape.weights[attribute] * np.sum(shape.highs[:, attribute] - shape.lows[:, attribute])
        if 0.0 < length < shortest:
            along, shortest = attribute, length
    order = np.argsort(shape.lows[:, along])
    firsts, seconds = [0], [0]
    for place in range(n_classes):
        base = order[place]
        for later in range(place + 1, n_classes):
            other = order[later]
            if shape.lows[other, along] > shape.highs[base, along] + 1:
                break
            touches = True
            for attribute in range(n_attributes):
                if (
                    shape.lows[other, attribute] > shape.highs[base, attribute] + 1
                    or shape.highs[other, attribute] < shape.lows[base, attribute] - 1
                ):
                    touches = False
                    break
            if touches:
                firsts.append(base)
                seconds.append(other)
    starts = np.zeros(n_classes + 1, dtype=np.int64)
    for pair in range(1, len(firsts)):
        starts[firsts[pair] + 1] += 1
        starts[seconds[pair] + 1] += 1
    starts = np.cumsum(starts)
    ends = starts[:-1].copy()
    near = np.empty(starts[-1], dtype=np.int64)
    for pair in range(1, len(firsts)):
        near[ends[firsts[pair]]] = seconds[pair]
        near[ends[seconds[pair]]] = firsts[pair]
        ends[firsts[pair]] += 1
        ends[seconds[pair]] += 1
    return starts, near


@compiled
def publish(tiles, members, cost, shape):
    """Makes some base classes one group; the groups that they were in must be made anew as well."""
    group = members[0]
    tiles.sizes[members] = 0
    tiles.sizes[group] = members.size
    tiles.costs[group] = cost
    tiles.heads[group] = -1
    tiles.lows[group] = shape.lows[group]
    tiles.highs[group] = shape.highs[group]
    for base in members:
        tiles.group_of[base] = group
        tiles.following[base] = tiles.heads[group]
        tiles.heads[group] = base
        for attribute in range(shape.lows.shape[1]):
            tiles.lows[group, attribute] = min(tiles.lows[group, attribute], shape.lows[base, attribute])
            tiles.highs[group, attribute] = max(tiles.highs[group, attribute], shape.highs[base, attribute])


@compiled
def close_box(
    tiles,
    starts,
    near,
    first,
    second,
    stamps,
    stamp,
    members,
):
    """Two groups that touch, and all that their hull touches, and that the new hull touches, and so on.

    Writes the base classes into `members`.

    Returns:
        How many there are, 0 if they are too many; and what they cost now.
    """
    low, high = tiles.lows[first].copy(), tiles.highs[first].copy()
    n_members, cost = 0, 0.0
    group, place, edge = first, -1, 0  # what joins; the member whose neighbours are looked at, from which on
    while True:
        if group >= 0:  # one more group
            if n_members + tiles.sizes[group] > MOST_MEMBERS:
                return 0, 0.0
            stamps[group] = stamp
            cost += tiles.costs[group]
            member = tiles.heads[group]
            while member >= 0:
                members[n_members] = member
                n_members += 1
                member = tiles.following[member]
            for attribute in range(low.size):
                if tiles.lows[group, attribute] < low[attribute]:
                    low[attribute] = tiles.lows[group, attribute]
                    place = -1  # who did not touch the hull may do so now
                if tiles.highs[group, attribute] > high[attribute]:
                    high[attribute] = tiles.highs[group, attribute]
                    place = -1
            if place < 0:
                place, edge = 0, starts[members[0]]
            if stamps[second] != stamp:
                group = second
                continue
        group = -1
        while group < 0 and place < n_members:
            base = members[place]
            while group < 0 and edge < starts[base + 1]:
                other = tiles.group_of[near[edge]]
                edge += 1
                if stamps[other] == stamp:
                    continue
                group = other
                for attribute in range(low.size):
                    if (
                        tiles.lows[other, attribute] > high[attribute]
                        or tiles.highs[other, attribute] < low[attribute]
                    ):
                        group = -1
                        break
            if group < 0:
                place += 1
                if place < n_members:
                    edge = starts[members[place]]
        if group < 0:
            return n_members, cost


@compiled
def least_costs(
    alone,
    is_out,
    starts,
    near,
    shape,
):
    """What a base class costs in the best of cases, and what one that cannot stand alone costs besides.

    It is left out, or published with a class that it touches, and perhaps with more, which share that cost.
    """
    own = np.empty(alone.size)
    for each in range(alone.size):
        own[each] = hull_loss(shape.mass[each], shape.lows[each], shape.highs[each], shape.weights)
    extra = np.zeros(alone.size)
    for base in np.flatnonzero(is_out & (own < alone)):
        extra[base] = alone[base] - own[base]
        for other in near[starts[base] : starts[base + 1]]:
            low = np.minimum(shape.lows[base], shape.lows[other])
            high = np.maximum(shape.highs[base], shape.highs[other])
            pair = hull_loss(shape.mass[base] + shape.mass[other], low, high, shape.weights)
            extra[base] = min(extra[base], pair - own[base] - own[other])
    return np.minimum(alone, own), extra


@compiled
def slot_of(parts, members, stamp):
    """Where a part is in the table, or would be."""
    slot = np.int64((members * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(50))
    while parts.stamps[slot] == stamp and parts.sets[slot] != members:
        slot = np.int64((slot + 1) % parts.sets.size)
    return slot


@compiled
def best_division(
    box,
    alone,
    is_out,
    counts,
    demands,
    shape,
    parts,
    stamp,
):
    """The least that a box of base classes costs, over all ways to cut it in two, again and again.

    A part is published as a whole, if that satisfies everybody in it, or cut, or every base class in it
    stands alone. Where all of them may stand alone, nothing costs less.

    Args:
        box: The base classes; bit i of a set is the i-th.
        alone: What each base class costs by itself: its loss, or the price of leaving it out.
        is_out: Whether that is by leaving it out.
        counts: The owner's records by base class and value.
        demands: What base classes ask.
        shape: Where base classes lie.
        parts: Is filled with what was found.
        stamp: A number that marks its entries.
    """
    one, none = np.uint64(1), np.uint64(0)
    orders = np.empty((shape.lows.shape[1], box.size), dtype=np.int64)
    for attribute in range(shape.lows.shape[1]):
        orders[attribute] = np.argsort(shape.highs[box, attribute])
    everything = none
    for place in range(box.size):
        everything |= one << np.uint64(place)
    members = np.empty(box.size, dtype=np.int64)
    n_parts = 0
    pending = [everything]
    while len(pending) > 0:
        part = pending[-1]
        slot = slot_of(parts, part, stamp)
        if parts.stamps[slot] == stamp:
            pending.pop()
            continue
        size, best, any_out, below = 0, 0.0, False, none
        for place in range(box.size):
            if part >> np.uint64(place) & one:
                members[size] = box[place]
                size += 1
                best += alone[box[place]]
                any_out = any_out or is_out[box[place]]
        if size > 1 and any_out:
            is_ready = True
            for attribute in range(orders.shape[0]):
                above = none
                least = np.iinfo(np.int64).max
                for rank in range(box.size - 1, -1, -1):
                    place = orders[attribute, rank]
                    bit = one << np.uint64(place)
                    if not part & bit:
                        continue
                    if above and shape.highs[box[place], attribute] < least:
                        sides = 0.0
                        for side in (above, part & ~above):
                            found = slot_of(parts, side, stamp)
                            if parts.stamps[found] == stamp:
                                sides += parts.costs[found]
                            elif n_parts < MOST_PARTS:
                                pending.append(side)
                                is_ready = False
                            else:
                                sides = np.inf
                        if is_ready and sides < best:
                            best, below = sides, part & ~above
                    above |= bit
                    least = min(least, shape.lows[box[place], attribute])
            if not is_ready:
                continue
            whole = whole_cost(members[:size], counts, demands, shape, best)
            if whole < best:
                best, below = whole, part
        slot = slot_of(parts, part, stamp)
        parts.sets[slot], parts.stamps[slot] = part, stamp
        parts.costs[slot], parts.below[slot] = best, below
        n_parts += 1
        pending.pop()
    return float(parts.costs[slot_of(parts, everything, stamp)])


@compiled
def take_division(tiles, box, alone, shape, parts, stamp):
    """Publishes what `best_division` has found."""
    one = np.uint64(1)
    everything = np.uint64(0)
    for place in range(box.size):
        everything |= one << np.uint64(place)
    pending = [everything]
    while len(pending) > 0:
        part = pending.pop()
        slot = slot_of(parts, part, stamp)
        below = parts.below[slot]
        if below and below != part:
            pending.append(below)
            pending.append(part & ~below)
            continue
        places = [place for place in range(box.size) if part >> np.uint64(place) & one]
        members = box[np.array(places)]
        if below:
            publish(tiles, members, parts.costs[slot], shape)
        else:
            for place in range(members.size):
                publish(tiles, members[place : place + 1], alone[members[place]], shape)


@compiled
def regroup(
    group_of,
    alone,
    is_out,
    counts,
    demands,
    shape,
):
    """Divides groups that cost more than they must anew, each with the neighbour where that saves most.

    Args:
        group_of: The group of every base class, the number of its first member; changed in place.
        alone: What each base class costs by itself: its loss, or the price of leaving it out.
        is_out: Whether that is by leaving it out.
        counts: The owner's records by base class and value.
        demands: What base classes ask.
        shape: Where base classes lie.
    """
    n_classes = group_of.size
    starts, near = neighbours(shape)
    tiles = Tiles(
        group_of,
        np.full(n_classes, -1, dtype=np.int64),
        np.full(n_classes, -1, dtype=np.int64),
        np.zeros(n_classes, dtype=np.int64),
        shape.lows.copy(),
        shape.highs.copy(),
        alone.copy(),
    )
    order = np.argsort(group_of, kind="mergesort")
    begin = 0
    for end in range(1, n_classes + 1):
        if end < n_classes and group_of[order[end]] == group_of[order[begin]]:
            continue
        publish(tiles, order[begin:end], alone[order[begin]], shape)
        if end - begin > 1:
            group, mass = order[begin], np.sum(shape.mass[order[begin:end]])
            tiles.costs[group] = hull_loss(mass, tiles.lows[group], tiles.highs[group], shape.weights)
        begin = end
    least, extra = least_costs(alone, is_out, starts, near, shape)
    room = 4 * MOST_PARTS  # 2^14: see `slot_of`
    parts = Parts(
        np.zeros(room, dtype=np.uint64),
        np.zeros(room, dtype=np.int64),
        np.zeros(room),
        np.zeros(room, dtype=np.uint64),
    )
    is_due = np.ones(n_classes, dtype=np.bool_)
    met, tried = np.zeros(n_classes, dtype=np.int64), np.zeros(n_classes, dtype=np.int64)
    box, best_box = np.empty(64, dtype=np.int64), np.empty(64, dtype=np.int64)
    stamp = 0
    for _ in range(MOST_ROUNDS):
        is_better = False
        for group in range(n_classes):
            if (
                not is_due[group]
                or tiles.sizes[group] == 0
                or (tiles.sizes[group] == 1 and not is_out[group])
            ):
                continue
            is_due[group] = False
            most, n_best = 0.0, 0
            turn = stamp + 1
            tried[group] = turn
            member = tiles.heads[group]
            while member >= 0:
                for edge in range(starts[member], starts[member + 1]):
                    other = tiles.group_of[near[edge]]
                    if tried[other] >= turn:
                        continue
                    stamp += 1
                    tried[other] = stamp
                    size, cost = close_box(tiles, starts, near, group, other, met, stamp, box)
                    if size == 0:
                        continue
                    if cost - np.sum(least[box[:size]]) - np.max(extra[box[:size]]) <= max(most, 1e-9 * cost):
                        continue
                    saved = cost - best_division(
                        box[:size], alone, is_out, counts, demands, shape, parts, stamp
                    )
                    if saved > max(most, 1e-9 * cost):
                        most, n_best = saved, size
                        best_box[:size] = box[:size]
                member = tiles.following[member]
            if n_best == 0:
                continue
            stamp += 1
            best_division(best_box[:n_best], alone, is_out, counts, demands, shape, parts, stamp)
            take_division(tiles, best_box[:n_best], alone, shape, parts, stamp)
            is_better = True
            for base in best_box[:n_best]:
                is_due[tiles.group_of[base]] = True
                for edge in range(starts[base], starts[base + 1]):
                    is_due[tiles.group_of[near[edge]]] = True
        if not is_better:
            return
