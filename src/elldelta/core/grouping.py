"""Groupings of base classes into published classes, and a short way to write them down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.partition import Partition
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence


def merged_classes(grouping: Partition) -> list[list[int]]:
    """The published classes that hold several base classes: a short way to write a grouping down."""
    sizes = np.bincount(grouping.class_of)
    return [part.members.tolist() for part in grouping if sizes[part.index] > 1]


def grouping_from_merged(merged: Sequence[Sequence[int]], n_classes: int) -> Partition:
    """Reads what `merged_classes` wrote; published classes are numbered by their first base class."""
    first = np.arange(n_classes)
    seen: set[int] = set()
    for members in merged:
        if len(members) < 2 or len(set(members)) < len(members) or seen & set(members):
            raise ParameterError("Merged classes must be disjoint and hold at least two base classes each.")
        if not all(0 <= member < n_classes for member in members):
            raise ParameterError(f"Merged classes must be numbers from 0 to {n_classes - 1}.")
        seen |= set(members)
        first[list(members)] = min(members)
    return Partition(np.unique(first, return_inverse=True)[1].reshape(-1))
