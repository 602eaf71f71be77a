"""What the classes of a plan must fulfil, whatever their shape, and what they promise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import MOST_RECORDS, check_ell, check_releases, check_whole
from elldelta.core.occupancy import (
    ClassFailures,
    class_failures_upper,
    least_mass,
    no_witnesses,
    shortfalls_upper,
)
from elldelta.core.partition import Partition
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError, RefusedError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.closeness_kernels import Nearness
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.occupancy import CheckedBy

K_SHARE = 0.1
"""The largest share of what may fail that a search for classes lets those of fewer than k records take."""


@dataclass(frozen=True, eq=False)
class ClosenessBound:
    """How close classes must stay to their references in every release (Theorem G).

    Attributes:
        limit: The largest distance of one release, in total variation.
        reference: The distribution that all classes are compared with; None: each has its own.
        prior: Mass that is added to a class before its own distribution becomes its reference.
        least_mass: The smallest probability of a class: the past records of a smaller one are too few for a
            reference of its own.
        n_past: The past records that P was counted in: they are a draw too, and differ from the next one.
    """

    limit: float
    reference: NDArray[np.float64] | None = None
    prior: NDArray[np.float64] | None = None
    least_mass: float = 0.0
    n_past: float = inf

    def nearness(self, n_records: int) -> Nearness:
        """The same for compiled code, for releases of N records."""
        from elldelta.core.closeness_kernels import Nearness

        given = (self.reference, self.prior)
        arrays = [np.zeros(0) if array is None else np.array(array, dtype=np.float64) for array in given]
        for array in arrays:
            array.setflags(write=False)  # always, so that there is one compiled program
        reference, prior = arrays
        return Nearness(self.limit, float(n_records), reference, prior, float(self.n_past))

    def chances(
        self, classes: JointDistribution, n_records: int, references: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """The estimated chance of every class to be further away than the limit.

        Args:
            classes: P of the classes.
            n_records: N.
            references: What each class is compared with, where that is known; otherwise what this says.
        """
        from elldelta.core.closeness_kernels import each_too_far_chance

        near, found = self.nearness(n_records), np.empty(classes.n_quasi_identifiers)
        for start, block in classes.dense_blocks():
            stop = start + len(block)
            given = np.empty((0, 0)) if references is None else references[start:stop].copy()
            given.setflags(write=False)  # as the other arrays of compiled code are
            table = np.ascontiguousarray(block, dtype=np.float64)
            found[start:stop] = each_too_far_chance(table, 1.0 / classes.total, near, given)
        return found


@dataclass(frozen=True)
class SharpBound:
    """Any ell values of a class count (Theorem C, E or D'), up to a limit on the failure.

    Attributes:
        ell: How many values must survive the linkage.
        n_records: N, the fewest records of a release.
        releases: t, how many releases are linked.
        limit: What the failures of all classes may add up to after linkage (t delta), in (0, 1); or what each
            may reach. None where classes are only evaluated.
        per_class: Whether the limit is for each class: how often the owner of a certified release must wait.
        checked_by: Who makes sure that enough values are left, and so what the failure of a class is.
        closeness: How close classes must stay to their references besides; ell = 1 then asks for nothing.
        k: The fewest records of a class, where that is not implied by the values it shows; 1 asks nothing.
        n_parts: r: a release is thought of as so many parts of N records each, t releases as r t of them.
            That a class is too small or too far away is about the whole release.
        fewest_past: Where masses are counts of people: rarer values of a class do not count, as no plan names
            them.
        rounds_down: Whether others count as a plan tells them, rounded down (`elldelta.core.distribution`).
    """

    ell: int
    n_records: int
    releases: int = 1
    limit: float | None = None
    per_class: bool = False
    checked_by: CheckedBy = "nobody"
    closeness: ClosenessBound | None = None
    k: int = 1
    n_parts: int = 1
    fewest_past: int = 0
    rounds_down: bool = False

    def __post_init__(self) -> None:
        check_whole("the number of records", self.n_records)
        check_releases(self.releases)
        if self.limit is not None and (isinstance(self.limit, bool) or not 0.0 < self.limit < 1.0):
            raise ParameterError(
                "The failure budget must lie strictly between 0 and 1.",
                found=f"It is {self.limit}.",
                remedy="After linkage it is the number of releases times delta; lower one of the two.",
            )

    @property
    def asks_values(self) -> bool:
        """Whether distinct values are promised: closeness leaves one by itself."""
        return self.closeness is None or self.ell > 1

    @property
    def whole_records(self) -> int:
        """The records of a whole release."""
        return self.n_records * self.n_parts

    @property
    def weight(self) -> float:
        """How much the failure of a whole release counts beside those that are added up for a limit."""
        if self.checked_by == "owner":
            return 1.0 / self.n_parts
        return self.releases / (self.n_parts**2 if self.per_class else self.n_parts)

    @property
    def least_mass(self) -> float:
        """The smallest probability of a class while classes are made: smaller ones hold k too seldom."""
        least = 0.0 if self.closeness is None else self.closeness.least_mass
        if self.limit is None:
            return least
        limit = K_SHARE * self.limit / self.weight
        if self.checked_by == "owner" and not self.per_class:
            limit /= self.releases
        return max(least, least_mass(self.whole_records, self.k, limit, per_class=self.per_class))

    def counted(self, classes: JointDistribution) -> JointDistribution:
        """What counts of classes."""
        if self.rounds_down:
            return classes.rounded_down()
        return classes.without_below(self.fewest_past)

    def total(self, failures: NDArray[np.float64]) -> float:
        """The failure of all classes, where it is per release of all of them together. Errs upwards."""
        times = self.releases if self.checked_by == "owner" else 1
        return float(failures.sum()) * times * (1.0 + 1e-12)

    def evaluate(self, classes: JointDistribution) -> BoundResult:
        """Witnesses and failure of classes, from their masses alone and from scratch. Errs upwards."""
        found = (
            class_failures_upper(
                self.counted(classes).mass,
                self.ell,
                self.n_records,
                self.releases,
                total=classes.total,
                checked_by=self.checked_by,
            )
            if self.asks_values
            else no_witnesses(classes.n_quasi_identifiers)
        )
        made = self.promised(found, classes)
        if self.closeness is None:
            return made
        return made.with_far(self.closeness.chances(classes, self.whole_records))

    def promised(self, found: ClassFailures, classes: JointDistribution) -> BoundResult:
        """What classes with these witnesses promise: that they show enough values, and k records. Errs up.

        A class is known to be as probable as its witnesses are together, or as P says where there are none.
        """
        if self.k <= 1:
            return BoundResult(self, found)
        masses = classes.quasi_identifier_marginal
        if self.asks_values and self.closeness is None:
            masses = found.witnesses.sums(found.witnesses.cells(classes)) / classes.total
        return BoundResult(self, found).with_masses(masses)

    def with_records(self, n_records: int) -> SharpBound:
        """The same for releases of another size."""
        return replace(self, n_records=n_records)


@dataclass(frozen=True, eq=False)
class BoundResult:
    """What classes promise by the sharp bound.

    Attributes:
        bound: What the bound assumes.
        classes: Witnesses and failure of each class.
        short: Bound on the chance that a class holds fewer than k records of one release, one per class.
        far: The estimated chance that it is too far from its reference in one release, one per class.
    """

    bound: SharpBound
    classes: ClassFailures
    short: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    far: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def joined(cls, parts: Sequence[BoundResult]) -> BoundResult:
        """The same of the classes of several parts of the population, one part after the other."""
        each = [part.classes for part in parts]
        classes = ClassFailures(
            np.concatenate([found.failures_upper for found in each]),
            Witnesses.joined([found.witnesses for found in each]),
        )
        short, far = (
            np.concatenate([np.broadcast_to(getattr(part, name), len(part.witnesses)) for part in parts])
            for name in ("short", "far")
        )
        return cls(parts[0].bound, classes, short, far)

    def with_witnesses(self, witnesses: Witnesses) -> BoundResult:
        """The same with the witnesses of every class in another order."""
        return replace(self, classes=replace(self.classes, witnesses=witnesses))

    def with_masses(self, masses: NDArray[np.float64]) -> BoundResult:
        """The same where classes are known to be at least so probable."""
        return replace(self, short=shortfalls_upper(masses, self.bound.whole_records, self.bound.k))

    def with_far(self, chances: NDArray[np.float64]) -> BoundResult:
        """The same with these chances of being too far from the references."""
        return replace(self, far=chances)

    @property
    def failure_upper(self) -> float:
        """Bound on the chance that some class shows too few values or records, in any of the releases.

        May exceed 1 where classes were evaluated, not made.
        """
        n_releases = self.bound.releases // self.bound.n_parts
        return self.bound.total(self.classes.failures_upper) + n_releases * float(self.short.sum())

    @property
    def failures(self) -> NDArray[np.float64]:
        """What counts against a limit for each class, with what is estimated."""
        failures: NDArray[np.float64] = self.classes.failures_upper + self.bound.weight * (
            self.short + self.far
        )
        return failures

    @property
    def witnesses(self) -> Witnesses:
        """The values of each class that the proof counts, most probable first."""
        return self.classes.witnesses

    @property
    def reached(self) -> float:
        """What has a limit: the failure of the worst class, or of all classes together."""
        return float(self.failures.max()) if self.bound.per_class else self.bound.total(self.failures)


Bounds = tuple[SharpBound, ...]
"""What classes must fulfil: a bound for every sensitive column. They differ in ell and closeness, not in the
rest, and a class fails if it fails in one of them."""


def evaluate(bounds: Bounds, classes: JointDistribution) -> tuple[BoundResult, ...]:
    """What classes promise for every sensitive column, from their masses alone and from scratch."""
    return tuple(bound.evaluate(classes.for_column(index)) for index, bound in enumerate(bounds))


def reached(results: Sequence[BoundResult]) -> float:
    """What has a limit: the failure of the worst class, or of all classes, in all columns together."""
    if not results[0].bound.per_class:
        return sum(result.reached for result in results)
    return float(np.sum([result.failures for result in results], axis=0).max())


def holds(results: Sequence[BoundResult]) -> bool:
    """Whether the classes keep the limit that all columns share."""
    limit = results[0].bound.limit
    return limit is not None and reached(results) <= limit


def keeps(distribution: JointDistribution, partition: Partition, bounds: Bounds) -> bool:
    """Whether the classes of a partition keep what is asked of them, from scratch."""
    return holds(evaluate(bounds, distribution.generalized(partition)))


def fewest_records(distribution: JointDistribution, partition: Partition, bounds: Bounds) -> int:
    """The fewest records for which given classes keep the limit.

    Raises:
        RefusedError: No number of records is enough.
    """
    classes = distribution.generalized(partition)
    ell = max(bound.ell for bound in bounds)

    def is_enough(n_records: int) -> bool:
        return holds(evaluate(tuple(bound.with_records(n_records) for bound in bounds), classes))

    low, high = 0, check_ell(ell, distribution.n_values)
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            fewest = min(int((block > 0).sum(axis=1).min()) for _, block in classes.dense_blocks())
            raise RefusedError(
                f"No number of records keeps these classes within a failure of {bounds[0].limit:g}.",
                found=f"The class with the fewest possible values has {fewest}, and ell is {ell}.",
                remedy="Use coarser classes or a smaller ell.",
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def refuse_if_impossible(distribution: JointDistribution, bounds: Bounds) -> None:
    """Refuses what not even a single class of everything keeps: larger classes never fail more.

    Raises:
        RefusedError: It does not; says what would.
    """
    check_ell(max(bound.ell for bound in bounds), distribution.n_values)
    whole = Partition.single(distribution.n_quasi_identifiers)
    results = evaluate(bounds, distribution.generalized(whole))
    if not holds(results):
        raise _refusal(distribution, whole, results)


def _refusal(
    distribution: JointDistribution, whole: Partition, results: Sequence[BoundResult]
) -> RefusedError:
    """The refusal of bounds that the single class of everything does not keep: says what would do."""
    bounds = tuple(result.bound for result in results)
    first, failure = bounds[0], min(1.0, reached(results))
    found = f"Even one class of everybody may fail with a chance of up to {failure:.3g}."
    wait, instead = "", "Estimate from more past records, or"
    try:
        needed = fewest_records(distribution, whole, bounds)
        wait = instead = f"Wait for {counted(needed * first.n_parts, 'record')} per release, or"
    except RefusedError as error:
        found = f"{found} {error.found}"
    n_records, k = first.whole_records, max(bound.k for bound in bounds)
    limits = [bound.closeness.limit for bound in bounds if bound.closeness is not None]
    if limits and float(sum(result.far.sum() for result in results)) > 0.5 * failure:
        return RefusedError(
            f"No classes of releases of {counted(n_records, 'record')} stay within {min(limits):g} "
            "of their references.",
            found="Even one class of everything is likely to be further away.",
            remedy=f"{instead} allow a larger closeness, or lower the number of releases.",
        )
    if k > 1 and float(sum(result.short.max() for result in results)) > 0.5 * failure:
        return RefusedError(
            f"A release of {counted(n_records, 'record')} is too small for classes of at least "
            f"{counted(k, 'record')}.",
            found=found,
            remedy=f"{wait} ask for a smaller k." if wait else "Ask for a smaller k.",
        )
    return RefusedError(
        f"No classes keep {counted(first.releases, 'linked release')} of "
        f"{counted(first.n_records, 'record')} "
        f"within a failure of {first.limit:g} for ell = {max(bound.ell for bound in bounds)}.",
        found=found,
        remedy=f"{wait} lower ell or the number of releases."
        if wait
        else "Lower ell or the number of releases.",
    )
