"""Records with a value outside its domain, put aside for their owner: they are fetched from any engine."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import format_of, sql
from elldelta.errors import DataError, InternalError
from elldelta.files import unwritable
from elldelta.schema.domains import UNKNOWN

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from elldelta.engines import Progress
    from elldelta.files import AtomicFiles
    from elldelta.model import CountedTable

_FIRST_DAY = -2_440_588
"""Day 0 of the Julian calendar in days since 1970: what is infinite in a database would lie before it."""


def write_quarantine(
    counted: CountedTable,
    path: str | os.PathLike[str],
    files: AtomicFiles,
    *,
    progress: Progress | None = None,
) -> int:
    """Writes the records with a value outside its domain, as they are, to a file; returns their number.

    The rows are personal data, all columns included: the file is for the owner of the records only.
    """
    import pyarrow as pa

    file_format = format_of(path)
    table, engine = counted.table, counted.table.engine
    target = files.stage(path, private=True)
    relations: list[str] = []
    keys: list[str] = []
    with engine.discarding(relations):
        for key, encoding in zip(counted.keys, counted.encodings, strict=True):
            unknown = encoding.cells.filter(pa.array(encoding.positions == UNKNOWN))
            if len(unknown):
                keys.append(key)
                hits = pa.table({"raw": unknown, "hit": np.ones(len(unknown), np.int64)})
                relations.append(engine.put(hits))
        query = sql.quarantined_rows(table.relation, keys, relations, table.names)
        relations.append(engine.store(query, progress))
        with closing(engine.fetch(relations[-1])) as batches:
            n_rows = _write(batches, target, file_format)
    expected = counted.counts.accounting.n_quarantined
    if n_rows != expected:
        raise InternalError(
            "The quarantined records are not those that were counted.",
            found=f"{expected} were counted, {n_rows} written.",
            remedy="Make sure that nothing changes the table meanwhile; otherwise please report this.",
        )
    return n_rows


def _write(batches: Iterator[pa.RecordBatch], path: Path, file_format: str) -> int:
    import pyarrow as pa
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    n_rows, problem = 0, OSError()
    first = next(batches)
    try:
        with (
            pq.ParquetWriter(path, first.schema, compression="zstd")
            if file_format == "parquet"
            else pacsv.CSVWriter(path, first.schema)
        ) as writer:
            batch: pa.RecordBatch | None = first
            while batch is not None:
                _check_calendar(batch)
                writer.write_batch(batch)
                n_rows += batch.num_rows
                batch = next(batches, None)
        return n_rows
    except OSError as error:
        problem = error
    except pa.ArrowNotImplementedError:
        raise DataError(
            "The records cannot be written as CSV.",
            found="A column holds lists or structures.",
            remedy="Use a name that ends in .parquet.",
        ) from None
    except pa.ArrowException:
        pass  # Arrow's message may quote cells
    raise unwritable(path, problem)


def _check_calendar(batch: pa.RecordBatch) -> None:
    """Refuses infinite dates: Arrow has none, and would show days long before the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for field, column in zip(batch.schema, batch.columns, strict=True):
        is_moment = pa.types.is_timestamp(field.type)
        if not (is_moment or pa.types.is_date32(field.type)):
            continue
        # A day, or a microsecond, since 1970.
        numbers = (
            column.cast(pa.timestamp("us", field.type.tz), safe=False).cast(pa.int64())
            if is_moment
            else column.cast(pa.int32())
        )
        lowest = pc.min(numbers).as_py()
        if lowest is not None and lowest < _FIRST_DAY * (86_400_000_000 if is_moment else 1):
            raise DataError(
                f"Column {field.name!r} holds dates that cannot be written to a file.",
                found="Some are infinite, or lie outside the calendar.",
                remedy="Leave the column out, or correct the dates.",
            )
