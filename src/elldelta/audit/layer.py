"""What one release shows about common cells, whether its classes overlap or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.audit.releases import Labels

_SHOWN_TOGETHER = 3


@dataclass(frozen=True, eq=False)
class Layer:
    """What one release shows about common cells. Cells in the same classes of it have the same row.

    Attributes:
        name: Words for the release.
        labels: The labels of every class, as they are written; in one way, if there are several.
        counts: Records by class and sensitive value, every record once.
        row_of: The row of each cell.
        starts: Where the classes of each row begin in `classes`; one entry more than there are rows.
        classes: The classes of row after row; a row can have none, one or several.
    """

    name: str
    labels: Sequence[Labels]
    counts: NDArray[np.int64]
    row_of: NDArray[np.int64]
    starts: NDArray[np.int64]
    classes: NDArray[np.int64]

    @classmethod
    def over_cells(
        cls,
        name: str,
        labels: Sequence[Labels],
        counts: NDArray[np.int64],
        n_cells: int,
        pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> Layer:
        """From sorted pairs of a cell and a class that covers it."""
        cell, class_of = pairs
        starts = np.searchsorted(cell, np.arange(n_cells + 1))
        n_each = np.diff(starts)
        row_of = np.zeros(n_cells, dtype=np.int64)
        n_rows = 1
        for place in range(int(n_each.max(initial=0))):
            more = np.flatnonzero(n_each > place)
            keys = row_of[more] * (len(counts) + 1) + class_of[starts[more] + place]
            _, again = np.unique(keys, return_inverse=True)
            row_of[more] = n_rows + again  # those without a further class stay as they are
            n_rows += int(again.max()) + 1
        _, examples, row_of = np.unique(row_of, return_index=True, return_inverse=True)
        n_each = n_each[examples]
        ends = np.cumsum(n_each)
        picked = np.repeat(starts[examples] - (ends - n_each), n_each) + np.arange(int(n_each.sum()))
        row_starts = np.concatenate(([0], ends)).astype(np.int64)
        return cls(name, labels, counts, row_of.reshape(-1).astype(np.int64), row_starts, class_of[picked])

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """What every row shows: the sum over its classes."""
        from scipy.sparse import csr_array

        shape = (len(self.starts) - 1, len(self.counts))
        covers = csr_array((np.ones(len(self.classes), np.int64), self.classes, self.starts), shape=shape)
        return np.asarray(covers @ self.counts, dtype=np.int64)

    @cached_property
    def n_overlapping(self) -> int:
        """The number of cells that several classes cover."""
        return int((np.diff(self.starts)[self.row_of] > 1).sum())

    def label(self, row: int) -> tuple[str, ...]:
        """What the release shows for a row: one label, or several that cover the same people."""
        classes = self.classes[self.starts[row] : self.starts[row + 1]].tolist()
        if not classes:
            return ("no class",) * len(self.labels[0] if self.labels else ())
        shown = []
        for place in range(len(self.labels[classes[0]])):
            found = dict.fromkeys(self.labels[number][place] or "(empty)" for number in classes)
            more = len(found) - _SHOWN_TOGETHER
            listed = list(found)[:_SHOWN_TOGETHER] + ([f"{more} more"] if more > 0 else [])
            shown.append(" or ".join(listed))
        return tuple(shown)
