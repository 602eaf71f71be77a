"""Use cases: what a plan is worth: made and written with a forecast, and plans side by side on one model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.partition import Partition
from elldelta.core.utility import (
    answered_shares,
    random_workload,
    true_shares,
    workload_error,
)
from elldelta.engines.task import computed
from elldelta.errors import ParameterError
from elldelta.files import check_writable, loaded
from elldelta.model import Model, read_model, reordered
from elldelta.pages.charts import check_picture, write_picture
from elldelta.plan.plan import Plan, read_plan, write_plan
from elldelta.plan.planner import Planner, make_plan

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from elldelta.core.utility import Utility, WorkloadError
    from elldelta.engines import Progress
    from elldelta.plan.frontier import FrontierRow
    from elldelta.plan.waiting_risk import LedgerAdvice
    from elldelta.plan.wish import Wish


@dataclass(frozen=True)
class PlanUtility:
    """What one plan keeps: its classes measured on the model, and the error of range count queries."""

    plan: Plan
    utility: Utility
    queries: WorkloadError

    def to_dict(self) -> dict[str, Any]:
        """The measures as plain JSON values."""
        return {
            "shape": self.plan.classes.shape,
            "bound": self.plan.bound,
            "classes": self.utility.n_classes,
            **self.utility.to_dict(self.plan.schema.names),
            "discernibility": self.utility.discernibility,
            "average_class_size_ratio": self.utility.average_class_size_ratio,
            "queries": self.queries.n_queries,
            "query_error_median": self.queries.median,
            "query_error_mean": self.queries.mean,
        }


def compare(
    plans: Sequence[Plan | str | os.PathLike[str]],
    model: Model | str | os.PathLike[str],
    *,
    seed: int = 0,
    n_queries: int = 1000,
) -> tuple[PlanUtility, ...]:
    """Measures plans on one model: classes, NCP, discernibility, and the same random queries for all.

    A plan may have its categories in another order than the model; widths and ranges are then those of its
    own order, so compare such plans with care.

    Args:
        plans: Plans with the columns and values of the model, or their files.
        model: The model, or its file.
        seed: Seed of the random range queries.
        n_queries: How many of them.
    """
    known = loaded(model, Model, read_model)
    given = [loaded(plan, Plan, read_plan) for plan in plans]
    return tuple(_measured(plan, reordered(known, plan.schema), seed, n_queries) for plan in given)


def _measured(plan: Plan, model: Model, seed: int, n_queries: int) -> PlanUtility:
    distribution = model.to_distribution()
    used, class_of = np.unique(plan.class_of(model.ranks), return_inverse=True)
    partition = Partition(class_of.reshape(-1))
    lows, highs = plan.classes.hulls(plan.schema)
    sizes = plan.schema.sizes
    workload = random_workload(np.random.default_rng(seed), sizes, plan.schema.n_values, n_queries=n_queries)
    truth = true_shares(distribution, model.positions, workload)
    answers = answered_shares(distribution, partition, lows[used], highs[used], workload)
    return PlanUtility(plan, plan.utility(model), workload_error(truth, answers))


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan and what it is worth.

    Attributes:
        path: Its file.
        plan: The plan.
        utility: How much information it keeps, as a forecast from the model.
        bounds: What each bound gives for the same records, if that was asked for.
        advice: What owners are expected to lose with and without a ledger, where that was compared.
    """

    path: Path
    plan: Plan
    utility: Utility
    bounds: FrontierRow | None
    advice: LedgerAdvice | None = None

    def to_dict(self) -> dict[str, Any]:
        """What is told about the plan, as plain JSON values."""
        told = {
            "plan": str(self.path),
            **self.plan.summary(),
            **self.utility.to_dict(self.plan.schema.names),
        }
        if self.advice is not None:
            told["expected_loss"] = asdict(self.advice)
        return told if self.bounds is None else {**told, "bounds": self.bounds.to_list()}


def plan_to_file(
    model: Path,
    wish: Wish,
    path: Path,
    *,
    hierarchies: Mapping[str, str | os.PathLike[str]] | None = None,
    compare: bool = False,
    picture: Path | None = None,
    picture_columns: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Planned:
    """Makes the plan that a wish asks for and writes it, if it and its picture can be written at all.

    Args:
        model: The file of the model.
        wish: What is asked for.
        path: The file to write.
        hierarchies: Files with groups of the values of some quasi-identifiers.
        compare: Whether to tell what each bound gives for the same records.
        picture: A file for a picture of the classes.
        picture_columns: The two columns to draw.
        overwrite: Whether to replace what is there.
        progress: Is told how far the work is.
    """
    check_writable(path, overwrite=overwrite)
    check_picture(picture, overwrite=overwrite)
    past = read_model(model)
    made = make_plan(past, wish, hierarchies, progress)
    bounds = None
    if compare:
        from elldelta.plan.frontier import frontier_rows

        planner = Planner(reordered(past, made.schema), replace(wish, waiting_risk=made.waiting_risk))
        (bounds,) = computed(lambda tell: list(frontier_rows(planner, [made.records], tell)), progress)
    advice = computed(lambda _: _advice(made, past, wish), progress)
    planned = Planned(path, made, computed(lambda _: made.utility(past), progress), bounds, advice)
    if picture is not None:
        from elldelta.plan.picture import picture_of_classes

        write_picture(picture_of_classes(made, past, picture_columns), picture, overwrite=overwrite)
    write_plan(made, path, overwrite=overwrite)
    return planned


def _advice(made: Plan, past: Model, wish: Wish) -> LedgerAdvice | None:
    """What a ledger would gain; only values that are hidden are compared so."""
    from elldelta.plan.waiting_risk import ledger_advice

    try:
        return ledger_advice(made, reordered(past, made.schema), wish)
    except ParameterError:  # a wish that goes without a ledger
        return None
