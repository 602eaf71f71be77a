"""Plans by region: classes are drawn in every region by itself, and their trees joined into one.

Nothing else of a plan is made by region. What it promises is computed from the past records by class, as of
any other plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution, frozen, kept_cells
from elldelta.core.generalize.bounds import keeps, refuse_if_impossible
from elldelta.core.movers import CommonWitnesses
from elldelta.core.partition import Partition
from elldelta.core.regions import Area, as_sparse, joined_tree, stacked, upper_cuts
from elldelta.core.witnesses import Witnesses
from elldelta.engines.workers import HERE
from elldelta.errors import ParameterError, RefusedError
from elldelta.model import Model, merge_counts
from elldelta.plan.drawing import Drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.generalize.bounds import Bounds
    from elldelta.core.regions import Cut
    from elldelta.engines import Progress
    from elldelta.engines.workers import Workers
    from elldelta.model import RegionalModel
    from elldelta.plan.drawing import Drawing
    from elldelta.plan.wish import Wish


def check_regional(wish: Wish, model: RegionalModel) -> None:
    """Refuses a way of planning that needs the whole population at once.

    Raises:
        ParameterError: Runs cross regions.
        RefusedError: People move across regions, and would need witnesses in common.
    """
    if wish.kind == "paper":
        raise ParameterError(
            "A plan of the kind paper is not made by region.",
            found="Its classes are runs of the order of all combinations.",
            remedy="Ask for a certified plan, or estimate the model as one file.",
            parameter="kind",
        )
    if wish.movers == "any" or model.by in model.schema.changing:
        raise RefusedError(
            "People who move across regions need a plan that is not made by region.",
            found=f"Their classes have witnesses in common, and {model.by!r} may change about them.",
            remedy="Split the model by a column that does not change, or plan it as one file.",
            parameter="movers",
        )


def check_whole_model(workers: Workers) -> None:
    """Refuses workers for a model that has no regions."""
    if workers != HERE:
        raise ParameterError(
            "Several workers plan the regions of a model by region.",
            found="The model is one file.",
            remedy="Split it by a quasi-identifier, with 'elldelta model split', or leave this out.",
            parameter=("processes", "engine"),
        )


def late_hierarchies() -> ParameterError:
    """The refusal of hierarchies that come after the regions were counted."""
    return ParameterError(
        "The hierarchies of a model by region belong into its schema.",
        found="Its regions are counted already.",
        remedy="Write them into the schema, and estimate the model again.",
        parameter="hierarchies",
    )


def draw_by_region(
    model: RegionalModel,
    drawing: Drawing,
    promised: Bounds,
    workers: Workers,
    progress: Progress | None = None,
) -> Drawn:
    """Draws the classes of every region and joins them; the same wherever regions are drawn.

    Args:
        model: The model.
        drawing: How classes are drawn.
        promised: By what the plan is going to promise. Of closeness it needs all past records by class and
            value; otherwise those that a class can rely on.
        workers: Where regions are drawn.
        progress: Is told how far the work is.

    Raises:
        RefusedError: Not even a single class of everybody keeps the bounds; says what would.
    """
    nodes = separated(model, drawing)
    areas = tuple(node for node in nodes if isinstance(node, Area))
    located = replace(model, folder=model.folder.absolute())  # workers may be in another folder
    found = list(workers.run(_DrawArea(located, drawing, promised, areas), len(areas), progress))
    tree = joined_tree(nodes, model.place, [drawn.tree for drawn in found])
    table = stacked([as_sparse(drawn.past.mass) for drawn in found])
    past = JointDistribution(table, drawing.total, slices=model.schema.value_slices)
    return Drawn(tree, past, _joined_witnesses([drawn.common or () for drawn in found]) or None)


def separated(model: RegionalModel, drawing: Drawing) -> list[Cut | Area]:
    """The cuts between regions, and the areas that they leave, from the sums of regions alone.

    A cut is made only if on both sides a single class would keep the bounds with the share of its mass.
    """
    whole = replace(model.to_distribution(), total=drawing.total)
    refuse_if_impossible(drawing.counted(whole), drawing.bounds)
    (table,) = (block for _, block in whole.dense_blocks())
    sums = np.concatenate((np.zeros_like(table[:1]), np.cumsum(table, axis=0)))

    def passes(start: int, stop: int) -> bool:
        row = frozen(sums[stop : stop + 1] - sums[start : start + 1])
        one = JointDistribution(row, whole.total, slices=whole.slices)
        bounds = drawing.for_share(float(one.quasi_identifier_marginal[0])).bounds
        return keeps(drawing.counted(one), Partition.single(1), bounds)

    tree = model.schema.quasi_identifiers[model.place].cut_tree
    positions = np.array([region.position for region in model.regions], dtype=np.int64)
    depths = None if tree is None else tree.depths
    return upper_cuts(positions, model.schema.sizes[model.place], depths, passes)


@dataclass(frozen=True)
class _DrawArea:
    """The jobs: to draw the classes of each area."""

    model: RegionalModel
    drawing: Drawing
    promised: Bounds
    areas: tuple[Area, ...]

    def __call__(self, number: int, progress: Progress | None = None) -> Drawn:
        regions = self.model.regions[slice(*self.areas[number])]
        models = [self.model.model_of(region) for region in regions]
        counts = models[0].counts if len(models) == 1 else merge_counts(model.counts for model in models)
        share = counts.n_records / self.drawing.total
        drawn = self.drawing.for_share(share).draw(Model(counts), progress)
        if any(bound.closeness is not None for bound in self.promised):
            return drawn
        return replace(drawn, past=frequent_values(drawn, self.promised, self.drawing.groups))


def frequent_values(drawn: Drawn, bounds: Bounds, groups: NDArray[np.int64] | None) -> JointDistribution:
    """The past records by class and value, without values that are too rare for a class to rely on.

    Witnesses are the most frequent values. Twice as many are kept, so that the same are found in the end. A
    plan tells of nothing else, and all regions together would be nearly as large as their models.

    Args:
        drawn: Classes, and what they were drawn from.
        bounds: What they promise by.
        groups: The group of every value, where values of one group count as one.
    """
    past, n_values = drawn.past, drawn.past.n_values
    table, kept = as_sparse(past.mass), []
    for values, bound, (masses, result) in zip(
        past.slices, bounds, drawn.evaluated(bounds, groups), strict=True
    ):
        witnesses = result.witnesses
        classes, of_class = witnesses.classes, witnesses.values
        if drawn.common is None:
            cells = as_sparse(bound.counted(masses).mass)
            rows = np.repeat(np.arange(len(witnesses)), np.diff(cells.offsets))
            order = np.lexsort((cells.values, -cells.cells, rows))
            rank = np.arange(order.size) - cells.offsets[rows[order]]
            order = order[rank < 2 * witnesses.counts[rows[order]]]
            classes, of_class = rows[order], cells.values[order]
        kept.append(classes * n_values + of_class + values.start)
    keys = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets)) * n_values + table.values
    keeps = np.isin(keys, np.concatenate(kept))
    return JointDistribution(kept_cells(table, keeps), past.total, slices=past.slices)


def _joined_witnesses(each: Sequence[tuple[CommonWitnesses, ...]]) -> tuple[CommonWitnesses, ...]:
    """Of every sensitive column the witnesses of all areas; nobody moves from one to another."""
    joined = []
    for column in zip(*each, strict=True):
        starts = np.cumsum([0, *(len(common.witnesses) for common in column)])
        ranges = [common.range_of + start for common, start in zip(column, starts[:-1], strict=True)]
        counts, values = (
            np.concatenate([getattr(common.witnesses, name) for common in column])
            for name in ("counts", "values")
        )
        joined.append(CommonWitnesses(np.concatenate(ranges), Witnesses(counts, values)))
    return tuple(joined)
