"""Whether a release with kept columns is what was checked: for its rows the source is read a second time.

A file may have been changed in between, and a query can give other records each time: `random()`, a sample,
or LIMIT without ORDER BY. The certificate is about what was read first. Files are compared with what they
were; of what comes from a database the labels and sensitive values are counted again, before anybody can see
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import Table, TableColumn
from elldelta.errors import DataError
from elldelta.release.published import count_release, sensitive_texts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.engines import Engine, FileFormat, TableName
    from elldelta.model.counting import CountedTable
    from elldelta.release.publishable import Publishable


def check_file(counted: CountedTable, content: Publishable, path: Path, file_format: FileFormat) -> None:
    """Refuses a file of rows that are not those that were counted.

    Raises:
        DataError: The source has said something else the second time.
    """
    _check_files(counted)
    if not _is_volatile(counted):
        return
    if path.is_dir():  # the parts that an engine has written where the records are
        engine = counted.table.engine
        _check(content, engine, engine.open(path).relation)
    else:
        _check_stream(content, _read(path, file_format, _names(content)))


def check_frame(counted: CountedTable, content: Publishable, rows: pa.Table) -> None:
    """The same for rows in memory."""
    _check_files(counted)
    if _is_volatile(counted):
        _check_stream(content, rows.select(_names(content)).to_reader())


def check_table(counted: CountedTable, content: Publishable, name: TableName) -> None:
    """The same for a table in the database of the source, in the transaction that has made it."""
    _check(content, counted.table.engine, name.quoted)


def _names(content: Publishable) -> list[str]:
    return [*content.schema.names, content.schema.sensitive.name]


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


def _read(path: Path, file_format: FileFormat, names: list[str]) -> pa.RecordBatchReader:
    """Columns of a file as a stream, whatever its name ends in."""
    import pyarrow as pa
    from pyarrow import csv, dataset

    if file_format == "parquet":
        return dataset.dataset(str(path), format="parquet").scanner(columns=names).to_reader()
    texts = csv.ConvertOptions(strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False)
    kind = dataset.CsvFileFormat(csv.ParseOptions(newlines_in_values=True), convert_options=texts)
    schema = pa.schema([(name, pa.string()) for name in names])
    return dataset.dataset(str(path), schema=schema, format=kind).scanner().to_reader()


def _check_stream(content: Publishable, rows: pa.RecordBatchReader) -> None:
    from elldelta.engines.duckdb import connect

    with connect() as engine:
        _check(content, engine, engine.read_once(rows))


def _check(content: Publishable, engine: Engine, relation: str) -> None:
    schema = content.schema
    columns = tuple(TableColumn(name, "text") for name in _names(content))
    found = count_release(
        Table(engine, relation, columns, None, "the release"), schema.names, schema.sensitive.name
    )
    # Classes by their labels, values by their spelling: what somebody sees who holds the release.
    shown = _cells(found.labels, found.values, found.counts)
    expected = _cells(content.labels, sensitive_texts(schema), content.counts)
    if shown != expected:
        raise _other_records(
            "Some values occur more, or less, often in some classes than when they were checked.",
            "Use a query that always gives the same records: no random(), no sample, no LIMIT without "
            "ORDER BY. Or put its result into a table first.",
        )


def _cells(
    labels: Sequence[tuple[str | None, ...]], values: Sequence[str | None], counts: NDArray[np.int64]
) -> dict[tuple[tuple[str | None, ...], str | None], int]:
    places = zip(*(part.tolist() for part in np.nonzero(counts)), strict=True)
    return {(labels[row], values[column]): int(counts[row, column]) for row, column in places}


def _other_records(found: str, remedy: str) -> DataError:
    return DataError(
        "The table did not give the same records twice, and what was checked is not what would be published.",
        found=found,
        remedy=remedy,
    )
