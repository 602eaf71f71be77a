"""The sharp planner on runs: contiguous classes whose failures (Theorem C) add up to at most a budget.

One sweep closes a class as soon as its failure is at most eps, which gives the most classes for that eps;
eps is then fitted to the budget, and what is left of the budget is spent by switching from a larger eps to
a smaller one part of the way. That is a good heuristic, not an optimum; the failure that is reported is
recomputed from scratch for the partition that is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from elldelta.core.generalize.sweep import SharpOptions, Sweeper
from elldelta.core.mass_table import dense_blocks
from elldelta.core.occupancy import class_failures_upper
from elldelta.core.partition import Partition
from elldelta.errors import InternalError, ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.mass_table import MassTable
    from elldelta.core.witnesses import Witnesses

Plan = TypeVar("Plan")

MOST_RECORDS = 1 << 52
"""Searches for a number of records stop here: beyond, a count is no longer exact in floating point."""

SHARES = (1.0, 1.0 - 1e-6, 1.0 - 1e-4, 0.99, 0.9, 0.5, 0.1, 0.0)
"""Shares of the budget to aim at, until what is recomputed stays within it; 0 is the single class Q.

Sums in another order differ in the last digits. And rows that join the last class lower its failure but raise
its largest cell, and with it the price of eta, which the sweep does not see.
"""

ANY_DEPENDENCE = SharpOptions()
"""Theorem C, P taken as exact."""

CERTIFIABLE = SharpOptions(certifiable=True)
"""One allowance for all releases, checked by each owner (Theorem E)."""


@dataclass(frozen=True, eq=False)
class SharpPlan:
    """Classes with their witnesses and the failure they promise.

    Attributes:
        partition: The classes.
        ell: How many values survive the linkage unless the plan fails.
        n_records: N, the fewest records of a release.
        releases: t, how many releases are linked.
        witnesses: Witness values and allowances per class.
        class_failures_upper: Per class; per release in a certifiable plan, else for the linkage.
        failure_upper: Bound on the chance that the linkage of t releases shows fewer than ell values in
            some class; includes the price of eta. In a certifiable plan: that one of the t releases misses
            more than an allowance. May exceed 1 for plans that were evaluated, not made.
        options: What the bound assumes.
    """

    partition: Partition
    ell: int
    n_records: int
    releases: int
    witnesses: Witnesses
    class_failures_upper: NDArray[np.float64]
    failure_upper: float
    options: SharpOptions

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return self.partition.n_classes


def evaluate_sharp(
    distribution: JointDistribution,
    partition: Partition,
    ell: int,
    n_records: int,
    releases: int = 1,
    options: SharpOptions = ANY_DEPENDENCE,
) -> SharpPlan:
    """Witnesses and failure of any partition, from scratch (Theorem C, or D'). Errs upwards."""
    return evaluate_classes(
        partition, partition.class_masses(distribution), distribution.total, ell, n_records, releases, options
    )


def evaluate_classes(
    partition: Partition,
    masses: MassTable,
    total: float,
    ell: int,
    n_records: int,
    releases: int = 1,
    options: SharpOptions = ANY_DEPENDENCE,
) -> SharpPlan:
    """The same from the masses of the classes alone, of which some may have been set to zero."""
    classes = class_failures_upper(
        masses,
        ell,
        n_records,
        releases,
        total=total,
        certifiable=options.certifiable,
        shared_records_upper=options.shared_records_upper,
    )
    failure = options.total(classes.failures_upper, classes.peaks, n_records, releases)
    return SharpPlan(
        partition,
        ell,
        n_records,
        releases,
        classes.witnesses,
        classes.failures_upper,
        failure,
        options,
    )


def sharp_runs(
    distribution: JointDistribution,
    ell: int,
    n_records: int,
    releases: int,
    failure_upper_budget: float,
    options: SharpOptions = ANY_DEPENDENCE,
) -> SharpPlan:
    """Many contiguous classes whose total failure after linkage is at most the budget.

    Args:
        distribution: P, with the quasi-identifiers in the order whose runs become classes.
        ell: How many values must survive the linkage.
        n_records: N, the fewest records of a release.
        releases: t, how many releases are linked.
        failure_upper_budget: The budget after linkage, t delta, in (0, 1).
        options: What the bound assumes.

    Raises:
        RefusedError: Not even the single class Q stays within the budget; says what would.
    """
    sweeper = Sweeper(distribution, ell, n_records, releases, options)
    budget = _check_budget(failure_upper_budget)
    for share in SHARES:
        run = sweeper.fit(share * budget) if share else None
        partition = Partition.single(sweeper.n_rows) if run is None else run.partition()
        plan = evaluate_sharp(distribution, partition, ell, n_records, releases, options)
        if plan.failure_upper <= budget:
            return plan
        if run is None:
            break
    raise _refusal(distribution, plan, budget)


def sharp_runs_per_class(
    distribution: JointDistribution,
    ell: int,
    n_records: int,
    releases: int,
    class_failure_upper: float,
    options: SharpOptions = CERTIFIABLE,
) -> SharpPlan:
    """The most contiguous classes that each fail with at most the given chance; no total budget.

    For certifiable plans that chance is per class and release: how often an owner has to wait, merge or
    suppress. The guarantee is then the certificate's, not this probability's.

    Raises:
        RefusedError: Not even the single class Q stays within the bound.
    """
    sweeper = Sweeper(distribution, ell, n_records, releases, options)
    eps = _check_budget(class_failure_upper)
    target = eps
    for _ in range(4):
        run, _row = sweeper.run(target)
        partition = run.partition() if run.n_classes else Partition.single(sweeper.n_rows)
        plan = evaluate_sharp(distribution, partition, ell, n_records, releases, options)
        if (plan.class_failures_upper <= eps).all():
            return plan
        if not run.n_classes:
            raise _refusal(distribution, plan, eps)
        target *= 1.0 - 1e-6
    raise InternalError("A class exceeded its bound when it was recomputed.")


def fewest_records(
    distribution: JointDistribution,
    partition: Partition,
    ell: int,
    releases: int,
    failure_upper_budget: float,
    options: SharpOptions = ANY_DEPENDENCE,
) -> SharpPlan:
    """The plan with the fewest records for given classes; N is in the plan that comes back.

    With eta the failure no longer falls for ever as N grows: the N found is the smallest up to which the
    search by doubling and halving sees the bound hold.

    Raises:
        RefusedError: No number of records is enough.
    """
    budget = _check_budget(failure_upper_budget)

    def at(n_records: int) -> SharpPlan:
        return evaluate_sharp(distribution, partition, ell, n_records, releases, _shrunk(options, n_records))

    plan = _fewest(at, lambda plan: plan.failure_upper <= budget, start=ell)
    if plan is None:
        raise RefusedError(
            f"No number of records keeps these {partition.n_classes} classes within a failure of {budget:g}.",
            found=_cannot(distribution, partition, ell, options),
            remedy="Use a smaller ell, fewer classes, or a smaller eta.",
        )
    return plan


def _fewest(at: Callable[[int], Plan | None], passes: Callable[[Plan], bool], start: int) -> Plan | None:
    """The plan at the smallest number of records that passes, by doubling and bisection."""
    low, high = 0, max(1, start)
    best: Plan | None = None
    while best is None:
        if high > MOST_RECORDS:
            return None
        plan = at(high)
        if plan is not None and passes(plan):
            best = plan
        else:
            low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        plan = at(middle)
        if plan is not None and passes(plan):
            high, best = middle, plan
        else:
            low = middle
    return best


def _shrunk(options: SharpOptions, n_records: int) -> SharpOptions:
    """The same assumptions for a smaller release, which cannot share more records than it has."""
    if options.shared_records_upper is None or options.shared_records_upper <= n_records:
        return options
    return replace(options, shared_records_upper=n_records)


def _check_budget(budget: float) -> float:
    if isinstance(budget, bool) or not 0.0 < budget < 1.0:
        raise ParameterError(
            "The failure budget must lie strictly between 0 and 1.",
            found=f"It is {budget}.",
            remedy="The budget after linkage is the number of releases times delta; lower one of the two.",
        )
    return float(budget)


def _cannot(distribution: JointDistribution, partition: Partition, ell: int, options: SharpOptions) -> str:
    masses = partition.class_masses(distribution)
    fewest = min(int((block > 0).sum(axis=1).min()) for _, block in dense_blocks(masses))
    return f"the class with the fewest possible values has {fewest}, and ell is {ell}."


def _refusal(distribution: JointDistribution, single: SharpPlan, budget: float) -> RefusedError:
    problem = (
        f"No classes keep {single.releases} linked releases of {single.n_records} records "
        f"within a failure of {budget:g} for ell = {single.ell}."
    )
    found = (
        "Even a single class of all quasi-identifiers is only known to fail with at most "
        f"{min(1.0, single.failure_upper):.3g}."
    )
    try:
        needed = fewest_records(
            distribution, single.partition, single.ell, single.releases, budget, single.options
        ).n_records
    except RefusedError as error:
        return RefusedError(problem, found=f"{found} {error.problem} {error.found}", remedy=error.remedy)
    return RefusedError(
        problem,
        found=found,
        remedy=f"Wait for {needed} records per release, or lower ell or the number of releases.",
    )
