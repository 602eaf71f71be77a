"""Published classes beside each other, whose union labels can still name: merged where somebody waits.

An owner that merges two of its published classes keeps the union in all later releases. What is compared with
is then what both showed the last time. Nobody has to be told more for it: see Theorem I in the documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.partition import Partition, grouping_from_merged, merged_classes
from elldelta.plan.classes import Merged, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from elldelta.plan.plan import Plan

MOST_TRIED = 8
"""Neighbours of one class that are tried, smallest unions first."""


def pairings(plan: Plan, grouping: Partition, overdue: NDArray[np.bool_]) -> Iterator[dict[int, int]]:
    """Ways to give each class that has waited too long a neighbour; no class twice in one of them.

    Args:
        plan: The plan.
        grouping: The published class of every base class.
        overdue: Per published class, whether it is to be merged.
    """
    options = {one: _neighbours(plan, grouping, one) for one in np.flatnonzero(overdue).tolist()}
    for rank in range(MOST_TRIED):
        taken: set[int] = set()
        chosen = {}
        for one, others in options.items():
            free = [other for other in others[rank : rank + 1] if not {one, other} & taken]
            if free:
                chosen[one] = free[0]
                taken |= {one, free[0]}
        if chosen:
            yield chosen


def joined(grouping: Partition, pairs: dict[int, int]) -> tuple[Partition, NDArray[np.int64]]:
    """The grouping in which pairs of published classes are one, and what becomes of each published class."""
    number = np.arange(grouping.n_classes)
    for one, other in pairs.items():
        number[[one, other]] = min(one, other)
    loose = Partition(np.unique(number[grouping.class_of], return_inverse=True)[1].reshape(-1))
    coarser = grouping_from_merged(merged_classes(loose), loose.class_of.size)
    next_of = np.zeros(grouping.n_classes, dtype=np.int64)
    next_of[grouping.class_of] = coarser.class_of
    return coarser, next_of


def _neighbours(plan: Plan, grouping: Partition, one: int) -> list[int]:
    """Classes whose union with one is again a run, or a box: the smallest unions first."""
    if isinstance(plan.classes, Runs):
        members = [np.flatnonzero(grouping.class_of == one)[[0, -1]] for one in range(grouping.n_classes)]
        first, last = np.array(members).T
        beside = (first == last[one] + 1) | (last == first[one] - 1)
        size: NDArray[np.float64] = (last - first).astype(np.float64)
    else:
        lows, highs = Merged(plan.classes, grouping.class_of).hulls(plan.schema)
        volumes = (highs - lows + 1).astype(np.float64).prod(axis=1)
        low, high = np.minimum(lows, lows[one]), np.maximum(highs, highs[one])
        # A box of disjoint boxes has just their volume.
        size = (high - low + 1).astype(np.float64).prod(axis=1)
        beside = np.isclose(size, volumes + volumes[one], rtol=1e-9)
    found = np.flatnonzero(beside & (np.arange(grouping.n_classes) != one))
    return list(found[np.argsort(size[found], kind="stable")].tolist())
