"""What counts do not show of a release: columns that nobody described, ties, order, what stands beside rows.

Labels and sensitive values are counted, and their counts have a digest of their own. Rows are never looped
over: they pass by in batches.

Promises about several sensitive columns hold only if rows do not tie the columns together. So a release is
generated from the counts of each column by itself, and whoever reads one checks that its rows are just those:
other rows with the same counts could tell which values belong to one person.
"""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING

import numpy as np

from elldelta.engines import format_of, to_arrow
from elldelta.engines.cells import UnreadableTypeError, as_text
from elldelta.errors import FileError
from elldelta.release.rows import ReleaseRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Progress, Table
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


def is_as_made(table: Table, rows: ReleaseRows, progress: Progress | None = None) -> bool | None:
    """Whether a release is what its counts lead to; None if nobody can tell, as of a table of a database.

    Another order of rows could tell of people. Of a file every byte is compared, so that nothing stands
    beside its columns: the same rows give the same bytes wherever the same library writes them.
    """
    if table.given is not None:
        return _same_rows(to_arrow(table.given).to_batches(max_chunksize=_ROWS_AT_ONCE), rows, progress)
    if len(table.files) != 1:
        return None
    path = table.files[0]
    if is_by_this_library(path):
        return _same_bytes(path, rows, progress)
    import pyarrow.parquet as pq

    if pq.read_metadata(path).metadata:  # ours has no texts of its own, whatever version writes it
        return False
    try:
        return _same_rows(_batches(path), rows, progress)
    except UnreadableTypeError:  # texts to the engine that has counted them, and something else here
        return False


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, some at a time. What the engine has read, this library may refuse."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=_ROWS_AT_ONCE)
    except (pa.ArrowException, OSError):
        raise FileError(
            f"{path} is not a whole Parquet file.",
            found="Not all of its rows can be read.",
            remedy="Fetch it again from whoever published it.",
        ) from None


def is_by_this_library(path: Path) -> bool:
    """Whether a file was written by the library that writes Parquet here; CSV is written by ourselves."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if format_of(path) == "csv":
        return True
    try:
        version: str = pq.read_metadata(path).created_by
    except UnicodeDecodeError:
        return False
    return version == f"parquet-cpp-arrow version {pa.cpp_version}"


def _same_bytes(path: Path, rows: ReleaseRows, progress: Progress | None) -> bool:
    with path.open("rb") as file:
        comparison = _Comparison(file)
        rows.write(format_of(path), comparison, progress)
        return comparison.is_same and not file.read(1)


class _Comparison(io.RawIOBase):
    """A file that compares what is written to it with what stands in another one."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.is_same = True

    def writable(self) -> bool:
        return True

    def write(self, content: bytes | memoryview, /) -> int:  # type: ignore[override]
        written = memoryview(content).cast("B")
        self.is_same = self.is_same and self._file.read(len(written)) == written
        return len(written)


def _same_rows(found: Iterable[pa.RecordBatch], rows: ReleaseRows, progress: Progress | None) -> bool:
    import pyarrow as pa

    expected, start = rows.to_coded_table(), 0
    for batch in found:
        others = expected.slice(start, batch.num_rows)
        start += batch.num_rows
        if progress and rows.n_rows:
            progress(min(1.0, start / rows.n_rows))
        if not all(
            _texts(others.column(name)).equals(_texts(pa.chunked_array([batch.column(name)])))
            for name in expected.column_names
        ):
            return False
    return start == rows.n_rows


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([as_text(chunk) for chunk in column.chunks], pa.string())
