"""What counts do not show of the rows of a release: columns that nobody described, ties, and their order.

Labels and sensitive values are counted, and their counts have a digest of their own. Rows are never looped
over: they pass by in batches.

Promises about several sensitive columns hold only if rows do not tie the columns together. So a release is
generated from the counts of each column by itself, and whoever reads one checks that its rows are just those:
other rows with the same counts could tell which values belong to one person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import source_format, to_arrow
from elldelta.engines.cells import as_text
from elldelta.files import CsvFormat
from elldelta.files.csv_format import read_header
from elldelta.release.content import column_texts
from elldelta.release.rows import ReleaseRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Table
    from elldelta.release.manifest import Manifest
    from elldelta.schema.schema import Schema

_ROWS_AT_ONCE = 1 << 18


def unknown_columns(table: Table, manifest: Manifest) -> int:
    """How many columns a release has that its manifest does not describe."""
    return len({*table.names, *table.hidden, *table.partial} - {*manifest.schema.columns})


def is_sliced(
    schema: Schema,
    counts: NDArray[np.int64],
    classes: NDArray[np.int64],
    values: Sequence[NDArray[np.int64]],
    n: NDArray[np.int64],
) -> bool:
    """Whether rows are just those that the counts of each column by itself lead to.

    Args:
        schema: What the columns mean.
        counts: Records by class and sensitive value.
        classes: The class of every different row.
        values: Its value in every sensitive column, numbered among all values.
        n: How often it occurs.
    """
    batches = zip(*ReleaseRows(schema, (), counts).coded(), strict=True)
    expected = [np.concatenate(column) for column in batches]
    positions = zip(values, schema.value_slices, strict=True)
    found = [classes, *(numbers - places.start for numbers, places in positions)]
    keys = np.zeros(n.size + (expected[0].size if expected else 0), dtype=np.int64)
    for pair in zip(found, expected, strict=True):
        both = np.concatenate(pair)
        # One column at a time, numbered again: numbers stay small.
        _, keys = np.unique(keys * (int(both.max(initial=0)) + 1) + both, return_inverse=True)
    differences = np.zeros(int(keys.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(differences, keys[: n.size], n)
    np.subtract.at(differences, keys[n.size :], 1)
    return not differences.any()


def is_in_order(
    table: Table, manifest: Manifest, counts: NDArray[np.int64], csv_format: CsvFormat | None = None
) -> bool | None:
    """Whether rows come just as their counts lead to them; None if nobody can tell.

    Another order could tell of people. A table of a database has none.
    """
    import pyarrow as pa

    try:
        batches = _batches(table, manifest, csv_format or CsvFormat())
        return None if batches is None else _is_as_made(batches, manifest, counts)
    except (pa.ArrowException, OSError):  # the engine has read it, so it is not for us to judge
        return None


def _is_as_made(batches: Iterator[pa.RecordBatch], manifest: Manifest, counts: NDArray[np.int64]) -> bool:
    """Whether rows are those of a release with these counts, in their order; there are as many of them."""
    import pyarrow as pa

    schema, number = manifest.schema, _Numbering(manifest)
    texts = {column.name: pa.array(column_texts(column), pa.string()) for column in schema.sensitives}
    expected = ReleaseRows(schema, manifest.labels, counts).coded()
    waiting: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * (1 + len(texts))
    for batch in batches:
        found = [number.classes(batch)]
        found += [_codes(batch.column(name), known) for name, known in texts.items()]
        while waiting[0].size < batch.num_rows:
            more = next(expected, None)
            if more is None:
                return False
            waiting = [np.concatenate(pair) for pair in zip(waiting, more, strict=True)]
        if not all(
            np.array_equal(one, rows[: batch.num_rows]) for one, rows in zip(found, waiting, strict=True)
        ):
            return False
        waiting = [rows[batch.num_rows :] for rows in waiting]
    return True


class _Numbering:
    """The classes of rows, by their labels."""

    def __init__(self, manifest: Manifest) -> None:
        import pyarrow as pa

        schema, labels = manifest.schema, manifest.labels
        self._names = schema.names
        self._texts: list[pa.Array] = []
        # One column at a time: numbers stay small.
        self._known: list[NDArray[np.int64]] = []
        codes = np.zeros(len(labels), dtype=np.int64)
        for place in range(len(schema.names)):
            texts = pa.array([row[place] for row in labels], pa.string()).dictionary_encode()
            self._texts.append(texts.dictionary)
            codes = codes * len(texts.dictionary) + _places(texts)
            known, codes = np.unique(codes, return_inverse=True)
            self._known.append(known)
        self._class_of = np.argsort(codes, kind="stable")

    def classes(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        labels = [_coded(batch.column(name)) for name in self._names]
        first, n = _runs(labels)
        return np.repeat(self._of_labels([column.take(first) for column in labels]), n)

    def _of_labels(self, labels: Sequence[pa.DictionaryArray]) -> NDArray[np.int64]:
        codes = np.zeros(len(labels[0]), dtype=np.int64)
        for column, texts, known in zip(labels, self._texts, self._known, strict=True):
            codes = np.searchsorted(known, codes * len(texts) + _codes(column, texts))
        found: NDArray[np.int64] = self._class_of[codes]
        return found


def _coded(column: pa.Array) -> pa.DictionaryArray:
    import pyarrow as pa

    return column if pa.types.is_dictionary(column.type) else as_text(column).dictionary_encode()


def _runs(columns: Sequence[pa.DictionaryArray]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Where rows differ from the one above, and how many are alike from there: sorted rows come in runs."""
    import pyarrow as pa

    n_rows = len(columns[0])
    is_first = np.zeros(n_rows, dtype=bool)
    is_first[:1] = True
    for column in columns:
        places = _places(column)
        is_first[1:] |= places[1:] != places[:-1]
    first = np.flatnonzero(is_first)
    return pa.array(first), np.diff(first, append=n_rows)


