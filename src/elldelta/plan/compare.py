"""Use case: how much information plans keep, side by side, on one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.partition import Partition
from elldelta.core.utility import measure_utility
from elldelta.core.workload import answered_shares, random_workload, true_shares, workload_error
from elldelta.model.model import reordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.core.utility import Utility
    from elldelta.core.workload import WorkloadError
    from elldelta.model.counts import Counts
    from elldelta.model.model import Model
    from elldelta.plan.classes import Classes
    from elldelta.plan.plan import Plan


@dataclass(frozen=True)
class PlanUtility:
    """What one plan keeps: its classes measured on the model, and the error of range count queries."""

    plan: Plan
    utility: Utility
    queries: WorkloadError


def compare_plans(
    plans: Sequence[Plan], model: Model, *, seed: int = 0, n_queries: int = 1000
) -> tuple[PlanUtility, ...]:
    """Measures plans on one model: classes, NCP, discernibility, and the same random queries for all.

    A plan may have its categories in another order than the model; widths and ranges are then those of its
    own order, so compare such plans with care.

    Args:
        plans: Plans with the columns and values of the model.
        model: The model.
        seed: Seed of the random range queries.
        n_queries: How many of them.
    """
    return tuple(_measured(plan, reordered(model, plan.schema), seed, n_queries) for plan in plans)


def classes_utility(counts: Counts, classes: Classes, ell: int, n_records: int | None = None) -> Utility:
    """Measures classes on counts: an owner's records, or a model as a forecast for `n_records`."""
    distribution = counts.to_distribution()
    _, class_of = np.unique(classes.class_of(counts.schema, counts.ranks), return_inverse=True)
    return measure_utility(
        distribution,
        Partition(class_of.reshape(-1)),
        counts.positions,
        counts.schema.sizes,
        k=ell,
        n_records=n_records,
    )


def _measured(plan: Plan, model: Model, seed: int, n_queries: int) -> PlanUtility:
    counts, distribution = model.counts, model.to_distribution()
    used, class_of = np.unique(plan.class_of(counts.ranks), return_inverse=True)
    partition = Partition(class_of.reshape(-1))
    lows, highs = plan.classes.hulls(plan.schema)
    sizes = plan.schema.sizes
    workload = random_workload(np.random.default_rng(seed), sizes, plan.schema.n_values, n_queries=n_queries)
    truth = true_shares(distribution, counts.positions, workload)
    answers = answered_shares(distribution, partition, lows[used], highs[used], workload)
    utility = classes_utility(counts, plan.classes, plan.ell, plan.records)
    return PlanUtility(plan, utility, workload_error(truth, answers))
