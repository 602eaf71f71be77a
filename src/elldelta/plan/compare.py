"""Use case: how much information plans keep, side by side, on one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.partition import Partition
from elldelta.core.utility import (
    answered_shares,
    random_workload,
    true_shares,
    workload_error,
)
from elldelta.files import loaded
from elldelta.model import Model, read_model, reordered
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from elldelta.core.utility import Utility, WorkloadError


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
