"""Rows with several sensitive columns that do not tell which values belong to one person.

Inside a class every column is sorted by itself, so that the rows depend on the counts of each column alone.
Then all columns but the first are shuffled, by a rule that anybody can compute: it hides nothing, and keeps
readers from taking neighbours in two sorted columns for one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines.repeated_rows import ROWS_AT_ONCE, GeneratedRows, RepeatedRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines.repeated_rows import CodedColumn


@dataclass(frozen=True, eq=False)
class SlicedRows(GeneratedRows):
    """The rows of classes, of which only the counts of each sensitive column are known.

    Attributes:
        labels: For each column of labels its name, the code of each class, and the value of each code.
        columns: For each sensitive column its name and its values.
        counts: For each of these the records by class and value; all have the same records in a class.
        rows_at_once: Rows that are spelt out at a time, if no class has more.
    """

    labels: tuple[CodedColumn, ...]
    columns: tuple[tuple[str, pa.Array], ...]
    counts: tuple[NDArray[np.int64], ...]
    rows_at_once: int = ROWS_AT_ONCE

    @property
    def n_rows(self) -> int:
        """The number of rows in full."""
        return int(self.counts[0].sum())

    def coded(self) -> Iterator[tuple[NDArray[np.int64], tuple[NDArray[np.int64], ...]]]:
        """The class of every row, and its value in every sensitive column; some classes at a time."""
        sizes = self.counts[0].sum(axis=1)
        ends = np.cumsum(sizes)
        first = 0
        while first < sizes.size:
            begin = int(ends[first] - sizes[first])
            last = max(first + 1, int(np.searchsorted(ends, begin + self.rows_at_once, side="right")))
            classes = np.repeat(np.arange(first, last), sizes[first:last])
            yield (
                classes,
                tuple(
                    self._values(place, slice(first, last), classes, begin)
                    for place in range(len(self.counts))
                ),
            )
            first = last

    def _values(
        self, place: int, classes: slice, class_of: NDArray[np.int64], begin: int
    ) -> NDArray[np.int64]:
        counts = self.counts[place][classes]
        rows, values = np.nonzero(counts)
        apart: NDArray[np.int64] = np.repeat(values, counts[rows, values])  # sorted inside every class
        if place == 0:
            return apart
        mixed = scattered(np.arange(begin, begin + class_of.size, dtype=np.uint64), place)
        shuffled: NDArray[np.int64] = apart[np.lexsort((mixed, class_of))]
        return shuffled

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for classes, values in self.coded():
            if classes.size:
                yield from self._block(classes, values)._batches()

    def _nothing(self) -> pa.RecordBatch:
        nobody = np.zeros(0, dtype=np.int64)
        return self._block(nobody, (nobody,) * len(self.columns))._nothing()

    def _block(self, classes: NDArray[np.int64], values: tuple[NDArray[np.int64], ...]) -> RepeatedRows:
        columns = [(name, codes[classes], texts) for name, codes, texts in self.labels]
        columns += [(name, own, texts) for own, (name, texts) in zip(values, self.columns, strict=True)]
        return RepeatedRows(tuple(columns), np.ones(classes.size, dtype=np.int64), self.rows_at_once)


def scattered(numbers: NDArray[np.uint64], column: int) -> NDArray[np.uint64]:
    """Numbers in no visible order, the same everywhere and for ever (splitmix64, Steele and others 2014)."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        mixed = (numbers + np.uint64(1)) * step + np.uint64(column) * np.uint64(0xD1342543DE82EF95)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))
