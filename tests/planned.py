"""Classes made by a planner of the core, together with what they promise: for tests that ask about both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.generalize import bounds, boxes
from elldelta.core.generalize.bounds import SharpBound

if TYPE_CHECKING:
    from elldelta.core.box_tree import BoxTree
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.partition import Partition

CERTIFIABLE = {"checked_by": "owner"}


@dataclass(frozen=True, eq=False)
class Planned:
    distribution: JointDistribution
    partition: Partition
    bound: SharpBound
    tree: BoxTree | None = None
    loss: float | None = None

    @cached_property
    def plan(self):
        return self.bound.evaluate(self.distribution.generalized(self.partition))

    n_classes = property(lambda self: self.partition.n_classes)
    n_records = property(lambda self: self.bound.n_records)
    failure_upper = property(lambda self: self.plan.failure_upper)
    class_failures_upper = property(lambda self: self.plan.classes.failures_upper)
    witnesses = property(lambda self: self.plan.classes.witnesses)
    lows = property(lambda self: self.tree.lows[self.tree.leaves])
    highs = property(lambda self: self.tree.highs[self.tree.leaves])


def intervals(distribution, ell, n_records, releases, limit, options=None):
    """Boxes over one ordered column: the rows in their order."""
    bound = SharpBound(ell, n_records, releases, limit, **(options or {}))
    n_rows = distribution.n_quasi_identifiers
    return make_boxes(distribution, np.arange(n_rows)[:, np.newaxis], (n_rows,), bound)


def evaluate_sharp(distribution, partition, ell, n_records, releases=1, options=None):
    return Planned(distribution, partition, SharpBound(ell, n_records, releases, **(options or {})))


def fewest_records(distribution, partition, ell, releases, limit, options=None):
    bound = SharpBound(ell, 10**9, releases, limit, **(options or {}))
    n_records = bounds.fewest_records(distribution, partition, (bound,))
    return Planned(distribution, partition, bound.with_records(n_records))


def make_boxes(distribution, positions, sizes, bound, *, trees=None):
    partition, tree = boxes.boxes(distribution, positions, sizes, (bound,), trees=trees)
    rows = distribution.quasi_identifier_marginal > 0.0
    loss = boxes.loss_of_boxes(
        partition.class_of[rows],
        np.asarray(positions)[rows],
        distribution.quasi_identifier_marginal[rows],
        boxes.position_weights(sizes),
    )
    return Planned(distribution, partition, bound, tree, loss)


def with_column(plan, **changes):
    """A plan that says something else of its first sensitive column, in fitting words."""
    first, *others = plan.columns
    return replace(plan, columns=(replace(first, **changes), *others), promise="", conditions=())
