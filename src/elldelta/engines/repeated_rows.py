"""Rows that are given once, with how often each occurs, and written out in full."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.files import unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines.table import Progress

    CodedColumn = tuple[str, NDArray[np.int64], pa.Array]

ROWS_AT_ONCE = 1 << 20
"""Rows that are spelt out at a time: the memory needed does not grow with the release."""


class GeneratedRows(ABC):
    """Rows that come from counts, in batches, and are written out in full."""

    rows_at_once: int

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows in full."""

    @abstractmethod
    def _batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in their order; every column as codes and values."""

    @abstractmethod
    def _nothing(self) -> pa.RecordBatch:
        """A batch without a row."""

    def write_parquet(self, path: Path, progress: Progress | None = None) -> None:
        """Writes the rows as Parquet; the same rows give the same bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = self._nothing().schema
        # Of real numbers few occur twice, and looking for them takes longest.
        coded = [field.name for field in schema if not pa.types.is_floating(field.type)]
        problem: OSError | None = None
        try:
            # Columns go in as codes and values, which is how Parquet stores them; without the stored Arrow
            # schema a reader sees plain columns.
            # Statistics are updated per batch of rows, so small batches take twice the time.
            with pq.ParquetWriter(
                path,
                schema,
                compression="zstd",
                store_schema=False,
                use_dictionary=coded,
                write_batch_size=max(1, self.rows_at_once // 16),
            ) as writer:
                done = 0
                for batch in self._batches():
                    writer.write_batch(batch, row_group_size=self.rows_at_once)
                    done += batch.num_rows
                    if progress:
                        progress(done / self.n_rows)
        except OSError as error:
            problem = error
        except pa.ArrowException:
            problem = OSError()
        if problem is not None:
            raise unwritable(path, problem)

    def write_csv(self, path: Path, progress: Progress | None = None) -> None:
        """Writes the rows as CSV: commas, quotes where needed, nothing for a missing value."""
        problem: OSError | None = None
        try:
            with path.open("wb") as file:
                names = self._nothing().schema.names
                file.write(",".join(map(_csv_field, names)).encode() + b"\n")
                done = 0
                for lines, n_lines in self._lines():
                    file.write(lines)
                    done += n_lines
                    if progress:
                        progress(done / self.n_rows)
        except OSError as error:
            problem = error
        if problem is not None:
            raise unwritable(path, problem)

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        """All rows as lines of CSV, some at a time, and how many they are."""
        return ((_csv_lines(batch), batch.num_rows) for batch in self._batches())

    def to_table(self) -> pa.Table:
        """The rows as an Arrow table of plain columns."""
        import pyarrow as pa

        return pa.Table.from_batches(map(_plain, self._batches()), _plain(self._nothing()).schema)

    def to_reader(self, progress: Progress | None = None) -> pa.RecordBatchReader:
        """The rows as a stream of plain columns, spelt out as they are asked for."""
        import pyarrow as pa

        def batches() -> Iterator[pa.RecordBatch]:
            done = 0
            for batch in self._batches():
                yield _plain(batch)
                done += batch.num_rows
                if progress:
                    progress(done / self.n_rows)

        schema = _plain(self._nothing()).schema
        return pa.RecordBatchReader.from_batches(schema, batches())


@dataclass(frozen=True, eq=False)
class RepeatedRows(GeneratedRows):
    """Distinct rows and how often each is to be written.

    Attributes:
        columns: For each column its name, the code of each row, and the value of each code.
        n: How often each row occurs.
        rows_at_once: Rows that are spelt out at a time.
    """

    columns: tuple[CodedColumn, ...]
    n: NDArray[np.int64]
    rows_at_once: int = ROWS_AT_ONCE

    @property
    def n_rows(self) -> int:
        """The number of rows in full."""
        return int(self.n.sum())

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        # A line is spelt once, however often it occurs.
        texts = [_csv_fields(values) for _, _, values in self.columns]
        codes = [codes.tolist() for _, codes, _ in self.columns]
        for row, n in enumerate(self.n.tolist()):
            fields = (text[code[row]] for text, code in zip(texts, codes, strict=True))
            line = ",".join(fields).encode() + b"\n"
            for start in range(0, n, self.rows_at_once):
                n_lines = min(self.rows_at_once, n - start)
                yield line * n_lines, n_lines

    def _nothing(self) -> pa.RecordBatch:
        return self._batch(slice(0, 0), self.n[:0])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        n_rows, ends = self.n_rows, np.cumsum(self.n)
        for start in range(0, n_rows, self.rows_at_once):
            stop = min(start + self.rows_at_once, n_rows)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
            rows = slice(first, last + 1)
            lengths = np.minimum(ends[rows], stop) - np.maximum(ends[rows] - self.n[rows], start)
            yield self._batch(rows, lengths)

    def _batch(self, rows: slice, lengths: NDArray[np.int64]) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = []
        for codes, values in self._coded:
            # Only the values of these rows: every row group of the file repeats its list of values.
            own = codes[rows]
            used = np.flatnonzero(np.bincount(own + 1, minlength=1)[1:])
            # Small numbers are written faster. The last place, which is also -1, is that of a missing value.
            places = np.full(len(values) + 1, -1, dtype=np.min_scalar_type(-len(values) - 1))
            places[used] = np.arange(used.size)
            repeated = np.repeat(places[own], lengths)
            arrays.append(
                pa.DictionaryArray.from_arrays(
                    pa.array(repeated, mask=repeated < 0 if (own < 0).any() else None),
                    values.take(pa.array(used)),
                )
            )
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in self.columns])

    @cached_property
    def _coded(self) -> tuple[tuple[NDArray[np.int64], pa.Array], ...]:
        """Codes and distinct values of every column; the code of a missing value is -1."""
        import pyarrow.compute as pc

        coded = []
        for _, codes, values in self.columns:
            # Two classes may share a label of one column; Parquet gives up coding where a value is repeated.
            distinct = values.drop_null().unique()
            code_of = pc.index_in(values, value_set=distinct).fill_null(-1).to_numpy(zero_copy_only=False)
            coded.append((code_of.astype(np.int64)[codes], distinct))
        return tuple(coded)


