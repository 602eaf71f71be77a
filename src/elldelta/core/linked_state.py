"""What all releases so far leave to somebody, kept so that one more release need not be linked with each.

Somebody with value s in a class can only be in releases that show s there, and linking all of those leaves
the fewest values of any group that s survives (see `fewest_in_any_group`). So per class and s it is enough to
keep what those releases leave in common: one more release takes away what it does not show. Releases under
other classes are kept apart; what somebody is left with is what all of these tables leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.linkage import n_left, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NOBODY = -1
"""Marks a cell in which nobody can be."""

_WORDS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class LinkedState:
    """What releases over the same classes leave in common.

    Attributes:
        min_records: The records with which a value counts as left.
        shown: Classes x values: whether some release shows the value there.
        left: Classes x values x words: the values, as bits, that are left to somebody with a value.
    """

    min_records: int
    shown: NDArray[np.bool_]
    left: NDArray[np.uint64]

    @classmethod
    def empty(cls, n_classes: int, n_values: int, min_records: int) -> LinkedState:
        """The state before the first release: nothing has been taken away."""
        shape = (n_classes, n_values, -(-n_values // 64))
        left = np.full(shape, np.iinfo(np.uint64).max, dtype=np.uint64)
        return cls(min_records, np.zeros(shape[:2], dtype=np.bool_), left)

    def joined(self, counts: NDArray[np.int64]) -> LinkedState:
        """The state with one more release, which shows these counts, classes x values."""
        shows = counts > 0
        left = self.left.copy()
        rows, values = np.nonzero(shows)
        left[rows, values] &= packed(counts >= self.min_records)[rows]
        return LinkedState(self.min_records, self.shown | shows, left)


def least_left(
    new: NDArray[np.int64],
    states: Sequence[LinkedState],
    class_of: Sequence[NDArray[np.int64]],
    *,
    also_in: Sequence[int] | None = None,
    min_records: int = 1,
    groups: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Per cell: the fewest values that any group of releases with the new one leaves to anybody; exactly.

    Args:
        new: What the new release shows about each cell, cells x values.
        states: What was released before, under one set of classes each, for as many records.
        class_of: The class of every cell in each of them.
        also_in: Look only at people who are also in a release of at least one of these states.
        min_records: The linked records with which a value counts as left.
        groups: The group of every value, where values of a group count once.

    Returns:
        One number per cell; `NOBODY` where nobody can be in such a group.
    """
    n_cells, n_values = new.shape
    bits = packed(new >= min_records)
    fewest = np.full(n_cells, NOBODY, dtype=np.int64)
    step = max(1, _WORDS_AT_ONCE // (n_values * bits.shape[1]))
    for start in range(0, n_cells, step):
        cells = slice(start, start + step)
        asked = new[cells] > 0
        if also_in is not None:
            others = [states[place].shown[class_of[place][cells]] for place in also_in]
            asked &= np.logical_or.reduce([np.zeros_like(asked), *others])
        left = np.repeat(bits[cells, np.newaxis], n_values, axis=1)
        for state, classes in zip(states, class_of, strict=True):
            left &= state.left[classes[cells]]
        numbers = n_left(left, n_values, groups)
        found = np.where(asked, numbers, n_values + 1).min(axis=1)
        fewest[cells] = np.where(found > n_values, NOBODY, found)
    return fewest
