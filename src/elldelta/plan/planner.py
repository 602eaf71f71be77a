"""Use case: from a model to a plan, and what the other bounds would have given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.choices import BOUNDS
from elldelta.core.checks import check_ell
from elldelta.core.frontier import most_classes
from elldelta.core.generalize.criteria import Admissible, EachFailure, TotalFailure
from elldelta.core.generalize.runs import evaluate_classes
from elldelta.core.mass_table import dense_blocks, without_below
from elldelta.core.sample_size import Mechanism, p_ell
from elldelta.core.union import union_failure_upper, union_search
from elldelta.errors import RefusedError
from elldelta.plan.plan import Plan
from elldelta.plan.shapes import SHAPES, default_shape
from elldelta.plan.wish import PlanRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.choices import Bound
    from elldelta.core.generalize.criteria import Criterion
    from elldelta.core.generalize.runs import SharpPlan
    from elldelta.core.mass_table import MassTable
    from elldelta.core.partition import Partition
    from elldelta.model.model import Model
    from elldelta.plan.classes import Classes

TRIES = 5
"""How often classes are made again for a smaller failure before they are made for fewer records."""

MANY_COMBINATIONS = 1 << 15
"""From here on the search for the union bound's p tries few partitions: each takes seconds."""

MOST_RECORDS = 1 << 40
"""The search for the records that give a number of classes stops here."""


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


def plan(model: Model, **wishes: Any) -> Plan:  # noqa: ANN401 (the fields of PlanRequest)
    """Makes a plan from a model; the arguments are the attributes of `PlanRequest`.

    For example ``plan(model, ell=5, releases=2, records=30_000)``.
    """
    planner = Planner(model, PlanRequest(**wishes))
    return planner.plan(planner.request.bound, planner.records())


def make_plan(model: Model, request: PlanRequest) -> PlannedResult:
    """Makes a plan from a model, and compares the bounds at the same number of records.

    Raises:
        RefusedError: Not even a single class for everybody can be promised; the message says what could.
    """
    planner = Planner(model, request)
    n_records = planner.records()
    made = planner.plan(request.bound, n_records)
    alternatives = []
    for bound in BOUNDS if request.min_records == 1 else (request.bound,):
        try:
            other = made if bound == request.bound else planner.plan(bound, n_records)
            alternatives.append(Alternative(bound, other.n_classes, n_records, other.failure_upper))
        except RefusedError:
            alternatives.append(Alternative(bound, None, n_records, None))
    return PlannedResult(made, tuple(alternatives))


