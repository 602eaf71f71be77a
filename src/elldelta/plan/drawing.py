"""How the classes of a plan are drawn from a model, or from one part of the population after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.boxes import boxes, position_weights
from elldelta.core.like_values import largest_of_each, one_of_each
from elldelta.core.movers import CommonWitnesses, common_boxes, common_witnesses
from elldelta.core.witnesses import Witnesses
from elldelta.engines.task import part
from elldelta.errors import InternalError
from elldelta.plan.classes import Boxes, lengths_of
from elldelta.plan.movers import range_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from elldelta.core.box_tree import BoxTree
    from elldelta.core.generalize.bounds import BoundResult, Bounds, SharpBound
    from elldelta.core.partition import Partition
    from elldelta.engines import Progress
    from elldelta.model import Model
    from elldelta.parameters import Movers
    from elldelta.plan.classes import Ranges


@dataclass(frozen=True, eq=False)
class Drawn:
    """Classes that were drawn.

    Attributes:
        tree: Their boxes.
        past: The past records by class and value.
        common: For every sensitive column the witnesses that classes have in common, if people move.
    """

    tree: BoxTree
    past: JointDistribution
    common: tuple[CommonWitnesses, ...] | None = None

    def evaluated(
        self, bounds: Bounds, groups: NDArray[np.int64] | None
    ) -> Iterator[tuple[JointDistribution, BoundResult]]:
        """For every sensitive column what counts of the past records, and what the classes promise.

        Args:
            bounds: What they promise by.
            groups: The group of every value, where values of one group count as one.
        """
        shown = self.past
        if groups is not None and self.common is None:
            shown = largest_of_each(shown, groups)
        for index, bound in enumerate(bounds):
            masses = shown.for_column(index)
            if self.common is None:
                yield masses, bound.evaluate(masses)
            else:
                yield masses, self.common[index].evaluate(masses, bound)


@dataclass(frozen=True, eq=False)
class Drawing:
    """How classes are drawn: the same for every part of the population.

    Attributes:
        bounds: What they must promise, for every sensitive column.
        total: The mass of the whole population.
        groups: The group of every value, where values of one group count as one.
        movers: Who moves among classes.
        seen: The ranges in which nearly all past records lie.
        fewest_past: How often a value occurs in the past records of a class that relies on it.
    """

    bounds: Bounds
    total: float
    groups: NDArray[np.int64] | None
    movers: Movers | None
    seen: Ranges
    fewest_past: int

    def for_share(self, share: float) -> Drawing:
        """The same for a part of the population: of what all classes share it has as much as of the mass."""
        bounds = tuple(
            bound
            if bound.per_class or bound.limit is None
            else replace(bound, limit=bound.limit * min(1.0, share))
            for bound in self.bounds
        )
        return replace(self, bounds=bounds)

    def counted(self, past: JointDistribution) -> JointDistribution:
        """What counts of past records: one value of every group."""
        return past if self.groups is None else one_of_each(past, self.groups)

    def draw(self, model: Model, progress: Progress | None = None) -> Drawn:
        """Boxes that keep the bounds, over everything; of a model of the whole or of a part.

        Boxes are ranges of every quasi-identifier, so that little information is lost; where one has a
        hierarchy, its range is a group or a run of siblings. People who move have witnesses in common.
        """
        past = replace(model.to_distribution(), total=self.total)
        if self.movers is not None:
            return self._draw_common(model, past, progress)
        counted = self.counted(past)
        partition, tree = boxes(
            counted,
            model.positions,
            model.schema.sizes,
            self.bounds,
            trees=[column.cut_tree for column in model.schema.quasi_identifiers],
            weighed=(counted.quasi_identifier_marginal, position_weights(lengths_of(self.seen))),
            progress=progress,
        )
        return Drawn(tree, past.generalized(partition))

    def _draw_common(self, model: Model, past: JointDistribution, progress: Progress | None) -> Drawn:
        """The same with witnesses in common, of several sensitive columns each its own.

        The classes are those of the column that needs the largest ones.
        """
        counted, n_columns = self.counted(past), len(self.bounds)
        columns = [(counted.for_column(index), bound) for index, bound in enumerate(self.bounds)]
        each = [
            self._draw_column(model, *column, part(progress, index / n_columns, (index + 1) / n_columns))
            for index, column in enumerate(columns)
        ]
        partition, tree, common = min(each, key=lambda found: found[0].n_classes)
        if n_columns == 1:
            return Drawn(tree, past.generalized(partition), (common,))
        ranges = range_numbers(model.schema, Boxes(tree), self.movers)
        if ranges is None:
            raise InternalError("Nobody moves.")
        return Drawn(
            tree,
            past.generalized(partition),
            tuple(
                common_witnesses(of_column.generalized(partition), ranges, bound, self.fewest_past)
                for of_column, bound in columns
            ),
        )

    def _draw_column(
        self, model: Model, past: JointDistribution, bound: SharpBound, progress: Progress | None
    ) -> tuple[Partition, BoxTree, CommonWitnesses]:
        """Classes for one sensitive column, and the witnesses that they have in common."""
        partition, tree, values = common_boxes(
            past,
            model.positions,
            model.schema.sizes,
            bound,
            trees=[column.cut_tree for column in model.schema.quasi_identifiers],
            weights=position_weights(lengths_of(self.seen)),
            fewest=self.fewest_past,
            progress=progress,
        )
        return (
            partition,
            tree,
            CommonWitnesses(np.zeros(tree.n_leaves, dtype=np.int64), Witnesses.of([values])),
        )
