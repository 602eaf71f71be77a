"""Use case: from a model and a wish to a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from elldelta.choices import BOUNDS
from elldelta.core.checks import MOST_RECORDS
from elldelta.core.distribution import RELATIVE_TOLERANCE
from elldelta.core.generalize.bounds import Admissible, JointBound, SharpBound
from elldelta.core.generalize.boxes import boxes
from elldelta.core.generalize.runs import greedy, near_runs, sharp_runs
from elldelta.core.like_values import largest_of_each
from elldelta.core.sample_size import Mechanism, most_probable, p_ell, smallest_p
from elldelta.engines.task import computed, part
from elldelta.errors import InternalError, ParameterError, RefusedError
from elldelta.files import loaded
from elldelta.model import Model, floored, read_model
from elldelta.model.rounding import STEP
from elldelta.plan.classes import Boxes, Runs, default_shape
from elldelta.plan.closeness import Closeness, closeness_bound
from elldelta.plan.movers import drawn, movers_of
from elldelta.plan.plan import Plan
from elldelta.plan.several import check_choices, together, wish_of
from elldelta.plan.turnover import tables_of, with_expectation
from elldelta.plan.wish import Wish, check_noisy, plan_groups, promised_ell

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from elldelta.choices import Bound, CategoryOrder, ClosenessTo, Guarantee, Movers, PlanBound, ShapeName
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.bounds import Criterion, SharpPlan
    from elldelta.core.partition import Partition
    from elldelta.engines import Progress
    from elldelta.plan.classes import Classes
    from elldelta.plan.movers import Common
    from elldelta.schema.hierarchy import Hierarchy, HierarchyRows

TRIES = 5  # how often classes are made again for a smaller failure before they are made for fewer records


def plan(
    model: Model | str | os.PathLike[str],
    *,
    ell: int | Mapping[str, int] | None = None,
    closeness: float | Mapping[str, float] | None = None,
    closeness_to: ClosenessTo = "class",
    exact_references: bool = False,
    history_confidence: float | None = None,
    turnover: float | None = None,
    releases: int = 1,
    records: int | None = None,
    delta: float | None = None,
    p: float | None = None,
    beta: float | None = None,
    classes: int | None = None,
    bound: Bound = "sharp",
    eta: float = 0.0,
    shared_records: int | None = None,
    shape: ShapeName | None = None,
    guarantee: Guarantee = "certified",
    waiting_risk: float | Literal["auto"] | None = None,
    owners: int | None = None,
    min_records: int = 1,
    fewest_past: int = 1,
    category_order: CategoryOrder = "given",
    movers: Movers = "declared",
    hierarchies: Mapping[str, Hierarchy | HierarchyRows | str | os.PathLike[str]] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Makes a plan from a model, for example ``plan(model, ell=5, releases=2, records=30_000)``.

    Exactly one of records, p, beta and classes must be given, and ell, closeness or both.

    Args:
        model: The model, or its file.
        ell: Sensitive values to be left for everybody.
        closeness: T, between 0 and 1: whatever somebody believes after linking must stay within this total
            variation of what the plan says.
        closeness_to: What the plan says about a person: the distribution of the "class", smoothed and
            rounded, or of everybody, "overall" (t-closeness).
        exact_references: Whether the plan may tell the past records of every class as they are.
        history_confidence: How sure a probabilistic promise must be that the past records do not mislead,
            such as 0.95.
        turnover: The share of records that come, and go, between two releases of a table that lives.
        releases: How many releases may be linked; the failure after linkage is at most releases x delta.
        records: The records every owner can wait for.
        delta: Failure probability of one release. By default a certified plan for given records takes the
            waiting risk that is expected to lose least, as with "auto"; other plans take 0.01.
        p: The paper's parameter; decides the records.
        beta: The same as a share of p_ell.
        classes: A number of classes to reach with as few records as possible.
        bound: "sharp" counts any ell values of a class, "paper" particular ones.
        eta: An error of the model in total variation that the promise must survive.
        shared_records: Promise only for releases that share at most so many records.
        shape: "boxes" or "runs"; None for boxes where there are two or more quasi-identifiers.
        guarantee: "certified": each release is checked before it is published. "probabilistic": publish
            at N records without looking, as the paper does.
        waiting_risk: Instead of delta: the chance that a class needs merging; "auto" tries several.
        owners: So many owners will publish through one ledger, one after the other: chooses the waiting risk
            that loses least for them. The plan is then for one release; the ledger allows the others.
        min_records: A witness value counts as present only with so many records.
        fewest_past: A value is a witness of a class only if it occurs so often in its past records.
        category_order: "profile" orders unordered categories by their sensitive profiles.
        movers: "declared": people move among values of columns that the schema says change; "any": anyhow.
        hierarchies: Groups of the values of some quasi-identifiers, or files that hold them.
        progress: Is told how far the work is.

    Raises:
        ParameterError: The wish contradicts itself, or a number is of the wrong type or out of range.
        RefusedError: Not even a single class for everybody can be promised; the message says what could.
    """
    wish = Wish(
        ell=promised_ell(ell, closeness),
        closeness=closeness,
        closeness_to=closeness_to,
        exact_references=exact_references,
        history_confidence=history_confidence,
        turnover=turnover,
        delta=delta,
        releases=releases,
        records=records,
        p=p,
        beta=beta,
        classes=classes,
        bound=bound,
        eta=eta,
        shared_records=shared_records,
        shape=shape,
        guarantee=guarantee,
        waiting_risk=waiting_risk,
        owners=owners,
        min_records=min_records,
        fewest_past=fewest_past,
        category_order=category_order,
        movers=movers,
    )
    return make_plan(loaded(model, Model, read_model), wish, hierarchies, progress)


