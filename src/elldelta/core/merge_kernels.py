"""Compiled inner loops of merging classes of any shape: cheapest partner first, then back as far as possible.

Import this module inside the function that needs it, as with `kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.core.coarsen_kernels import n_outside
from elldelta.core.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.coarsen_kernels import Demands, Shape

LEFT = -2
"""Marks a member that has left its group and is published by itself."""


@compiled
def hull_loss(
    mass: float, low: NDArray[np.int64], high: NDArray[np.int64], weights: NDArray[np.float64]
) -> float:
    """The loss of a class: its mass times the weighted lengths of its hull."""
    length = 0.0
    for attribute in range(weights.size):
        length += weights[attribute] * (high[attribute] - low[attribute])
    return mass * length


MOST_TURNS = 8192
"""Partners that are looked at before the best so far is taken, if it helps at all."""

UNHELPFUL = 1e100
"""Scores from here on belong to unions that satisfy nobody."""


class Groups(NamedTuple):
    """Groups of base classes while they are merged; a group has the number of one of its members."""

    alive: NDArray[np.bool_]
    blocked: NDArray[np.bool_]  # must not be merged any more
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    mass: NDArray[np.float64]
    counts: NDArray[np.int64]  # groups x values
    n_records: NDArray[np.int64]
    excess: NDArray[np.int64]  # witnesses too many that are missed
    heads: NDArray[np.int64]  # first member
    tails: NDArray[np.int64]  # last member
    following: NDArray[np.int64]  # next member, -1 at the end
    stamps: NDArray[np.int64]  # scratch: which search has met a group last


@compiled
def union_excess(chosen: NDArray[np.int64], n_chosen: int, groups: Groups, demands: Demands) -> int:
    """How many witnesses too many the union of some groups misses, over all base classes in it."""
    present = np.zeros(demands.witnesses.shape[1], dtype=np.uint64)
    n_records = 0
    for value in range(groups.counts.shape[1]):
        n = 0
        for place in range(n_chosen):
            n += groups.counts[chosen[place], value]
        n_records += n
        if n >= demands.min_records:
            present[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
    if n_records == 0:
        return 0
    excess = 0
    for place in range(n_chosen):
        member = groups.heads[chosen[place]]
        while member >= 0:
            excess += max(0, n_outside(demands.witnesses[member], present) - demands.allowances[member])
            member = groups.following[member]
    return excess


@compiled
def close_union(
    groups: Groups,
    first: int,
    second: int,
    stamp: int,
    closed: bool,
    chosen: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> int:
    """Two groups, and if `closed` all that their hull touches, and that the new hull touches, and so on.

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
    grew = closed
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
    group: int,
    groups: Groups,
    demands: Demands,
    weights: NDArray[np.float64],
    closed: bool,
    stamp: int,
    chosen: NDArray[np.int64],
) -> tuple[float, int, int]:
    """The group whose union with a failing one costs least loss per witness that is no longer missing.

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
        if turn > MOST_TURNS and best_score < UNHELPFUL:
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
        n_chosen = close_union(groups, group, other, stamp, closed, chosen, low, high)
        if n_chosen == 0:
            continue
        mass = 0.0
        before = 0
        kept = 0.0
        for place in range(n_chosen):
            member = chosen[place]
            mass += groups.mass[member]
            before += groups.excess[member]
            kept += hull_loss(groups.mass[member], groups.lows[member], groups.highs[member], weights)
        added = max(0.0, hull_loss(mass, low, high, weights) - kept)
        resolved = before - union_excess(chosen, n_chosen, groups, demands)
        score = added / resolved if resolved > 0 else UNHELPFUL * (1.0 + added)
        if score < best_score:
            best_score = score
            best = other
    return best_score, best, stamp


@compiled
def merge_groups(
    groups: Groups, demands: Demands, weights: NDArray[np.float64], closed: bool
) -> NDArray[np.bool_]:
    """Merges failing groups with others, cheapest first, until none fails that has a partner left.

    Changes `groups`.

    Returns:
        Groups that fail and cannot be merged with any other.
    """
    n_groups = groups.alive.size
    stuck = np.zeros(n_groups, dtype=np.bool_)
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
            if not groups.alive[group] or groups.blocked[group] or groups.excess[group] == 0:
                continue
            if is_known[group] and not (groups.alive[partner[group]] and not groups.blocked[partner[group]]):
                is_known[group] = False
            if not is_known[group]:
                score[group], partner[group], stamp = best_partner(
                    group, groups, demands, weights, closed, stamp, chosen
                )
                is_known[group] = True
            if partner[group] < 0:
                stuck[group] = True
                groups.blocked[group] = True
                continue
            if pick < 0 or score[group] < score[pick]:
                pick = group
        if pick < 0:
            return stuck
        stamp += 1
        n_chosen = close_union(groups, pick, partner[pick], stamp, closed, chosen, low, high)
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
def release_members(
    groups: Groups,
    demands: Demands,
    shape: Shape,
    base_counts: NDArray[np.int64],
    passes: NDArray[np.bool_],
    most_members: int,
) -> None:
    """Lets members that pass by themselves leave a group that no longer needs them, dearest first.

    Changes `groups`. Only for unions of any shape: what is left of a box need not be one.
    """
    n_attributes = shape.weights.size
    low = np.empty(n_attributes, dtype=np.int64)
    high = np.empty(n_attributes, dtype=np.int64)
    present = np.zeros(demands.witnesses.shape[1], dtype=np.uint64)
    members = np.empty(most_members, dtype=np.int64)
    for group in range(groups.alive.size):
        if not groups.alive[group] or groups.excess[group] > 0 or groups.n_records[group] == 0:
            continue
        n_members = 0
        member = groups.heads[group]
        while member >= 0:
            if n_members < most_members:
                members[n_members] = member
            n_members += 1
            member = groups.following[member]
        if n_members == 1 or n_members > most_members:
            continue
        members[:n_members].sort()
        while n_members > 1:
            best = -1
            best_gain = -1.0
            for place in range(n_members):
                leaver = members[place]
                if not passes[leaver]:
                    continue
                present[:] = np.uint64(0)
                for value in range(base_counts.shape[1]):
                    if groups.counts[group, value] - base_counts[leaver, value] >= demands.min_records:
                        present[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
                holds = True
                mass = 0.0
                low[:] = np.iinfo(np.int64).max
                high[:] = np.iinfo(np.int64).min
                for rest in range(n_members):
                    member = members[rest]
                    if rest == place:
                        continue
                    if n_outside(demands.witnesses[member], present) > demands.allowances[member]:
                        holds = False
                        break
                    mass += shape.mass[member]
                    for attribute in range(n_attributes):
                        low[attribute] = min(low[attribute], shape.lows[member, attribute])
                        high[attribute] = max(high[attribute], shape.highs[member, attribute])
                if not holds:
                    continue
                gain = hull_loss(groups.mass[group], groups.lows[group], groups.highs[group], shape.weights)
                gain -= hull_loss(mass, low, high, shape.weights)
                gain -= hull_loss(shape.mass[leaver], shape.lows[leaver], shape.highs[leaver], shape.weights)
                if gain > best_gain:
                    best_gain = gain
                    best = place
            if best < 0:
                break
            _leave(group, best, members, n_members, groups, shape, base_counts)
            n_members -= 1


@compiled
def _leave(
    group: int,
    place: int,
    members: NDArray[np.int64],
    n_members: int,
    groups: Groups,
    shape: Shape,
    base_counts: NDArray[np.int64],
) -> None:
    """Takes one member out of a group and puts the group right; the number of the group may now be free."""
    leaver = members[place]
    members[place : n_members - 1] = members[place + 1 : n_members].copy()
    groups.counts[group] -= base_counts[leaver]
    groups.n_records[group] -= base_counts[leaver].sum()
    groups.following[leaver] = LEFT
    groups.heads[group] = members[0]
    mass = 0.0
    for index in range(n_members - 1):
        member = members[index]
        groups.following[member] = members[index + 1] if index + 1 < n_members - 1 else -1
        mass += shape.mass[member]
        for attribute in range(shape.weights.size):
            if index == 0:
                groups.lows[group, attribute] = shape.lows[member, attribute]
                groups.highs[group, attribute] = shape.highs[member, attribute]
            groups.lows[group, attribute] = min(groups.lows[group, attribute], shape.lows[member, attribute])
            groups.highs[group, attribute] = max(
                groups.highs[group, attribute], shape.highs[member, attribute]
            )
    groups.mass[group] = mass
    groups.tails[group] = members[n_members - 2]
