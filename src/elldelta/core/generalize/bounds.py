"""What the classes of a plan must fulfil, whatever their shape, and what they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import MOST_RECORDS, check_ell, check_releases, check_whole
from elldelta.core.occupancy import class_failures_upper, no_witnesses
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.closeness_kernels import Nearness
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.occupancy import CheckedBy, ClassFailures


FEWEST_EXPECTED = 10
"""Classes in which no more records of a release are expected may be given up, where that loses less than a
larger class around them: so few records cannot be close to anything but themselves."""


@dataclass(frozen=True, eq=False)
class ClosenessBound:
    """How close classes must stay to their references in every release (Theorem G).

    Attributes:
        limit: The largest distance of one release, in total variation.
        n_records: N.
        reference: The distribution that all classes are compared with; None: each has its own.
        prior: Mass that is added to a class before its own distribution becomes its reference.
        risk: The largest chance, estimated, that a class is further away.
    """

    limit: float
    n_records: int
    reference: NDArray[np.float64] | None = None
    prior: NDArray[np.float64] | None = None
    risk: float = 0.5

    def nearness(self) -> Nearness:
        """The same for compiled code."""
        from elldelta.core.closeness_kernels import Nearness

        given = (self.reference, self.prior)
        arrays = [np.zeros(0) if array is None else np.array(array, dtype=np.float64) for array in given]
        for array in arrays:
            array.setflags(write=False)  # always, so that there is one compiled program
        reference, prior = arrays
        quantile = NormalDist().inv_cdf(1.0 - self.risk)
        return Nearness(self.limit, float(self.n_records), reference, prior, self.spare, quantile)

    @property
    def spare(self) -> float:
        """The largest probability of a class that may be given up; 0 if none may."""
        return 0.0 if self.prior is None else FEWEST_EXPECTED / self.n_records

    def is_spared(self, masses: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether classes of these probabilities may be given up: owners leave out or merge what is there."""
        spared: NDArray[np.bool_] = masses <= self.spare * (1.0 + 1e-9)
        return spared

    def strain(self, classes: JointDistribution) -> float:
        """How far beyond the limit the worst class is likely to be; at most 1 is within."""
        from elldelta.core.closeness_kernels import each_likely_distance

        near, worst = self.nearness(), 0.0
        for _, block in classes.dense_blocks():
            distances = each_likely_distance(block, 1.0 / classes.total, near)
            spared = self.is_spared(block.sum(axis=1) / classes.total)
            worst = max(worst, float(distances[~spared].max(initial=0.0)))
        return (worst / self.limit) ** 2


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
    """

    ell: int
    n_records: int
    releases: int = 1
    limit: float | None = None
    per_class: bool = False
    checked_by: CheckedBy = "nobody"
    closeness: ClosenessBound | None = None

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
    def parts(self) -> tuple[SharpBound, ...]:
        """The bound of every sensitive column: of this one."""
        return (self,)

    @property
    def asks_values(self) -> bool:
        """Whether distinct values are promised: closeness leaves one by itself."""
        return self.closeness is None or self.ell > 1

    def total(self, failures: NDArray[np.float64]) -> float:
        """The failure of all classes, where it is per release of all of them together. Errs upwards."""
        times = self.releases if self.checked_by == "owner" else 1
        return float(failures.sum()) * times * (1.0 + 1e-12)

    def evaluate(self, classes: JointDistribution) -> SharpPlan:
        """Witnesses and failure of classes, from their masses alone and from scratch. Errs upwards."""
        found = (
            class_failures_upper(
                classes.mass,
                self.ell,
                self.n_records,
                self.releases,
                total=classes.total,
                checked_by=self.checked_by,
            )
            if self.asks_values
            else no_witnesses(classes.n_quasi_identifiers)
        )
        failure = self.total(found.failures_upper)
        if self.closeness is None:
            return SharpPlan(self, found, failure)
        if self.closeness.spare > 0.0:
            spared = self.closeness.is_spared(classes.quasi_identifier_marginal)
            found = replace(found, failures_upper=np.where(spared, 0.0, found.failures_upper))
        return SharpPlan(self, found, failure, strain=self.closeness.strain(classes))

    def with_records(self, n_records: int) -> SharpBound:
        """The same for releases of another size."""
        closeness = None if self.closeness is None else replace(self.closeness, n_records=n_records)
        return replace(self, n_records=n_records, closeness=closeness)


@dataclass(frozen=True)
class JointBound:
    """What the classes of several sensitive columns must fulfil: a class fails if one of them does.

    Attributes:
        parts: The bound of every column. They differ in ell and closeness, not in the rest.
    """

    parts: tuple[SharpBound, ...]

    @property
    def ell(self) -> int:
        """The largest ell."""
        return max(part.ell for part in self.parts)

    @property
    def n_records(self) -> int:
        """N."""
        return self.parts[0].n_records

    @property
    def releases(self) -> int:
        """T."""
        return self.parts[0].releases

    @property
    def limit(self) -> float | None:
        """What the failures of all columns may add up to."""
        return self.parts[0].limit

    @property
    def per_class(self) -> bool:
        """Whether the limit is for each class."""
        return self.parts[0].per_class

    @property
    def closeness(self) -> ClosenessBound | None:
        """The strictest closeness of any column, if there is one."""
        asked = [part.closeness for part in self.parts if part.closeness is not None]
        return min(asked, key=lambda near: near.limit, default=None)

    @property
    def checked_by(self) -> CheckedBy:
        """Who makes sure that enough values are left."""
        return self.parts[0].checked_by

    def evaluate(self, classes: JointDistribution) -> JointPlan:
        """Every column by itself."""
        found = [part.evaluate(classes.face(place)) for place, part in enumerate(self.parts)]
        return JointPlan(self, tuple(found))

    def with_records(self, n_records: int) -> JointBound:
        """The same for releases of another size."""
        return JointBound(tuple(part.with_records(n_records) for part in self.parts))


Criterion = SharpBound | JointBound


@dataclass(frozen=True, eq=False)
class SharpPlan:
    """What classes promise by the sharp bound.

    Attributes:
        bound: What the bound assumes.
        classes: Witnesses and failure of each class.
        failure_upper: Bound on the chance that some class fails, in any of the releases. May exceed 1 where
            classes were evaluated, not made.
        strain: How far the worst class is likely to be from its reference, over what is allowed, squared; 0
            where that is not estimated.
    """

    bound: SharpBound
    classes: ClassFailures
    failure_upper: float
    strain: float = 0.0

    @property
    def witnesses(self) -> tuple[tuple[int, ...], ...]:
        """The values of each class that the proof counts, most probable first."""
        return self.classes.witnesses

    @property
    def reached(self) -> float:
        """What has a limit: the failure of the worst class, or of all classes together."""
        worst = float(self.classes.failures_upper.max())
        return worst if self.bound.per_class else self.failure_upper

    @property
    def holds(self) -> bool:
        """Whether the classes keep the limit."""
        return self.bound.limit is not None and self.reached <= self.bound.limit and self.strain <= 1.0


@dataclass(frozen=True, eq=False)
class JointPlan:
    """What classes promise for several sensitive columns.

    Attributes:
        bound: What the bounds assume.
        parts: What they promise for every column.
    """

    bound: JointBound
    parts: tuple[SharpPlan, ...]

    @property
    def reached(self) -> float:
        """What has a limit: the failure of the worst class, or of all classes together."""
        if not self.bound.per_class:
            return sum(part.failure_upper for part in self.parts)
        import numpy as np

        return float(np.sum([part.classes.failures_upper for part in self.parts], axis=0).max())

    @property
    def strain(self) -> float:
        """How far the worst class of any column is likely to be from its reference (`SharpPlan.strain`)."""
        return max(part.strain for part in self.parts)

    @property
    def holds(self) -> bool:
        """Whether the classes keep the limit."""
        return self.bound.limit is not None and self.reached <= self.bound.limit and self.strain <= 1.0


def keeps(distribution: JointDistribution, partition: Partition, criterion: Criterion) -> bool:
    """Whether the classes of a partition keep a criterion, from scratch."""
    return criterion.evaluate(distribution.generalized(partition)).holds


def fewest_records(
    distribution: JointDistribution, partition: Partition, bound: SharpBound | JointBound
) -> int:
    """The fewest records for which given classes keep the limit.

    Raises:
        RefusedError: No number of records is enough.
    """
    classes = distribution.generalized(partition)

    def holds(n_records: int) -> bool:
        return bound.with_records(n_records).evaluate(classes).holds

    low, high = 0, check_ell(bound.ell, distribution.n_values)
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            fewest = min(int((block > 0).sum(axis=1).min()) for _, block in classes.dense_blocks())
            raise RefusedError(
                f"No number of records keeps these classes within a failure of {bound.limit:g}.",
                found=f"The class with the fewest possible values has {fewest}, and ell is {bound.ell}.",
                remedy="Use coarser classes or a smaller ell.",
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def refuse_if_impossible(distribution: JointDistribution, criterion: Criterion) -> None:
    """Refuses a criterion that not even a single class of everything keeps: larger classes never fail more.

    Raises:
        RefusedError: It does not; says what would.
    """
    check_ell(criterion.ell, distribution.n_values)
    whole = Partition.single(distribution.n_quasi_identifiers)
    single = criterion.evaluate(distribution.generalized(whole))
    if not single.holds:
        raise refusal(distribution, single)


def refusal(distribution: JointDistribution, single: SharpPlan | JointPlan) -> RefusedError:
    """The refusal of a bound that the single class of everything does not keep: says what would do."""
    bound = single.bound
    found = f"Even one class of everything is only known to fail with at most {min(1.0, single.reached):.3g}."
    remedy = "Lower ell or the number of releases."
    try:
        needed = fewest_records(distribution, Partition.single(distribution.n_quasi_identifiers), bound)
        remedy = f"Wait for {needed} records per release, or lower ell or the number of releases."
    except RefusedError as error:
        found = f"{found} {error.found}"
    if bound.closeness is not None and single.strain > 1.0:
        return RefusedError(
            f"No classes of releases of {bound.n_records} records stay within {bound.closeness.limit:g} of "
            "their references.",
            found="Even one class of everything is likely to be further away.",
            remedy=remedy.replace("lower ell", "allow a larger closeness, or lower ell"),
        )
    return RefusedError(
        f"No classes keep {bound.releases} linked releases of {bound.n_records} records "
        f"within a failure of {bound.limit:g} for ell = {bound.ell}.",
        found=found,
        remedy=remedy,
    )
