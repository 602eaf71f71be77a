"""The rows of a release, generated from its counts: the records are not read again.

Inside a class every sensitive column is sorted by itself, so that rows depend on the counts of each column
alone: nothing of the input's order is left, and the same counts give the same bytes. Where there are several
columns all but the first are then shuffled, by a rule that anybody can compute: it hides nothing, and keeps
readers from taking neighbours in two sorted columns for one person.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elldelta.engines import format_of
from elldelta.errors import ParameterError
from elldelta.files import unwritable

if TYPE_CHECKING:
    import io
    import os
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.core.weights import MeanWeights
    from elldelta.engines import FileFormat, Progress
    from elldelta.files import AtomicFiles
    from elldelta.release.publishable import Publishable
    from elldelta.schema.schema import Schema

    BinaryFile = io.BufferedIOBase | io.RawIOBase

ROWS_AT_ONCE = 1 << 20
"""Rows that are written at a time: the memory needed does not grow with the release."""


def write_release(
    content: Publishable,
    path: str | os.PathLike[str],
    files: AtomicFiles,
    progress: Progress | None = None,
) -> None:
    """Writes a release to a Parquet or CSV file, which appears when the block of `files` ends."""
    file_format = format_of(path)
    if str(path).endswith(".gz"):
        raise ParameterError(
            "A release is not written compressed as a whole.",
            found="Its name ends in .gz.",
            remedy="Use a name that ends in .csv or .parquet; Parquet is compressed inside.",
        )
    rows, staged = released_rows(content), files.stage(path)
    problem: OSError | None = None
    try:
        with staged.open("wb") as file:
            rows.write(file_format, file, progress)
    except OSError as error:
        problem = error
    if problem is not None:
        raise unwritable(staged, problem)


def released_rows(content: Publishable) -> ReleaseRows:
    """The rows of what is published."""
    return ReleaseRows(content.schema, content.labels, content.counts, weights=content.weights)


class _Column(NamedTuple):
    """A column of a release.

    Attributes:
        name: Its name.
        place: Which sensitive column it is; None for a column of labels, -1 for the mean weights.
        values: The label of every class, every value, or the mean of every group.
    """

    name: str
    place: int | None
    values: pa.Array


class _Rows(NamedTuple):
    """Different rows in their order.

    Attributes:
        classes: The class of each.
        values: For every sensitive column the value of each, and, if there are weights, the group that shares
            its mean weight.
        n: How often each occurs.
    """

    classes: NDArray[np.int64]
    values: tuple[NDArray[np.int64], ...]
    n: NDArray[np.int64]

    def of(self, place: int | None) -> NDArray[np.int64]:
        """The values of a sensitive column, or the classes."""
        return self.classes if place is None else self.values[place]


@dataclass(frozen=True, eq=False)
class ReleaseRows:
    """The rows that counts lead to.

    Attributes:
        schema: What the columns mean.
        labels: What is shown for every class.
        counts: Records by class and sensitive value; of every column a class has as many.
        rows_at_once: Rows that are written at a time, if no class of several columns has more.
        weights: The mean weights that are shown beside the values.
    """

    schema: Schema
    labels: Sequence[tuple[str, ...]]
    counts: NDArray[np.int64]
    rows_at_once: int = ROWS_AT_ONCE
    weights: MeanWeights | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self._by_column[0].sum())

    def coded(self) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """The class of every row and its value in every sensitive column, in their order; some at a time."""
        for rows, lengths in self._pieces():
            yield tuple(np.repeat(codes, lengths) for codes in (rows.classes, *rows.values))

    def write(self, file_format: FileFormat, file: BinaryFile, progress: Progress | None = None) -> None:
        """Writes the rows to an open file; the same rows give the same bytes."""
        done = 0
        for n_rows in self._csv(file) if file_format == "csv" else self._parquet(file):
            done += n_rows
            if progress:
                progress(done / self.n_rows)

    def _parquet(self, file: BinaryFile) -> Iterator[int]:
        """Writes Parquet; tells how many rows were written at a time."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = self._nothing().schema
        # Of real numbers few occur twice, and looking for them takes longest.
        coded = [field.name for field in schema if not pa.types.is_floating(field.type)]
        # Columns go in as codes and values, which is how Parquet stores them; without the stored Arrow schema
        # a reader sees plain columns. Statistics of columns would take as long as the columns themselves.
        with pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            store_schema=False,
            use_dictionary=coded,
            write_statistics=False,
            max_rows_per_page=self.rows_at_once,
        ) as writer:
            for batch in self.batches():
                writer.write_batch(batch, row_group_size=self.rows_at_once)
                yield batch.num_rows

    def _csv(self, file: BinaryFile) -> Iterator[int]:
        """Writes CSV: commas, quotes where needed, nothing for a missing value."""
        file.write(",".join(_csv_field(column.name) for column in self._columns).encode() + b"\n")
        for rows, lengths in self._pieces():
            file.write(self._lines(rows, lengths))
            yield int(lengths.sum())

    def to_coded_table(self) -> pa.Table:
        """The rows as an Arrow table of codes and values, which takes less memory."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self._nothing().schema)

    def to_table(self) -> pa.Table:
        """The rows as an Arrow table of plain columns."""
        import pyarrow as pa

        return pa.Table.from_batches(map(_plain, self.batches()), _plain(self._nothing()).schema)

    @cached_property
    def _by_column(self) -> list[NDArray[np.int64]]:
        return self.schema.by_column(self.counts)

    @cached_property
    def _columns(self) -> tuple[_Column, ...]:
        import pyarrow as pa

        labels = [
            _Column(name, None, pa.array([row[place] for row in self.labels], pa.string()))
            for place, name in enumerate(self.schema.names)
        ]
        values = [
            _Column(column.name, place, column.released_values())
            for place, column in enumerate(self.schema.sensitives)
        ]
        if self.weights is None or self.schema.weight is None:
            return (*labels, *values)
        return (*labels, *values, _Column(self.schema.weight.name, -1, pa.array(self.weights.means)))

    @cached_property
    def _distinct(self) -> tuple[tuple[NDArray[np.int64], pa.Array], ...]:
        """Codes and different values of every column; the code of a missing value is -1."""
        import pyarrow.compute as pc

        coded = []
        for _, _, values in self._columns:
            # Two classes may share a label of one column; Parquet gives up coding where a value is repeated.
            distinct = values.drop_null().unique()
            code_of = pc.index_in(values, value_set=distinct).fill_null(-1).to_numpy(zero_copy_only=False)
            coded.append((code_of.astype(np.int64), distinct))
        return tuple(coded)

    def _blocks(self) -> Iterator[_Rows]:
        """All different rows in their order, some classes at a time."""
        first, *others = self._by_column
        if not others:
            found = np.flatnonzero(first > 0)
            classes, shown = np.divmod(found, first.shape[1])
            yield _Rows(classes, self._with_groups(classes, (shown,)), np.ravel(first)[found])
            return
        sizes = first.sum(axis=1)
        ends = np.cumsum(sizes)
        start = 0
        while start < sizes.size:
            begin = int(ends[start] - sizes[start])
            stop = max(start + 1, int(np.searchsorted(ends, begin + self.rows_at_once, side="right")))
            classes = np.repeat(np.arange(start, stop), sizes[start:stop])
            values = tuple(
                _shuffled(counts[start:stop], classes, begin, place)
                for place, counts in enumerate(self._by_column)
            )
            values = self._with_groups(classes, values)
            yield _Rows(classes, values, np.ones(classes.size, dtype=np.int64))
            start = stop

    def _with_groups(
        self, classes: NDArray[np.int64], values: tuple[NDArray[np.int64], ...]
    ) -> tuple[NDArray[np.int64], ...]:
        return values if self.weights is None else (*values, self.weights.groups(classes, values[0]))

    def _pieces(self) -> Iterator[tuple[_Rows, NDArray[np.int64]]]:
        """The rows, so many at a time as are written together: different ones, and how often each."""
        for block in self._blocks():
            n_rows, ends = int(block.n.sum()), np.cumsum(block.n)
            for start in range(0, n_rows, self.rows_at_once):
                stop = min(start + self.rows_at_once, n_rows)
                first, last = np.searchsorted(ends, [start, stop - 1], side="right").tolist()
                rows = slice(first, last + 1)
                lengths = np.minimum(ends[rows], stop) - np.maximum(ends[rows] - block.n[rows], start)
                values = tuple(column[rows] for column in block.values)
                yield _Rows(block.classes[rows], values, block.n[rows]), lengths

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order, so many at a time, in codes and values."""
        return (self._batch(rows, lengths) for rows, lengths in self._pieces())

    def _nothing(self) -> pa.RecordBatch:
        nobody = np.zeros(0, dtype=np.int64)
        values = self._with_groups(nobody, (nobody,) * len(self._by_column))
        return self._batch(_Rows(nobody, values, nobody), nobody)

    def _batch(self, rows: _Rows, lengths: NDArray[np.int64]) -> pa.RecordBatch:
        import pyarrow as pa

        arrays, fields = [], []
        # Labels are the same for all rows of a class, which follow each other.
        starts = np.flatnonzero(np.diff(rows.classes, prepend=-1))
        by_class = rows.classes[starts], np.add.reduceat(lengths, starts)
        for column, (codes, values) in zip(self._columns, self._distinct, strict=True):
            chosen, repeats = by_class if column.place is None else (rows.values[column.place], lengths)
            # Only the values of these rows: every row group of the file repeats its list of values.
            codes_used = codes[chosen]
            used = np.flatnonzero(np.bincount(codes_used + 1, minlength=1)[1:])
            # Small numbers are written faster. The last place, which is also -1, is that of a missing value.
            places = np.full(len(values) + 1, -1, dtype=np.min_scalar_type(-len(values) - 1))
            places[used] = np.arange(used.size)
            repeated = np.repeat(places[codes_used], repeats)
            mask = repeated < 0 if (codes_used < 0).any() else None
            array = pa.DictionaryArray.from_arrays(pa.array(repeated, mask=mask), values.take(pa.array(used)))
            arrays.append(array)
            # Where nothing can be missing, nothing is written about it.
            fields.append(pa.field(column.name, array.type, nullable=column.values.null_count > 0))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _lines(self, rows: _Rows, lengths: NDArray[np.int64]) -> bytes:
        """Rows as lines of CSV, each made once, however often it occurs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        comma, end, nothing = (pa.scalar(text, pa.large_string()) for text in (",", "\n", ""))
        fields = [
            texts.take(pa.array(rows.of(column.place)))
            for column, texts in zip(self._columns, self._texts, strict=True)
        ]
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*fields, comma), end, nothing)
        return "".join(map(mul, lines.to_pylist(), lengths.tolist())).encode()

    @cached_property
    def _texts(self) -> tuple[pa.Array, ...]:
        """The values of every column as fields of CSV."""
        import pyarrow as pa

        return tuple(pa.array(_csv_fields(column.values), pa.large_string()) for column in self._columns)


def _shuffled(
    counts: NDArray[np.int64], class_of: NDArray[np.int64], begin: int, place: int
) -> NDArray[np.int64]:
    """The values of one sensitive column for all rows of some classes.

    Args:
        counts: Records by class and value.
        class_of: The class of every row.
        begin: The number of the first of these rows in the release.
        place: The number of the column: the first is left sorted.
    """
    classes, values = np.nonzero(counts)
    apart: NDArray[np.int64] = np.repeat(values, counts[classes, values])  # sorted inside every class
    if place == 0:
        return apart
    mixed = scattered(np.arange(begin, begin + class_of.size, dtype=np.uint64), place)
    shuffled: NDArray[np.int64] = apart[np.lexsort((mixed, class_of))]
    return shuffled


def scattered(numbers: NDArray[np.uint64], column: int) -> NDArray[np.uint64]:
    """Numbers in no visible order, the same everywhere and for ever (splitmix64, Steele and others 2014)."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        mixed = (numbers + np.uint64(1)) * step + np.uint64(column) * np.uint64(0xD1342543DE82EF95)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed ^ (mixed >> np.uint64(31))


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
