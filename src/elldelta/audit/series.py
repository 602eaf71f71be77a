"""Releases of one owner, one after the other: what subtracting each from the next shows.

What a class holds more than the last time was brought by people who came, what it holds less was taken by
people who went, and what both show are people who stayed: that is read from the counts if nobody came and
somebody else went with the same value at the same time. The manifests of tables that live say how many came
and went in all. If that is more than the counts show, others came and went with the same value. If these can
be enough to give ell values to everybody, nobody can tell who came from who stayed, and no value of either is
excluded. A manifest that says less, or too little for that, hides nobody.

Somebody with one stay is in every table from the first to the last of it, among those who came at its
beginning and went at its end, and among those who stayed in between (Theorem I): a value is left if all of
these show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.audit.releases import Assumption
from elldelta.audit.shares import MOST_WORST, references
from elldelta.audit.subtraction import IsolatedGroup
from elldelta.core.diversity import n_groups_left
from elldelta.core.linkage import distinct_cells
from elldelta.errors import DataError, ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from elldelta.audit.overlay import Overlay
    from elldelta.audit.shares import ClosenessLimit
    from elldelta.core.linkage import ReleasedCounts
    from elldelta.release import Located
    from elldelta.release.manifest import Manifest

READ_FROM_COUNTS = Assumption(
    "Who came, went and stayed is read from the counts: in a class nobody is taken to have come with a value "
    "with which somebody else went at the same time."
)
"""What is assumed where no manifest says how many came and went."""

_KINDS = ("came", "went", "stayed")


@dataclass(frozen=True)
class OwnerSeries:
    """The releases of one owner, in their order.

    Attributes:
        places: Their places among all releases.
        changes: For each of them how many records came and went since the one before, by its manifest; None
            where no manifest says so.
    """

    places: tuple[int, ...]
    changes: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class SeriesStep:
    """What subtracting one release of an owner from the next one shows.

    Attributes:
        before: The release that is subtracted.
        after: The next one.
        classes: Classes that both show, or unions of classes where those have changed.
        changed: Those that hold other records than before.
        known_from: What tells who came from who stayed: the "manifest", which fits the counts; the "counts"
            alone, on a condition (`READ_FROM_COUNTS`), also where a manifest says too little to hide all
            small groups; or "" where the manifest says that they do not.
        came: Of those who came: groups, people, those in groups of fewer than ell values, and the fewest.
        went: The same of those who went.
        stayed: The same of those who stayed, where others came or went.
    """

    before: str
    after: str
    classes: int
    changed: int
    known_from: str
    came: dict[str, int | None]
    went: dict[str, int | None]
    stayed: dict[str, int | None]


@dataclass(frozen=True)
class SeriesResult:
    """What the releases of one owner show together.

    Attributes:
        releases: Their names, in their order.
        steps: What each step shows.
        diversity_min: The fewest values left for anybody, whenever they came and went; None: nobody changed.
        groups_below: Groups of people who came, went or stayed with fewer than ell values.
        people_below: People in them; who came and went later counts twice.
        smallest: The groups with the fewest values, at most twenty.
        distance: How far the shares of such a group are from the reference, at most, if closeness is asked.
        people_far: People in groups that are further away than allowed.
    """

    releases: tuple[str, ...]
    steps: tuple[SeriesStep, ...]
    diversity_min: int | None
    groups_below: int
    people_below: int
    smallest: tuple[IsolatedGroup, ...]
    distance: float | None = None
    people_far: int = 0

    @property
    def is_read_from_counts(self) -> bool:
        """Whether only counts tell who came and went, at some step."""
        return any(step.known_from == "counts" for step in self.steps)

    def words(self, ell: int) -> str:
        """What was found where it is too little."""
        people = counted(self.people_below, "person", "people") if self.people_below else "people"
        where = f" (at worst between {' and '.join(self.smallest[0].releases)})" if self.smallest else ""
        return (
            f"subtracting releases of one owner from each other leaves {people} who came, went or stayed "
            f"with as few as {self.diversity_min} of {counted(ell, 'value')}{where}"
        )


def find_series(found: Sequence[Located], named: Sequence[Sequence[int]] = ()) -> list[OwnerSeries]:
    """Which releases are one owner's, in their order: as somebody says, and as manifests say.

    A manifest names the owner and the line of the ledger that admitted the release.
    """
    manifests = [item.manifest for item in found]
    known: dict[tuple[str, str], list[tuple[int, int]]] = {}
    spoken_for = {place for group in named for place in group}
    for place, manifest in enumerate(manifests):
        if manifest is not None and manifest.ledger is not None and place not in spoken_for:
            owner = (manifest.plan_digest, manifest.ledger["owner"])
            known.setdefault(owner, []).append((manifest.ledger["sequence"], place))
    series = [*map(list, named), *([place for _, place in sorted(places)] for places in known.values())]
    return [
        OwnerSeries(tuple(places), tuple(_changes(manifests[place]) for place in places))
        for places in series
        if len(places) > 1
    ]


def _changes(manifest: Manifest | None) -> tuple[int, int] | None:
    """How many records came and went since the release before, by the manifest."""
    if manifest is None or manifest.update is None:
        return None
    joined, left = (manifest.update.get(name) for name in ("records_joined", "records_left"))
    return (joined, left) if isinstance(joined, int) and isinstance(left, int) else None


def check_series(named: Sequence[Sequence[int]]) -> None:
    """Refuses a release that is said to be two owners', or twice one's."""
    places = [place for group in named for place in group]
    if len(set(places)) < len(places):
        raise ParameterError(
            "A release stands once in the series of one owner.",
            found="One is named twice.",
            remedy="Name the releases of each owner once, in the order in which they were published.",
        )


def measure_series(
    overlay: Overlay,
    owner: OwnerSeries,
    ell: int,
    limit: ClosenessLimit | None = None,
    *,
    only_last: bool = False,
) -> SeriesResult:
    """Subtracts the releases of an owner from each other, one after the other, class by class.

    Args:
        overlay: The releases.
        owner: Which of them, and what manifests say.
        ell: The number of values to compare with.
        limit: The closeness that is asked for.
        only_last: Look only at what the last release adds to the others.

    Raises:
        DataError: Classes of a release overlap.
    """
    if not overlay.is_disjoint:
        raise DataError(
            "Subtraction needs releases whose classes do not overlap.",
            found="Classes of a release overlap, or records are suppressed.",
            remedy="Do not compare them as a series.",
            parameter="series",
        )
    if limit is None:
        cells, reference_of, weights = list(distinct_cells(overlay.releases)), None, None
    else:
        cells, reference_of, weights = references(overlay, limit)
    steps = [
        _Compared(cells, owner.places[: number + 1], owner.changes[number], ell, overlay.groups)
        for number in range(1, len(owner.places))
    ]
    looked_at = steps[-1:] if only_last else steps
    listed = [item for step in looked_at for item in step.below(overlay, ell)]
    fewest = _fewest(overlay, cells, owner.places, steps, only_last=only_last)
    if fewest is not None and fewest < ell and not listed:
        first, last = overlay.names[owner.places[0]], overlay.names[owner.places[-1]]
        listed = [
            IsolatedGroup((first, last), "who came and went, over several releases", ((), ()), 0, fewest)
        ]
    listed.sort(key=lambda item: (item.diversity, item.records))
    distance, people_far = None, 0
    if limit is not None and reference_of is not None and weights is not None:
        far = [one for step in looked_at for one in step.distances(reference_of, weights)]
        distance = max((float(one) for one, _ in far), default=None)
        people_far = sum(people for one, people in far if one > limit.allowed)
    return SeriesResult(
        releases=tuple(overlay.names[place] for place in owner.places),
        steps=tuple(step.described(overlay, ell) for step in looked_at),
        diversity_min=fewest,
        groups_below=sum(item.records > 0 for item in listed),
        people_below=sum(item.records for item in listed),
        smallest=tuple(listed[:MOST_WORST]),
        distance=distance,
        people_far=people_far,
    )


class _Compared:
    """A release of an owner beside what each class held the last time it was shown."""

    def __init__(
        self,
        cells: Sequence[ReleasedCounts],
        places: Sequence[int],
        n_changes: tuple[int, int] | None,
        ell: int,
        groups: NDArray[np.int64] | None,
    ) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        *earlier, new = places
        rows = [cells[place].partition.class_of.astype(np.int64) for place in places]
        shown = [np.any(cells[at].counts[row], axis=1) for at, row in zip(places, rows, strict=True)]
        last = np.full(len(rows[0]), -1)
        for number in range(len(earlier)):
            last[shown[number]] = number
        self._cells = np.flatnonzero((last >= 0) & shown[-1])
        last, after = last[self._cells], rows[-1][self._cells]
        before = np.array(rows)[last, self._cells]
        base = max(len(cells[place].counts) for place in places)
        old, old_of = np.unique(last * base + before, return_inverse=True)
        ends, new_of = np.unique(after, return_inverse=True)
        old_of, new_of = old_of.reshape(-1), new_of.reshape(-1)
        n_points = len(old) + len(ends)
        joined = coo_array((np.ones(len(after)), (old_of, len(old) + new_of)), shape=(n_points, n_points))
        n_parts, part = connected_components(joined, directed=False)
        self._part = part[old_of]
        # Of classes that were not always shown, those of the latest release count: no person twice.
        newest = np.full(n_parts, -1)
        np.maximum.at(newest, part[: len(old)], old // base)
        used = old[old // base == newest[part[: len(old)]]]
        self._old = [
            (int(earlier[int(one)]), int(row)) for one, row in zip(*np.divmod(used, base), strict=True)
        ]
        self._old_part = part[np.searchsorted(old, used)]
        self._new = [(new, int(row)) for row in ends.tolist()]
        self._new_part = part[len(old) :]
        held, holds = (
            self._totals(cells, points, parts, n_parts)
            for points, parts in ((self._old, self._old_part), (self._new, self._new_part))
        )
        self.came = np.maximum(holds - held, 0)
        self.went = np.maximum(held - holds, 0)
        self.changed = np.any(holds != held, axis=1)
        self.stayed = np.minimum(holds, held) * self.changed[:, np.newaxis]
        self.known_from = "counts"
        if n_changes is not None:
            # Who came and went with one value is in neither difference; a class that is new or gone is told.
            n_hidden = min(n_changes[0] - int(self.came.sum()), n_changes[1] - int(self.went.sum()))
            if n_hidden == 0:
                self.known_from = "manifest"
            elif n_hidden >= self._least_hidden(ell, groups):
                self.known_from = ""
        self._places = int(earlier[-1]), new

    def _least_hidden(self, ell: int, groups: NDArray[np.int64] | None) -> int:
        """How many must have come and gone with one value for all who came, and all who went, to have ell."""
        values = np.stack([n_groups_left(group > 0, groups) for group in (self.came, self.went)])
        return max(1, int(np.where(values, np.maximum(ell - values, 0), 0).max(axis=0, initial=0).sum()))

    @staticmethod
    def _totals(
        cells: Sequence[ReleasedCounts], points: list[tuple[int, int]], parts: NDArray[Any], n_parts: int
    ) -> NDArray[np.int64]:
        totals = np.zeros((n_parts, cells[0].counts.shape[1]), dtype=np.int64)
        for (place, row), part in zip(points, parts.tolist(), strict=True):
            totals[part] += cells[place].counts[row]
        return totals

    def _groups(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        return zip(_KINDS, (self.came, self.went, self.stayed), strict=True)

    def possible(self, kind: str, n_cells: int) -> NDArray[np.bool_]:
        """The values that somebody of a kind may have, per cell; all where nothing has changed."""
        group = dict(self._groups())[kind]
        shown = group > 0 if self.known_from else (group > 0) | (self.stayed > 0)
        found = np.ones((n_cells, group.shape[1]), dtype=np.bool_)
        found[self._cells] = shown[self._part] | ~self.changed[self._part][:, np.newaxis]
        return found

    def described(self, overlay: Overlay, ell: int) -> SeriesStep:
        """The step in numbers."""
        numbers = {}
        for kind, group in self._groups():
            values, people = n_groups_left(group > 0, overlay.groups), group.sum(axis=1)
            below = (values > 0) & (values < ell) & bool(self.known_from)
            numbers[kind] = {
                "groups": int((values > 0).sum()),
                "people": int(people.sum()),
                "groups_below": int(below.sum()),
                "people_below": int(people[below].sum()),
                "values_min": int(values[values > 0].min())
                if bool(self.known_from) and values.any()
                else None,
            }
        before, after = (overlay.names[place] for place in self._places)
        return SeriesStep(
            before, after, len(self.changed), int(self.changed.sum()), self.known_from, **numbers
        )

    def below(self, overlay: Overlay, ell: int) -> Iterator[IsolatedGroup]:
        """The groups with fewer than ell values."""
        if not self.known_from:
            return
        names = overlay.names[self._places[0]], overlay.names[self._places[1]]
        for kind, group in self._groups():
            values = n_groups_left(group > 0, overlay.groups)
            for part in np.flatnonzero((values > 0) & (values < ell)).tolist():
                labels = tuple(
                    tuple(
                        overlay.label(*point)
                        for point, member_of in zip(points, parts.tolist(), strict=True)
                        if member_of == part
                    )
                    for points, parts in ((self._old, self._old_part), (self._new, self._new_part))
                )
                yield IsolatedGroup(
                    names, f"who {kind}", (labels[0], labels[1]), int(group[part].sum()), int(values[part])
                )

    def distances(self, reference_of: NDArray[np.int64], weights: NDArray[np.int64]) -> Iterator[Any]:
        """Total variation between the shares of each group and its references, exactly; and its people."""
        from fractions import Fraction

        if not self.known_from:
            return
        pairs = np.unique(np.stack([self._part, reference_of[self._cells]], axis=1), axis=0)
        for _, group in self._groups():
            furthest: dict[int, Fraction] = {}
            for part, reference in pairs.tolist():
                shown, other = group[part].astype(object), weights[reference].astype(object)
                n, total = int(shown.sum()), int(other.sum())
                if n:
                    apart = Fraction(int(np.abs(shown * total - other * n).sum()), 2 * n * total)
                    furthest[part] = max(apart, furthest.get(part, apart))
            yield from ((one, int(group[part].sum())) for part, one in furthest.items())


def _fewest(
    overlay: Overlay,
    cells: Sequence[ReleasedCounts],
    places: Sequence[int],
    steps: Sequence[_Compared],
    *,
    only_last: bool,
) -> int | None:
    """The fewest values left for somebody with one stay, over all times at which it may begin and end."""
    if not any(step.changed.any() for step in steps):
        return None
    shown = [cells[place].counts[cells[place].partition.class_of] > 0 for place in places]
    in_any = np.logical_or.reduce(shown).any(axis=1, keepdims=True)
    tables = [table | ~table.any(axis=1, keepdims=True) for table in shown]  # nobody excludes nothing
    came, went, stayed = ([step.possible(kind, len(in_any)) for step in steps] for kind in _KINDS)
    fewest, end = [], len(places) - 1
    for first in range(len(places)):
        left = tables[first] & in_any & (came[first - 1] if first else True)
        for last in range(first, len(places)):
            known = left
            if last > first:
                left = left & tables[last] & stayed[last - 1]
            found = left
            if last < end:
                known, found = left, left & went[last]
            number = n_groups_left(found, overlay.groups)
            if only_last and last < end - 1:
                continue
            if only_last and first < end:  # what is known without the last release is not its doing
                number = np.where(number < n_groups_left(known, overlay.groups), number, 0)
            fewest.append(number)
    numbers = np.concatenate(fewest)
    return int(numbers[numbers > 0].min()) if numbers.any() else None
