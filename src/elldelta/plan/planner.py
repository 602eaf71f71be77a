"""Use case: from a model and a wish to a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import RELATIVE_TOLERANCE
from elldelta.core.generalize.bounds import SharpBound, fewest_records, refuse_if_impossible
from elldelta.core.ladder import STEP, ladder, rounded_total
from elldelta.core.like_values import one_of_each
from elldelta.core.moving import Moving
from elldelta.core.partition import Partition, greedy
from elldelta.core.sample_size import Mechanism, most_probable, p_ell, smallest_p
from elldelta.engines.task import computed
from elldelta.engines.workers import HERE, Workers
from elldelta.errors import RefusedError, counted
from elldelta.files import check_writable, loaded
from elldelta.model import Model, Past, RegionalModel, read_past, with_hierarchies
from elldelta.pages.charts import check_picture, write_picture
from elldelta.parameters import with_keywords
from elldelta.plan.classes import Boxes, Runs, check_sizes, seen_ranges
from elldelta.plan.closeness import closeness_bound
from elldelta.plan.column_wishes import check_several_columns, plan_groups, wish_for_column
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.drawing import Drawing
from elldelta.plan.failure import stated_failure
from elldelta.plan.movers import movers_of
from elldelta.plan.plan import Made, Plan, write_plan
from elldelta.plan.regions import check_regional, check_whole_model, draw_by_region, late_hierarchies
from elldelta.plan.root import failing_root, root_distance_risk, root_failure_upper
from elldelta.plan.wish import Wish, check_noisy, check_persons, checked_by
from elldelta.plan.words import rounded_up

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.bounds import Bounds
    from elldelta.core.witnesses import Witnesses
    from elldelta.engines import Engine, Progress
    from elldelta.parameters import PlanKind
    from elldelta.plan.classes import Classes
    from elldelta.plan.closeness import Closeness
    from elldelta.plan.drawing import Drawn, DrawnColumn
    from elldelta.schema.hierarchy import Hierarchy, HierarchyRows

TRIES = 5  # how often classes are made again for a smaller failure before they are made for fewer records


@dataclass(frozen=True, kw_only=True)
class PlanArguments(Wish):
    """The keywords of `plan`: a wish, and what does not belong to it.

    Attributes:
        hierarchies: Groups of the values of some quasi-identifiers, or files that hold them.
        processes: Of a model by region, how many regions are planned at the same time, each on a process of
            its own.
        engine: An engine on whose workers regions are planned instead: Spark.
        progress: Is told how far the work is.
    """

    hierarchies: Mapping[str, Hierarchy | HierarchyRows | str | os.PathLike[str]] | None = None
    processes: int = 1
    engine: Engine | None = None
    progress: Progress | None = None

    @property
    def wish(self) -> Wish:
        """The wish alone."""
        return Wish(**{field.name: getattr(self, field.name) for field in fields(Wish)})


def _plan(model: Past | str | os.PathLike[str], arguments: PlanArguments) -> Plan:
    """Makes a plan from a model, for example ``plan(model, ell=5, releases=2, records=30_000)``."""
    workers = Workers(arguments.processes, arguments.engine)
    return make_plan(
        loaded(model, Past, read_past, "Model"),  # type: ignore[type-abstract]
        arguments.wish,
        arguments.hierarchies,
        arguments.progress,
        workers,
    )


plan = with_keywords(PlanArguments, _plan)
"""Makes a plan from a model, for example ``plan(model, ell=5, releases=2, records=30_000)``.

It takes a model, its file or its folder, and as keywords the fields of `Wish`, and of `PlanArguments`.

Raises:
    ParameterError: The wish contradicts itself, or a number is of the wrong type or out of range.
    RefusedError: Not even a single class for everybody can be promised; the message says what could.
