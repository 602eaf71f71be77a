"""Whether a release with kept columns is what was checked: for its rows the source is read a second time.

A file may have been changed in between, and a query can give other records each time: `random()`, a sample,
or LIMIT without ORDER BY. The certificate is about what was read first. Files are compared with what they
were; of what comes from a database the labels and sensitive values are counted again, before anybody can see
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines.table import Table, TableColumn
from elldelta.errors import DataError
from elldelta.release.counts import count_release

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    from elldelta.engines.database_source import TableName
    from elldelta.engines.sources import FileFormat
    from elldelta.engines.table import Engine
    from elldelta.model.counting import CountedTable
    from elldelta.release.class_map import ClassMap


def check_file(counted: CountedTable, class_map: ClassMap, path: Path, file_format: FileFormat) -> None:
    """Refuses a file of rows that are not those that were counted.

    Raises:
        DataError: The source has said something else the second time.
    """
    _check_files(counted)
    if not _is_volatile(counted):
        return
    if path.is_dir():  # the parts that an engine has written where the records are
        parts = counted.table.engine
        _check(counted, class_map, parts, parts.open(path).relation)
        return
    import pyarrow as pa

    from elldelta.engines.duckdb import connect

    names = [*counted.schema.names, counted.schema.sensitive.name]
    if file_format == "parquet":
        import pyarrow.parquet as pq

        # With an open file: a name without an ending would be taken for the folder of a data set.
        with path.open("rb") as file, connect() as engine:
            source = pq.ParquetFile(file)
            schema = pa.schema([source.schema_arrow.field(name) for name in names])
            batches = (batch.select(names) for batch in source.iter_batches(columns=names))
            reader = pa.RecordBatchReader.from_batches(schema, batches)
            _check(counted, class_map, engine, engine.read_once(reader))
        return
    from pyarrow import csv

    texts = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    options = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(path, convert_options=texts, parse_options=options) as rows, connect() as engine:
        _check(counted, class_map, engine, engine.read_once(rows))


def check_frame(counted: CountedTable, class_map: ClassMap, rows: pa.Table) -> None:
    """The same for rows in memory."""
    _check_files(counted)
    if not _is_volatile(counted):
        return
    from elldelta.engines.duckdb import connect

    names = [*counted.schema.names, counted.schema.sensitive.name]
    with connect() as engine:
        _check(counted, class_map, engine, engine.read_once(rows.select(names).to_reader()))


def check_table(counted: CountedTable, class_map: ClassMap, name: TableName) -> None:
    """The same for a table in the database of the source, in the transaction that has made it."""
    _check(counted, class_map, counted.table.engine, name.quoted)


def _is_volatile(counted: CountedTable) -> bool:
    """Whether the source is a query or a view, or may be one; a table in memory stays as it is.

    So do files of this machine, as long as they look the same.
    """
    table = counted.table
    return "tables" in table.engine.capabilities and table.given is None and not table.files


def _check_files(counted: CountedTable) -> None:
    if counted.table.file_marks() != counted.marks:
        raise _other_records(
            "A file of it was changed meanwhile.", "Release it again when nobody writes to it."
        )


def _check(counted: CountedTable, class_map: ClassMap, engine: Engine, relation: str) -> None:
    schema = counted.schema
    columns = tuple(TableColumn(name, "text") for name in (*schema.names, schema.sensitive.name))
    rows = Table(engine, relation, columns, None, "the release")
    found = count_release(rows, schema.names, schema.sensitive.name)
    # Classes by their labels, values by their spelling: what somebody sees who holds the release.
    spelt = [
        None if value is None else str(value) for value in schema.sensitive.released_values().to_pylist()
    ]
    counts = counted.counts
    class_of = class_map.classes_of(counts.ranks)[counts.rows]
    places = np.flatnonzero(class_of >= 0)
    expected = _tally(
        (class_map.labels[row], spelt[value], n)
        for row, value, n in zip(
            class_of[places].tolist(), counts.values[places].tolist(), counts.n[places].tolist(), strict=True
        )
    )
    shown = _tally(
        (found.labels[row], found.values[value], n)
        for row, value, n in zip(
            found.classes.tolist(), found.value_of.tolist(), found.n.tolist(), strict=True
        )
    )
    if shown != expected:
        raise _other_records(
            "Some values occur more, or less, often in some classes than when they were checked.",
            "Use a query that always gives the same records: no random(), no sample, no LIMIT without "
            "ORDER BY. Or put its result into a table first.",
        )


def _tally(
    cells: Iterable[tuple[tuple[str | None, ...], str | None, int]],
) -> dict[tuple[tuple[str | None, ...], str | None], int]:
    tally: dict[tuple[tuple[str | None, ...], str | None], int] = {}
    for labels, value, n in cells:
        tally[labels, value] = tally.get((labels, value), 0) + n
    return tally


def _other_records(found: str, remedy: str) -> DataError:
    return DataError(
        "The table did not give the same records twice, and what was checked is not what would be published.",
        found=found,
        remedy=remedy,
    )
