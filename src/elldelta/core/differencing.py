"""Subtraction: what two releases that share records under different classes give away.

Draw every class as a point and every pair of classes that can share a record as a line between them; on a
line lie the records that both classes hold. The releases tell the total at every point. Subtracting a union
of classes of one release from a union of classes of the other that contains it gives the total of the lines
in between. A single line is known exactly if and only if it lies on no cycle (a *bridge*): take away the
bridge, and the difference of the two releases' totals on either side is what it carried. On a cycle, records
can be moved around without changing any total.

Example: {c1 ∪ c2}, {c3} against {c1}, {c2 ∪ c3} gives c2 exactly, although no release shows it.

Points that lines join, directly or through others, are a *component*. Components are judged one by one: what
the releases hold elsewhere neither helps nor protects. And a class less classes of the other release inside
it is a group of people as soon as the people of *those* classes are all in it, whoever else is anywhere. Not
all classes inside need share people with it: one that cannot is no protection for what the others leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.exposure import distinct_cells
from elldelta.core.like_values import n_groups_left
from elldelta.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.linkage import ReleasedCounts


_MOST_EXACT = 8
"""Classes inside another one of which all sets are tried; of more, some."""

_MOST_STARTS = 16
"""Classes from which sets are grown, where there are more."""


@dataclass(frozen=True, eq=False)
class Isolated:
    """Records that subtraction isolates.

    Attributes:
        how: "meet": the records that class `first[0]` and class `second[0]` share. "first minus second":
            those of class `first[0]` that are in none of the classes `second`; and the other way round.
        first: Classes of the first release.
        second: Classes of the second release.
        counts: The records that were isolated, by value.
        groups: The group of every value, where values of a group count once.
    """

    how: Literal["meet", "first minus second", "second minus first"]
    first: tuple[int, ...]
    second: tuple[int, ...]
    counts: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    @property
    def outer(self) -> tuple[int, int]:
        """Of a difference: the release and the class from which others were subtracted."""
        return (0, self.first[0]) if self.how == "first minus second" else (1, self.second[0])

    @property
    def diversity(self) -> int:
        """The number of distinct values among them, or of groups."""
        return int(n_groups_left(self.counts > 0, self.groups))


def isolate(first: ReleasedCounts, second: ReleasedCounts, *, declared: bool = True) -> tuple[Isolated, ...]:
    """The groups of records that no release shows but that subtraction gives, fewest values first.

    Found are: every pair of classes whose common records are determined by the totals (exactly those), and
    every class of one release less classes of the other inside it: all of them where both hold the same
    records, otherwise the largest sets that fit, or some where many are inside. Larger unions can isolate
    further groups, of several pairs of classes each; those are not listed.

    Args:
        first: A release.
        second: Another one.
        declared: Whether both are said to hold the same records. If nobody says so, every component counts
            whose classes hold as many of every value in both releases, and the others are passed over.

    Raises:
        DataError: The releases are said to hold the same records and cannot.
    """
    first, second = distinct_cells([first, second])
    ends = np.stack([first.partition.class_of, second.partition.class_of], axis=1)
    # A pair of classes without a common value shares no record: the line carries nothing.
    shared = np.minimum(first.counts[ends[:, 0]], second.counts[ends[:, 1]]).sum(axis=1)
    ends = ends[shared > 0]
    n_first = len(first.counts)
    signed = np.concatenate([first.counts, -second.counts])
    lines = np.stack([ends[:, 0], ends[:, 1] + n_first], axis=1)
    degree = np.bincount(lines.ravel(), minlength=len(signed))
    if not declared:
        lines, signed = _of_equal_totals(lines, signed)
    elif (np.abs(signed).sum(axis=1)[degree == 0] > 0).any():
        raise _not_the_same()
    found = [
        Isolated("meet", (a,), (b - n_first,), counts)
        for a, b, counts in _bridges(lines, signed)
        if degree[a] > 1 and degree[b] > 1
    ]
    if declared:
        found += _single_differences(lines, degree, signed, n_first)
    for item in found:
        if declared and (item.counts < 0).any():
            raise _not_the_same()
        item.counts.setflags(write=False)
    if not declared:
        left = _leftovers(first, second)
        known = {(item.outer, item.counts.tobytes()) for item in left}
        for item in found:
            sides = ((0, item.first[0]), (1, item.second[0]))
            if (item.counts >= 0).all() and not known & {(side, item.counts.tobytes()) for side in sides}:
                left.append(item)
        found = left
    told = [replace(item, groups=first.groups) for item in found if item.records]
    return tuple(sorted(told, key=lambda item: (item.diversity, item.records)))


def _leftovers(first: ReleasedCounts, second: ReleasedCounts) -> list[Isolated]:
    """Every class less classes of the other release inside it, where counts allow that they share people.

    A class is inside another one if it can share records with no other: nobody is in the rest of it. Two
    classes of the same people are no leftovers of each other: that is a table that has grown.
    """
    found = []
    tables = first, second
    ends = np.stack([table.partition.class_of for table in tables], axis=1)
    shared = np.minimum(first.counts[ends[:, 0]], second.counts[ends[:, 1]]).any(axis=1)
    for side in (0, 1):
        own, other = tables[side].counts, tables[1 - side].counts
        n_classes = np.bincount(ends[:, side], minlength=len(own))
        outer, inner = ends[shared][:, side], ends[shared][:, 1 - side]
        is_inside = (np.bincount(inner, minlength=len(other))[inner] == 1) & (n_classes[outer] > 1)
        outer, inner = outer[is_inside], inner[is_inside]
        fits = (other[inner] <= own[outer]).all(axis=1)
        outer, inner = outer[fits], inner[fits]
        order = np.argsort(outer, kind="stable")
        outer, inner = outer[order], inner[order]
        starts = np.flatnonzero(np.diff(outer, prepend=-1))
        for point, group in zip(
            outer[starts].tolist(), np.split(inner, starts[1:]) if starts.size else [], strict=True
        ):
            for chosen in _largest_sets(own[point], other[group]):
                others = tuple(group[chosen].tolist())
                counts = own[point] - other[group[chosen]].sum(axis=0)
                counts.setflags(write=False)
                found.append(
                    Isolated("first minus second", (point,), others, counts)
                    if side == 0
                    else Isolated("second minus first", others, (point,), counts)
                )
    return [item for item in found if item.records]


def _largest_sets(whole: NDArray[np.int64], parts: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Sets of parts that fit into a whole together and to which none can be added: these leave the least.

    All of them, or of many parts those that grow from the ones that leave the fewest values by themselves.
    """
    n_parts = len(parts)
    if (parts.sum(axis=0) <= whole).all():
        return [np.arange(n_parts)]
    if n_parts <= _MOST_EXACT:
        bits = 1 << np.arange(n_parts)
        members = (np.arange(1 << n_parts)[:, np.newaxis] & bits) > 0
        fits: NDArray[np.bool_] = np.less_equal(members.astype(np.int64) @ parts, whole).all(axis=1)
        grown = np.arange(1 << n_parts)[:, np.newaxis] | bits
        is_largest = fits & ~(fits[grown] & ~members).any(axis=1)
        return [np.flatnonzero(members[number]) for number in np.flatnonzero(is_largest)]
    found: dict[bytes, NDArray[np.intp]] = {}
    order = np.argsort(np.count_nonzero(whole - parts, axis=1), kind="stable")
    for start in order[:_MOST_STARTS].tolist():
        chosen, rest = [start], whole - parts[start]
        for part in order.tolist():
            if part != start and (parts[part] <= rest).all():
                chosen.append(part)
                rest = rest - parts[part]
        places = np.sort(np.array(chosen, dtype=np.intp))
        found[places.tobytes()] = places
    return list(found.values())


