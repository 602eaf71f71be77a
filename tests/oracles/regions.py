"""Plans by region, by hand: every region cut by itself, joined one by one, failures in fractions."""

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np

from elldelta.core.distribution import JointDistribution, frozen
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.generalize.boxes import boxes, position_weights
from elldelta.core.ladder import STEP, rounded_total


def by_hand(model, place, seen, areas, limit, *, ell, releases, records, **bound):
    """The class of every combination that occurs: the boxes of each area, one area after the other.

    Args:
        model: The whole model, as one file.
        place: Which quasi-identifier tells the regions.
        seen: How many positions of each quasi-identifier count for the loss.
        areas: Lists of positions that are planned together, in their order.
        limit: What the failures of all classes may add up to, or what each may reach (`per_class`).
        ell: What is promised, and so on.
        releases: How many releases are linked.
        records: N.
        bound: What else the bound of classes says.
    """
    table, total = model.counts.dense(), rounded_total(model.n_records)
    class_of = np.full(len(table), -1)
    for area in areas:
        inside = np.isin(model.positions[:, place], area)
        rows = table[inside]
        own = limit if bound["per_class"] else limit * float(Fraction(int(rows.sum()), total))
        bounds = (SharpBound(ell, records, releases, own, fewest_past=STEP, **bound),)
        distribution = JointDistribution(frozen(rows, np.int64), total)
        partition, _ = boxes(
            distribution,
            model.positions[inside],
            model.schema.sizes,
            bounds,
            trees=[column.cut_tree for column in model.schema.quasi_identifiers],
            weighed=(rows.sum(axis=1) / total, position_weights(seen)),
        )
        class_of[inside] = class_of.max() + 1 + partition.class_of
    return class_of


def chance_to_miss(cells, n_records, allowance):
    """The exact chance that more of these values are missing than is allowed, by inclusion and exclusion."""
    n, chance = len(cells), Fraction(0)
    together = [
        sum((1 - sum(chosen, Fraction(0))) ** n_records for chosen in combinations(cells, size))
        for size in range(n + 1)
    ]
    for missing in range(allowance + 1, n + 1):
        chance += sum(
            (-1) ** (size - missing) * comb(size, missing) * together[size] for size in range(missing, n + 1)
        )
    return chance


def separating_cuts(tree, attribute):
    """The nodes below the cuts of one attribute from the root on: the range of positions that each holds."""
    found, pending = [], [(0, 0, tree.sizes[attribute] - 1)]
    nodes = list(zip(tree.attributes.tolist(), tree.places.tolist(), strict=True))
    ends = [0] * len(nodes)
    for node in reversed(range(len(nodes))):  # the node behind all that lies below
        ends[node] = node + 1 if nodes[node][0] < 0 else ends[ends[node + 1]]
    while pending:
        node, low, high = pending.pop()
        cut, place = nodes[node]
        if cut == attribute:
            pending += [(ends[node + 1], place + 1, high), (node + 1, low, place)]
        else:
            found.append((low, high))
    return found
