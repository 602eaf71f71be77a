"""Use case: from a model to a plan, and what the other bounds would have given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_delta, check_ell, check_releases
from elldelta.core.frontier import frontier, most_classes
from elldelta.core.generalize.greedy import greedy
from elldelta.core.generalize.runs import fewest_records_for_classes, sharp_runs
from elldelta.core.generalize.sweep import SharpOptions
from elldelta.core.sample_size import Mechanism, p_ell
from elldelta.core.union import union_failure_upper, union_runs
from elldelta.data.classes import Runs
from elldelta.data.plan_file import BOUNDS, Plan
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.data.model import Model
    from elldelta.data.plan_file import Bound


@dataclass(frozen=True)
class PlanRequest:
    """What a client asks of the agency. Exactly one of records, p, beta and classes must be given.

    Attributes:
        ell: Sensitive values to be left for everybody.
        delta: Failure probability of one release.
        releases: How many releases may be linked; the failure after linkage is at most releases x delta.
        bound: "sharp" counts any ell values, "paper" particular ones, "union" the same unrounded.
        records: The records every owner can wait for.
        p: The paper's parameter; decides the records.
        beta: The same as a share of p_ell.
        classes: A number of classes to reach with as few records as possible.
        eta: An error of the model in total variation that the promise must survive.
        shared_records: Promise only for releases that share at most so many records (sharp only).
    """

    ell: int
    delta: float = 0.01
    releases: int = 1
    bound: Bound = "sharp"
    records: int | None = None
    p: float | None = None
    beta: float | None = None
    classes: int | None = None
    eta: float = 0.0
    shared_records: int | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_releases(self.releases)
        if self.bound not in BOUNDS:
            raise ParameterError(
                f"The bound must be one of {', '.join(BOUNDS)}.", found=f"It is {self.bound!r}."
            )
        if self.releases * self.delta >= 1.0:
            raise ParameterError(
                "The failure after linkage, releases x delta, must stay below 1 to mean anything.",
                found=f"{self.releases} x {self.delta:g} is {self.releases * self.delta:g}.",
                remedy="Choose a smaller delta.",
            )
        ways = (self.records, self.p, self.beta, self.classes)
        if sum(way is not None for way in ways) != 1:
            raise ParameterError(
                "Give exactly one of records, p, beta and classes.",
                found=f"{sum(way is not None for way in ways)} of them were given.",
                remedy="Usually: the number of records that every owner can wait for.",
            )
        if self.shared_records is not None and self.bound != "sharp":
            raise ParameterError(
                "Only the sharp bound can use the number of shared records.", found=f"bound is {self.bound}."
            )

    @property
    def budget(self) -> float:
        """The failure that linkage may cost: releases x delta."""
        return self.releases * self.delta

    @property
    def sharp_options(self) -> SharpOptions:
        """What the sharp bound assumes."""
        return SharpOptions(eta=self.eta, shared_records_upper=self.shared_records)


@dataclass(frozen=True)
class Alternative:
    """What one bound gives for the same records; None where it gives nothing."""

    bound: Bound
    classes: int | None
    records: int
    failure_upper: float | None


@dataclass(frozen=True)
class PlannedResult:
    """A plan, and the three bounds side by side at the same number of records."""

    plan: Plan
    alternatives: tuple[Alternative, ...]


def make_plan(model: Model, request: PlanRequest) -> PlannedResult:
    """Makes a plan from a model, and compares the bounds.

    Raises:
        RefusedError: Not even a single class for everybody can be promised; the message says what could.
    """
    distribution = model.to_distribution()
    check_ell(request.ell, distribution.n_values)
    n_records = _records(distribution, request)
    plans: dict[Bound, Plan] = {}
    refusal = None
    for bound in BOUNDS:
        try:
            plans[bound] = _plan(model, distribution, request, bound, n_records)
        except RefusedError as error:
            if bound == request.bound:
                refusal = error
    if refusal is not None:
        raise refusal
    alternatives = tuple(
        Alternative(bound, made.n_classes, made.records, made.failure_upper)
        if (made := plans.get(bound)) is not None
        else Alternative(bound, None, n_records, None)
        for bound in BOUNDS
    )
    return PlannedResult(plans[request.bound], alternatives)


def _records(distribution: JointDistribution, request: PlanRequest) -> int:
    """The number of records, from whichever of the four ways the request takes."""
    ell, delta, eta = request.ell, request.delta, request.eta
    marginal, n_rows = distribution.value_marginal, distribution.n_quasi_identifiers
    if request.records is not None:
        return request.records
    if request.classes is not None:
        return _records_for_classes(distribution, request, request.classes)
    p = (
        request.p
        if request.p is not None
        else Mechanism.from_beta(marginal, n_rows, ell, request.beta or 0.0, eta).p
    )
    snapped = greedy(distribution, ell, p).snapped_p(distribution, ell)
    snapped = min(snapped, p_ell(marginal, ell))
    return Mechanism.create(marginal, n_rows, ell, snapped, eta).records(delta)


def _records_for_classes(distribution: JointDistribution, request: PlanRequest, classes: int) -> int:
    if request.bound == "sharp":
        plan = fewest_records_for_classes(
            distribution, classes, request.ell, request.releases, request.budget, request.sharp_options
        )
        return plan.n_records
    points = frontier(distribution, request.ell, request.delta, eta=request.eta).points
    enough = [point for point in points if point.n_classes >= classes]
    if not enough:
        raise RefusedError(
            f"No number of records gives {classes} classes.",
            found=f"The most that ell = {request.ell} allows is {points[0].n_classes if points else 0}.",
            remedy="Ask for fewer classes or a smaller ell.",
        )
    return min(point.records if request.bound == "paper" else point.records_union for point in enough)


def _plan(
    model: Model, distribution: JointDistribution, request: PlanRequest, bound: Bound, n_records: int
) -> Plan:
    ell, eta = request.ell, request.eta
    p: float | None = None
    if bound == "sharp":
        sharp = sharp_runs(
            distribution, ell, n_records, request.releases, request.budget, request.sharp_options
        )
        partition, failure = sharp.partition, sharp.failure_upper
        masses = partition.class_masses(distribution)
        witnesses = tuple(sharp.witnesses.of(index) for index in range(sharp.n_classes))
    else:
        search = most_classes if bound == "paper" else union_runs
        partition, p = search(distribution, ell, request.delta, n_records, eta)
        masses = partition.class_masses(distribution)
        if bound == "paper":
            mechanism = Mechanism.create(
                distribution.value_marginal, distribution.n_quasi_identifiers, ell, p, eta
            )
            failure = request.releases * mechanism.delta_reached(n_records)
        else:
            failure = request.releases * union_failure_upper(masses, distribution.total, ell, n_records, eta)
        witnesses = tuple(map(tuple, most_probable(masses, ell).tolist()))
    return Plan(
        schema=model.schema,
        classes=Runs.from_partition(partition, model.ranks),
        ell=ell,
        delta=request.delta,
        releases=request.releases,
        records=n_records,
        failure_upper=failure,
        bound=bound,
        witnesses=witnesses,
        witness_cells=tuple(
            tuple((masses[row, list(values)] / distribution.total).tolist())
            for row, values in enumerate(witnesses)
        ),
        p=p,
        eta=eta,
        shared_records=request.shared_records if bound == "sharp" else None,
        model_digest=model.digest,
    )


def most_probable(masses: NDArray[Any], ell: int) -> NDArray[np.intp]:
    """The ell most probable values of each class, ties by index: the witnesses S_c|ell of Theorem 2."""
    return np.argsort(-masses, axis=1, kind="stable")[:, :ell]


def plan(
    model: Model,
    *,
    ell: int,
    delta: float = 0.01,
    releases: int = 1,
    bound: Bound = "sharp",
    records: int | None = None,
    p: float | None = None,
    beta: float | None = None,
    classes: int | None = None,
    eta: float = 0.0,
    shared_records: int | None = None,
) -> Plan:
    """Makes a plan from a model; the arguments are explained at `PlanRequest`."""
    request = PlanRequest(
        ell=ell,
        delta=delta,
        releases=releases,
        bound=bound,
        records=records,
        p=p,
        beta=beta,
        classes=classes,
        eta=eta,
        shared_records=shared_records,
    )
    return make_plan(model, request).plan
