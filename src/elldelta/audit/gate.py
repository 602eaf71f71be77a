"""Use case: would publishing one more release break what is asked for, given what is already published?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.audit.documents import for_the_public, plain, without_labels
from elldelta.audit.measures import summary_of
from elldelta.audit.releases import missing_counts
from elldelta.audit.result import LIMITS
from elldelta.audit.series import measure_series
from elldelta.audit.shares import measure_closeness
from elldelta.audit.subtraction import subtract
from elldelta.core.diversity import n_groups_left
from elldelta.core.linkage import fewest_in_any_group, smallest
from elldelta.errors import counted
from elldelta.pages.page import Displayed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.audit.overlay import Overlay
    from elldelta.audit.releases import Assumption
    from elldelta.audit.result import ReleaseSummary
    from elldelta.audit.series import OwnerSeries, SeriesResult
    from elldelta.audit.shares import ClosenessLimit, ClosenessResult
    from elldelta.audit.subtraction import Subtraction


@dataclass(frozen=True)
class FailingClass:
    """A class of the new release in which somebody would be left with too few values or known too well.

    Attributes:
        labels: What the new release shows for it: one label per quasi-identifier.
        records: Its records.
        values_alone: The values that it shows by itself.
        values_left: The fewest values left for somebody in it, in any group of releases with the new one.
        values_before: The fewest values that the published releases alone leave for anybody in the same
            place; None if they show nobody there.
        too_far: Whether shares of records linked to somebody in it would be too far from the reference.
    """

    labels: tuple[str, ...]
    records: int
    values_alone: int
    values_left: int
    values_before: int | None
    too_far: bool = False


@dataclass(frozen=True, repr=False)
class Gate(Displayed):
    """The answer of the gate.

    Attributes:
        before: The release that is to be published.
        published: Those that already are.
        columns: The quasi-identifiers.
        ell: The number of values that must be left.
        diversity_min: The fewest values left for anybody in the new release, in any group that contains it.
        classes: The classes of the new release that fail, worst first.
        subtraction: What subtracting it from the published releases, and these from it, isolates.
        assumptions: What was taken for granted.
        closeness: How far from a reference shares can be for people in the new release, if that was asked.
        series: What subtracting the owner's last release from it shows, if it is not the owner's first.
        release: The new release by itself.
        sensitive: The sensitive column.
        promised: The largest diversity that a release promises, or None.
    """

    before: str
    published: tuple[str, ...]
    columns: tuple[str, ...]
    ell: int
    diversity_min: int | None
    classes: tuple[FailingClass, ...]
    subtraction: Subtraction
    assumptions: tuple[Assumption, ...]
    release: ReleaseSummary
    sensitive: str
    promised: int | None
    closeness: ClosenessResult | None = None
    series: SeriesResult | None = None

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {
            "verdict": self.verdict,
            "new": self.before,
            "published": ", ".join(self.published),
            "fewest values left": self.diversity_min,
            "wanted": self.ell,
            "classes that fail": len(self.classes),
        }

    @property
    def holds(self) -> bool:
        """Whether everything that was asked for would hold for everybody in the new release."""
        return not self.classes and self.subtraction.holds and not self._isolates

    @property
    def _isolates(self) -> bool:
        """Whether it shows too much about who came, went or stayed since the owner's last release."""
        found = self.series
        return found is not None and (
            bool(found.people_far) or (found.diversity_min is not None and found.diversity_min < self.ell)
        )

    @property
    def already_below(self) -> int:
        """Failing classes where the published releases leave fewer than ell even without the new one."""
        below = (item for item in self.classes if item.values_left < self.ell)
        return sum(item.values_before is not None and item.values_before < self.ell for item in below)

    @property
    def records_below(self) -> int:
        """Records of the new release in classes that would leave too few values."""
        return sum(item.records for item in self.classes if item.values_left < self.ell)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        close = [] if self.closeness is None else [self.closeness.words]
        if self.holds:
            fewest = self.ell if self.diversity_min is None else self.diversity_min
            among = (
                f"whoever is in {self.before} stays among at least {counted(fewest, 'value')} "
                f"({self.ell} wanted)"
            )
            kept = " and ".join([*([among] if self.ell > 1 or not close else []), *close])
            yes = f"It may be published: {kept}, whichever of the published releases they are also in."
            return yes + missing_counts(self.assumptions) + self.subtraction.proviso
        below = [item for item in self.classes if item.values_left < self.ell]
        if not self.classes and self._isolates and self.series is not None:
            return f"Do not publish: {self.series.words(self.ell)}."
        if not self.classes:
            return f"Do not publish: {self.subtraction.isolates}."
        problems = []
        if below:
            problems.append(
                f"{counted(len(below), 'class', 'classes')} of {self.before} would leave somebody "
                f"with fewer than {counted(self.ell, 'value')}, at worst {self.diversity_min}"
            )
        n_far = sum(item.too_far for item in self.classes)
        if n_far:
            problems.append(f"in {counted(n_far, 'class', 'classes')} of {self.before} {' '.join(close)}")
        return f"Do not publish: {'; and '.join(problems)}."

    def to_dict(self, *, public: bool = False) -> dict[str, Any]:
        """The answer as plain JSON values; for the public without labels and small counts."""
        document = {
            "before": self.before,
            "published": list(self.published),
            "columns": list(self.columns),
            "public": public,
            "sensitive": self.sensitive,
            "release": plain(self.release),
            "ell": self.ell,
            "promised": self.promised,
            "holds": self.holds,
            "verdict": self.verdict,
            "diversity_min": self.diversity_min,
            "classes_below": sum(item.values_left < self.ell for item in self.classes),
            "classes_below_already": self.already_below,
            "records_below": self.records_below,
            "subtraction": without_labels(self.subtraction.to_dict()),
            "closeness": None if self.closeness is None else without_labels(self.closeness.to_dict()),
            **({} if self.series is None else {"series": without_labels(plain(self.series))}),
            "classes": plain(self.classes),
            "assumptions": [*LIMITS, *(each.words for each in self.assumptions)],
        }
        if not public:
            return document
        if not self.holds:  # without the number of classes
            below = f"somebody would be left with fewer than {counted(self.ell, 'value')}"
            problems = [below] if self.records_below else []
            problems += [item.words for item in (self.closeness,) if item is not None and not item.holds]
            problems += ["subtracting the last release shows too few values"] if self._isolates else []
            problems += [] if self.subtraction.holds else [self.subtraction.isolates]
            document["verdict"] = f"Do not publish: {'; and '.join(problems)}."
        return for_the_public(document, "gate")


