"""Where ordered domains may be cut: a hierarchy's groups, between boxes, inside the domain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.errors import DataError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


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
