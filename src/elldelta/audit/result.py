"""What an audit found, as frozen values: everything that its report, its JSON and its words are made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from elldelta.pages.shown import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from elldelta.audit.targets import TargetTotals
    from elldelta.core.exposure import CurvePoint, Exposure, LeftOut
    from elldelta.core.linkage import Linkage


@dataclass(frozen=True)
class ReleaseSummary:
    """One release by itself.

    Attributes:
        name: Words for it.
        records: Its records.
        classes: Its classes with a record.
        diversity: The fewest distinct values in any class.
        k: The fewest records in any class.
        entropy: The smallest exp(H) of any class.
        t_closeness: The largest total variation between a class and the whole release.
        classes_below: Classes with fewer than ell values.
        records_below: Records in them.
    """

    name: str
    records: int
    classes: int
    diversity: int | None
    k: int | None
    entropy: float | None
    t_closeness: float | None
    classes_below: int
    records_below: int


@dataclass(frozen=True)
class HistogramBar:
    """How many linkage classes, and linked records in them, leave a given number of values."""

    diversity: int
    classes: int
    records: int


@dataclass(frozen=True)
class BestGuess:
    """How well an adversary can guess the value of somebody who is in all releases.

    Attributes:
        name: Which belief the guess is taken from.
        worst: The largest belief in one value, over all linkage classes; None if nobody is in all releases.
        mean: The mean of the largest belief over the linked records.
        condition: What must be true for the numbers to mean that.
        source: Where the distribution comes from, or an empty text if none is needed.
    """

    name: str
    worst: float | None
    mean: float | None
    condition: str
    source: str = ""


@dataclass(frozen=True)
class Memberships:
    """The fewest values left, by what the adversary knows about which releases somebody is in.

    Attributes:
        in_all: Somebody is in all releases, and that is known.
        in_some_known: Somebody is in some of them, and it is known in which: the worst case over all groups.
        in_some_unknown: Somebody is in at least one, and it is not known in which: no value that any class
            shows can be excluded.
        unknown: It is not known whether somebody is in any: no value at all can be excluded.
    """

    in_all: int | None
    in_some_known: int | None
    in_some_unknown: int | None
    unknown: int


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


@dataclass(frozen=True)
class IsolatedGroup:
    """Records that subtracting one release from another isolates.

    Attributes:
        releases: The two releases.
        how: What is subtracted from what, in words.
        labels: The classes of both releases that it is about.
        records: Records that are isolated.
        diversity: Distinct values among them.
    """

    releases: tuple[str, str]
    how: str
    labels: tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
    records: int
    diversity: int


@dataclass(frozen=True)
class Differencing:
    """What subtraction isolates among releases that were declared to hold the same records.

    Attributes:
        pairs: Pairs of releases that were compared.
        groups: Groups that were isolated.
        diversity_min: The fewest values in any of them; None if there is none.
        groups_below: Groups with fewer than ell values.
        records_below: Records in them.
        smallest: The groups with the fewest values, at most twenty.
    """

    pairs: int
    groups: int
    diversity_min: int | None
    groups_below: int
    records_below: int
    smallest: tuple[IsolatedGroup, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Shown):
    """What linking the releases shows.

    Attributes:
        releases: Each release by itself.
        columns: The quasi-identifiers.
        ell: The diversity to compare with.
        diversity_min: The fewest values left for anybody who is in all releases; None if nobody can be.
        diversity_min_any: The fewest values left for anybody, whichever of the releases they are in: the
            smallest over every group of the releases. The verdict looks at this one, because linking all of
            them can show that nobody is in all, and say nothing about those who are in some.
        groups_complete: Whether every group was asked. Always true: the worst group is found without asking
            each of them.
        classes_linked: Combinations of classes, one per release, that share a quasi-identifier, have a record
            in every release and at least one value in common.
        classes_without_common_value: Combinations with records in every release but no value in common:
            nobody can be in all of them.
        classes_below_any: Combinations of classes in which somebody, in some of the releases, is left with
            fewer than ell values.
        histogram: Linkage classes and linked records by the number of values left.
        exposure: The measures of the linkage of all releases.
        baseline: How often guessing the most frequent value of all is right, without any class.
        guesses: The same for an adversary who links: under the paper's min-counts, and by Bayes' rule.
        curve: The exposure for every number of linked releases.
        left_out: The exposure without each of the releases.
        memberships: The fewest values left, by what is known about membership.
        worst: The places where the fewest values are left.
        differencing: What subtraction isolates; None if no releases were declared to share their records.
        targets: How the targets fare; None if none were given.
        assumptions: What was taken for granted, in words.
        labels: How labels were understood where nothing but the labels says so: column, label, meaning.
        linkage: The linkage itself.
    """

    releases: tuple[ReleaseSummary, ...]
    columns: tuple[str, ...]
    ell: int
    diversity_min: int | None
    diversity_min_any: int | None
    groups_complete: bool
    classes_linked: int
    classes_without_common_value: int
    classes_below_any: int
    histogram: tuple[HistogramBar, ...]
    exposure: Exposure
    baseline: float
    guesses: tuple[BestGuess, ...]
    curve: tuple[CurvePoint, ...]
    left_out: tuple[LeftOut, ...]
    memberships: Memberships
    worst: tuple[WorstClass, ...]
    differencing: Differencing | None
    targets: TargetTotals | None
    assumptions: tuple[str, ...]
    labels: tuple[tuple[str, str, str], ...]
    linkage: Linkage

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {
            "verdict": self.verdict,
            "releases": ", ".join(release.name for release in self.releases),
            "fewest values left": self.diversity_min_any,
            "wanted": self.ell,
            "records below": f"{self.share_below:.1%}",
            "best guess without releases": f"{self.baseline:.1%}",
        }

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Each release by itself."""
        rows: list[tuple[object, ...]] = [
            (item.name, item.records, item.classes, item.diversity, item.k) for item in self.releases
        ]
        return ("release", "records", "classes", "fewest values", "fewest records"), rows

    def plot(self) -> Figure:
        """How many records are left with how many values."""
        from elldelta.pages.charts import draw_histogram

        return draw_histogram([asdict(bar) for bar in self.histogram], self.ell)

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
        """Whether everybody is left among at least ell values.

        That is: whichever of the releases they are in, and also after subtraction where it was declared.
        """
        found = [self.diversity_min_any]
        if self.differencing is not None:
            found.append(self.differencing.diversity_min)
        return all(number is None or number >= self.ell for number in found)

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        fewest = self.diversity_min_any
        if fewest is None:
            return "There is nobody in these releases, so nothing can be learned from linking them."
        if fewest < self.ell:
            return (
                f"Not safe: somebody is left with {fewest} of {self.ell} values when "
                f"{'the release is read' if len(self.releases) == 1 else 'releases are put side by side'}."
            )
        if not self.holds and self.differencing is not None:
            return (
                f"Not safe: subtracting one release from another isolates people with "
                f"{self.differencing.diversity_min} of {self.ell} values."
            )
        return (
            f"Safe against linking: whichever of the releases somebody is in, at least {fewest} values are "
            f"left ({self.ell} wanted)."
        )