def gate(
    overlay: Overlay,
    ell: int,
    limit: ClosenessLimit | None = None,
    owners: Sequence[OwnerSeries] = (),
    contained: Sequence[Sequence[int]] | None = None,
) -> Gate:
    """Asks whether the last release may join the others.

    Every group of releases that contains the new one is looked at, exactly (see `fewest_in_any_group` and,
    for shares, `furthest_in_any_group`).
    """
    new = len(overlay.releases) - 1
    release = overlay.releases[new]
    after = fewest_in_any_group(overlay.releases, member_of=new)
    before = fewest_in_any_group(overlay.releases[:new]) if new else np.zeros_like(after)
    rows = release.partition.class_of
    worst_after = _fewest_by_row(rows, after, len(release.counts))
    worst_before = _fewest_by_row(rows, before, len(release.counts))
    closeness, too_far = None, np.zeros(len(release.counts), dtype=bool)
    if limit is not None:
        closeness, too_far = measure_closeness(overlay, limit, member_of=new)
    failing = np.flatnonzero((worst_after > 0) & ((worst_after < ell) | too_far))
    order = failing[np.argsort(worst_after[failing], kind="stable")]
    owner = next((owner for owner in owners if owner.places[-1] == new), None)
    series = None if owner is None else measure_series(overlay, owner, ell, limit, only_last=True)
    return Gate(
        before=overlay.names[new],
        published=overlay.names[:new],
        columns=overlay.columns,
        ell=ell,
        diversity_min=smallest(after),
        classes=tuple(
            FailingClass(
                overlay.label(new, row),
                int(release.counts[row].sum()),
                int(n_groups_left(release.counts[row] > 0, release.groups)),
                int(worst_after[row]),
                int(worst_before[row]) or None,
                bool(too_far[row]),
            )
            for row in order.tolist()
        ),
        subtraction=subtract(overlay, ell, contained, [owner.places for owner in owners], member_of=new),
        series=series,
        assumptions=overlay.assumptions,
        release=summary_of(overlay, new, ell),
        sensitive=overlay.sensitive,
        promised=overlay.promised,
        closeness=closeness,
    )


def _fewest_by_row(rows: NDArray[np.intp], fewest: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """The smallest positive number of the cells of each row; 0 where there is none."""
    found = np.full(n_rows, np.iinfo(np.int64).max)
    occupied = fewest > 0
    np.minimum.at(found, rows[occupied], fewest[occupied])
    return np.where(found == np.iinfo(np.int64).max, 0, found)
