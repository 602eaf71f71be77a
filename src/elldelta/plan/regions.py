"""Plans by region: classes are drawn in every region by itself, and their trees joined into one.

Of every region only what a plan tells of its classes is kept: cuts, witnesses and their counts, failures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution, frozen
from elldelta.core.generalize.bounds import refuse_if_impossible
from elldelta.core.regions import Area, joined_tree, upper_cuts
from elldelta.engines.workers import HERE
from elldelta.errors import ParameterError, RefusedError
from elldelta.model import Model, merge_counts
from elldelta.plan.drawing import Drawn, DrawnColumn

if TYPE_CHECKING:
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
    workers: Workers,
    progress: Progress | None = None,
) -> Drawn:
    """Draws the classes of every region and joins them; the same wherever regions are drawn.

    Args:
        model: The model.
        drawing: How classes are drawn.
        workers: Where regions are drawn.
        progress: Is told how far the work is.

    Raises:
        RefusedError: Not even a single class of everybody keeps the bounds; says what would.
    """
    nodes = separated(model, drawing)
    areas = tuple(node for node in nodes if isinstance(node, Area))
    located = replace(model, folder=model.folder.absolute())  # workers may be in another folder
    cuts, records, columns = [], [], []
    for drawn in workers.run(_DrawArea(located, drawing, areas), len(areas), progress):
        cuts.append((drawn.tree.attributes, drawn.tree.places))  # a tree keeps much that follows from them
        records.append(drawn.past_records)
        columns.append(drawn.columns)
    tree = joined_tree(nodes, model.place, cuts, model.schema.sizes)
    joined = tuple(DrawnColumn.joined(each) for each in zip(*columns, strict=True))
    return Drawn(tree, np.concatenate(records), joined)


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
        n_records = int(row.sum()) // len(whole.slices)
        return drawing.for_share(n_records / model.accounting.n_counted).keeps(one)

    tree = model.schema.quasi_identifiers[model.place].cut_tree
    positions = np.array([region.position for region in model.regions], dtype=np.int64)
    depths = None if tree is None else tree.depths
    return upper_cuts(positions, model.schema.sizes[model.place], depths, passes)


@dataclass(frozen=True)
class _DrawArea:
    """The jobs: to draw the classes of each area."""

    model: RegionalModel
    drawing: Drawing
    areas: tuple[Area, ...]

    def __call__(self, number: int, progress: Progress | None = None) -> Drawn:
        models = [self.model.model_of(region) for region in range(*self.areas[number])]
        counts = models[0].counts if len(models) == 1 else merge_counts(model.counts for model in models)
        share = counts.n_records / self.model.accounting.n_counted
        return self.drawing.for_share(share).draw(Model(counts), progress)