class ContinuedRows(GeneratedRows):
    """Generated rows, each of them continued by the cells of further columns.

    If there are fewer cells than rows or more, only `n_found` tells: then what is written is of no use.

    Args:
        rows: The rows.
        cells: The further columns of all rows in their order, in batches of any size: at least one.
    """

    def __init__(self, rows: GeneratedRows, cells: Iterator[pa.RecordBatch]) -> None:
        self.rows_at_once = rows.rows_at_once
        self.n_found = 0
        self._rows = rows
        self._cells = (self._noted(batch) for batch in cells)

    @property
    def n_rows(self) -> int:
        """The number of rows in full."""
        return self._rows.n_rows

    def _noted(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        self.n_found += cells.num_rows
        return cells

    @cached_property
    def _first(self) -> pa.RecordBatch:
        return next(self._cells)

    def _nothing(self) -> pa.RecordBatch:
        return _beside(self._rows._nothing(), self._first.slice(0, 0))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        waiting = pa.Table.from_batches([self._first])
        for batch in self._rows._batches():
            # Cut as the rows are: how an engine cuts them may differ from run to run.
            while waiting.num_rows < batch.num_rows:
                more = next(self._cells, None)
                if more is None:
                    return
                waiting = pa.concat_tables([waiting, pa.Table.from_batches([more])])
            [own] = waiting.slice(0, batch.num_rows).combine_chunks().to_batches()
            waiting = waiting.slice(batch.num_rows)
            yield _beside(batch, own)
        for _ in self._cells:
            """Only to be counted."""


def _beside(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [*one.columns, *other.columns], names=[*one.schema.names, *other.schema.names]
    )


def _csv_lines(batch: pa.RecordBatch) -> bytes:
    """The lines of a batch of codes and values, joined by the thousand and not one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    comma, end, nothing = (pa.scalar(text, pa.large_string()) for text in (",", "\n", ""))
    fields = [
        pa.array(_csv_fields(column.dictionary), pa.large_string()).take(column.indices).fill_null("")
        for column in batch.columns
    ]
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*fields, comma), end, nothing)
    return "".join(lines.to_pylist()).encode()


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [column.dictionary_decode() for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _csv_fields(values: pa.Array) -> list[str]:
    return ["" if value is None else _csv_field(str(value)) for value in values.to_pylist()]


def _csv_field(text: str) -> str:
    # The empty text is quoted, so that it differs from a missing value.
    if text == "" or text != text.strip() or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
