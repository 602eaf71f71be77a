"""What a manifest says about the rows themselves: their columns, their order, and the columns that are kept.

Labels and sensitive values are counted, and their counts have a digest of their own; what is checked here is
what counts do not show. Rows are never looped over: they pass by in batches, or are grouped in the engine.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import source_format, to_arrow
from elldelta.engines.cells import as_text
from elldelta.files import CsvFormat, digest_of_parts
from elldelta.files.csv_format import read_header
from elldelta.release.content import column_texts, sensitive_texts
from elldelta.release.sliced import made_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Progress, Table
    from elldelta.release.manifest import Manifest

_ROWS_AT_ONCE = 1 << 18
_END = "\x1f"
"""Ends a cell in the text of a row."""


def unknown_columns(table: Table, manifest: Manifest) -> int:
    """How many columns a release has that its manifest does not describe."""
    schema = manifest.schema
    return len({*table.names, *table.hidden, *table.partial} - {*schema.columns})


def unreadable_files(source: object, files: Sequence[Path]) -> str | None:
    """What of the files of a release is not read whole, in words: it could show what no check sees.

    Args:
        source: Where the release is; a folder holds nothing but its table.
        files: The files of its table.
    """
    # Of such lines some keys are never asked for, and of equal ones only one is.
    if any(source_format(path) == "json" for path in files):
        return "It is in JSON lines, in which anything can stand beside the columns."
    folder = Path(source) if isinstance(source, str | os.PathLike) else None
    if folder is None or not folder.is_dir():
        return None
    read = {path.resolve() for path in files}
    others = [path for path in folder.rglob("*") if not path.is_dir() and path.resolve() not in read]
    # Spark marks a whole folder with an empty file.
    n_others = sum(path.name != "_SUCCESS" or path.stat().st_size > 0 for path in others)
    return f"{n_others} files in its folder are no part of the table." if n_others else None


def file_digest(files: Sequence[Path]) -> str:
    """The digest of the bytes of a file, or of all files of a folder: covers whatever they show."""
    parts = []
    for path in sorted(files):
        with path.open("rb") as file:
            parts.append(hashlib.file_digest(file, "sha256").digest())
    return "sha256:" + parts[0].hex() if len(parts) == 1 else digest_of_parts(parts)


def kept_digest(table: Table, names: Sequence[str], progress: Progress | None = None) -> str:
    """The digest of all columns of a release that is no file, kept ones included: how often every row occurs.

    Cells are spelt by us and not by the engine, and rows are sorted by that spelling: the digest depends
    neither on the engine nor on the order of the rows. Equal rows are counted in the engine; what comes here
    is one text for every different one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, numbers = [], []
    for batch in table.count_texts(names, progress):
        cells = [_escaped(batch.column(place)) for place in range(len(names))]
        empty = pa.scalar("", pa.large_string())
        rows.append(pc.binary_join_element_wise(*cells, empty, pa.scalar(_END, pa.large_string())))
        numbers.append(batch.column(len(names)).cast(pa.int64()))
    counted = pa.table({"row": pa.chunked_array(rows), "n": pa.chunked_array(numbers)})
    # What engines tell apart may be spelt alike.
    counted = counted.group_by("row").aggregate([("n", "sum")]).sort_by("row")
    return digest_of_parts(_spelt(counted))


def _spelt(counted: pa.Table) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in counted.to_batches(max_chunksize=_ROWS_AT_ONCE):
        n = batch.column("n_sum").cast(pa.large_string())
        end = pa.scalar(_END, pa.large_string())
        texts = pc.binary_join_element_wise(batch.column("row"), n, end, pa.scalar("", pa.large_string()))
        yield "".join(texts.to_pylist()).encode()


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts in which nothing can be mistaken for the end of a cell, or for a missing one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.replace_substring(texts.cast(pa.large_string()), "\\", "\\\\")
    return pc.replace_substring(texts, _END, "\\e").fill_null("\\0")


def is_in_order(
    table: Table, manifest: Manifest, counts: NDArray[np.int64], csv_format: CsvFormat | None = None
) -> bool | None:
    """Whether rows come by class, value and kept columns, as `sorted` says; None if nobody can tell.

    A table of a database has no order, and files elsewhere are not read twice. Where there are several
    sensitive columns, rows must come just as the counts lead to them: another order could tell of people.
    """
    import pyarrow as pa

    try:
        batches = _batches(table, manifest, csv_format or CsvFormat())
        if batches is None:
            return None
        if manifest.schema.also_sensitive:
            return _is_as_made(batches, manifest, counts)
        return _is_sorted(batches, manifest)
    except (pa.ArrowException, OSError):  # the engine has read it, so it is not for us to judge
        return None


