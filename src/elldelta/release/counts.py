"""Reading a release back: how often each sensitive value occurs with each set of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines.texts import count_texts
from elldelta.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines.table import Progress, Table


@dataclass(frozen=True, eq=False)
class ReleaseCounts:
    """The content of a release, as anyone who holds it sees it. Classes are told apart by their labels.

    Attributes:
        quasi_identifiers: The names of the label columns.
        sensitive: The name of the sensitive column.
        labels: For every class its labels, in the order of the columns; None where there is none. Sorted.
        values: The sensitive values that occur, as text; None for a missing one, which comes last. Sorted.
        classes: For each cell with a record, the number of its class.
        value_of: For each cell, the number of its sensitive value.
        n: For each cell, the number of records.
    """

    quasi_identifiers: tuple[str, ...]
    sensitive: str
    labels: tuple[tuple[str | None, ...], ...]
    values: tuple[str | None, ...]
    classes: NDArray[np.int64]
    value_of: NDArray[np.int64]
    n: NDArray[np.int64]

    @property
    def n_records(self) -> int:
        """The number of records of the release."""
        return int(self.n.sum())

    def dense(self) -> NDArray[np.int64]:
        """The table of classes x sensitive values."""
        table = np.zeros((len(self.labels), len(self.values)), dtype=np.int64)
        table[self.classes, self.value_of] = self.n
        return table


def count_release(
    table: Table, quasi_identifiers: Sequence[str], sensitive: str, *, progress: Progress | None = None
) -> ReleaseCounts:
    """Counts a release by (labels, sensitive value); the file is read once."""
    import pyarrow as pa

    names = (*quasi_identifiers, sensitive)
    cells = pa.Table.from_batches(count_texts(table, names, progress))
    coded = [_coded(cells.column(place)) for place in range(len(names))]
    n = cells.column(len(names)).to_numpy().astype(np.int64)
    if table.n_rows is not None and int(n.sum()) != table.n_rows:
        raise InternalError(
            "Records were lost or invented while reading.",
            found=f"{table.origin} holds {table.n_rows} records, {int(n.sum())} were read.",
            remedy="Make sure that nothing changes the file meanwhile; otherwise please report this.",
        )
    rows = np.stack([codes for codes, _ in coded[:-1]], axis=1)
    # Numbers the rows one column at a time: numbers stay small, and sorting rows is slow.
    classes, examples = np.zeros(len(rows), dtype=np.int64), np.zeros(0, dtype=np.intp)
    for codes, texts in coded[:-1]:
        keys = classes * max(len(texts), 1) + codes
        _, examples, classes = np.unique(keys, return_index=True, return_inverse=True)
    distinct = rows[examples]
    value_of, values = coded[-1]
    order = np.lexsort((value_of, classes))
    labels = tuple(
        tuple(texts[code] for code, (_, texts) in zip(row, coded[:-1], strict=True))
        for row in distinct.tolist()
    )
    return ReleaseCounts(
        tuple(quasi_identifiers),
        sensitive,
        labels,
        values,
        *(_frozen(array[order]) for array in (classes, value_of, n)),
    )


def _coded(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], tuple[str | None, ...]]:
    """Codes of texts in sorted order, a missing one last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.cast(pa.string()).combine_chunks()
    distinct = pc.unique(array)
    distinct = distinct.take(pc.array_sort_indices(distinct))  # a missing one comes last
    codes: NDArray[np.int64] = pc.index_in(array, value_set=distinct).to_numpy().astype(np.int64)
    return codes, tuple(distinct.to_pylist())


def _frozen(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.ascontiguousarray(array, dtype=np.int64)
    array.setflags(write=False)
    return array
