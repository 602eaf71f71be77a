"""Cuts the combinations of a schema into cells that no release or plan cuts, whatever their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.overlay import MOST_CELLS, overlay_boxes, overlay_runs
from elldelta.errors import RefusedError
from elldelta.plan.classes import Boxes, Merged, Runs
from elldelta.plan.label_boxes import LabelBoxes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.plan.classes import Cover
    from elldelta.schema.schema import Schema


def common_cells(schema: Schema, covers: Sequence[Cover]) -> list[NDArray[np.int64]]:
    """Per cover, the class of every common cell; -1 where it has none.

    Merged classes are laid over each other by their base classes, so releases of one plan never cost more
    cells than the plan has classes.

    Raises:
        RefusedError: There are too many cells.
    """
    bases = [cover.base if isinstance(cover, Merged) else cover for cover in covers]
    cells = _base_cells(schema, bases)
    return [
        cover.group_of[own] if isinstance(cover, Merged) else own
        for cover, own in zip(covers, cells, strict=True)
    ]


def _base_cells(schema: Schema, covers: Sequence[Cover]) -> list[NDArray[np.int64]]:
    runs = [cover.starts for cover in covers if isinstance(cover, Runs)]
    if len(runs) == len(covers):
        return overlay_runs(runs)
    tilings = [cover.tiling for cover in covers if isinstance(cover, Boxes)]
    if len(tilings) == len(covers) and all(
        np.array_equal(tiling.lows, tilings[0].lows) and np.array_equal(tiling.highs, tilings[0].highs)
        for tiling in tilings
    ):
        return [np.arange(tilings[0].n_boxes, dtype=np.int64)] * len(covers)
    boxes = [
        LabelBoxes.from_hulls(schema, *cover.hulls(schema)) if isinstance(cover, Boxes) else cover
        for cover in covers
        if isinstance(cover, Boxes | LabelBoxes)
    ]
    if len(boxes) == len(covers):
        cells, _ = overlay_boxes([cover.masks for cover in boxes], [cover.label_of for cover in boxes])
        return cells
    if schema.n_combinations > MOST_CELLS:
        raise RefusedError(
            "There are too many combinations to lay classes of different shapes over each other.",
            found=f"{schema.n_combinations} combinations, at most {MOST_CELLS} are possible.",
            remedy="Use classes of one shape, or wider ranges in the schema.",
        )
    everything = np.arange(schema.n_combinations, dtype=np.int64)
    return [cover.class_of(schema, everything) for cover in covers]
