"""Lays different partitions of one domain over each other: the cells that no partition cuts.

Releases with different classes are linked where their classes meet. Both functions here cut the domain
into cells that lie inside one class of every release, so that `elldelta.core.linkage.link` sees ordinary
partitions of a common set of cells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NO_CLASS = -1
"""Marks a cell that no class of a release covers: the release has nobody there."""

MOST_CELLS = 50_000_000
"""Above this many cells an overlay of boxes is refused: it would not fit a laptop."""


def overlay_runs(starts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """The class of every common cell, per release, for runs given by the ranks at which they begin.

    >>> [classes.tolist() for classes in overlay_runs([np.array([0, 4]), np.array([0, 2, 4])])]
    [[0, 0, 1], [0, 1, 2]]
    """
    cells = np.unique(np.concatenate(starts))
    return [np.searchsorted(own, cells, side="right").astype(np.int64) - 1 for own in starts]


def overlay_boxes(
    masks: Sequence[Sequence[NDArray[np.bool_]]], labels: Sequence[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], tuple[NDArray[np.int64], ...]]:
    """The class of every common cell, per release, for classes that are products of sets of positions.

    Positions of an attribute that every label of every release treats alike are one coordinate of the
    cells, so the cells are as few as the labels allow.

    Args:
        masks: Per release and attribute, the positions that each label names: labels x positions.
        labels: Per release, the label of each class in each attribute: classes x attributes.

    Returns:
        Per release the class of each cell in row-major order, or `NO_CLASS`; and per attribute the
        coordinate of every position.

    Raises:
        ParameterError: Two classes of one release overlap.
        RefusedError: There are too many cells.
    """
    n_attributes = labels[0].shape[1]
    coordinates: list[NDArray[np.int64]] = []
    compressed: list[list[NDArray[np.bool_]]] = [[] for _ in masks]
    for attribute in range(n_attributes):
        stacked = np.concatenate([own[attribute] for own in masks])
        patterns, coordinate = np.unique(stacked, axis=1, return_inverse=True)
        coordinates.append(coordinate.reshape(-1).astype(np.int64))
        offset = 0
        for own, reduced in zip(masks, compressed, strict=True):
            n_labels = len(own[attribute])
            reduced.append(patterns[offset : offset + n_labels])
            offset += n_labels
    shape = tuple(int(coordinate.max()) + 1 for coordinate in coordinates)
    if math.prod(shape) > MOST_CELLS:
        raise RefusedError(
            "The releases are cut in too many different ways to be laid over each other.",
            found=f"{math.prod(shape)} cells, at most {MOST_CELLS} are possible.",
            remedy="Link fewer releases at a time, or releases made with one plan.",
        )
    return [_paint(own, label_of, shape) for own, label_of in zip(compressed, labels, strict=True)], tuple(
        coordinates
    )


def _paint(
    masks: Sequence[NDArray[np.bool_]], label_of: NDArray[np.int64], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Writes the number of each class into its cells; refuses a cell that two classes claim."""
    cells = np.full(shape, NO_CLASS, dtype=np.int64)
    places = [[np.flatnonzero(mask) for mask in own] for own in masks]
    for index, own_labels in enumerate(label_of.tolist()):
        box = np.ix_(*(places[attribute][label] for attribute, label in enumerate(own_labels)))
        if (cells[box] != NO_CLASS).any():
            raise ParameterError(
                "Two classes of one release overlap, so nobody can tell which one a person is in.",
                remedy="Give the plan or the manifest that the release was made with.",
            )
        cells[box] = index
    return cells.ravel()
