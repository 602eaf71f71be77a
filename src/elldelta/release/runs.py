"""Counts a file whose equal rows are neighbours, as those of a release are: by where rows change.

Decoding the codes of a Parquet file takes half as long as grouping its rows. Nobody has to rely on the order:
where equal rows are not neighbours they are counted in several parts, and where there are too many of these,
or anything else is unusual, the engine counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import source_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from elldelta.engines import Progress, Table

ROWS_AT_ONCE = 1 << 18
MOST_RUNS = 1 << 18
"""Runs of equal rows above which the engine counts, whose memory does not grow with them."""
MOST_BYTES = 1 << 26
"""The same for the texts of their rows: a file of few bytes may repeat a long one in every row."""


def count_runs(table: Table, names: Sequence[str], progress: Progress | None = None) -> pa.Table | None:
    """The rows of a release, neighbours that are the same as one, and their numbers; None: ask the engine.

    Only one file of Parquet with nothing but texts in these columns is read so.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(table.files) != 1 or source_format(table.files[0]) != "parquet":
        return None
    table.require(names)
    runs: list[pa.RecordBatch] = []
    n_runs, n_bytes, done = 0, 0, 0
    try:
        with pq.ParquetFile(table.files[0], read_dictionary=list(names)) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(names), use_threads=False):
                if sorted(batch.schema.names) != sorted(names) or not all(map(_is_coded, batch.columns)):
                    return None
                batch = batch.select(names)  # noqa: PLW2901 (in the order asked for)
                starts = _starts(batch)
                n_runs += len(starts)
                n_bytes += _n_bytes(batch, starts)
                if n_runs > MOST_RUNS or n_bytes > MOST_BYTES:
                    return None
                runs.append(_runs(batch, starts))
                done += batch.num_rows
                if progress:  # the number of rows is what the file says
                    progress(min(1.0, done / max(1, file.metadata.num_rows)))
    except (pa.ArrowException, OSError, KeyError):  # no key is known for a column of lists
        return None  # the engine says what is wrong
    return pa.Table.from_batches(runs) if runs else None


def _is_coded(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(column.type == pa.dictionary(pa.int32(), pa.string()))


def _starts(batch: pa.RecordBatch) -> pa.Array:
    """Where a row differs from the one before it."""
    import pyarrow as pa

    begins = np.ones(batch.num_rows, dtype=np.bool_)
    begins[1:] = False
    for column in batch.columns:
        codes = column.indices.fill_null(-1).to_numpy()
        begins[1:] |= codes[1:] != codes[:-1]
    return pa.array(np.flatnonzero(begins))


def _n_bytes(batch: pa.RecordBatch, starts: pa.Array) -> int:
    """The length of the texts of some rows."""
    import pyarrow.compute as pc

    lengths = [
        pc.binary_length(column.dictionary).take(column.indices.take(starts)) for column in batch.columns
    ]
    return sum(pc.sum(each.cast("int64"), min_count=0).as_py() for each in lengths)


def _runs(batch: pa.RecordBatch, starts: pa.Array) -> pa.RecordBatch:
    """The first row of every run, as texts, and how long the run is."""
    import pyarrow as pa

    coded = [column.take(starts) for column in batch.columns]
    for column in coded:
        column.validate(full=True)  # also texts that no row uses
    texts = [column.dictionary_decode() for column in coded]
    lengths = pa.array(np.diff(starts.to_numpy(), append=batch.num_rows))
    return pa.RecordBatch.from_arrays([*texts, lengths], names=[*batch.schema.names, "n"])
