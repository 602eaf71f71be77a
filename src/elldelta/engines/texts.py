"""Distinct combinations of columns as text, spelt by us and not by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.engines import sql
from elldelta.engines.cells import UnreadableTypeError, as_text
from elldelta.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from elldelta.engines.table import Progress, Table


def count_texts(
    table: Table, names: Sequence[str], progress: Progress | None = None
) -> Iterator[pa.RecordBatch]:
    """The distinct combinations of columns as text, spelt here and not by the engine, and their numbers n."""
    table.require(names)
    engine = table.engine
    grouped = engine.store(
        sql.count_by_keys(table.relation, [sql.identifier(name) for name in names]), progress
    )
    try:
        for batch in engine.fetch(grouped):
            yield _as_texts(batch, names)
    finally:
        engine.discard(grouped)


def _as_texts(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = []
    for place, name in enumerate(names):
        try:
            columns.append(as_text(batch.column(place)))
        except UnreadableTypeError:
            raise DataError(
                f"Column {name!r} does not hold values that can be written as text.",
                found="Its type is a list, a structure or a kind of its own.",
                remedy="Convert the column, or leave it out.",
            ) from None
    return pa.RecordBatch.from_arrays([*columns, batch.column(len(names))], names=[*batch.schema.names])
