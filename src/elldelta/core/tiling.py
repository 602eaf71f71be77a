"""Boxes that tile a product of ordered domains, and where a hierarchy allows a domain to be cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.errors import DataError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_FEW_COMBINATIONS = 1 << 22
"""Up to this many combinations the box of every one is written down: 32 MB."""


@dataclass(frozen=True, eq=False)
class Tiling:
    """Axis-aligned boxes, given by their ends in each domain.

    On creation the boxes are checked to lie inside the domain and to have its volume, in exact whole
    numbers; a tiling whose boxes overlap is then one that misses a combination, which `locate` reports.

    Attributes:
        lows: First position of each box per attribute, R x d, read-only.
        highs: Last position, inclusive, R x d, read-only.
        sizes: The number of positions of each attribute.
    """

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        lows, highs = frozen(self.lows, np.int64, copy=True), frozen(self.highs, np.int64, copy=True)
        sizes = tuple(int(size) for size in self.sizes)
        if lows.ndim != 2 or lows.shape != highs.shape or lows.shape[1] != len(sizes) or lows.size == 0:
            raise ParameterError(
                "Boxes need a low and a high end for every attribute.",
                found=f"Shapes {lows.shape} and {highs.shape} for {len(sizes)} attributes.",
            )
        if (lows < 0).any() or (lows > highs).any() or (highs >= np.array(sizes)).any():
            raise ParameterError(
                "The ends of a box must rise and lie inside the domain.", found="At least one does not."
            )
        volume = sum(prod(lengths) for lengths in (highs - lows + 1).tolist())
        if volume != prod(sizes):
            raise ParameterError(
                f"The boxes must tile all {prod(sizes)} combinations.", found=f"They hold {volume}."
            )
        object.__setattr__(self, "lows", lows)
        object.__setattr__(self, "highs", highs)
        object.__setattr__(self, "sizes", sizes)

    @property
    def n_boxes(self) -> int:
        """The number of boxes, R."""
        return int(self.lows.shape[0])

    def locate(self, positions: ArrayLike) -> NDArray[np.intp]:
        """The box of each combination, occupied or not, given by its position in every domain."""
        points = check_positions(positions, self.sizes)
        if prod(self.sizes) <= _FEW_COMBINATIONS:
            found: NDArray[np.intp] = self._painted[tuple(points.T)]
        else:
            found = self._descend(points)
        if (found < 0).any():
            raise ParameterError(
                "The boxes overlap and leave combinations out.",
                found=f"{int((found < 0).sum())} combinations lie in no box.",
            )
        return found

    @cached_property
    def _painted(self) -> NDArray[np.intp]:
        """The box of every combination: quicker than any search where the domain is small."""
        cells = np.full(self.sizes, -1, dtype=np.intp)
        for box, (low, high) in enumerate(zip(self.lows.tolist(), (self.highs + 1).tolist(), strict=True)):
            cells[tuple(map(slice, low, high))] = box
        cells.setflags(write=False)
        return cells

    def _descend(self, points: NDArray[np.int64]) -> NDArray[np.intp]:
        """Cuts boxes and points into groups until few boxes are left to compare with."""
        found = np.full(points.shape[0], -1, dtype=np.intp)
        pending = [(np.arange(self.n_boxes), np.arange(points.shape[0]))]
        while pending:
            boxes, rows = pending.pop()
            if rows.size == 0:
                continue
            if (cut := clean_cut(self.lows[boxes], self.highs[boxes])) is not None:
                attribute, place = cut
                is_below = points[rows, attribute] <= place
                boxes_below = self.highs[boxes, attribute] <= place
                pending.append((boxes[boxes_below], rows[is_below]))
                pending.append((boxes[~boxes_below], rows[~is_below]))
                continue
            for box in boxes.tolist():
                inside = ((points[rows] >= self.lows[box]) & (points[rows] <= self.highs[box])).all(axis=1)
                found[rows[inside]] = box
        return found


@dataclass(frozen=True, eq=False)
class CutTree:
    """A hierarchy over an ordered domain in which every node is a run of positions.

    A domain is cut from the root downwards: siblings stay together until their parent is alone. An interval
    that is cut only at its largest depth (`depths`), starting from the whole domain, is always one node or a
    run of sibling nodes (`docs/theory/boxes.md`).

    Attributes:
        levels: Group numbers, one row per level from the leaves to the root, one column per position,
            read-only. Every group is a run of positions and lies inside one group of the next level.
    """

    levels: NDArray[np.int64]

    def __post_init__(self) -> None:
        levels = frozen(self.levels, np.int64, copy=True)
        if levels.ndim != 2 or levels.size == 0:
            raise ParameterError(
                "A hierarchy needs one row of group numbers per level.",
                found=f"An array of shape {levels.shape}.",
            )
        changes = levels[:, 1:] != levels[:, :-1]
        n_runs = 1 + changes.sum(axis=1)
        n_groups = np.array([np.unique(level).size for level in levels])
        if (n_runs != n_groups).any():
            raise ParameterError(
                "Every group of a hierarchy must be a run of neighbouring positions.",
                found=f"{int((n_runs - n_groups).sum())} groups are interrupted.",
                remedy="Order the domain by the hierarchy, from the root to the leaves.",
            )
        if (changes[1:] & ~changes[:-1]).any():
            raise ParameterError(
                "Every group of a hierarchy must lie inside one group of the next level.",
                found=f"{int((changes[1:] & ~changes[:-1]).sum())} groups lie in two.",
            )
        if n_groups[0] != levels.shape[1] or n_groups[-1] != 1:
            raise ParameterError(
                "A hierarchy begins with one group per position and ends with a single group.",
                found=f"{n_groups[0]} groups for {levels.shape[1]} positions, and {n_groups[-1]} at the end.",
            )
        object.__setattr__(self, "levels", levels)

    @property
    def size(self) -> int:
        """The number of positions."""
        return int(self.levels.shape[1])

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """Per position, the coarsest level at which it and the next one are apart; 0 for the last."""
        changes = self.levels[:, 1:] != self.levels[:, :-1]
        depths = np.zeros(self.size, dtype=np.int32)
        # Groups are nested, so the levels at which two neighbours differ are the first few.
        depths[:-1] = changes.sum(axis=0) - 1
        depths.setflags(write=False)
        return depths


def clean_cut(lows: NDArray[np.int64], highs: NDArray[np.int64]) -> tuple[int, int] | None:
    """A cut between boxes that goes through none of them, as even as there is one: attribute, last position.

    Args:
        lows: First positions, boxes x attributes.
        highs: Last positions, inclusive.
    """
    n_boxes = lows.shape[0]
    best: tuple[int, int, int] | None = None
    for attribute in range(lows.shape[1] if n_boxes > 1 else 0):
        ends, starts = np.sort(highs[:, attribute]), np.sort(lows[:, attribute])
        # After the i-th smallest end nothing may be open: then just i + 1 boxes have begun.
        n_begun = np.searchsorted(starts, ends, side="right")
        clean = np.flatnonzero(n_begun == np.arange(1, n_boxes + 1))
        clean = clean[clean < n_boxes - 1]
        if clean.size:
            middle = int(clean[np.argmin(np.abs(2 * (clean + 1) - n_boxes))])
            uneven = abs(2 * (middle + 1) - n_boxes)
            if best is None or uneven < best[0]:
                best = uneven, attribute, int(ends[middle])
    return None if best is None else best[1:]


def check_positions(positions: ArrayLike, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Returns positions as an n x d table of whole numbers inside their domains, or raises."""
    table = np.asarray(positions)
    if table.ndim != 2 or table.shape[1] != len(sizes) or table.dtype.kind not in "iu":
        raise DataError(
            f"Positions must be a table of whole numbers with {len(sizes)} columns.",
            found=f"Shape {table.shape} of {table.dtype}.",
        )
    outside = int(((table < 0) | (table >= np.array(sizes))).any(axis=1).sum())
    if outside:
        raise DataError("Positions must lie inside their domains.", found=f"{outside} rows do not.")
    return table.astype(np.int64, copy=False)
