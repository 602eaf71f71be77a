"""How the classes of a plan are drawn, from a model of everybody or of a part, and what they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 (a type of fields)

from elldelta.core.generalize.bounds import BoundResult, evaluate, holds
from elldelta.core.generalize.boxes import boxes, position_weights
from elldelta.core.like_values import largest_of_each, one_of_each
from elldelta.core.movers import CommonWitnesses, common_boxes, common_witnesses
from elldelta.core.witnesses import Witnesses
from elldelta.engines.task import part
from elldelta.errors import InternalError, RefusedError
from elldelta.plan.classes import Boxes, lengths_of
from elldelta.plan.closeness import Closeness
from elldelta.plan.movers import range_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.core.box_tree import BoxTree
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.bounds import Bounds, SharpBound
    from elldelta.core.partition import Partition
    from elldelta.engines import Progress
    from elldelta.model import Model
    from elldelta.parameters import Movers
    from elldelta.plan.classes import Ranges
    from elldelta.plan.wish import Wish


@dataclass(frozen=True, eq=False)
class DrawnColumn:
    """What classes promise of one sensitive column, and what a plan tells of it: no more is kept of them.

    Attributes:
        result: Witnesses and failures.
        past_counts: How often each witness occurs in the past records of its class, as a plan tells it.
        closeness: The closeness that is promised, if one is asked for.
    """

    result: BoundResult
    past_counts: NDArray[np.integer[Any]]
    closeness: Closeness | None

    @classmethod
    def joined(cls, parts: Sequence[DrawnColumn]) -> DrawnColumn:
        """The same of the classes of several parts of the population, one part after the other."""
        near = [part.closeness for part in parts if part.closeness is not None]
        return cls(
            BoundResult.joined([part.result for part in parts]),
            np.concatenate([part.past_counts for part in parts]),
            Closeness.joined(near) if near else None,
        )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Classes that were drawn.

    Attributes:
        tree: Their boxes.
        past_records: The past records of each.
        columns: What they promise of every sensitive column.
    """

    tree: BoxTree
    past_records: NDArray[np.int64]
    columns: tuple[DrawnColumn, ...]


@dataclass(frozen=True, eq=False)
class Drawing:
    """How classes are drawn: the same for every part of the population.

    Attributes:
        bounds: What they must keep while they are drawn, for every sensitive column.
        promised: By what they promise then.
        wishes: What is asked of every sensitive column.
        total: The mass of the whole population.
        overall: The past records of the whole population with each value, for every sensitive column.
        rounds_down: Whether a plan tells past counts rounded down.
        groups: The group of every value, where values of one group count as one.
        movers: Who moves among classes.
        seen: The ranges in which nearly all past records lie.
        fewest_past: How often a value occurs in the past records of a class that relies on it.
    """

    bounds: Bounds
    promised: Bounds
    wishes: tuple[Wish, ...]
    total: float
    overall: tuple[NDArray[Any], ...]
    rounds_down: bool
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

    def keeps(self, past: JointDistribution) -> bool:
        """Whether a single class of some people keeps the bounds; they are one row."""
        counted = self.counted(past)
        if not holds(evaluate(self.bounds, counted)):
            return False
        if self.movers is None:
            return True
        columns = [(counted.for_column(index), bound) for index, bound in enumerate(self.bounds)]
        try:
            common = self._in_common(columns, np.zeros(1, dtype=np.int64))
        except RefusedError:  # too few values occur
            return False
        return holds([found.evaluate(*column) for found, column in zip(common, columns, strict=True)])

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
        return self._evaluated(tree, past.generalized(partition))

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
            return self._evaluated(tree, past.generalized(partition), (common,))
        ranges = range_numbers(model.schema, Boxes(tree), self.movers)
        if ranges is None:
            raise InternalError("Nobody moves.")
        classes = [(of_column.generalized(partition), bound) for of_column, bound in columns]
        try:
            found = self._in_common(classes, ranges)
        except RefusedError:  # too few values of a column occur in some range, but enough in all together
            found = self._in_common(classes, np.zeros_like(ranges))
        return self._evaluated(tree, past.generalized(partition), found)

    def _in_common(
        self, columns: Sequence[tuple[JointDistribution, SharpBound]], ranges: NDArray[np.int64]
    ) -> tuple[CommonWitnesses, ...]:
        """The witnesses that classes of a range have in common, for every sensitive column."""
        return tuple(common_witnesses(table, ranges, bound, self.fewest_past) for table, bound in columns)

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

    def _evaluated(
        self, tree: BoxTree, past: JointDistribution, common: Sequence[CommonWitnesses] | None = None
    ) -> Drawn:
        """What classes promise, from scratch.

        Args:
            tree: Their boxes.
            past: The past records by class and value.
            common: For every sensitive column the witnesses that classes have in common, if people move.
        """
        shown = past if self.groups is None or common is not None else largest_of_each(past, self.groups)
        columns = []
        for index, bound in enumerate(self.promised):
            masses = shown.for_column(index)
            result = bound.evaluate(masses) if common is None else common[index].evaluate(masses, bound)
            columns.append(self._column(index, past.for_column(index), masses, result))
        return Drawn(tree, past.row_sums // len(past.slices), tuple(columns))

    def _column(
        self, index: int, past: JointDistribution, masses: JointDistribution, result: BoundResult
    ) -> DrawnColumn:
        """What a plan tells of one sensitive column of which classes promise a result."""
        wish, near = self.wishes[index], None
        if wish.closeness is not None:
            near = Closeness.promised(wish, past, self.overall[index])
            result = near.judged(result, past)
        rounded = masses.rounded_down() if self.rounds_down else masses
        witnesses, counts = result.witnesses, result.witnesses.cells(rounded)
        if self.movers is None:  # those that are as frequent after rounding, in their order
            witnesses, counts = witnesses.most_frequent_first(counts)
            result = result.with_witnesses(witnesses)
        if counts.max(initial=0) <= np.iinfo(np.int32).max:
            counts = counts.astype(np.int32)
        return DrawnColumn(result, counts, near)
