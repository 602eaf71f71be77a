"""The adversary of the paper, on counts.

It knows the quasi-identifiers q of somebody who is in all t releases, and sees the class c_j that holds q
in each. A value survives if every one of those classes shows it: n_[t](s) = min_j n_j(c_j, s).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.diversity import as_count_table
from elldelta.core.like_values import n_groups_left
from elldelta.core.partition import Partition, sum_by_class
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

NOTHING_TO_LINK = -1
"""Marks a quasi-identifier that lies in a class without a record: nobody with it is in all releases."""


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """What a release shows: its classes, and the count of each sensitive value in each of them.

    Attributes:
        partition: The class of every quasi-identifier.
        counts: Records by class and value.
        groups: The group of every value, where values of a group count once; None: every value counts.
    """

    partition: Partition
    counts: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        counts = as_count_table(self.counts)
        if counts.shape[0] != self.partition.n_classes:
            raise ParameterError(
                f"The partition has {self.partition.n_classes} classes.",
                found=f"The count table has {counts.shape[0]} rows.",
            )
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_rows(
        cls, row_of: ArrayLike, counts: ArrayLike, groups: NDArray[np.int64] | None = None
    ) -> ReleasedCounts:
        """From the row of counts that somebody with each quasi-identifier sees."""
        return cls(Partition(np.asarray(row_of)), np.asarray(counts), groups)

    @classmethod
    def from_table(cls, table: ArrayLike, partition: Partition) -> ReleasedCounts:
        """Generalizes a |Q| x |S| count table with a partition."""
        rows = as_count_table(table)
        if rows.shape[0] != partition.n_quasi_identifiers:
            raise ParameterError(
                f"The partition covers {partition.n_quasi_identifiers} quasi-identifiers.",
                found=f"The table has {rows.shape[0]} rows.",
            )
        return cls(partition, sum_by_class(rows, partition))


@dataclass(frozen=True, eq=False)
class Linkage:
    """Several releases, linked: one row per combination of classes that share a quasi-identifier.

    Only combinations in which every class has a record are kept: in the others nobody is in all releases.

    Attributes:
        classes: The class of each release, one row per linkage class.
        counts: n_[t](s), one row per linkage class and one column per value.
        linked_of: The linkage class of every quasi-identifier, or `NOTHING_TO_LINK`.
        groups: The group of every value, where values of a group count once; None: every value counts.
    """

    classes: NDArray[np.intp]
    counts: NDArray[np.int64]
    linked_of: NDArray[np.intp]
    groups: NDArray[np.int64] | None = None

    @cached_property
    def class_diversities(self) -> NDArray[np.int64]:
        """The number of values, or of groups of them, left in every linkage class.

        It can be 0: then the classes have no value in common, so nobody is in all of them.
        """
        return n_groups_left(self.counts > 0, self.groups)

    @cached_property
    def diversities(self) -> NDArray[np.int64]:
        """The post-linkage diversity of every quasi-identifier; 0 where nobody can be in all releases."""
        padded = np.append(self.class_diversities, 0)  # NOTHING_TO_LINK is -1 and finds the last entry
        return padded[self.linked_of]

    @property
    def diversity(self) -> int | None:
        """The diversity of the post-linkage data set, or None if it has no record at all.

        Like every diversity it is taken over classes with at least one record, here one linked record.
        """
        present = self.class_diversities[self.class_diversities > 0]
        return int(present.min()) if present.size else None

    @property
    def n_without_common_value(self) -> int:
        """Linkage classes in which every release has records, but no value is shared by all."""
        return int((self.class_diversities == 0).sum())


def link(releases: Sequence[ReleasedCounts]) -> Linkage:
    """Links releases over the same quasi-identifiers and values; their partitions may differ."""
    if not releases:
        raise ParameterError("Linking needs at least one release.", found="None was given.")
    first = releases[0]
    for release in releases[1:]:
        if release.counts.shape[1] != first.counts.shape[1]:
            raise ParameterError(
                "All releases must use the same sensitive values.",
                found=f"{first.counts.shape[1]} and {release.counts.shape[1]} values.",
            )
        if release.partition.n_quasi_identifiers != first.partition.n_quasi_identifiers:
            raise ParameterError(
                "All releases must use the same quasi-identifiers.",
                found=f"{first.partition.n_quasi_identifiers} and "
                f"{release.partition.n_quasi_identifiers} of them.",
            )
    # Numbers the tuples of classes one release at a time: numbers stay small, and sorting rows is slow.
    linked_of = np.zeros(first.partition.n_quasi_identifiers, dtype=np.int64)
    examples = np.zeros(1, dtype=np.intp)
    for release in releases:
        keys = linked_of * release.partition.n_classes + release.partition.class_of
        _, examples, linked_of = np.unique(keys, return_index=True, return_inverse=True)
    classes = np.stack([release.partition.class_of[examples] for release in releases], axis=1)
    occupied = np.ones(len(classes), dtype=bool)
    for j, release in enumerate(releases):
        occupied &= (release.counts.sum(axis=1) > 0)[classes[:, j]]
    classes = classes[occupied]
    counts = first.counts[classes[:, 0]]
    for j, release in enumerate(releases[1:], start=1):
        counts = np.minimum(counts, release.counts[classes[:, j]])
    renumbered = np.where(occupied, np.cumsum(occupied) - 1, NOTHING_TO_LINK)
    linked_of = renumbered[linked_of]
    for array in (classes, counts, linked_of):
        array.setflags(write=False)
    return Linkage(classes, counts, linked_of, first.groups)
