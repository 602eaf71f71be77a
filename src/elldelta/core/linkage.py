"""The adversary of the paper, on counts: what linked releases leave, for all of them and for every group.

It knows the quasi-identifiers q of somebody who is in all t releases, and sees the class c_j that holds q
in each. A value survives if every one of those classes shows it: n_[t](s) = min_j n_j(c_j, s). Somebody may
also be in some of the releases only, so every group of them is looked at, exactly where that is possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.diversity import as_count_table, entropy_diversities, n_groups_left, recursive_c
from elldelta.core.partition import Partition, sum_by_class
from elldelta.errors import ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

NOTHING_TO_LINK = -1
"""Marks a quasi-identifier that lies in a class without a record: nobody with it is in all releases."""

MOST_GROUPS = 512
"""Groups of releases that a curve of exposure asks at most, unless told otherwise."""

_CELLS_AT_ONCE = 1 << 13
_COUNTS_AT_ONCE = 1 << 17


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
                f"The partition has {counted(self.partition.n_classes, 'class', 'classes')}.",
                found=f"The count table has {counted(counts.shape[0], 'row')}.",
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
                found=f"The table has {counted(rows.shape[0], 'row')}.",
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
                found=f"{first.counts.shape[1]} and {counted(release.counts.shape[1], 'value')}.",
            )
        if release.partition.n_quasi_identifiers != first.partition.n_quasi_identifiers:
            raise ParameterError(
                "All releases must use the same quasi-identifiers.",
                found=f"{first.partition.n_quasi_identifiers} and "
                f"{release.partition.n_quasi_identifiers} of them.",
            )
    examples, linked_of = _combinations(releases)
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


def distinct_cells(releases: Sequence[ReleasedCounts]) -> list[ReleasedCounts]:
    """The releases over one cell per combination of classes that occurs: same linkages, cheaper to ask."""
    if not releases:
        raise ParameterError("Linking needs at least one release.", found="None was given.")
    examples, _ = _combinations(releases)
    return [
        ReleasedCounts(Partition(release.partition.class_of[examples]), release.counts, release.groups)
        for release in releases
    ]


def _combinations(releases: Sequence[ReleasedCounts]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """A cell for every combination of classes that occurs, and the combination of every cell."""
    number = np.zeros(releases[0].partition.n_quasi_identifiers, dtype=np.int64)
    examples = np.zeros(1, dtype=np.intp)
    for release in releases:  # one at a time: numbers stay small, and sorting rows is slow
        keys = number * release.partition.n_classes + release.partition.class_of
        _, examples, number = np.unique(keys, return_index=True, return_inverse=True)
    return examples, number


@dataclass(frozen=True)
class Exposure:
    """What one linkage leaves for the people in it. Without a linked record there is nothing to measure.

    Attributes:
        classes: Linkage classes with at least one linked record.
        records: Linked records, the sum of the min-counts.
        diversity_min: Distinct values left, the fewest of any class; None without a linked record.
        guess_mean: How often the best guess is right for a linked record taken at random.
        classes_below: Classes with fewer than ell values left.
        records_below: Linked records in them.
        classes_exposed: Classes with exactly one value left.
        records_exposed: Linked records in them.
        entropy_min: exp(H), the smallest of any class; None where only records are counted.
        recursive_c_max: The largest c of any class (see `recursive_c`); infinite with fewer than ell values.
    """

    classes: int
    records: int
    diversity_min: int | None
    guess_mean: float | None
    classes_below: int
    records_below: int
    classes_exposed: int
    records_exposed: int
    entropy_min: float | None = None
    recursive_c_max: float | None = None

    @property
    def share_below(self) -> float:
        """Share of the linked records in classes with fewer than ell values left."""
        return self.records_below / self.records if self.records else 0.0

    @property
    def share_exposed(self) -> float:
        """Share of the linked records in classes with exactly one value left."""
        return self.records_exposed / self.records if self.records else 0.0


def measure(counts: ArrayLike, ell: int, groups: NDArray[np.int64] | None = None) -> Exposure:
    """Measures a table of linked counts, classes x values; classes without a linked record are left out."""
    table = np.asarray(counts)
    table = table[table.sum(axis=1) > 0] if table.size else table.reshape(0, 1)
    shares = measure_shares([table], ell, groups if len(table) else None)
    if not len(table):
        return shares
    return replace(
        shares,
        entropy_min=float(entropy_diversities(table).min()),
        recursive_c_max=float(recursive_c(table, ell).max()),
    )


def measure_shares(
    parts: Iterable[NDArray[np.int64]], ell: int, groups: NDArray[np.int64] | None = None
) -> Exposure:
    """Measures linked counts that come in parts, so that a large linkage need not be held at once."""
    ell = check_whole("ell", ell)
    classes = records_all = largest_all = 0
    below, exposed = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    fewest: int | None = None
    for table in parts:
        records = table.sum(axis=1)
        is_linked = records > 0
        if not is_linked.any():
            continue
        records, left = records[is_linked], n_groups_left(table > 0, groups)[is_linked]
        largest = table.max(axis=1)[is_linked]
        classes += len(records)
        records_all += int(records.sum())
        largest_all += int(largest.sum())
        fewest = int(left.min()) if fewest is None else min(fewest, int(left.min()))
        below += [int((left < ell).sum()), int(records[left < ell].sum())]
        exposed += [int((left == 1).sum()), int(records[left == 1].sum())]
    return Exposure(
        classes,
        records_all,
        fewest,
        largest_all / records_all if classes else None,
        *map(int, below),
        *map(int, exposed),
    )


def _linked_parts(releases: Sequence[ReleasedCounts]) -> Iterator[NDArray[np.int64]]:
    """The min-counts of every combination of classes, some at a time: what `link` gives, not held at once."""
    cells = distinct_cells(releases)
    # small enough for the cache: the work is reading memory
    step = max(1, _COUNTS_AT_ONCE // cells[0].counts.shape[1])
    for start in range(0, cells[0].partition.n_quasi_identifiers, step):
        rows = slice(start, start + step)
        linked = cells[0].counts[cells[0].partition.class_of[rows]]
        for release in cells[1:]:
            np.minimum(linked, release.counts[release.partition.class_of[rows]], out=linked)
        yield linked


def fewest_in_any_group(
    releases: Sequence[ReleasedCounts],
    *,
    member_of: int | None = None,
) -> NDArray[np.int64]:
    """Per cell: the fewest values left for anybody, whichever of the releases they are in; exactly.

    Somebody with value s can only be in releases whose class shows s. Linking *all* of those leaves the
    fewest values of any group that s survives, because every further release can only take values away. So
    the smallest over s is the smallest over all 2^t - 1 groups in which anybody can be, without asking each.

    Args:
        releases: Releases over the same cells and values.
        member_of: Look only at people who are in this release, and so at groups that contain it.

    Returns:
        One number per cell; 0 where nobody can be in any release (or in the one named).
    """
    n_cells, n_values = releases[0].partition.n_quasi_identifiers, releases[0].counts.shape[1]
    shows = [release.counts > 0 for release in releases]
    words = [packed(table) for table in shows]
    fewest = np.zeros(n_cells, dtype=np.int64)
    for start in range(0, n_cells, _CELLS_AT_ONCE):
        cells = slice(start, min(start + _CELLS_AT_ONCE, n_cells))
        class_of = [release.partition.class_of[cells] for release in releases]
        here = [bits[rows] for bits, rows in zip(words, class_of, strict=True)]
        best = np.full(cells.stop - cells.start, n_values + 1, dtype=np.int64)
        for value in range(n_values):
            is_shown = [table[rows, value] for table, rows in zip(shows, class_of, strict=True)]
            asked = np.logical_or.reduce(is_shown) if member_of is None else is_shown[member_of]
            if not asked.any():
                continue
            left = np.full_like(here[0][asked], np.iinfo(np.uint64).max)
            for mask, bits in zip(is_shown, here, strict=True):
                left &= np.where(mask[asked, np.newaxis], bits[asked], np.iinfo(np.uint64).max)
            number = n_left(left, n_values, releases[0].groups)
            best[asked] = np.minimum(best[asked], number)
        fewest[cells] = np.where(best > n_values, 0, best)
    return fewest


def packed(shows: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """The values that each class shows, as bits of 64-bit words; bits beyond the last value are 0."""
    n_words = -(-shows.shape[1] // 64)
    padded = np.zeros((len(shows), n_words * 64), dtype=bool)
    padded[:, : shows.shape[1]] = shows
    return np.packbits(padded, axis=1).view(np.uint64)


def n_left(words: NDArray[np.uint64], n_values: int, groups: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """How many of the values that bits stand for (`packed`) are left, or of how many groups."""
    if groups is None:
        counted: NDArray[np.int64] = np.bitwise_count(words).sum(axis=-1, dtype=np.int64)
        return counted
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1)[..., :n_values]
    return n_groups_left(bits.astype(np.bool_), groups)


@dataclass(frozen=True)
class CurvePoint:
    """What groups of `n_releases` releases leave: in the worst group and on average.

    Attributes:
        n_releases: Releases that are linked.
        groups: Groups that were asked.
        groups_possible: Groups that there are.
        diversity_min: The fewest values left by any group; None if no group has anybody in all its releases.
        share_below_max: Share of the linked records below ell, in the group where it is largest.
        share_below_mean: The same, as the mean over the groups that link anybody.
        share_exposed_max: Share of the linked records with one value left, in the group where it is largest.
        share_exposed_mean: The same, as the mean.
        guess_mean_max: How often the best guess is right, in the group where it is most often.
    """

    n_releases: int
    groups: int
    groups_possible: int
    diversity_min: int | None
    share_below_max: float
    share_below_mean: float
    share_exposed_max: float
    share_exposed_mean: float
    guess_mean_max: float | None


def exposure_curve(
    releases: Sequence[ReleasedCounts], ell: int, *, most_groups: int = MOST_GROUPS
) -> tuple[CurvePoint, ...]:
    """The exposure for every number of linked releases, 1 to t.

    If there are more groups than `most_groups`, each size gets an equal part of it, spread evenly over the
    groups in their order; the points say how many were asked. The worst is then the worst of those.
    """
    releases = distinct_cells(releases)
    points = []
    for size in range(1, len(releases) + 1):
        possible = math.comb(len(releases), size)
        if 2 ** len(releases) - 1 <= most_groups:
            asked = possible
        else:
            asked = min(possible, max(1, most_groups // len(releases)))
        groups = _spread(len(releases), size, asked)
        alike = releases[0].groups
        found = [measure_shares(_linked_parts([releases[j] for j in group]), ell, alike) for group in groups]
        linked = [item for item in found if item.records]
        points.append(
            CurvePoint(
                size,
                asked,
                possible,
                min((item.diversity_min for item in linked if item.diversity_min is not None), default=None),
                max((item.share_below for item in linked), default=0.0),
                _mean([item.share_below for item in linked]),
                max((item.share_exposed for item in linked), default=0.0),
                _mean([item.share_exposed for item in linked]),
                max((item.guess_mean for item in linked if item.guess_mean is not None), default=None),
            )
        )
    return tuple(points)


@dataclass(frozen=True)
class LeftOut:
    """What is left when one release is not linked.

    Attributes:
        release: The number of the release that is left out.
        shares: The linkage of all others.
        diversity_min_any: The fewest values left for anybody, whichever of the others they are in.
        classes_below_any: Cells where that is fewer than ell for somebody.
    """

    release: int
    shares: Exposure
    diversity_min_any: int | None
    classes_below_any: int


def leave_one_out(releases: Sequence[ReleasedCounts], ell: int) -> tuple[LeftOut, ...]:
    """Which release does the harm: the exposure without each of them. Empty for a single release."""
    if len(releases) < 2:
        return ()
    found = []
    for number in range(len(releases)):
        others = distinct_cells([*releases[:number], *releases[number + 1 :]])
        fewest = fewest_in_any_group(others)
        found.append(
            LeftOut(
                number,
                measure_shares(_linked_parts(others), ell, others[0].groups),
                smallest(fewest),
                int(((fewest > 0) & (fewest < ell)).sum()),
            )
        )
    return tuple(found)


def fewest_in_union(releases: Sequence[ReleasedCounts]) -> int | None:
    """The fewest values left for somebody in some release, nobody knows which: what any of them shows."""
    releases = distinct_cells(releases)
    shown = np.zeros((releases[0].partition.n_quasi_identifiers, releases[0].counts.shape[1]), dtype=bool)
    for release in releases:
        shown |= (release.counts > 0)[release.partition.class_of]
    return smallest(n_groups_left(shown, releases[0].groups))


def smallest(numbers: NDArray[np.int64]) -> int | None:
    """The smallest number above 0, or None."""
    present = numbers[numbers > 0]
    return int(present.min()) if present.size else None


def _spread(n_releases: int, size: int, n_groups: int) -> list[tuple[int, ...]]:
    """Groups of releases, evenly spread over all of that size in lexicographic order."""
    possible = math.comb(n_releases, size)
    if n_groups == possible:
        return list(combinations(range(n_releases), size))
    return [_group_at(place * possible // n_groups, n_releases, size) for place in range(n_groups)]


def _group_at(place: int, n_releases: int, size: int) -> tuple[int, ...]:
    """The group at a place of the lexicographic order, without visiting those before it."""
    group: list[int] = []
    for member in range(n_releases):
        if len(group) == size:
            break
        n_with = math.comb(n_releases - member - 1, size - len(group) - 1)
        if place < n_with:
            group.append(member)
        else:
            place -= n_with
    return tuple(group)


def _mean(numbers: list[float]) -> float:
    return math.fsum(numbers) / len(numbers) if numbers else 0.0
