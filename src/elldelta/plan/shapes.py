"""The shapes that classes can have: each turns a criterion into a partition and into classes of the schema.

A new shape is one entry here, one class in `elldelta.plan.classes` and one planner in
`elldelta.core.generalize`. Which bound is promised has nothing to do with the shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from elldelta.core.generalize.boxes import boxes
from elldelta.core.generalize.criteria import Admissible, EachFailure
from elldelta.core.generalize.greedy import greedy
from elldelta.core.generalize.runs import sharp_runs, sharp_runs_per_class
from elldelta.plan.classes import Boxes, Runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.choices import ShapeName
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.criteria import Criterion
    from elldelta.core.partition import Partition
    from elldelta.model.model import Model
    from elldelta.plan.classes import Classes


class Shape(Protocol):
    """Makes classes of one shape."""

    def __call__(
        self, model: Model, distribution: JointDistribution, criterion: Criterion
    ) -> tuple[Partition, Classes]:
        """Classes that fulfil the criterion: over the rows of the model, and over all combinations."""


def make_runs(
    model: Model, distribution: JointDistribution, criterion: Criterion
) -> tuple[Partition, Classes]:
    """Runs of the lexicographic order: what the paper proves things about."""
    if isinstance(criterion, Admissible):
        partition = greedy(distribution, criterion.ell, criterion.p)
    elif isinstance(criterion, EachFailure):
        partition = sharp_runs_per_class(
            distribution,
            criterion.ell,
            criterion.n_records,
            criterion.releases,
            criterion.class_failure_upper,
            criterion.options,
        ).partition
    else:
        partition = sharp_runs(
            distribution,
            criterion.ell,
            criterion.n_records,
            criterion.releases,
            criterion.failure_upper_budget,
            criterion.options,
        ).partition
    return partition, Runs.from_partition(partition, model.ranks)


def make_boxes(
    model: Model, distribution: JointDistribution, criterion: Criterion
) -> tuple[Partition, Classes]:
    """Boxes: a range of every quasi-identifier, so that little information is lost.

    Where a quasi-identifier has a hierarchy, its range is one of the groups or a run of siblings.
    """
    trees = [column.cut_tree for column in model.schema.quasi_identifiers]
    made = boxes(distribution, model.counts.positions, model.schema.sizes, criterion, trees=trees)
    return made.partition, Boxes(made.tiling)


SHAPES: Mapping[ShapeName, Shape] = {"runs": make_runs, "boxes": make_boxes}


def default_shape(model: Model) -> ShapeName:
    """Boxes for two or more quasi-identifiers, or one with a hierarchy; otherwise runs are all there is."""
    columns = model.schema.quasi_identifiers
    return "boxes" if len(columns) > 1 or columns[0].hierarchy is not None else "runs"
