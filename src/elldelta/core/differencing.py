"""Subtraction: what two releases give away together if they share people, under equal or other classes.

Draw every class as a point and every pair of classes that can share a record as a line between them; on a
line lie the records that both classes hold. The releases tell the total at every point. Subtracting a union
of classes of one release from a union of classes of the other that contains it gives the total of the lines
in between, and whoever is in the larger union and in no class of the smaller one.

Example: {c1 ∪ c2}, {c3} against {c1}, {c2 ∪ c3} gives c2 exactly, although no release shows it. A register,
and the same people less six under the same classes, give the values of these six, class by class.

Nothing but counts is looked at here: a difference that is nowhere negative is one that people who are in both
releases *can* have made. It is a group of people if those who were subtracted are all in both, and a
coincidence otherwise; whoever asks must know which.

Points that lines join, directly or through others, are a *component*. Components are judged one by one: what
the releases hold elsewhere neither helps nor protects. A single line is known exactly if both releases hold
the same records in its component and it lies on no cycle (a *bridge*): take away the bridge, and the
difference of the two releases' totals on either side is what it carried. On a cycle, records can be moved
around without changing any total.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from elldelta.core.diversity import n_groups_left
from elldelta.core.linkage import distinct_cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from elldelta.core.linkage import ReleasedCounts

    Counts = NDArray[np.int64]

_MOST_EXACT = 8
"""Classes inside another one of which all sets are tried; of more, some."""

_MOST_STARTS = 16
"""Classes from which sets are grown, where there are more."""

_HOW: tuple[Literal["first minus second"], Literal["second minus first"]] = (
    "first minus second",
    "second minus first",
)


@dataclass(frozen=True, eq=False)
class Isolated:
    """Records that subtraction isolates.

    Attributes:
        how: "meet": the records that class `first[0]` and class `second[0]` share. "first minus second":
            those of the classes `first` that are in none of the classes `second`, if everybody in these is in
            those; and the other way round.
        first: Classes of the first release.
        second: Classes of the second release.
        counts: The records that were isolated, by value.
        whole: Whether these are all classes of a component: the table has grown there by these records.
        groups: The group of every value, where values of a group count once.
    """

    how: Literal["meet", "first minus second", "second minus first"]
    first: tuple[int, ...]
    second: tuple[int, ...]
    counts: Counts
    whole: bool = False
    groups: Counts | None = None

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    @property
    def is_of_equals(self) -> bool:
        """Whether it is the difference of two equal classes."""
        return self.whole and len(self.first) == len(self.second) == 1

    @property
    def diversity(self) -> int:
        """The number of distinct values among them, or of groups."""
        return int(n_groups_left(self.counts > 0, self.groups))


def isolate(
    first: ReleasedCounts, second: ReleasedCounts, *, below: int | None = None
) -> tuple[Isolated, ...]:
    """The groups of records that subtraction gives, as far as counts allow it, fewest values first.

    Found are, of either release: every class less the largest sets of classes of the other release inside it
    (all of these sets, or some where more than eight are inside and do not fit together); the union of all
    classes that a class of the other release touches, less that class; every component of the one release
    less that of the other; and every pair of classes whose common records follow where both hold the same
    records in a component. So a class is compared with its equal, and with every union of classes inside or
    around it. Other unions against unions can isolate further groups; those are not listed.

    A class is inside another one if it can share records with no other: nobody is in the rest of it.

    Args:
        first: A release.
        second: Another one.
        below: Only groups with fewer values; by default all.
    """
    if not _may_isolate(first, second, below):
        return ()
    first, second = distinct_cells([first, second])
    graph = _Graph(first, second)
    found: dict[tuple[str, tuple[int, ...], tuple[int, ...]], Isolated] = {}
    for side in (0, 1):
        for outer, inner, rest in (*graph.leftovers(side), *graph.unions(side), *graph.components(side)):
            for place in _small_groups(rest, first.groups, below):
                item = graph.difference(side, outer[place], inner[place], rest[place])
                found.setdefault((item.how, item.first, item.second), item)
    known = {
        (side, classes[0], item.counts.tobytes())
        for item in found.values()
        for side, classes in ((0, item.first), (1, item.second))
        if item.how == _HOW[side] and len(classes) == 1
    }
    pairs = graph.bridges()
    table = np.array([counts for _, _, counts in pairs]).reshape(len(pairs), first.counts.shape[1])
    listed = list(found.values())
    for place in _small_groups(table, first.groups, below):
        a, b, counts = pairs[place]
        if not known & {(0, a, counts.tobytes()), (1, b, counts.tobytes())}:
            counts.setflags(write=False)
            listed.append(Isolated("meet", (a,), (b,), counts, groups=first.groups))
    return tuple(sorted(listed, key=lambda item: (item.diversity, item.records)))


def _may_isolate(first: ReleasedCounts, second: ReleasedCounts, below: int | None) -> bool:
    """Whether a search can find anything; of equal classes only one less its equal can be found."""
    one, other = first.partition.class_of, second.partition.class_of
    if one.shape != other.shape or (one != other).any():
        return True
    rest = first.counts - second.counts
    return any(_small_groups(each, first.groups, below) for each in (rest, -rest))


def _small_groups(rest: Counts, groups: Counts | None, below: int | None) -> list[int]:
    """The rows that are groups of people, with fewer values than are asked for."""
    is_group = (rest >= 0).all(axis=1) & rest.any(axis=1)
    if below is not None:
        is_group &= n_groups_left(rest > 0, groups) < below
    return np.flatnonzero(is_group).tolist()


Differences = tuple[list[tuple[int, ...]], list[tuple[int, ...]], "Counts"]
"""Classes of one release, those of the other that are subtracted, and what is left; all of one length."""


class _Graph:
    """Classes of two releases, and which of them can share a record."""

    def __init__(self, first: ReleasedCounts, second: ReleasedCounts) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        self.counts = first.counts, second.counts
        self.groups = first.groups
        ends = np.stack([first.partition.class_of, second.partition.class_of], axis=1).astype(np.int64)
        # A pair of classes without a common value shares no record: the line carries nothing.
        self.ends = ends[((first.counts[ends[:, 0]] > 0) & (second.counts[ends[:, 1]] > 0)).any(axis=1)]
        sizes = tuple(map(len, self.counts))
        self.degree = tuple(np.bincount(self.ends[:, side], minlength=sizes[side]) for side in (0, 1))
        n_points = sum(sizes)
        lines = coo_array(
            (np.ones(len(self.ends)), (self.ends[:, 0], self.ends[:, 1] + sizes[0])),
            shape=(n_points, n_points),
        )
        n_parts, part = connected_components(lines, directed=False)
        self.part = part[: sizes[0]].astype(np.int64), part[sizes[0] :].astype(np.int64)
        self.n_of = tuple(np.bincount(part_of, minlength=n_parts) for part_of in self.part)
        self.totals = tuple(
            _sums(part_of, counts, n_parts) for part_of, counts in zip(self.part, self.counts, strict=True)
        )

    def difference(self, side: int, outer: tuple[int, ...], inner: tuple[int, ...], rest: Counts) -> Isolated:
        """What classes of one release less classes of the other leave."""
        rest = rest.copy()
        rest.setflags(write=False)
        part = self.part[side][outer[0]]
        first, second = (outer, inner) if side == 0 else (inner, outer)
        whole = (len(first), len(second)) == (self.n_of[0][part], self.n_of[1][part])
        return Isolated(_HOW[side], first, second, rest, bool(whole), self.groups)

    def leftovers(self, side: int) -> Iterator[Differences]:
        """Every class less classes of the other release inside it."""
        counts, other = self.counts[side], self.counts[1 - side]
        outer, inner = self.ends[:, side], self.ends[:, 1 - side]
        fits = (self.degree[1 - side][inner] == 1) & (other[inner] <= counts[outer]).all(axis=1)
        outer, inner = outer[fits], inner[fits]
        points, inside = _grouped(outer, inner)
        rest = counts[points] - _sums(outer, other[inner], len(counts))[points]
        yield [(point,) for point in points], inside, rest
        for place in np.flatnonzero((rest < 0).any(axis=1)).tolist():
            point, group = points[place], np.array(inside[place])
            chosen = [tuple(group[each].tolist()) for each in _largest_sets(counts[point], other[group])]
            sums = [other[list(each)].sum(axis=0) for each in chosen]
            yield [(point,)] * len(chosen), chosen, counts[point] - np.array(sums)

    def unions(self, side: int) -> Iterator[Differences]:
        """All classes that a class of the other release touches, less that class."""
        counts, other = self.counts[side], self.counts[1 - side]
        part, degree = self.part[1 - side], self.degree[1 - side]
        # Where nothing else is there, and nobody is missing, classes of the other release are left as shown.
        is_all = (degree == self.n_of[side][part]) & (self.totals[0] == self.totals[1]).all(axis=1)[part]
        classes = np.flatnonzero((degree > 1) & ~is_all)
        is_asked = np.isin(self.ends[:, 1 - side], classes)
        points, around = _grouped(self.ends[is_asked, 1 - side], self.ends[is_asked, side])
        sums = _sums(self.ends[is_asked, 1 - side], counts[self.ends[is_asked, side]], len(other))
        yield around, [(point,) for point in points], (sums - other)[points]

    def components(self, side: int) -> Iterator[Differences]:
        """All classes of a component less those of the other release; where both have several."""
        many = np.flatnonzero((self.n_of[0] > 1) & (self.n_of[1] > 1))
        members = [_grouped(part_of, np.arange(len(part_of)), many)[1] for part_of in self.part]
        yield members[side], members[1 - side], (self.totals[side] - self.totals[1 - side])[many]

    def bridges(self) -> list[tuple[int, int, Counts]]:
        """Pairs of classes whose common records follow, in components of the same records."""
        is_same = (self.totals[0] == self.totals[1]).all(axis=1) & (self.n_of[0] + self.n_of[1] > 2)
        ends = self.ends[is_same[self.part[0][self.ends[:, 0]]]]
        n_first = len(self.counts[0])
        lines = np.stack([ends[:, 0], ends[:, 1] + n_first], axis=1)
        signed = np.concatenate([self.counts[0], -self.counts[1]])
        return [
            (a, b - n_first, counts)
            for a, b, counts in _bridges(lines, signed)
            if self.degree[0][a] > 1 and self.degree[1][b - n_first] > 1
        ]


def _sums(rows: NDArray[np.int64], counts: Counts, n_rows: int) -> Counts:
    """The sum of the counts of each row."""
    from scipy.sparse import csr_array

    places = np.arange(len(rows))
    adds = csr_array((np.ones(len(rows), np.int64), (rows, places)), shape=(n_rows, len(rows)))
    return np.asarray(adds @ counts, dtype=np.int64)


def _grouped(
    keys: NDArray[np.int64], members: NDArray[np.int64], only: NDArray[np.int64] | None = None
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Every key that occurs, or of those asked for, and its members, sorted."""
    if only is not None:
        is_asked = np.isin(keys, only)
        keys, members = keys[is_asked], members[is_asked]
    order = np.lexsort((members, keys))
    keys, members = keys[order], members[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    groups = np.split(members, starts[1:]) if starts.size else []
    return keys[starts].tolist(), [tuple(group.tolist()) for group in groups]


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
    return found
