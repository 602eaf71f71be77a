"""What an audit found, as frozen values, and as one document from which page, JSON and words are made."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from elldelta._version import __version__
from elldelta.audit.documents import for_the_public, plain, without_labels
from elldelta.audit.releases import Topic, missing_counts
from elldelta.audit.shares import surest_words
from elldelta.errors import counted
from elldelta.pages.page import Displayed, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from elldelta.audit.releases import Assumption
    from elldelta.audit.series import SeriesResult
    from elldelta.audit.shares import ClosenessResult, InferenceRisk
    from elldelta.audit.subtraction import Subtraction
    from elldelta.audit.targets import TargetTotals
    from elldelta.core.linkage import CurvePoint, Exposure, LeftOut, Linkage

LIMITS = (
    "A value is left for a person if the person's class in every release that the person is in shows it. "
    "People are found by their quasi-identifiers alone.",
    "What somebody learns from other sources, or from how a release was made, is not in these numbers.",
)
"""What every audit takes for granted."""


@dataclass(frozen=True)
class ReleaseSummary:
    """One release by itself.

    Attributes:
        name: Words for it.
        records: Its records.
        classes: Its classes with a record.
        loss: How much information it loses; None where nobody is in it.
        diversity: The fewest distinct values in any class.
        k: The fewest records in any class.
        entropy: The smallest exp(H) of any class.
        t_closeness: The largest total variation between a class and the whole release.
        classes_below: Classes with fewer than ell values.
        records_below: Records in them.
        described_by: What says what it shows: its manifest, a schema or its labels.
        records_left_out: Records that it does not show, by reason, as far as somebody has said.
    """

    name: str
    records: int
    classes: int
    loss: float | None
    diversity: int | None
    k: int | None
    entropy: float | None
    t_closeness: float | None
    classes_below: int
    records_below: int
    described_by: str
    records_left_out: Mapping[str, int]


@dataclass(frozen=True)
class WorstClass:
    """A place where releases meet and few values are left. It names classes, not people or values.

    Attributes:
        releases: The names of the releases that are linked here.
        labels: What each of them shows: one label per quasi-identifier.
        values_left: Values left.
        records: Linked records.
        largest_share: The share of the most frequent value.
    """

    releases: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    values_left: int
    records: int
    largest_share: float


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Displayed):
    """What linking the releases shows.

    Attributes:
        releases: Each release by itself.
        columns: The quasi-identifiers.
        sensitive: The sensitive column, or those that rows tie together.
        plans: The digests of the plans that the releases follow.
        contents: The digest of what each release holds, where all of them have a manifest.
        ell: The diversity to compare with.
        promised: The largest diversity that a release promises, or None.
        diversity_min_any: The fewest values left for anybody, whichever of the releases they are in: the
            smallest over every group of the releases. The verdict looks at this one, because linking all of
            them can show that nobody is in all, and say nothing about those who are in some.
        diversity_min_unknown: The same if nobody knows in which of the releases somebody is, only that it is
            at least one: no value that any class shows can be excluded.
        diversity_min_unnamed: The fewest values left for whoever matches no label but `*`; None for nobody.
        n_values: The sensitive values there are: none can be excluded for somebody who may be in no release.
        classes_below_any: Combinations of classes in which somebody, in some of the releases, is left with
            fewer than ell values.
        exposure: The measures of the linkage of all releases.
        readings: How far linking leads about one value: by shares of linked records, and by Bayes' rule.
        reference: What they are compared with, in words.
        baseline: The largest share that it gives one value.
        closeness: How far from a reference shares of linked records can be, if that was asked for.
        curve: The exposure for every number of linked releases.
        left_out: The exposure without each of the releases.
        worst: The places where the fewest values are left.
        subtraction: What subtracting the releases from each other isolates: found, possible, not found or not
            tried, and why.
        targets: How the targets fare; None if none were given.
        assumptions: What was taken for granted.
        labels: How labels were understood where nothing but the labels says so: column, label, meaning.
        linkage: The linkage itself.
        series: What consecutive releases of one owner show together, for each owner with several.
        range_of_loss: Over which range the information loss of releases is measured.
        also: The audits of further sensitive columns, if releases show several apart.
    """

    releases: tuple[ReleaseSummary, ...]
    columns: tuple[str, ...]
    sensitive: str
    plans: tuple[str, ...]
    contents: tuple[str, ...]
    ell: int
    promised: int | None
    diversity_min_any: int | None
    diversity_min_unknown: int | None
    diversity_min_unnamed: int | None
    n_values: int
    classes_below_any: int
    exposure: Exposure
    readings: tuple[InferenceRisk, InferenceRisk]
    reference: str
    baseline: float
    closeness: ClosenessResult | None
    curve: tuple[CurvePoint, ...]
    left_out: tuple[LeftOut, ...]
    worst: tuple[WorstClass, ...]
    subtraction: Subtraction
    targets: TargetTotals | None
    assumptions: tuple[Assumption, ...]
    labels: tuple[tuple[str, str, str], ...]
    linkage: Linkage
    range_of_loss: str
    series: tuple[SeriesResult, ...] = ()
    also: tuple[Audit, ...] = ()

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {
            "verdict": self.verdict,
            "how sure": self.surest,
            "releases": ", ".join(release.name for release in self.releases),
            "fewest values left": self.diversity_min_any,
            "wanted": self.ell,
            "records below": percent(self.share_below),
            "largest share of one value": percent(self.surest_share),
        }

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Each release by itself."""
        rows: list[tuple[object, ...]] = [
            (item.name, item.records, item.classes, item.loss, item.diversity, item.k)
            for item in self.releases
        ]
        return ("release", "records", "classes", "loss", "fewest values", "fewest records"), rows

    def plot(self) -> Figure:
        """How many records are left with how many values."""
        from elldelta.pages.charts import draw_histogram

        return draw_histogram(self.histogram, self.ell)

    @property
    def diversity_min(self) -> int | None:
        """The fewest values left for anybody who is in all releases; None if nobody can be."""
        return self.linkage.diversity

    @property
    def classes_linked(self) -> int:
        """Combinations of classes, one per release, that meet, have a record in each and a common value."""
        return self.exposure.classes

    @property
    def classes_without_common_value(self) -> int:
        """Combinations with records in every release but no value in common: nobody can be in all of them."""
        return self.linkage.n_without_common_value

    @cached_property
    def histogram(self) -> list[dict[str, int]]:
        """Linkage classes, and linked records in them, by the number of values left."""
        left, records = self.linkage.class_diversities, self.linkage.counts.sum(axis=1)
        return [
            {
                "diversity": value,
                "classes": int((left == value).sum()),
                "records": int(records[left == value].sum()),
            }
            for value in sorted({*left[left > 0].tolist()})
        ]

    @property
    def share_below(self) -> float:
        """Share of the linked records that lie in classes with fewer than ell values left."""
        return self.exposure.share_below

    @property
    def share_exposed(self) -> float:
        """Share of the linked records that lie in classes with exactly one value left."""
        return self.exposure.share_exposed

    @property
    def holds(self) -> bool:
        """Whether every promise that was asked for holds.

        That is: everybody is left among at least ell values, whichever of the releases they are in, also
        after subtraction where a population is said to be contained in another; and shares stay close to the
        reference, if that was asked.
        """
        return self._own_holds and all(column.holds for column in self.also)

    @property
    def values_hold(self) -> bool:
        """Whether everybody is left among at least ell values, also after subtraction."""
        found = [self.diversity_min_any]
        found += [owner.diversity_min for owner in self.series]
        return self.subtraction.holds and all(number is None or number >= self.ell for number in found)

    @property
    def verdict(self) -> str:
        """The verdict on every promise that was asked for, in one sentence for each sensitive column."""
        if self.also:
            worst_first = sorted((self, *self.also), key=lambda column: column._own_holds)
            return " ".join(f"{column.sensitive}: {column._own_verdict}" for column in worst_first)
        return self._own_verdict

    @property
    def is_judged(self) -> bool:
        """Whether there is an answer: not where only closeness is promised, and nobody says to what.

        What is found not to hold is an answer even then.
        """
        is_asked = self.ell > 1 or self.closeness is not None or not self._promises_closeness
        return is_asked or not self.values_hold

    @property
    def is_refused(self) -> bool:
        """Whether something that was judged does not hold, of any sensitive column."""
        return any(column.is_judged and not column._own_holds for column in (self, *self.also))

    @property
    def _promises_closeness(self) -> bool:
        return any(each.topic is Topic.CLOSENESS_NOT_CHECKED for each in self.assumptions)

    @property
    def _own_holds(self) -> bool:
        is_close = self.is_judged and (self.closeness is None or self.closeness.holds)
        return self.values_hold and is_close and not any(owner.people_far for owner in self.series)

    @property
    def _own_verdict(self) -> str:
        fewest = self.diversity_min_any
        if fewest is None:
            return "There is nobody in these releases, so nothing can be learned from them."
        if not self.is_judged:
            return "Not judged: closeness was promised, and only the plan says what shares must be close to."
        wanted = f"{self.ell} were {'promised' if self.ell == self.promised else 'asked for'}"
        alone, broken = len(self.releases) == 1, []
        if fewest < self.ell:
            left = counted(fewest, "value is", "values are")
            broken.append(f"for at least one person only {left} left; {wanted}")
        elif not self.values_hold and self._worst_series is not None:
            broken.append(self._worst_series.words(self.ell))
        elif not self.subtraction.holds:
            broken.append(self.subtraction.isolates)
        if self.closeness is not None and not self.closeness.holds:
            broken.append(self.closeness.words)
        if any(owner.people_far for owner in self.series):
            far = max(owner.distance or 0.0 for owner in self.series)
            broken.append(f"those who came, went or stayed are up to {percent(far)} from the reference")
        if broken:
            return f"Not safe: {'; and '.join(broken)}."
        kept, where = {}, ("in every class" if alone else "for everybody") + self.whom
        if self._asks_for_values:
            left = counted(fewest, "value is", "values are")
            kept["distinct values"] = f"at least {left} left {where} ({wanted})"
        if self.closeness is not None:
            kept["shares"] = self.closeness.words
        safe = f"Safe {'by itself' if alone else 'against linking'}, in {' and '.join(kept)}: "
        safe += ", and ".join(kept.values())
        safe += "." if alone else ", even if the attacker knows which releases the person is in."
        return safe + self._unnamed + missing_counts(self.assumptions) + self.subtraction.proviso

    @property
    def whom(self) -> str:
        """Whom "everybody" is about, where somebody else may be left with less."""
        return " with a label other than '*'" if self._unnamed else ""

    @property
    def _unnamed(self) -> str:
        """What the verdict adds about people whom only `*` names; empty if they are left with as much."""
        fewest, others = self.diversity_min_unnamed, self.diversity_min_any
        if fewest is None or others is None or fewest >= others:
            return ""
        return f" Whoever matches only '*' is left with {counted(fewest, 'value')}; a schema says who can."

    @property
    def _worst_series(self) -> SeriesResult | None:
        """The owner whose releases leave the fewest values, if they leave too few."""
        below = [owner for owner in self.series if owner.diversity_min is not None]
        worst = min(below, key=lambda owner: owner.diversity_min or 0, default=None)
        return worst if worst is not None and (worst.diversity_min or 0) < self.ell else None

    @property
    def _asks_for_values(self) -> bool:
        return self.closeness is None or self.ell > 1

    @property
    def surest_share(self) -> float | None:
        """The largest share of one value among linked records, in any group of releases; None for nobody."""
        return self.readings[0].share_surest

    @property
    def surest(self) -> str:
        """How far linking leads at worst, and on what condition: it belongs beside the verdict."""
        return self._surest()

    def _surest(self, digits: int = 1) -> str:
        if self.also:
            columns = (replace(self, also=()), *self.also)
            sentences = ((column.sensitive, column._surest(digits)) for column in columns)
            return " ".join(f"{sensitive}: {sure}" for sensitive, sure in sentences if sure)
        alone = len(self.releases) == 1
        words = surest_words(self.readings, self.reference, self.baseline, alone=alone, digits=digits)
        if words and self.closeness is None and not self._promises_closeness:
            words += " There is no limit on how sure a guess can be; closeness would set one."
        return words

    @property
    def next_steps(self) -> list[str]:
        """What to do about it."""
        if self.diversity_min_any is None:
            return ["Check that these are the releases that you meant: none of them holds a record."]
        before = (
            "Ask before the next one is published: elldelta audit OLD ... --before NEW exits "
            "with 3 if it would take anybody below ell."
        )
        if self.holds:
            return [
                *filter(None, [self.subtraction.question]),
                "Keep the classes as they are: the same people under other classes can be subtracted.",
                before,
            ]
        if not self.is_judged:
            return ["Audit them with their plan: only it says what shares must be close to.", before]
        steps = []
        if self.values_hold:
            return ["Publish larger classes, or make the next releases from a plan for closeness.", before]
        below = [item for item in self.releases if item.diversity is not None and item.diversity < self.ell]
        if below:
            names, shows = " and ".join(item.name for item in below), "shows" if len(below) == 1 else "show"
            few = f"fewer than {counted(self.ell, 'value')}"
            steps.append(f"{names} {shows} {few} in some class even without being linked: repair that first.")
        if self.left_out:
            best = min(
                self.left_out, key=lambda item: (item.classes_below_any, -(item.diversity_min_any or 0))
            )
            if best.classes_below_any < self.classes_below_any:
                steps.append(
                    f"{self.releases[best.release].name} does the most harm: withdraw it, or publish it "
                    "again with larger classes."
                )
        if not self.subtraction.holds:
            steps.append(
                "Publish only one of two tables of which one's people are all in the other: the one can be "
                "subtracted from the other, under equal classes too."
            )
        if self._worst_series is not None:
            steps.append(
                "Publish a table that changes with a state of who is in it: a class "
                "then changes only if those who came, went and stayed each show enough values."
            )
        steps.append(
            "Make the next releases from one plan (elldelta plan, elldelta release): the classes are then "
            "the same everywhere, and the promise is about the linked releases."
        )
        return [*steps, before]

    def to_dict(self, *, labels: bool = False, public: bool = False) -> dict[str, Any]:
        """The audit as plain JSON values.

        Args:
            labels: Whether classes are told by their labels. They are made of values of the data, so they
                belong on a page that somebody asked for, not on a terminal or in a log.
            public: Leave out whatever shows a cell of the data, labels included.
        """
        document = plain(
            {
                "releases": self.releases,
                "range_of_loss": self.range_of_loss,
                "columns": self.columns,
                "sensitive": self.sensitive,
                "software": f"elldelta {__version__}",
                "plans": self.plans,
                "contents": self.contents,
                "public": public,
                "ell": self.ell,
                "promised": self.promised,
                "holds": self.holds,
                "judged": self.is_judged,
                "values_hold": self.values_hold,
                "verdict": self.verdict,
                "surest": self._surest(0 if public else 1),
                "surest_share": self.surest_share,
                "closeness": None if self.closeness is None else self.closeness.to_dict(),
                "diversity_min": self.diversity_min,
                "diversity_min_any": self.diversity_min_any,
                "diversity_min_unnamed": self.diversity_min_unnamed,
                "whom": self.whom,
                "classes_linked": self.classes_linked,
                "classes_without_common_value": self.classes_without_common_value,
                "classes_below_any": self.classes_below_any,
                "share_below": self.share_below,
                "share_exposed": self.share_exposed,
                "histogram": self.histogram,
                "linked": self._linked(),
                "reference": self.reference,
                "baseline": self.baseline,
                "readings": self.readings,
                "curve": [{"releases": point.n_releases, **plain(point)} for point in self.curve],
                "left_out": [self._without(item) for item in self.left_out],
                "memberships": {
                    "in_all": self.diversity_min,
                    "in_some_known": self.diversity_min_any,
                    "in_some_unknown": self.diversity_min_unknown,
                    "unknown": self.n_values,
                },
                "worst_classes": self.worst,
                "subtraction": self.subtraction.to_dict(),
                **({"series": self.series} if self.series else {}),
                "targets": self.targets,
                **self._assumed(),
                "next_steps": self.next_steps,
            }
        )
        document = for_the_public(document) if public else document if labels else without_labels(document)
        others = [column.to_dict(labels=labels, public=public) for column in self.also]
        return {**document, "also": others} if others else document

    def _linked(self) -> dict[str, Any]:
        entropy, c = self.exposure.entropy_min, self.exposure.recursive_c_max
        return {
            **plain(self.exposure),
            "log_entropy_min": None if entropy is None else math.log(entropy),
            "recursive_c_max": None if c == math.inf else c,  # a class shows fewer than ell values
        }

    def _without(self, item: LeftOut) -> dict[str, Any]:
        return {
            "without": self.releases[item.release].name,
            "diversity_min": item.shares.diversity_min,
            "diversity_min_any": item.diversity_min_any,
            "classes_below_any": item.classes_below_any,
            "share_below": item.shares.share_below,
            "share_exposed": item.shares.share_exposed,
        }

    def _assumed(self) -> dict[str, Any]:
        n_labels = Counter(column for column, _, _ in self.labels)
        return {
            "assumptions": [*LIMITS, *(each.words for each in self.assumptions)],
            "warnings": [each.words for each in self.assumptions if each.is_warning],
            "labels": [dict(zip(("column", "label", "meaning"), row, strict=True)) for row in self.labels],
            "labels_understood": [{"column": column, "kinds": n} for column, n in n_labels.items()],
        }
