"""The search: a grouping of base classes under which nothing fails, chosen after a look at the values."""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks._merging_by_search.demands import Demands, Shape, lacking_of_each
from benchmarks._merging_by_search.regroup import regroup
from benchmarks._merging_by_search.unions import Groups, merge_groups, weigh_box
from elldelta.core.generalize.boxes import position_weights
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown

NEVER = 1e9
"""A price of leaving records out at which none is left out that can be published."""


@dataclass(frozen=True)
class Hulls:
    """Where base classes lie inside the ranges that were seen, and whose mass weighs losses."""

    lows: np.ndarray
    highs: np.ndarray
    sizes: tuple
    mass: np.ndarray

    @classmethod
    def of(cls, plan):
        """The classes of a plan, weighed by what it expects in them, not by an owner's records."""
        first, last = np.array(plan.seen).T
        lows, highs = (np.clip(ends, first, last) - first for ends in plan.hulls)
        mass = plan.columns[0].masses_lower
        return cls(lows, highs, tuple((last - first + 1).tolist()), mass / mass.sum())

    @property
    def weights(self):
        """Loss per position of length."""
        return position_weights(self.sizes)


def merged_by_search(counts, promise, loss):
    """What is shown by the unions that the search finds; classes that no union satisfies are left out.

    Args:
        counts: The owner's records by base class and value, R x |S|.
        promise: The values that a plan promises.
        loss: Where base classes lie (`Hulls`).
    """
    order = _near_order(loss)
    near = Hulls(loss.lows[order], loss.highs[order], loss.sizes, loss.mass[order])
    in_order = replace(
        promise, witnesses=promise.witnesses[order], allowances=promise.allowances[order], ranges=None
    )
    is_out, group_of = _merged(counts[order], in_order, near)
    group_of[order], is_out[order] = group_of.copy(), is_out.copy()
    _, firsts, numbers = np.unique(group_of, return_index=True, return_inverse=True)
    grouping = Partition(np.argsort(np.argsort(firsts))[numbers])  # numbered by their first base class
    suppressed = np.zeros(grouping.n_classes, dtype=np.bool_)
    suppressed[grouping.class_of[is_out]] = True
    return Shown.of(counts, grouping, suppressed)


def unmergeable(counts, promise):
    """Base classes that no union can satisfy: the whole table misses more of their witnesses than allowed."""
    out = np.zeros(len(promise.witnesses), dtype=np.bool_)
    while True:
        absent = counts[~out].sum(axis=0) < promise.min_records
        found = (promise.witnesses & absent).sum(axis=1) > promise.allowances
        if not (found & ~out).any():
            return out
        out |= found


def _near_order(loss):
    """Base classes along a Z-order curve: near numbers are then near places (Morton 1966)."""
    n_bits = min(16, 62 // max(1, len(loss.sizes)))
    centres = (loss.lows + loss.highs) / (2.0 * np.maximum(1, np.array(loss.sizes) - 1))
    cells = np.minimum((centres * (1 << n_bits)).astype(np.int64), (1 << n_bits) - 1)
    code = np.zeros(loss.mass.size, dtype=np.int64)
    for bit in range(n_bits - 1, -1, -1):
        for attribute in range(len(loss.sizes)):
            code = (code << 1) | ((cells[:, attribute] >> bit) & 1)
    return np.argsort(code, kind="stable")


def _merged(table, promise, loss):
    """Merges until nothing fails, divides again and regroups: what is left out, and the groups."""
    n_records = table.sum(axis=1)
    n_classes, n_values = promise.witnesses.shape
    padded = np.zeros((n_classes, -(-n_values // 64) * 64), dtype=np.bool_)
    padded[:, :n_values] = promise.witnesses
    words = np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    demands = Demands(words, promise.allowances.copy(), unmergeable(table, promise), promise.min_records)
    # A class without mass still has a length: a trace of mass makes short unions win where nothing else does.
    mass = loss.mass + 1e-6 / loss.mass.size
    shape = Shape(loss.lows.copy(), loss.highs.copy(), loss.weights, mass)
    lacks = np.where(n_records > 0, lacking_of_each(demands, table), 0.0)
    lengths = (shape.highs - shape.lows) @ shape.weights
    is_out = (n_records > 0) & (lacks > 0.0)
    alone = shape.mass * np.where(is_out, NEVER, lengths)
    group_of = np.arange(n_classes, dtype=np.int64)
    for members in _unions(table, demands, shape, lacks):
        parts = weigh_box(members, alone, table, demands, shape)
        for part in range(int(parts.max()) + 1):
            group_of[members[parts == part]] = members[parts == part].min()
    regroup(group_of, alone, is_out, table, demands, shape)
    is_out &= np.bincount(group_of, minlength=n_classes)[group_of] == 1
    return is_out, group_of


def _unions(table, demands, shape, lacks):
    """Unions of several base classes so that nothing fails that has a partner left."""
    n_classes = table.shape[0]
    groups = Groups(
        alive=np.ones(n_classes, dtype=np.bool_),
        blocked=demands.barred.copy(),
        lows=shape.lows.copy(),
        highs=shape.highs.copy(),
        mass=shape.mass.copy(),
        counts=table.copy(),
        n_records=table.sum(axis=1),
        excess=lacks.copy(),
        heads=np.arange(n_classes, dtype=np.int64),
        tails=np.arange(n_classes, dtype=np.int64),
        following=np.full(n_classes, -1, dtype=np.int64),
        stamps=np.zeros(n_classes, dtype=np.int64),
    )
    merge_groups(groups, demands, shape.weights)
    found = []
    for group in np.flatnonzero(groups.alive & (groups.heads != groups.tails)).tolist():
        chain = [int(groups.heads[group])]
        while (following := int(groups.following[chain[-1]])) >= 0:
            chain.append(following)
        found.append(np.sort(np.array(chain, dtype=np.int64)))
    return found
