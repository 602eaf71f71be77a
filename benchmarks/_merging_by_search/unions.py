"""Boxes merged until nothing fails, and divided again where the parts cost less: compiled."""

from typing import NamedTuple

import numpy as np

from benchmarks._merging_by_search.demands import hull_loss, lacking, present_values
from elldelta.core.kernels import compiled

MOST_TURNS = 8192
"""Partners that are looked at before the best so far is taken, if it helps at all."""

UNHELPFUL = 1e100
"""Scores from here on belong to unions that satisfy nobody."""


class Groups(NamedTuple):
    """Groups of base classes while they are merged; a group has the number of one of its members."""

    alive: np.ndarray
    blocked: np.ndarray  # must not be merged any more
    lows: np.ndarray
    highs: np.ndarray
    mass: np.ndarray
    counts: np.ndarray  # groups x values
    n_records: np.ndarray
    excess: np.ndarray  # what their base classes lack, together
    heads: np.ndarray  # first member
    tails: np.ndarray  # last member
    following: np.ndarray  # next member, -1 at the end
    stamps: np.ndarray  # scratch: which search has met a group last


@compiled
def union_excess(
    chosen,
    n_chosen,
    groups,
    demands,
    before=np.inf,
    least=0.0,
):
    """What the base classes in the union of some groups lack, together.

    Or some of it, as soon as less than `least` can be left of what they lacked before.
    """
    shown = np.zeros(groups.counts.shape[1], dtype=np.int64)
    for place in range(n_chosen):
        shown += groups.counts[chosen[place]]
    n_records = shown.sum()
    if n_records == 0:
        return 0.0
    present = present_values(shown, demands.min_records)
    excess = 0.0
    for place in range(n_chosen):
        if before - excess < least:
            break
        member = groups.heads[chosen[place]]
        while member >= 0:
            excess += lacking(demands, member, present)
            member = groups.following[member]
    return excess


@compiled
def close_union(
    groups,
    first,
    second,
    stamp,
    chosen,
    low,
    high,
):
    """Two groups, and all that their hull touches, and that the new hull touches, and so on.

    Writes the groups into `chosen` and the hull into `low` and `high`.

    Returns:
        How many groups there are; 0 if one of them must not be merged.
    """
    n_attributes = low.size
    chosen[0] = first
    chosen[1] = second
    n_chosen = 2
    groups.stamps[first] = stamp
    groups.stamps[second] = stamp
    for attribute in range(n_attributes):
        low[attribute] = min(groups.lows[first, attribute], groups.lows[second, attribute])
        high[attribute] = max(groups.highs[first, attribute], groups.highs[second, attribute])
    grew = True
    while grew:
        grew = False
        for group in range(groups.alive.size):
            if not groups.alive[group] or groups.stamps[group] == stamp:
                continue
            touches = True
            for attribute in range(n_attributes):
                if (
                    groups.lows[group, attribute] > high[attribute]
                    or groups.highs[group, attribute] < low[attribute]
                ):
                    touches = False
                    break
            if not touches:
                continue
            if groups.blocked[group]:
                return 0
            groups.stamps[group] = stamp
            chosen[n_chosen] = group
            n_chosen += 1
            for attribute in range(n_attributes):
                if groups.lows[group, attribute] < low[attribute]:
                    low[attribute] = groups.lows[group, attribute]
                    grew = True
                if groups.highs[group, attribute] > high[attribute]:
                    high[attribute] = groups.highs[group, attribute]
                    grew = True
    return n_chosen


