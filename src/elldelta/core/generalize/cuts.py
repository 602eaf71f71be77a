"""Where a hierarchy allows an ordered domain to be cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        levels = np.array(self.levels, dtype=np.int64, copy=True)
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
        levels.setflags(write=False)
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