def _is_sorted(batches: Iterator[pa.RecordBatch], manifest: Manifest) -> bool:
    schema, number = manifest.schema, _Numbering(manifest)
    kinds = {} if manifest.kept is None else manifest.kept["kinds"]

    def rises(keys: NDArray[np.int64], kept: pa.RecordBatch) -> bool:
        return _rises(keys, [_steps(kept.column(name), kinds.get(name, "other")) for name in schema.kept])

    last: tuple[np.int64, pa.RecordBatch] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        keys, kept = number.of(batch), batch.select(schema.kept)
        if last is not None and not rises(np.array([last[0], keys[0]]), _joined(last[1], kept.slice(0, 1))):
            return False
        if not rises(keys, kept):
            return False
        last = keys[-1], kept.slice(batch.num_rows - 1)
    return True


def _is_as_made(batches: Iterator[pa.RecordBatch], manifest: Manifest, counts: NDArray[np.int64]) -> bool:
    import pyarrow as pa

    schema, number = manifest.schema, _Numbering(manifest)
    texts = {column.name: pa.array(column_texts(column), pa.string()) for column in schema.sensitives}
    expected, begin = made_rows(schema, counts), 0
    for batch in batches:
        end = begin + batch.num_rows
        found = [number.classes(batch)]
        found += [_codes(batch.column(name), own) for name, own in texts.items()]
        if not all(np.array_equal(one, rows[begin:end]) for one, rows in zip(found, expected, strict=True)):
            return False
        begin = end
    return True


def _joined(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(map(_decoded, one.columns), map(_decoded, other.columns), strict=True)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(pair) for pair in columns], names=one.schema.names)


def _decoded(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class _Numbering:
    """Where rows belong: the numbers of class and sensitive value as one."""

    def __init__(self, manifest: Manifest) -> None:
        import pyarrow as pa

        schema, labels = manifest.schema, manifest.labels
        self._names = schema.names
        self._sensitive = schema.sensitive.name
        self._values = pa.array(sensitive_texts(schema), pa.string())
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

    def of(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        columns = [_coded(batch.column(name)) for name in (*self._names, self._sensitive)]
        first, n = _runs(columns)
        *labels, values = (column.take(first) for column in columns)
        return np.repeat(self._of_labels(labels) * len(self._values) + _codes(values, self._values), n)

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
    own = pc.index_in(as_text(column), value_set=texts).fill_null(0)
    codes: NDArray[np.int64] = own.to_numpy().astype(np.int64)
    return codes


_Steps = tuple["NDArray[np.bool_]", "NDArray[np.bool_]"]


def _rises(keys: NDArray[np.int64], kept: Sequence[_Steps | None]) -> bool:
    """Whether no row comes before the one above it."""
    steps = np.diff(keys)
    if (steps < 0).any():
        return False
    tied = steps == 0
    for column in kept:
        if column is None:  # what cannot be compared decides nothing, nor does what stands behind it
            return True
        less, equal = column
        if (tied & ~less & ~equal).any():
            return False
        tied &= equal
    return True


def _steps(column: pa.Array, kind: str) -> _Steps | None:
    """From row to row: whether a kept column rises, and whether it stays; None if it cannot be compared."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    types = pa.types
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    if kind == "other" or (kind == "timestamp" and is_text):
        return None
    ordered = column
    try:
        if is_text and kind in ("integer", "real"):  # from CSV, where numbers are texts
            ordered = column.cast(pa.int64() if kind == "integer" else pa.float64())
        above, below = ordered.slice(0, len(column) - 1), ordered.slice(1)
        less, equal = pc.less(above, below), pc.equal(column.slice(0, len(column) - 1), column.slice(1))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    is_null = _flags(ordered.is_null())
    is_nan = _flags(pc.is_nan(ordered)) if types.is_floating(ordered.type) else np.zeros_like(is_null)
    rank = is_nan.astype(np.int8) + 2 * is_null  # missing ones last, before them what is no number
    same = rank[:-1] == rank[1:]
    stays = same & ((rank[:-1] > 0) | _flags(equal))
    # Texts that differ may be one number: then either may come first.
    alike = same & ~stays & _flags(pc.equal(above, below))
    rises = (rank[:-1] < rank[1:]) | (same & _flags(less)) | alike
    return rises, stays


def _flags(values: pa.Array) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = values.fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    return flags


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
