"""Whether a release may be linked with those of other plans for the same people: values left, and shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.closeness import SmallestShares
from elldelta.core.linked_state import LinkedState, least_left
from elldelta.core.partition import Partition
from elldelta.core.promises import LATER, Close, Shown
from elldelta.errors import RefusedError, counted
from elldelta.plan.classes import Classes, Merged
from elldelta.plan.common_cells import common_cells
from elldelta.release import Published, recomputed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.agency.admission import Registered
    from elldelta.plan.plan import Plan


@dataclass(frozen=True, eq=False)
class PlanReleases:
    """What the releases of one plan show, those that count.

    Attributes:
        plan: The plan.
        shown: What each of them shows.
        is_living: Whether some of their tables are published again.
    """

    plan: Plan
    shown: tuple[Shown, ...]
    is_living: bool = False

    @classmethod
    def of(cls, plan: Plan, releases: Sequence[Registered]) -> PlanReleases:
        """From the releases as they are stored, each of which is checked."""
        shown = tuple(Shown(release.published.counts, release.grouping) for release in releases)
        return cls(plan, shown, any(release.entry.update for release in releases))

    def linked(self, place: int, min_records: int) -> LinkedState:
        """What they leave to somebody of a sensitive column, where a value counts with so many records."""
        size = self.plan.schema.sensitives[place].size
        state = LinkedState.empty(self.plan.n_classes, size, min_records)
        for release in self.shown:
            counts = self.plan.schema.by_column(release.counts)[place]
            state = state.joined(counts[release.grouping.class_of])
        return state

    def smallest_shares(self, place: int) -> SmallestShares:
        """The smallest share that one of them shows, by class and value of a sensitive column."""
        shares = SmallestShares.none(self.plan.n_classes, self.plan.schema.sensitives[place].size)
        for release in self.shown:
            shares = shares.joined(self.plan.schema.by_column(release.counts)[place], release.grouping)
        return shares


def check_linkage(
    plan: Plan, grouping: Partition, counts: NDArray[np.int64], released: Sequence[PlanReleases]
) -> None:
    """Links a release with all others, exactly, and refuses it where somebody is left with too little.

    Whoever is in releases of several plans was promised the most that one of these plans promises. Releases
    with several sensitive columns show these apart: each is linked by itself.

    Args:
        plan: The plan of the release.
        grouping: The published class of every base class.
        counts: What the published classes show.
        released: What is registered, under this plan and under others.
    """
    if any(each.plan.schema.digest != plan.schema.digest for each in released):
        raise RefusedError(
            "The release cannot be linked with all that was registered before.",
            found="Releases for the same population describe their columns differently.",
            remedy="The agency must keep one schema for a population; ask for a plan with the earlier one.",
        )
    base_of, *class_of = common_cells(plan.schema, [plan.classes, *(each.plan.classes for each in released)])
    rows = grouping.class_of[base_of]
    laid = list(zip(released, class_of, strict=True))
    for place, shown in enumerate(plan.schema.by_column(counts)):
        _check_values(plan, place, shown, rows, laid)
        _check_closeness(plan, place, shown, rows, laid)


def _check_values(
    plan: Plan,
    place: int,
    counts: NDArray[np.int64],
    rows: NDArray[np.intp],
    laid: Sequence[tuple[PlanReleases, NDArray[np.int64]]],
) -> None:
    """Refuses a release that leaves somebody with fewer values of a sensitive column than were promised."""
    promises = [(each.plan.ells[place], each.plan.min_records) for each, _ in laid]
    asked = (plan.ells[place], plan.min_records)
    for ell, min_records in sorted({*promises, asked}):
        is_own = (ell, min_records) == asked
        left = least_left(
            counts[rows],
            [each.linked(place, min_records) for each, _ in laid],
            [class_of for _, class_of in laid],
            also_in=None
            if is_own
            else [number for number, promise in enumerate(promises) if promise == (ell, min_records)],
            min_records=min_records,
            groups=plan.schema.sensitives[place].value_groups,
        )
        if ((left >= 0) & (left < ell)).any():
            raise _broken(f"Fewer than {counted(ell, 'value')} of {plan.schema.sensitive_names[place]!r}.")


def _check_closeness(
    plan: Plan,
    place: int,
    counts: NDArray[np.int64],
    rows: NDArray[np.intp],
    laid: Sequence[tuple[PlanReleases, NDArray[np.int64]]],
) -> None:
    """Refuses a release with which shares would be too far from what a plan says, over all plans.

    Whoever is in a release of a plan was promised its closeness. E of all releases bounds every group of
    them (Theorem G), so the promise holds whichever of the others somebody is in.
    """
    if all(each.plan.columns[place].closeness is None for each, _ in laid):
        return
    name, cells = plan.schema.sensitive_names[place], Partition(np.arange(len(rows)))
    smallest = SmallestShares.none(len(rows), counts.shape[1])
    for each, class_of in laid:
        smallest = smallest.smaller(each.smallest_shares(place).at(class_of))
    shown = Shown(counts[rows], cells)
    for each, class_of in laid:
        near = each.plan.columns[place].closeness
        if near is None:
            continue
        asked = shown.has_records
        if each.plan.digest != plan.digest:
            asked = asked & each.linked(place, each.plan.min_records).shown[class_of].any(axis=1)
        references = near.promise(each.plan.n_classes, 1).references[class_of]
        far = Close(references, near.exact_limit, smallest=smallest).violation(shown) > 0
        if (far & asked).any():
            raise _broken(f"More than {near.limit:g} away from the reference of {name!r}.")


def _broken(promise: str) -> RefusedError:
    """The refusal that says which promise would be broken, and nothing else."""
    return RefusedError(
        "Linked with what is registered under other plans, the release would break what a plan promises.",
        found=promise,
        remedy=LATER,
    )


def as_published(
    plan: Plan, grouping: Partition, counts: NDArray[np.int64], content_digest: str, *, name: str
) -> Published:
    """A release as if it had been read, with what follows from its counts and the plan."""
    classes = _published_classes(plan, grouping)
    manifest = recomputed(plan, classes, counts, content_digest)
    return Published(name, plan.schema, classes, counts, manifest)


def _published_classes(plan: Plan, grouping: Partition) -> Classes:
    """The classes that a release publishes."""
    return Merged(plan.classes, grouping.class_of) if grouping.n_classes < plan.n_classes else plan.classes