class Planner:
    """One model and one request, and the plans that the three bounds make of them."""

    def __init__(self, model: Model, request: PlanRequest) -> None:
        self.model = model
        self.request = request
        self.distribution = model.to_distribution()
        self._shape = SHAPES[request.shape or default_shape(model)]
        check_ell(request.ell, self.distribution.n_values)

    def records(self) -> int:
        """The number of records, from whichever of the four ways the request takes."""
        request = self.request
        if request.records is not None:
            return request.records
        if request.classes is not None:
            return self._fewest_records(request.classes)
        p = request.p if request.p is not None else self._mechanism(beta=request.beta).p
        return self._mechanism(self._snapped(self._admissible(p)[0])).records(request.delta)

    def plan(self, bound: Bound, n_records: int) -> Plan:
        """The plan that one bound makes with so many records."""
        if bound == "sharp":
            return self._sharp(n_records)
        partition, classes = (
            self._paper_classes(n_records) if bound == "paper" else self._union_classes(n_records)
        )
        p, request = self._snapped(partition), self.request
        masses = self._shown(partition)
        if bound == "paper":
            failure = self._mechanism(p).delta_reached(n_records)
        else:
            failure = union_failure_upper(
                masses, self.distribution.total, request.ell, n_records, request.eta
            )
        witnesses = most_probable(masses, request.ell)
        return self._finished(bound, n_records, classes, masses, witnesses, request.releases * failure, p)

    def _sharp(self, n_records: int) -> Plan:
        """Classes for any ell values, with no witness that is rarer in the past records than was allowed.

        Planners do not know that limit. If classes rely on rarer values, they are made again for a smaller
        failure, and then for fewer records, which makes them larger. What is promised is recomputed for the
        records asked for, from the witnesses that remain.
        """
        planned_for = n_records
        while planned_for >= self.request.min_records:
            share = 1.0
            for _ in range(TRIES):
                partition, classes = self._shape(
                    self.model, self.distribution, self._criterion(planned_for, share)
                )
                masses = self._shown(partition)
                sharp = self._evaluated(partition, masses, n_records)
                excess = self._excess(sharp)
                if excess <= 1.0:
                    witnesses = tuple(sharp.witnesses.of(index) for index in range(sharp.n_classes))
                    return self._finished(
                        "sharp", n_records, classes, masses, witnesses, sharp.failure_upper, None
                    )
                share *= max(0.1, 0.95 / excess)
            planned_for //= 2
        raise self._model_too_small()

    def _criterion(self, n_records: int, share: float) -> Criterion:
        """What the planner is asked for, with a share of the failure that is allowed."""
        request = self.request
        # r records of a value: cut a release into r parts of N / r records. If the value is in every part, it
        # has r records, so t releases that need r records each fail no more often than r t that need one.
        part, releases = n_records // request.min_records, request.releases * request.min_records
        if request.waiting_risk is None:
            return TotalFailure(request.ell, part, releases, request.budget * share, request.sharp_options)
        risk = request.waiting_risk * share / request.min_records
        return EachFailure(request.ell, part, releases, risk, request.sharp_options)

    def _evaluated(self, partition: Partition, masses: MassTable, n_records: int) -> SharpPlan:
        """The sharp bound of classes, from their masses alone."""
        request = self.request
        return evaluate_classes(
            partition,
            masses,
            self.distribution.total,
            request.ell,
            n_records // request.min_records,
            request.releases * request.min_records,
            request.sharp_options,
        )

    def _excess(self, sharp: SharpPlan) -> float:
        """By what factor classes exceed what the request allows; at most 1 is within."""
        request = self.request
        if request.waiting_risk is None:
            return sharp.failure_upper / request.budget
        return float(sharp.class_failures_upper.max()) * request.min_records / request.waiting_risk

    def _shown(self, partition: Partition) -> MassTable:
        """The masses of the classes, without cells that are rare in the past records."""
        return without_below(partition.class_masses(self.distribution), self.request.fewest_past)

    def _model_too_small(self) -> RefusedError:
        return RefusedError(
            "The past records are too few for such a plan.",
            found=f"No classes were found whose witnesses occur at least {self.request.fewest_past} times in "
            f"them; there are {self.model.n_records} past records.",
            remedy="Estimate from more records, or choose a smaller ell or a smaller limit.",
        )

    def _finished(
        self,
        bound: Bound,
        n_records: int,
        classes: Classes,
        masses: MassTable,
        witnesses: tuple[tuple[int, ...], ...],
        failure_upper: float,
        p: float | None,
    ) -> Plan:
        request = self.request
        return Plan(
            schema=self.model.schema,
            classes=classes,
            ell=request.ell,
            delta=request.delta if request.waiting_risk is None else None,
            releases=request.releases,
            records=n_records,
            failure_upper=min(1.0, failure_upper),
            bound=bound,
            witnesses=witnesses,
            witness_cells=tuple(
                tuple((cells[list(witnesses[start + row])] / self.distribution.total).tolist())
                for start, block in dense_blocks(masses)
                for row, cells in enumerate(block)
            ),
            p=p,
            eta=request.eta,
            shared_records=request.shared_records if bound == "sharp" else None,
            guarantee=request.guarantee,
            waiting_risk=request.waiting_risk if bound == "sharp" else None,
            min_records=request.min_records,
            model_digest=self.model.digest,
            notes=request.notes,
        )

    def _paper_classes(self, n_records: int) -> tuple[Partition, Classes]:
        """The finest classes that the paper's N pays for."""
        request, made = self.request, _Remembered(self._admissible)
        partition, _ = most_classes(
            self.distribution, request.ell, request.delta, n_records, request.eta, made.partition
        )
        return partition, made.classes(partition)

    def _union_classes(self, n_records: int) -> tuple[Partition, Classes]:
        request, made = self.request, _Remembered(self._admissible)
        try:
            p_start = self._snapped(self._paper_classes(n_records)[0])
        except RefusedError:
            p_start = self._p_ell
        partition = union_search(
            self.distribution,
            request.ell,
            request.delta,
            n_records,
            made.partition,
            p_start=p_start,
            eta=request.eta,
            n_steps=24 if self.distribution.n_quasi_identifiers < MANY_COMBINATIONS else 5,
        )
        return partition, made.classes(partition)

    def _fewest_records(self, n_classes: int) -> int:
        """The fewest records for which the bound gives so many classes: doubling, then halving."""

        def enough(n_records: int) -> bool:
            try:
                return self.plan(self.request.bound, n_records).n_classes >= n_classes
            except RefusedError:
                return False

        high = max(1, self.request.ell)
        while not enough(high):
            high *= 2
            if high > MOST_RECORDS:
                raise RefusedError(
                    f"No number of records was found that gives {n_classes} classes.",
                    found=f"{self.distribution.n_quasi_identifiers} combinations occur in the model.",
                    remedy="Ask for fewer classes or a smaller ell.",
                )
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    @property
    def _p_ell(self) -> float:
        return p_ell(self.distribution.value_marginal, self.request.ell)

    def _admissible(self, p: float) -> tuple[Partition, Classes]:
        """Classes with ell cells >= p, and no witness that is rare in the past records."""
        fewest = self.request.fewest_past / self.distribution.total
        if fewest > self._p_ell:
            raise self._model_too_small()
        return self._shape(self.model, self.distribution, Admissible(self.request.ell, max(p, fewest)))

    def _snapped(self, partition: Partition) -> float:
        return min(partition.snapped_p(self.distribution, self.request.ell), self._p_ell)

    def _mechanism(self, p: float | None = None, *, beta: float | None = None) -> Mechanism:
        marginal, n_rows = self.distribution.value_marginal, self.distribution.n_quasi_identifiers
        if p is None:
            return Mechanism.from_beta(marginal, n_rows, self.request.ell, beta or 0.0, self.request.eta)
        return Mechanism.create(marginal, n_rows, self.request.ell, p, self.request.eta)


class _Remembered:
    """Remembers the classes of every partition that a search has made."""

    def __init__(self, make: Callable[[float], tuple[Partition, Classes]]) -> None:
        self._make = make
        self._classes: dict[Partition, Classes] = {}

    def partition(self, p: float) -> Partition:
        partition, classes = self._make(p)
        self._classes[partition] = classes
        return partition

    def classes(self, partition: Partition) -> Classes:
        return self._classes[partition]


def most_probable(masses: MassTable, ell: int) -> tuple[tuple[int, ...], ...]:
    """The ell most probable values of each class, ties by index: the witnesses S_c|ell of Theorem 2."""
    return tuple(
        tuple(values)
        for _, block in dense_blocks(masses)
        for values in np.argsort(-block, axis=1, kind="stable")[:, :ell].tolist()
    )
