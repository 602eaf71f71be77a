"""The sharp planner on runs: contiguous classes whose failures (Theorem C) add up to at most a budget.

One sweep closes a class as soon as its failure is at most eps, which gives the most classes for that eps;
eps is then fitted to the budget, and what is left of the budget is spent by switching from a larger eps to
a smaller one part of the way. That is a good heuristic, not an optimum; the failure that is reported is
recomputed from scratch for the partition that is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.additive_error import check_eta, total_failure_upper
from elldelta.core.checks import check_count, check_ell, check_releases
from elldelta.core.occupancy import class_failures_upper, records_apart
from elldelta.core.partition import Partition
from elldelta.errors import InternalError, ParameterError, RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.witnesses import Witnesses

MANY_ROWS = 1 << 17
"""From here on eps is fitted on a sample of the rows first, and few sweeps see all of them."""

MOST_RECORDS = 1 << 52
"""Searches for a number of records stop here: beyond, a count is no longer exact in floating point."""


@dataclass(frozen=True)
class SharpOptions:
    """What a sharp bound assumes and promises, apart from ell, N and t.

    Attributes:
        certifiable: One allowance for all releases, so that each owner can check its own release
            (Theorem E). Class failures are then per release.
        shared_records_upper: Theorem D': at most so many records of each release are shared with others,
            whatever their values, and all other records are independent. None: any dependence (Theorem C).
        eta: The error of P in total variation.
        cellwise: Pay for eta cell by cell, as the paper does, instead of once.
    """

    certifiable: bool = False
    shared_records_upper: int | None = None
    eta: float = 0.0
    cellwise: bool = False

    def __post_init__(self) -> None:
        check_eta(self.eta)
        if self.certifiable and self.shared_records_upper is not None:
            raise ParameterError(
                "A certifiable plan holds for any dependence between releases.",
                found="A number of shared records was given as well.",
                remedy="Leave out one of the two.",
            )


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
    options: SharpOptions = SharpOptions(),  # noqa: B008 (frozen)
) -> SharpPlan:
    """Witnesses and failure of any partition, from scratch (Theorem C, or D'). Errs upwards."""
    masses = partition.class_masses(distribution)
    classes = class_failures_upper(
        masses,
        ell,
        n_records,
        releases,
        total=distribution.total,
        certifiable=options.certifiable,
        shared_records_upper=options.shared_records_upper,
        deficit=options.eta if options.cellwise else 0.0,
    )
    total = _total(
        classes.failures_upper, masses.max(axis=1) / distribution.total, n_records, releases, options
    )
    return SharpPlan(
        partition,
        ell,
        n_records,
        releases,
        classes.witnesses,
        classes.failures_upper,
        total,
        options,
    )


def sharp_runs(
    distribution: JointDistribution,
    ell: int,
    n_records: int,
    releases: int,
    failure_upper_budget: float,
    options: SharpOptions = SharpOptions(),  # noqa: B008 (frozen)
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
    sweeper = _Sweeper(distribution, ell, n_records, releases, options)
    budget = _check_budget(failure_upper_budget)
    single = evaluate_sharp(distribution, Partition.single(sweeper.n_rows), ell, n_records, releases, options)
    if single.failure_upper > budget:
        raise _refusal(distribution, single, budget)
    target = budget
    for _ in range(4):
        plan = evaluate_sharp(
            distribution, sweeper.fit(target).partition(), ell, n_records, releases, options
        )
        if plan.failure_upper <= budget:
            return plan if plan.n_classes > 1 else single
        # Sums in another order differ in the last digits: aim lower by more than they do.
        target *= 1.0 - 1e-6
    raise InternalError("A plan exceeded its own budget when it was recomputed.")


def sharp_runs_per_class(
    distribution: JointDistribution,
    ell: int,
    n_records: int,
    releases: int,
    class_failure_upper: float,
    options: SharpOptions = SharpOptions(certifiable=True),  # noqa: B008 (frozen)
) -> SharpPlan:
    """The most contiguous classes that each fail with at most the given chance; no total budget.

    For certifiable plans that chance is per class and release: how often an owner has to wait, merge or
    suppress. The guarantee is then the certificate's, not this probability's.

    Raises:
        RefusedError: Not even the single class Q stays within the bound.
    """
    sweeper = _Sweeper(distribution, ell, n_records, releases, options)
    eps = _check_budget(class_failure_upper)
    target = eps
    for _ in range(4):
        run = sweeper.run(target)
        if run.ends.size == 0:
            single = evaluate_sharp(
                distribution, Partition.single(sweeper.n_rows), ell, n_records, releases, options
            )
            if single.class_failures_upper[0] > eps:
                raise _refusal(distribution, single, eps)
            return single
        plan = evaluate_sharp(distribution, run.partition(), ell, n_records, releases, options)
        if (plan.class_failures_upper <= eps).all():
            return plan
        target *= 1.0 - 1e-6
    raise InternalError("A class exceeded its bound when it was recomputed.")


def fewest_records(
    distribution: JointDistribution,
    partition: Partition,
    ell: int,
    releases: int,
    failure_upper_budget: float,
    options: SharpOptions = SharpOptions(),  # noqa: B008 (frozen)
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


def fewest_records_for_classes(
    distribution: JointDistribution,
    n_classes: int,
    ell: int,
    releases: int,
    failure_upper_budget: float,
    options: SharpOptions = SharpOptions(),  # noqa: B008 (frozen)
) -> SharpPlan:
    """The plan with the fewest records for which the planner finds at least so many classes.

    The planner is a heuristic, so N is the smallest *it* needs; the bound of the plan holds regardless.

    Raises:
        RefusedError: No number of records is enough.
    """
    n_classes = check_count("the number of classes", n_classes)
    budget = _check_budget(failure_upper_budget)
    sweeper = _Sweeper(distribution, ell, 1, releases, options)

    def at(n_records: int) -> SharpPlan | None:
        try:
            return sharp_runs(distribution, ell, n_records, releases, budget, _shrunk(options, n_records))
        except RefusedError:
            return None

    plan = _fewest(at, lambda plan: plan is not None and plan.n_classes >= n_classes, start=ell)
    if plan is None:
        raise RefusedError(
            f"No number of records gives {n_classes} classes within a failure of {budget:g}.",
            found=f"There are {sweeper.n_rows} quasi-identifiers, and "
            + _cannot(distribution, Partition.single(sweeper.n_rows), ell, options),
            remedy="Ask for fewer classes, a smaller ell, or a smaller eta.",
        )
    return plan


class _Run:
    """One sweep, or two of them joined: where the classes end, their failures and largest cells."""

    def __init__(
        self,
        ends: NDArray[np.int64],
        failures: NDArray[np.float64],
        peaks: NDArray[np.float64],
        eps: float,
        just_above: float,
    ) -> None:
        self.ends = ends
        self.failures = failures
        self.peaks = peaks
        self.eps = eps
        self.just_above = just_above

    @property
    def n_classes(self) -> int:
        return int(self.ends.size)

    def partition(self) -> Partition:
        starts = np.concatenate(([0], self.ends[:-1]))
        return Partition.from_starts(starts, int(self.ends[-1]))


class _Sweeper:
    """The compiled sweep with everything that stays the same while eps is searched."""

    def __init__(
        self,
        distribution: JointDistribution,
        ell: int,
        n_records: int,
        releases: int,
        options: SharpOptions,
    ) -> None:
        self.mass = distribution.mass
        self.n_rows, self.n_values = self.mass.shape
        self.scale = 1.0 / distribution.total
        self.ell = check_ell(ell, self.n_values)
        self.n_records = check_count("the number of records", n_records)
        self.releases = check_releases(releases)
        self.options = options
        self.n_apart = records_apart(n_records, options.shared_records_upper)
        self._tree: tuple[NDArray[Any], NDArray[np.int64]] | None = None

    def run(self, eps: float, first_row: int = 0, last_row: int | None = None) -> _Run:
        from elldelta.core import occupancy_kernels

        last_row = self.n_rows if last_row is None else last_row
        nodes, offsets = self.tree()
        room = last_row - first_row
        ends = np.empty(room, dtype=np.int64)
        failures = np.empty(room, dtype=np.float64)
        peaks = np.empty(room, dtype=np.float64)
        n_classes, just_above = occupancy_kernels.sweep(
            self.mass,
            nodes,
            offsets,
            self.scale,
            self.options.eta if self.options.cellwise else 0.0,
            float(self.n_records),
            self.n_apart,
            self.ell,
            self.releases,
            self.options.certifiable,
            first_row,
            last_row,
            eps,
            ends,
            failures,
            peaks,
        )
        return _Run(
            ends[:n_classes].copy(), failures[:n_classes].copy(), peaks[:n_classes].copy(), eps, just_above
        )

    def tree(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        if self._tree is None:
            from elldelta.core import occupancy_kernels

            sizes = [0]
            n_nodes = self.n_rows
            while n_nodes >= 2 * occupancy_kernels.FAN_OUT:
                n_nodes //= occupancy_kernels.FAN_OUT
                sizes.append(n_nodes)
            offsets = np.cumsum(sizes, dtype=np.int64)
            nodes = np.empty((int(offsets[-1]), self.n_values), dtype=self.mass.dtype)
            occupancy_kernels.sum_tree(self.mass, nodes, offsets)
            self._tree = nodes, offsets
        return self._tree

    def total(self, run: _Run) -> float:
        return _total(run.failures, run.peaks, self.n_records, self.releases, self.options)

    def fit(self, budget: float) -> _Run:
        """The run with the most classes that was found within the budget."""
        eps = budget
        n_sweeps = 40
        if self.n_rows >= MANY_ROWS:
            eps = self._fit_on_sample(budget)
            n_sweeps = 3
        low, high = self._bracket(budget, eps, n_sweeps)
        if high is None or low.n_classes == 0:
            return low if low.n_classes else self._whole()
        return self._spend_the_rest(low, high, budget)

    def _whole(self) -> _Run:
        """The run of one class; that it is within the budget was checked before."""
        return _Run(np.array([self.n_rows]), np.zeros(1), np.zeros(1), 0.0, np.inf)

    def _bracket(self, budget: float, eps: float, n_sweeps: int) -> tuple[_Run, _Run | None]:
        """A run within the budget and one beyond it, as close as a few sweeps bring them."""
        none = np.empty(0)
        low = _Run(none.astype(np.int64), none, none, 0.0, 0.0)
        high: _Run | None = None
        low_total, high_total = 0.0, np.inf
        for _ in range(n_sweeps):
            run = self.run(eps)
            total = self.total(run)
            if run.n_classes and total <= budget:
                low, low_total = run, total
                if eps >= budget or total >= 0.995 * budget:
                    if high is None and eps < budget:
                        high = self.run(min(budget, eps * 1.02))
                        if self.total(high) <= budget:
                            low, high = high, None
                            eps = min(budget, eps * 1.05)
                            continue
                    break
            elif run.n_classes:
                high, high_total = run, total
            else:  # too strict to close anything: not a plan, but a lower end
                low = _Run(run.ends, run.failures, run.peaks, eps, run.just_above)
                low_total = 0.0
            if high is None:
                eps = min(budget, eps * (budget / low_total if low_total > 0.0 else 16.0))
                continue
            floor, ceiling = max(low.just_above if low.n_classes else low.eps, low.eps), high.failures.max()
            if low.n_classes and floor >= ceiling:
                break
            if low.n_classes == 0 or low_total <= 0.0:
                eps = high.eps * min(0.5, 0.98 * budget / high_total)
                if eps <= low.eps:
                    eps = (max(low.eps, 1e-300) * ceiling) ** 0.5
            else:
                share = np.log(0.998 * budget / low_total) / np.log(high_total / low_total)
                eps = low.eps * (high.eps / low.eps) ** min(max(share, 0.1), 0.9)
            if eps >= ceiling or eps <= floor:
                eps = (max(floor, 1e-300) * ceiling) ** 0.5
        return low, high

    def _fit_on_sample(self, budget: float) -> float:
        """An eps that spends about the budget, from sixteen stretches of an eighth of the rows together."""
        starts = np.linspace(0, self.n_rows, 16, endpoint=False).astype(np.int64)
        length = self.n_rows // 128
        eps = budget
        for _ in range(8):
            parts = [self.run(eps, int(start), int(start) + length) for start in starts]
            failures = np.concatenate([part.failures for part in parts])
            if failures.size == 0:
                return eps
            peaks = np.concatenate([part.peaks for part in parts])
            spent = self.total(_Run(starts, failures, peaks, eps, 0.0))
            once = spent - self._factor() * float(failures.sum())
            spent = once + (spent - once) * self.n_rows / (16 * length)
            eps = min(budget, eps * budget / spent)
            if abs(spent / budget - 1.0) < 0.01:
                break
        return eps

    def _factor(self) -> int:
        return self.releases if self.options.certifiable else 1

    def _spend_the_rest(self, low: _Run, high: _Run, budget: float) -> _Run:
        """Classes of `high` up to some row, classes at the eps of `low` from there on."""
        best = low
        spent_low = np.concatenate(([0.0], np.cumsum(low.failures)))
        rows_low = np.concatenate(([0], low.ends))
        spent_high = np.cumsum(high.failures)
        rest = spent_low[-1] - np.interp(high.ends, rows_low, spent_low)
        extra = self.total(high) - self._factor() * float(spent_high[-1])
        guess = int(np.searchsorted(self._factor() * (spent_high + rest) + extra, budget, side="right"))
        first, last = 0, high.n_classes - 1
        for _ in range(6 if self.n_rows >= MANY_ROWS else 14):
            n_head = min(max(guess, first + 1), last)
            if n_head <= first:
                break
            row = int(high.ends[n_head - 1])
            run = self._joined(high, n_head, self.run(low.eps, row))
            if self.total(run) <= budget:
                if run.n_classes > best.n_classes:
                    best = run
                first = n_head
                guess = n_head + max(
                    1, (last - first) // 2 if self.n_rows < MANY_ROWS else high.n_classes // 500
                )
            else:
                last = n_head - 1
                guess = n_head - max(
                    1, (last - first) // 2 if self.n_rows < MANY_ROWS else high.n_classes // 500
                )
            if self.n_rows >= MANY_ROWS and first > 0 and last - first < high.n_classes // 250:
                break
        return best

    def _joined(self, head: _Run, n_head: int, tail: _Run) -> _Run:
        ends = np.concatenate((head.ends[:n_head], tail.ends))
        failures = np.concatenate((head.failures[:n_head], tail.failures))
        peaks = np.concatenate((head.peaks[:n_head], tail.peaks))
        # Rows that closed nothing join the last class, which can only lower its failure.
        ends[-1] = self.n_rows
        return _Run(ends, failures, peaks, head.eps, tail.just_above)


def _total(
    failures: NDArray[np.float64],
    peaks: NDArray[np.float64],
    n_records: int,
    releases: int,
    options: SharpOptions,
) -> float:
    eta = 0.0 if options.cellwise else options.eta
    total = total_failure_upper(failures, peaks, n_records, eta) if failures.size else 0.0
    return total * (releases if options.certifiable else 1) * (1.0 + 1e-12)


def _fewest(at: Any, passes: Any, start: int) -> Any:  # noqa: ANN401
    """The plan at the smallest number of records that passes, by doubling and bisection."""
    low, high = 0, max(1, start)
    plan = at(high)
    while not passes(plan):
        low, high = high, 2 * high
        if high > MOST_RECORDS:
            return None
        plan = at(high)
    while high - low > 1:
        middle = (low + high) // 2
        candidate = at(middle)
        if passes(candidate):
            high, plan = middle, candidate
        else:
            low = middle
    return plan


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
    masses = partition.class_masses(distribution) / distribution.total
    deficit = options.eta if options.cellwise else 0.0
    fewest = int((masses > deficit).sum(axis=1).min())
    return f"the class with the fewest possible values has {fewest}, and ell is {ell}."


def _refusal(distribution: JointDistribution, single: SharpPlan, budget: float) -> RefusedError:
    problem = (
        f"No classes keep {single.releases} linked releases of {single.n_records} records "
        f"within a failure of {budget:g} for ell = {single.ell}."
    )
    found = f"Even a single class of all quasi-identifiers is only known to fail with at most {min(1.0, single.failure_upper):.3g}."
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