def make_plan(
    model: Model,
    wish: Wish,
    hierarchies: Mapping[str, Hierarchy | HierarchyRows | str | os.PathLike[str]] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Makes the plan that a wish asks for; see `plan`."""
    return computed(lambda tell: _made(model, wish, hierarchies or {}, tell), progress)


def _made(model: Model, wish: Wish, hierarchies: Mapping[str, Any], progress: Progress) -> Plan:
    notes: tuple[str, ...] = ()
    if hierarchies:
        from elldelta.model.rearrange import with_hierarchies
        from elldelta.schema.hierarchies import given_rows

        model = with_hierarchies(model, given_rows(hierarchies))
    if wish.category_order == "profile":
        from elldelta.model.rearrange import order_categories, order_note

        model, changed = order_categories(model)
        notes = tuple(order_note(name, model.schema.sensitive.name) for name in changed)
    if wish.history_confidence is not None:
        from elldelta.plan.history import HistoryPlanner

        return HistoryPlanner(model, wish, notes, progress).made()
    made = Planner(model, wish, notes, progress).made()
    return made if wish.turnover is None else with_expectation(made)


class Planner:
    """One model in its final order, one wish, and the plans of the bounds; drafts are made quickly."""

    def __init__(
        self,
        model: Model,
        wish: Wish,
        notes: tuple[str, ...] = (),
        progress: Progress | None = None,
        *,
        is_draft: bool = False,
    ) -> None:
        self.model, self.wish, self.notes = model, wish, notes
        self.progress, self.is_draft = progress, is_draft
        self.movers = movers_of(wish, model.schema)
        if model.noise:
            check_noisy(wish)
        self.distribution, self._groups = plan_groups(model, wish)
        self.shape: ShapeName = wish.shape or default_shape(model.schema)
        if model.schema.also_sensitive:
            check_choices(replace(wish, shape=self.shape), model.schema.sensitive_names)
        self._risk = wish.waiting_risk if wish.waiting_risk != "auto" else self._chosen_risk()
        self.columns: tuple[Planner, ...] = ()
        if model.schema.also_sensitive:
            self.columns = tuple(self._column(place) for place in range(len(model.schema.sensitives)))

    def _column(self, place: int) -> Planner:
        """The planner of one of several sensitive columns."""
        wish = replace(wish_of(self.wish, self.model.schema, place), waiting_risk=self._risk)
        return Planner(self.model.face(place), wish, self.notes, is_draft=self.is_draft)

    @property
    def bounds(self) -> tuple[PlanBound, ...]:
        """The bounds that can be compared for this wish."""
        wish = self.wish
        is_plain = wish.min_records == 1 and (self.movers, wish.closeness, wish.turnover) == (None,) * 3
        return BOUNDS if is_plain and not self.columns else (self.wish.bound,)

    def made(self) -> Plan:
        """The plan that the wish asks for, whichever of the four ways it takes to say how many records."""
        if self.wish.classes is not None:
            return self._with_fewest_records(self.wish.classes)
        return self.plan(self.wish.bound, self.records())

    def records(self) -> int:
        """The number of records of the plan."""
        wish = self.wish
        if wish.records is not None:
            return wish.records
        if wish.classes is not None:
            return self.made().records
        p = wish.p if wish.p is not None else self._mechanism(beta=wish.beta).p
        return self._mechanism(self._snapped(self._admissible(p)[0])).records(wish.release_failure)

    def plan(self, bound: PlanBound, n_records: int) -> Plan:
        """The plan that one bound makes with so many records."""
        if bound == "sharp":
            return self._sharp(n_records)
        if bound != "paper":
            raise ParameterError(
                f"Plans with the bound {bound!r} are no longer made.",
                found="Those that were made are still read, and their promises hold.",
                remedy="Ask for 'sharp', which gives more classes for the same records.",
            )
        partition, classes = self._paper_classes(n_records)
        masses, p = self._shown(partition), self._snapped(partition)
        failure = self.wish.releases * self._mechanism(p).delta_reached(n_records)
        witnesses = most_probable(masses, self._ell)
        return self._finished(bound, n_records, classes, masses, witnesses, failure, p)

    def _sharp(self, n_records: int) -> Plan:
        """Classes for any ell values, with no witness that is rarer in the past records than was allowed.

        Planners do not know that limit. If classes rely on rarer values, they are made again for a smaller
        failure, and then for fewer records, which makes them larger. What is promised is recomputed for the
        records asked for, from the witnesses that remain.
        """
        planned_for = n_records
        while planned_for >= self.wish.min_records:
            share = 1.0
            for _ in range(TRIES):
                bound = self._bound(n_records, share).with_records(
                    tables_of(self.wish, planned_for)[0] // self.wish.min_records
                )
                partition, classes, common = drawn(self, bound)
                found, excess = self._promised(n_records, partition, classes, common)
                if found is not None and excess <= 1.0:
                    return found
                share *= max(0.1, 0.95 / excess)
            planned_for //= 2
        raise self._model_too_small()

    def _promised(
        self, n_records: int, partition: Partition, classes: Classes, common: Common | None = None
    ) -> tuple[Plan | None, float]:
        """The plan with given classes, if they keep what is allowed, and by what factor they exceed it."""
        if self.columns:
            made = [
                column._promised(n_records, partition, classes, common and common[place : place + 1])
                for place, column in enumerate(self.columns)
            ]
            return together(self.model, made, near=self.wish.closeness is not None)
        masses, whole = self._told(partition), self._column_bound(n_records)
        sharp = whole.evaluate(masses) if common is None else common[0].evaluate(masses, whole)
        near, failure = Closeness.promised(self, sharp, partition, classes, n_records)
        excess = self._excess(sharp, failure)
        if excess > 1.0:
            return None, excess
        witnesses = sharp.witnesses
        return self._finished("sharp", n_records, classes, masses, witnesses, failure, None, near), excess

    def _chosen_risk(self) -> float:
        from elldelta.plan.waiting_risk import choose_waiting_risk

        progress, self.progress = self.progress, part(self.progress, 0.8, 1.0)
        risk, self.is_draft = choose_waiting_risk(self.model, self.wish, part(progress, 0.0, 0.8))
        return risk

    def _bound(self, n_records: int, share: float = 1.0) -> SharpBound | JointBound:
        """What sharp classes must promise, with a share of the failure that is allowed."""
        if self.columns:
            return JointBound(tuple(column._column_bound(n_records, share) for column in self.columns))
        return self._column_bound(n_records, share)

    def _column_bound(self, n_records: int, share: float = 1.0) -> SharpBound:
        wish, parts = self.wish, self.wish.min_records
        n_each, n_tables, n_shared = tables_of(wish, n_records)
        # r records of a value: cut a release into r parts of N / r records. If the value is in every part, it
        # has r records, so t releases that need r records each fail no more often than r t that need one.
        return SharpBound(
            self._ell,
            n_each // parts,
            n_tables * parts,
            wish.budget * share if self._risk is None else self._risk * share / parts,
            per_class=self._risk is not None,
            certifiable=wish.guarantee == "certified",
            shared_records=n_shared,
            eta=wish.eta,
            closeness=closeness_bound(
                wish,
                self.distribution.value_marginal,
                n_records,
                None if self._risk is None else self._risk * share,
            ),
        )

    def _excess(self, sharp: SharpPlan, failure: float) -> float:
        """By what factor classes exceed what the wish allows; at most 1 is within."""
        if self._risk is None:
            return failure / self.wish.budget
        return max(sharp.reached * self.wish.min_records / self._risk, sharp.strain)

    def classes(self, criterion: Criterion) -> tuple[Partition, Classes]:
        """Classes of the shape wanted that keep a criterion: over the rows of the model, over everything.

        Boxes are ranges of every quasi-identifier, so that little information is lost; where one has a
        hierarchy, its range is a group or a run of siblings. Runs are what the paper proves things about.
        """
        model, distribution = self.model, self.distribution
        if self.shape == "boxes":
            partition, tiling = boxes(
                distribution,
                model.positions,
                model.schema.sizes,
                criterion,
                trees=[column.cut_tree for column in model.schema.quasi_identifiers],
                is_draft=self.is_draft,
                progress=self.progress,
            )
            return partition, Boxes(tiling)
        if isinstance(criterion, Admissible):
            partition = greedy(distribution, criterion.ell, criterion.p)
        elif isinstance(criterion, JointBound):
            raise InternalError("Runs are made for one sensitive column.")
        elif criterion.closeness is not None:
            partition = near_runs(distribution, criterion)
        else:
            partition = sharp_runs(distribution, criterion)
        return partition, Runs.from_partition(partition, model.ranks)

    def _shown(self, partition: Partition) -> JointDistribution:
        """P of the classes, without cells that are rare in the past records."""
        found = self.distribution.generalized(partition)
        if self._groups is not None and self.movers is None:
            found = largest_of_each(self.model.to_distribution().generalized(partition), self._groups)
        return found.without_below(self.wish.fewest_past)

    def _told(self, partition: Partition) -> JointDistribution:
        """The same, and where past records are to be protected, their counts rounded down: a safe side."""
        shown, fewest = self._shown(partition), self.wish.fewest_past
        # An error of the model is paid for by the largest cells: they must not look smaller.
        return floored(shown, min(STEP, fewest)) if fewest > 1 and not self.wish.eta else shown

    def _model_too_small(self) -> RefusedError:
        return RefusedError(
            "The past records are too few for such a plan.",
            found=f"No classes were found whose witnesses occur at least {self.wish.fewest_past} times in "
            f"them; there are {self.model.n_records} past records.",
            remedy="Estimate from more records, or choose a smaller ell or a smaller limit.",
        )

    def _finished(
        self,
        bound: PlanBound,
        n_records: int,
        classes: Classes,
        masses: JointDistribution,
        witnesses: tuple[tuple[int, ...], ...],
        failure_upper: float,
        p: float | None,
        closeness: Closeness | None = None,
    ) -> Plan:
        wish = self.wish
        return Plan(
            schema=self.model.schema,
            classes=classes,
            ell=self._ell,
            delta=wish.delta if self._risk is None else None,
            releases=wish.releases,
            records=n_records,
            failure_upper=min(1.0, failure_upper),
            bound=bound,
            witnesses=witnesses,
            witness_cells=tuple(
                tuple((cells[list(witnesses[start + row])] / masses.total).tolist())
                for start, block in masses.dense_blocks()
                for row, cells in enumerate(block)
            ),
            p=p,
            eta=wish.eta,
            shared_records=wish.shared_records if bound == "sharp" else None,
            guarantee=wish.guarantee,
            waiting_risk=self._risk if bound == "sharp" else None,
            min_records=wish.min_records,
            model_digest=self.model.digest,
            notes=self.notes,
            owners=wish.owners if bound == "sharp" else None,
            movers=self.movers,
            past=self.model.noise,
            history_confidence=wish.history_confidence,
            turnover=wish.turnover,
            closeness=closeness,
        )

    def _paper_classes(self, n_records: int) -> tuple[Partition, Classes]:
        """The finest classes that the paper's mechanism can promise with N records.

        R falls and N falls as p grows, so the smallest p that N records can pay for gives the most classes.

        Raises:
            RefusedError: Even a single class for everybody needs more records.
        """
        wish, distribution = self.wish, self.distribution
        if self.movers is not None:
            raise RefusedError("The paper's bound has no plans for people who move.", remedy="Ask for sharp.")
        smallest = smallest_p(
            distribution.value_marginal,
            distribution.n_quasi_identifiers,
            self._ell,
            wish.release_failure,
            n_records,
            wish.eta,
        )
        # The tolerance may let in a cell below p, which N then does not pay for: try a p that is clear of it,
        # and at last one class for everybody, which `smallest_p` has found affordable.
        for p in (smallest, min(self._p_ell, smallest * (1.0 + 3.0 * RELATIVE_TOLERANCE)), self._p_ell):
            partition, classes = self._admissible(p)
            if self._mechanism(self._snapped(partition)).records(wish.release_failure) <= n_records:
                return partition, classes
        raise InternalError("One class for everybody was affordable and then was not.")

    def _with_fewest_records(self, n_classes: int) -> Plan:
        """The plan with the fewest records for which the bound gives so many classes: doubling, halving."""

        def enough(n_records: int) -> Plan | None:
            try:
                found = self.plan(self.wish.bound, n_records)
            except RefusedError:
                return None
            return found if found.n_classes >= n_classes else None

        high = max(1, self._ell)
        while (best := enough(high)) is None:
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
            found = enough(middle)
            if found is None:
                low = middle
            else:
                high, best = middle, found
        return best

    @property
    def _ell(self) -> int:
        """Ell of the only sensitive column, or the largest of several."""
        return self.wish.largest_ell

    @property
    def _p_ell(self) -> float:
        return p_ell(self.distribution.value_marginal, self._ell)

    def _admissible(self, p: float) -> tuple[Partition, Classes]:
        """Classes with ell cells >= p, and no witness that is rare in the past records."""
        fewest = self.wish.fewest_past / self.distribution.total
        if fewest > self._p_ell:
            raise self._model_too_small()
        return self.classes(Admissible(self._ell, max(p, fewest)))

    def _snapped(self, partition: Partition) -> float:
        return min(partition.snapped_p(self.distribution, self._ell), self._p_ell)

    def _mechanism(self, p: float | None = None, *, beta: float | None = None) -> Mechanism:
        marginal, n_rows = self.distribution.value_marginal, self.distribution.n_quasi_identifiers
        if p is None:
            return Mechanism.from_beta(marginal, n_rows, self._ell, beta or 0.0, self.wish.eta)
        return Mechanism.create(marginal, n_rows, self._ell, p, self.wish.eta)