"""


def make_plan(
    model: Past,
    wish: Wish,
    hierarchies: Mapping[str, Hierarchy | HierarchyRows | str | os.PathLike[str]] | None = None,
    progress: Progress | None = None,
    workers: Workers = HERE,
) -> Plan:
    """Makes the plan that a wish asks for; see `plan`."""
    return computed(lambda tell: _made(model, wish, hierarchies, tell, workers), progress).plan


def _made(
    model: Past, wish: Wish, hierarchies: Mapping[str, Any] | None, progress: Progress, workers: Workers
) -> Made:
    if not isinstance(model, RegionalModel):
        check_whole_model(workers)
    if hierarchies:
        from elldelta.schema.hierarchies import given_rows

        if not isinstance(model, Model):
            raise late_hierarchies()
        model = with_hierarchies(model, given_rows(hierarchies))
    return Planner(model, wish, progress, workers=workers).made()


def plan_to_file(
    model: Path,
    wish: Wish,
    path: Path,
    *,
    hierarchies: Mapping[str, str | os.PathLike[str]] | None = None,
    picture: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    workers: Workers = HERE,
) -> tuple[Plan, dict[str, Any]]:
    """Makes the plan that a wish asks for and writes it, if it and its picture can be written at all.

    Args:
        model: The file of the model, or its folder by region.
        wish: What is asked for.
        path: The file to write.
        hierarchies: Files with groups of the values of some quasi-identifiers.
        picture: A file for a picture of the classes.
        overwrite: Whether to replace what is there.
        progress: Is told how far the work is.
        workers: Where regions are planned.

    Returns:
        The plan; and how much information it loses, what its classes would hold of so many records like those
        of the model, and how many past records were left out of the model.
    """
    check_writable(path, overwrite=overwrite)
    check_picture(picture, overwrite=overwrite)
    past = read_past(model)
    found = computed(lambda tell: _made(past, wish, hierarchies, tell, workers), progress)
    made, records = found
    sizes = made.records * records / records.sum()
    if picture is not None:
        from elldelta.plan.picture import picture_of_classes

        write_picture(picture_of_classes(made), picture, overwrite=overwrite)
    write_plan(made, path, overwrite=overwrite)
    account = past.accounting
    return made, {
        "loss": found.loss(past),
        "smallest_class": float(sizes.min()),
        "largest_class": float(sizes.max()),
        "left_out": {"missing": account.n_suppressed, "outside": account.n_quarantined},
    }


class Planner:
    """One model, one wish, and the plans of each kind.

    Args:
        model: The model.
        wish: What is asked for.
        progress: Is told how far the work is.
        workers: Where the regions of a model by region are planned.
    """

    def __init__(
        self, model: Past, wish: Wish, progress: Progress | None = None, workers: Workers = HERE
    ) -> None:
        self.model, self.wish = model, wish
        self.progress, self.workers = progress, workers
        if isinstance(model, RegionalModel):
            check_regional(wish, model)
        check_persons(wish, model)
        if model.noise:
            check_noisy(wish)
        check_sizes(model.schema)
        self.seen = seen_ranges(model)
        self.movers = movers_of(wish, model.schema)
        self._groups = plan_groups(model.schema, wish)
        exact = model.to_distribution()
        self.past = exact if model.noise else replace(exact, total=rounded_total(exact.total))
        self.distribution = self.past if self._groups is None else one_of_each(self.past, self._groups)
        if model.schema.also_sensitive:
            check_several_columns(wish, model.schema.sensitive_names)
        self.wishes = tuple(wish_for_column(wish, model.schema, index) for index in range(self.n_columns))
        self.pasts = tuple(self.past.for_column(index) for index in range(self.n_columns))

    @property
    def n_columns(self) -> int:
        """How many sensitive columns there are."""
        return len(self.model.schema.sensitives)

    def made(self) -> Made:
        """The plan that the wish asks for, whichever of the three ways it takes to say how many records."""
        return self.plan(self.wish.kind, self.records())

    def records(self) -> int:
        """The number of records of the plan."""
        wish = self.wish
        if wish.records is not None:
            return wish.records
        p = wish.p if wish.p is not None else self._mechanism(beta=wish.beta).p
        needed = self._mechanism(self._snapped(self._admissible(p))).records(wish.delta)
        return math.ceil(float(rounded_up(needed)))  # it depends on past counts

    def fewest_records(self) -> int:
        """The fewest records with which a sharp plan promises anything: one class for everybody."""
        whole = Partition.single(self.distribution.n_quasi_identifiers)
        n_parts = self.wish.min_records
        return n_parts * fewest_records(self.distribution, whole, self._bounds(n_parts, fixed=True))

    def plan(self, kind: PlanKind, n_records: int) -> Made:
        """The plan of one kind with so many records."""
        return self._paper(n_records) if kind == "paper" else self._sharp(n_records)

    def _paper(self, n_records: int) -> Made:
        """The classes and the promise of the paper's mechanism."""
        partition, (model,) = self._paper_classes(n_records), self.model.models()
        exact, p = self.distribution.generalized(partition), self._snapped(partition)
        masses = self._rounded(exact)
        witnesses = most_probable(masses, self._ell)
        witnesses, counts = witnesses.most_frequent_first(witnesses.cells(masses))
        column = self._column(0, witnesses, counts, p=p)
        made = self._finished("paper", n_records, Runs.from_partition(partition, model.ranks), [column])
        return Made(made, exact.row_sums)

    def _sharp(self, n_records: int) -> Made:
        """Classes for any ell values.

        If all of them together, or values of groups, do not keep what is allowed, they are made again for a
        smaller failure, and then for fewer records, which makes them larger.
        """
        if self.wish.merge_risk is not None:  # what all classes together must pass with
            refuse_if_impossible(self.distribution, self._bounds(n_records, fixed=True))
        planned_for = n_records
        while planned_for >= self.wish.min_records:
            share = 1.0
            for _ in range(TRIES):
                bounds = self._bounds(n_records, share, planned_for)
                try:
                    drawn = self.drawn(bounds, n_records)
                except RefusedError as refusal:
                    is_first = share == 1.0 and planned_for == n_records
                    raise refusal if is_first else self._model_too_small() from None
                found, excess = self._promised(n_records, drawn)
                if found is not None and excess <= 1.0:
                    return found
                share *= max(0.1, 0.95 / excess)
            planned_for //= 2
        raise self._model_too_small()

    def _promised(self, n_records: int, drawn: Drawn) -> tuple[Made | None, float]:
        """The plan with given classes, if they keep what is allowed, and by what factor they exceed it."""
        columns, excess = [], 0.0
        for index, found in enumerate(drawn.columns):
            column, factor = self._column_promised(index, n_records, found)
            excess += factor
            columns += [] if column is None else [column]
        if len(columns) < self.n_columns:
            return None, excess
        made = self._finished(self.wish.kind, n_records, Boxes(drawn.tree), columns)
        return Made(made, drawn.past_records), excess

    def _column_promised(
        self, index: int, n_records: int, found: DrawnColumn
    ) -> tuple[ColumnPlan | None, float]:
        """The same of one sensitive column."""
        wish, result, far = self.wishes[index], found.result, 0.0
        if found.closeness is not None:
            far = float(result.far.sum())
            if wish.merge_risk is not None:
                far = root_distance_risk(found.closeness, self.pasts[index], wish, n_records)
            far = wish.n_planned * min(1.0, far)
        if wish.merge_risk is None:
            excess = max(result.reached, result.failure_upper + far) / wish.budget
        else:
            excess = result.reached * wish.min_records / wish.merge_risk
        if excess > 1.0:
            return None, excess
        column = self._column(index, result.witnesses, found.past_counts, found.closeness)
        if wish.merge_risk is not None:  # refused only if all classes together fail
            n_values = self.model.schema.sensitives[index].size
            failure = min(1.0, root_failure_upper(column, n_values, result.bound))  # as rounded
            excess = max(excess, (failure + far) / wish.budget)
        return column, excess

    def _bounds(
        self, n_records: int, share: float = 1.0, planned_for: int | None = None, *, fixed: bool = False
    ) -> Bounds:
        """What sharp classes must promise for every sensitive column.

        Args:
            n_records: The records of the plan.
            share: The share of the failure that is allowed.
            planned_for: The records that classes are made for, if they are fewer.
            fixed: Whether all classes must pass, also where they may move.
        """
        wish, n_parts = self.wish, self.wish.min_records
        risk = None if fixed or wish.merge_risk is None else wish.merge_risk * share
        # r records of a value: cut a release into r parts of N / r records. If the value is in every part, it
        # has r records, so t releases that need r records each fail no more often than r t that need one.
        return tuple(
            SharpBound(
                column.largest_ell,
                (planned_for or n_records) // n_parts,
                wish.n_planned * n_parts,
                wish.budget * share if risk is None else risk / n_parts,
                per_class=risk is not None,
                checked_by=checked_by(wish),
                closeness=None if column.closeness is None else closeness_bound(column, self.pasts[index]),
                k=wish.asked_k,
                n_parts=n_parts,
                # Witnesses in common are named for all classes of a range together.
                fewest_past=self.fewest_past if self.movers is None else 0,
                rounds_down=not (wish.is_certified or self.model.noise),
            )
            for index, column in enumerate(self.wishes)
        )

    def drawn(self, bounds: Bounds, n_records: int) -> Drawn:
        """Classes that keep bounds: drawn from the model at once, or region by region.

        Args:
            bounds: What classes are drawn for.
            n_records: The records that they make their promise for.
        """
        drawing = Drawing(
            bounds,
            promised=self._bounds(n_records),
            wishes=self.wishes,
            total=self.past.total,
            overall=tuple(self.model.schema.by_column(self.model.value_totals)),
            rounds_down=not self.model.noise,
            groups=self._groups,
            movers=self.movers,
            seen=self.seen,
            fewest_past=self.fewest_past,
        )
        if isinstance(self.model, RegionalModel):
            return draw_by_region(self.model, drawing, self.workers, self.progress)
        (model,) = self.model.models()
        return drawing.draw(model, self.progress)

    @property
    def fewest_past(self) -> int:
        """How often a value occurs in the past records of a class, if it is named; noise protects, too."""
        return 0 if self.model.noise else STEP

    def _rounded(self, classes: JointDistribution) -> JointDistribution:
        """P of classes as a plan tells it: counts rounded down."""
        return classes if self.model.noise else classes.rounded_down()

    def _model_too_small(self) -> RefusedError:
        if self.wish.merge_risk is not None:
            return failing_root(self.wish.delta)
        return RefusedError(
            "The past records are too few for such a plan.",
            found=f"No classes were found whose witnesses occur at least {self.fewest_past} times in "
            f"them; there are {counted(self.model.n_records, 'past record')}.",
            remedy="Estimate from more records, or choose a smaller ell or a smaller limit.",
        )

    def _column(
        self,
        index: int,
        witnesses: Witnesses,
        past_counts: NDArray[Any],
        closeness: Closeness | None = None,
        p: float | None = None,
    ) -> ColumnPlan:
        """What the plan promises of one sensitive column; how probably it fails follows from all of it."""
        return ColumnPlan(
            ell=self.wishes[index].largest_ell,
            failure_upper=0.0,
            p=p,
            witnesses=witnesses,
            past_counts=past_counts,
            past_records=int(self.past.total),
            closeness=closeness,
        )

    def _finished(
        self, kind: PlanKind, n_records: int, classes: Classes, columns: Sequence[ColumnPlan]
    ) -> Plan:
        """The plan of all sensitive columns."""
        wish = self.wish
        made = Plan(
            schema=self.model.schema,
            classes=classes,
            columns=tuple(columns),
            delta=wish.delta,
            releases=wish.n_linked,
            records=n_records,
            kind=kind,
            moving=None if wish.merge_risk is None or kind == "paper" else Moving(wish.merge_risk),
            min_records=wish.min_records,
            k=wish.least_records,
            owners=wish.owners if kind != "paper" else None,
            movers=self.movers,
            seen=self.seen,
            persons=kind == "certified" and self.model.counts_persons,
            past=self.model.noise,
        )
        rounded = [
            replace(column, failure_upper=stated_failure(made, index)) for index, column in enumerate(columns)
        ]
        return replace(made, columns=tuple(rounded), promise="", conditions=())

    def _paper_classes(self, n_records: int) -> Partition:
        """The finest runs that the paper's mechanism can promise with N records.

        R falls and N falls as p grows, so the smallest p that N records can pay for gives the most classes.

        Raises:
            RefusedError: Even a single class for everybody needs more records.
        """
        wish, distribution = self.wish, self.distribution
        if self.movers is not None:
            raise RefusedError("The paper has no plans for people who move.", remedy="Ask for certified.")
        smallest = smallest_p(
            self._marginal,
            distribution.n_quasi_identifiers,
            self._ell,
            wish.delta,
            n_records,
        )
        # The tolerance may let in a cell below p, which N then does not pay for: try a p that is clear of it,
        # and at last one class for everybody, which `smallest_p` has found affordable.
        for p in (smallest, min(self._p_ell, smallest * (1.0 + 3.0 * RELATIVE_TOLERANCE)), self._p_ell):
            partition = self._admissible(p)
            needed = self._mechanism(self._snapped(partition)).records(wish.delta)
            if needed <= n_records:
                return partition
        raise RefusedError(
            f"No classes keep the failure of a release of {counted(n_records, 'record')} within "
            f"{wish.delta:g}.",
            found="Past counts are told rounded down, and with these not even one class for everybody does.",
            remedy=f"Wait for {counted(needed, 'record')} per release, or lower ell.",
        )

    @property
    def _ell(self) -> int:
        """Ell of the only sensitive column, or the largest of several."""
        return self.wish.largest_ell

    @property
    def _p_ell(self) -> float:
        share = self.model.to_distribution().total / self.distribution.total
        return p_ell(self._marginal, self._ell) * share

    @property
    def _marginal(self) -> NDArray[np.float64]:
        """How all values are distributed; it adds up to 1."""
        return self.model.to_distribution().value_marginal

    def _admissible(self, p: float) -> Partition:
        """Runs with ell cells >= p, also as the plan tells them, so that none is rare in the past records."""
        total = self.distribution.total
        rungs = ladder(total)[1:] / total
        if rungs[0] > self._p_ell:
            raise self._model_too_small()
        p = float(rungs[np.searchsorted(rungs, p)])
        return greedy(self.distribution, self._ell, min(p, self._p_ell))

    def _snapped(self, partition: Partition) -> float:
        """The p that ell cells of every class reach, as the plan tells them."""
        rounded = self._rounded(self.distribution.generalized(partition))
        classes = Partition(np.arange(partition.n_classes))
        return min(classes.snapped_p(rounded, self._ell), self._p_ell)

    def _mechanism(self, p: float | None = None, *, beta: float | None = None) -> Mechanism:
        marginal, n_rows = self._marginal, self.distribution.n_quasi_identifiers
        if p is None:
            return Mechanism.from_beta(marginal, n_rows, self._ell, beta or 0.0)
        return Mechanism.create(marginal, n_rows, self._ell, p)