def _of_equal_totals(
    lines: NDArray[np.int64], signed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lines of components that hold as many of every value in both releases, and the counts there."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_points = len(signed)
    joined = coo_array((np.ones(len(lines)), (lines[:, 0], lines[:, 1])), shape=(n_points, n_points))
    n_components, component = connected_components(joined, directed=False)
    totals = np.zeros((n_components, signed.shape[1]), dtype=np.int64)
    np.add.at(totals, component, signed)
    # Two classes of the same people leave nothing to subtract.
    is_kept = ~totals.any(axis=1) & (np.bincount(component, minlength=n_components) > 2)
    return lines[is_kept[component[lines[:, 0]]]], np.where(is_kept[component][:, np.newaxis], signed, 0)


def _bridges(lines: NDArray[np.int64], signed: NDArray[np.int64]) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Every bridge with what it carries; depth first, without recursion (components can be long)."""
    if not len(lines):
        return []
    n_points = len(signed)
    order = np.argsort(lines.ravel(), kind="stable")
    begin = np.searchsorted(lines.ravel()[order], np.arange(n_points + 1)).tolist()
    around = (order // 2).tolist()
    ends = lines.tolist()
    entered, lowest = [-1] * n_points, [0] * n_points
    below = signed.copy()
    found: list[tuple[int, int, NDArray[np.int64]]] = []
    clock = 0
    for root in range(n_points):
        if entered[root] >= 0:
            continue
        entered[root] = lowest[root] = clock
        clock += 1
        stack = [(root, -1, begin[root])]
        while stack:
            point, came_by, place = stack.pop()
            if place < begin[point + 1]:
                stack.append((point, came_by, place + 1))
                line = around[place]
                other = ends[line][0] + ends[line][1] - point
                if line == came_by:
                    continue
                if entered[other] < 0:
                    entered[other] = lowest[other] = clock
                    clock += 1
                    stack.append((other, line, begin[other]))
                else:
                    lowest[point] = min(lowest[point], entered[other])
            elif came_by >= 0:
                parent = ends[came_by][0] + ends[came_by][1] - point
                lowest[parent] = min(lowest[parent], lowest[point])
                below[parent] += below[point]
                if lowest[point] > entered[parent]:
                    carried = below[point] if point == ends[came_by][0] else -below[point]
                    found.append((ends[came_by][0], ends[came_by][1], carried.copy()))
            elif below[point].any():  # a whole component: both releases must hold as many of every value
                raise _not_the_same()
    return found


def _single_differences(
    lines: NDArray[np.int64], degree: NDArray[np.int64], signed: NDArray[np.int64], n_first: int
) -> list[Isolated]:
    """Every class that contains classes of the other release, less those; if more than one pair remains."""
    found = []
    for side in (0, 1):
        is_inside = degree[lines[:, 1 - side]] == 1
        outer, inner = lines[is_inside, side], lines[is_inside, 1 - side]
        order = np.argsort(outer, kind="stable")
        outer, inner = outer[order], inner[order]
        starts = np.flatnonzero(np.diff(outer, prepend=-1))
        for start, group in zip(starts, np.split(inner, starts[1:]) if starts.size else [], strict=True):
            point = int(outer[start])
            if degree[point] - len(group) < 2:
                continue  # nothing remains, or one pair, which is a bridge
            rest = np.abs(signed[point]) - np.abs(signed[group]).sum(axis=0)
            own, others = (point - n_first * side,), tuple((group - n_first * (1 - side)).tolist())
            found.append(
                Isolated("first minus second", own, others, rest)
                if side == 0
                else Isolated("second minus first", others, own, rest)
            )
    return found


def _not_the_same() -> DataError:
    return DataError(
        "The two releases cannot hold the same records.",
        found="Classes that cover the same people hold different numbers of some value.",
        remedy="Declare `same_records` only for releases of one and the same table, without suppression.",
    )