def _places(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """The places of cells in the dictionary; -1 for a missing one."""
    import pyarrow as pa

    found = column.indices
    if found.null_count:
        found = found.cast(pa.int64()).fill_null(-1)
    places: NDArray[np.int64] = found.to_numpy()
    return places


def _codes(column: pa.Array, texts: pa.Array) -> NDArray[np.int64]:
    """The places of cells in an array of texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        missing = pa.nulls(1, pa.string())
        known: NDArray[np.int64] = np.append(_codes(column.dictionary, texts), _codes(missing, texts))
        found: NDArray[np.int64] = known[_places(column)]
        return found
    places = pc.index_in(as_text(column), value_set=texts).fill_null(0)
    codes: NDArray[np.int64] = places.to_numpy().astype(np.int64)
    return codes


def _batches(table: Table, manifest: Manifest, csv_format: CsvFormat) -> Iterator[pa.RecordBatch] | None:
    """The rows of a release in the order in which they stand."""
    schema = manifest.schema
    names = list(schema.columns)
    if table.given is not None:
        rows = to_arrow(table.given).select(names)
        in_memory: Iterator[pa.RecordBatch] = iter(rows.to_batches(max_chunksize=_ROWS_AT_ONCE))
        return in_memory
    if not table.files:
        return None
    formats = {source_format(path) for path in table.files}
    if formats == {"parquet"}:
        return _parquet_batches(table.files, names, [*schema.names, *schema.sensitive_names])
    if formats == {"csv"}:
        return _csv_batches(table.files, names, csv_format)
    return None


def _parquet_batches(
    files: Sequence[Path], names: list[str], coded: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path, read_dictionary=list(coded)) as file:
            yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=names)


def _csv_batches(files: Sequence[Path], names: list[str], csv_format: CsvFormat) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    for path in files:
        header = read_header(path, csv_format)
        with csv.open_csv(
            path,
            csv.ReadOptions(encoding=header.encoding),
            csv.ParseOptions(
                delimiter=header.separator, quote_char=csv_format.quote, newlines_in_values=True
            ),
            csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=names,
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=False,
            ),
        ) as file:
            yield from file