@compiled
def best_partner(
    group,
    groups,
    demands,
    weights,
    stamp,
    chosen,
):
    """The group whose union with a failing one costs least loss for what is no longer lacking.

    Returns:
        The score (a very large one if the union helps nobody, infinite if there is no partner), the partner
        or -1, and the last stamp used.
    """
    n_attributes = weights.size
    low = np.empty(n_attributes, dtype=np.int64)
    high = np.empty(n_attributes, dtype=np.int64)
    best_score = np.inf
    best = -1
    own = hull_loss(groups.mass[group], groups.lows[group], groups.highs[group], weights)
    n_groups = groups.alive.size
    # Near numbers are near places: look there first, so that most of the others need no closer look.
    for turn in range(2 * n_groups):
        if best_score == 0.0 or (turn > MOST_TURNS and best_score < UNHELPFUL):
            break
        other = group + (turn // 2 + 1 if turn % 2 == 0 else -(turn // 2 + 1))
        if other < 0 or other >= n_groups or not groups.alive[other] or groups.blocked[other]:
            continue
        if groups.n_records[other] == 0:
            continue
        for attribute in range(n_attributes):
            low[attribute] = min(groups.lows[group, attribute], groups.lows[other, attribute])
            high[attribute] = max(groups.highs[group, attribute], groups.highs[other, attribute])
        added = hull_loss(groups.mass[group] + groups.mass[other], low, high, weights) - own
        added -= hull_loss(groups.mass[other], groups.lows[other], groups.highs[other], weights)
        most = groups.excess[group] + groups.excess[other]
        if added / most >= best_score:
            continue
        stamp += 1
        n_chosen = close_union(groups, group, other, stamp, chosen, low, high)
        if n_chosen == 0:
            continue
        mass = 0.0
        before = 0.0
        kept = 0.0
        for place in range(n_chosen):
            member = chosen[place]
            mass += groups.mass[member]
            before += groups.excess[member]
            kept += hull_loss(groups.mass[member], groups.lows[member], groups.highs[member], weights)
        added = max(0.0, hull_loss(mass, low, high, weights) - kept)
        least = added / best_score * (1.0 - 1e-9)  # what must be resolved for a better score, and rounding
        resolved = before - union_excess(chosen, n_chosen, groups, demands, before, least)
        score = added / resolved if resolved > 0.0 else UNHELPFUL * (1.0 + added)
        if score < best_score:
            best_score = score
            best = other
    return best_score, best, stamp


@compiled
def merge_groups(groups, demands, weights):
    """Merges failing groups with others, cheapest first, until none fails that has a partner left.

    Changes `groups`.
    """
    n_groups = groups.alive.size
    score = np.full(n_groups, np.inf)
    partner = np.full(n_groups, -1, dtype=np.int64)
    is_known = np.zeros(n_groups, dtype=np.bool_)
    chosen = np.empty(n_groups + 2, dtype=np.int64)
    low = np.empty(weights.size, dtype=np.int64)
    high = np.empty(weights.size, dtype=np.int64)
    stamp = 0
    while True:
        pick = -1
        for group in range(n_groups):
            if not groups.alive[group] or groups.blocked[group] or groups.excess[group] == 0.0:
                continue
            if is_known[group] and not (groups.alive[partner[group]] and not groups.blocked[partner[group]]):
                is_known[group] = False
            if not is_known[group]:
                score[group], partner[group], stamp = best_partner(
                    group, groups, demands, weights, stamp, chosen
                )
                is_known[group] = True
            if partner[group] < 0:
                groups.blocked[group] = True
                continue
            if pick < 0 or score[group] < score[pick]:
                pick = group
        if pick < 0:
            return
        stamp += 1
        n_chosen = close_union(groups, pick, partner[pick], stamp, chosen, low, high)
        if n_chosen == 0:
            # Something in the way was blocked since the partner was found.
            is_known[pick] = False
            continue
        excess = union_excess(chosen, n_chosen, groups, demands)
        for place in range(1, n_chosen):
            other = chosen[place]
            groups.alive[other] = False
            groups.mass[pick] += groups.mass[other]
            groups.counts[pick] += groups.counts[other]
            groups.n_records[pick] += groups.n_records[other]
            groups.following[groups.tails[pick]] = groups.heads[other]
            groups.tails[pick] = groups.tails[other]
        groups.lows[pick] = low
        groups.highs[pick] = high
        groups.excess[pick] = excess
        is_known[pick] = False
        for group in range(n_groups):
            # Their partner has grown: what was found about it is no longer true.
            if is_known[group] and partner[group] == pick:
                is_known[group] = False


@compiled
def weigh_box(
    members,
    alone,
    counts,
    demands,
    shape,
):
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
        part = members[begins[node] : ends[node]]
        costs[node] = np.sum(alone[part])
        if firsts[node] >= 0:
            costs[node] = costs[firsts[node]] + costs[seconds[node]]
        if part.size > 1:
            whole = whole_cost(part, counts, demands, shape, costs[node])
            if whole < costs[node]:
                costs[node], is_whole[node] = whole, True
    parts = np.full(members.size, -1, dtype=np.int64)
    n_parts = 0
    for node in range(len(begins)):  # a node stands before what is below it
        if is_whole[node] and parts[begins[node]] < 0:
            parts[begins[node] : ends[node]] = n_parts
            n_parts += 1
    return parts


@compiled
def best_cut(box, shape):
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
def whole_cost(
    part,
    counts,
    demands,
    shape,
    most,
):
    """What base classes cost as one class; infinite if that is `most` or more, or does not satisfy them."""
    mass = 0.0
    low, high = shape.lows[part[0]].copy(), shape.highs[part[0]].copy()
    for base in part:
        mass += shape.mass[base]
        for attribute in range(low.size):
            low[attribute] = min(low[attribute], shape.lows[base, attribute])
            high[attribute] = max(high[attribute], shape.highs[base, attribute])
    cost = hull_loss(mass, low, high, shape.weights)
    if cost >= most:
        return np.inf
    shown = np.zeros(counts.shape[1], dtype=np.int64)
    for base in part:
        if demands.barred[base]:
            return np.inf
        shown += counts[base]
    n_records = shown.sum()
    if n_records > 0:
        present = present_values(shown, demands.min_records)
        for base in part:
            if lacking(demands, base, present) > 0.0:
                return np.inf
    return cost
