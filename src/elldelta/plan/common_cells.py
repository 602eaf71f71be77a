"""Cuts the combinations of a schema into cells that no release or plan cuts, whatever their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.arrangement import LabelRuns, arrange, overlay_runs
from elldelta.plan.classes import Boxes, Merged, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.plan.classes import Classes
    from elldelta.schema.schema import Schema


def common_cells(schema: Schema, covers: Sequence[Classes]) -> list[NDArray[np.int64]]:
    """Per cover, the class of every common cell.

    Merged classes are laid over each other by their base classes, so releases of one plan never cost more
    cells than the plan has classes.

    Raises:
        RefusedError: The classes meet in too many ways.
    """
    bases = [cover.base if isinstance(cover, Merged) else cover for cover in covers]
    cells = _base_cells(schema, bases)
    return [
        cover.group_of[classes] if isinstance(cover, Merged) else classes
        for cover, classes in zip(covers, cells, strict=True)
    ]


def boxes_of(
    schema: Schema, classes: Classes
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Classes as boxes that do not overlap: the lowest and highest positions of each box, and its class."""
    if isinstance(classes, Merged):
        lows, highs, base = boxes_of(schema, classes.base)
        return lows, highs, classes.group_of[base]
    if isinstance(classes, Runs):
        return _boxes_of_runs(schema, classes)
    lows, highs = classes.hulls(schema)
    return lows, highs, np.arange(len(lows), dtype=np.int64)


def _base_cells(schema: Schema, covers: Sequence[Classes]) -> list[NDArray[np.int64]]:
    runs = [cover.starts for cover in covers if isinstance(cover, Runs)]
    if len(runs) == len(covers):
        return overlay_runs(runs)
    trees = [cover.tree for cover in covers if isinstance(cover, Boxes)]
    if len(trees) == len(covers) and all(
        np.array_equal(tree.attributes, trees[0].attributes) and np.array_equal(tree.places, trees[0].places)
        for tree in trees
    ):
        return [np.arange(trees[0].n_leaves, dtype=np.int64)] * len(covers)
    boxes = [boxes_of(schema, cover) for cover in covers]
    lows, highs, class_of = (np.concatenate(parts) for parts in zip(*boxes, strict=True))
    columns = [LabelRuns.from_ends(lows[:, place], highs[:, place]) for place in range(lows.shape[1])]
    cells = arrange([runs for runs, _ in columns], np.stack([label_of for _, label_of in columns], axis=1))
    # Every cover holds every combination once, so a cell lies in one box of each, in the order of the covers.
    return list(class_of[cells.classes.reshape(cells.n_cells, len(covers))].T)


def _boxes_of_runs(
    schema: Schema, runs: Runs
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A run from 1|2|3 to 1|7|9: what follows 1|2|3 within 1|2, then 1|3 to 1|6, then the rest.

    Where the ends first differ lies the middle; every attribute behind it adds a box at each end.
    """
    tops = np.array(schema.sizes, dtype=np.int64) - 1
    first, last = (
        schema.unrank(runs.starts),
        schema.unrank(np.append(runs.starts[1:], schema.n_combinations) - 1),
    )
    n_columns = len(tops)
    differs = first != last
    split = np.where(differs.any(axis=1), differs.argmax(axis=1), n_columns - 1)
    found = []
    for place in range(n_columns):
        is_last = place == n_columns - 1
        for ends, side in ((first, "low"), (last, "high"), (first, "middle")):
            chosen = np.flatnonzero(split == place if side == "middle" else split < place)
            lows, highs = np.zeros((len(chosen), n_columns), np.int64), np.tile(tops, (len(chosen), 1))
            lows[:, :place] = highs[:, :place] = ends[chosen, :place]
            if side != "high":  # the end itself belongs to a later attribute, unless there is none
                lows[:, place] = first[chosen, place] + (not is_last)
            if side != "low":
                highs[:, place] = last[chosen, place] - (not is_last)
            is_there = lows[:, place] <= highs[:, place]
            found.append((lows[is_there], highs[is_there], chosen[is_there]))
    lows, highs, class_of = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return lows, highs, class_of.astype(np.int64)
