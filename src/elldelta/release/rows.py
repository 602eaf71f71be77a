"""The rows of a release: generalized labels, sensitive values, and nothing that tells about the input.

Without kept columns a release is fully determined by its counts per (class, sensitive value): it is
generated from them, class by class, and the records are not read again. The rows are then sorted, which hides
the order of the input and makes the file the same, byte for byte, from run to run. With kept columns the
engine joins the records with their labels, and sorts them unless speed matters more; what it has read the
second time is then compared with what was checked. A file may have been changed in between, and a query can
give other records each time: `random()`, a sample, or LIMIT without ORDER BY. Files are compared with what
they were; of what comes from a database the labels and sensitive values are counted again, before anybody
can see them.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from elldelta.engines import (
    Engine,
    FileFormat,
    Progress,
    Table,
    TableColumn,
    TableName,
    format_of,
    from_arrow,
    require,
    sql,
)
from elldelta.engines.repeated_rows import ContinuedRows, GeneratedRows, RepeatedRows
from elldelta.engines.task import part
from elldelta.errors import DataError, InternalError, ParameterError
from elldelta.files import AtomicFiles, part_name
from elldelta.release.content import count_release, sensitive_texts
from elldelta.release.row_checks import file_digest, kept_digest
from elldelta.release.sliced import sliced_rows
from elldelta.schema.domains import UNKNOWN

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from elldelta.model import CountedTable, Encoding
    from elldelta.release.publishable import Publishable

Order = Literal["sorted", "any"]


def write_release(
    counted: CountedTable,
    content: Publishable,
    path: str | os.PathLike[str],
    files: AtomicFiles,
    *,
    order: Order = "sorted",
    progress: Progress | None = None,
) -> Mapping[str, Any] | None:
    """Writes a release to a Parquet or CSV file, which appears when the block of `files` ends.

    An engine that writes in parts makes a folder of such files. A release that is generated from its counts
    is one part even then: the counts are on this machine, and expanding them here takes less than to send
    them to workers and to sort what these would make of them.

    Returns:
        What the manifest says about kept columns; None if there are none.
    """
    file_format = format_of(path)
    if str(path).endswith(".gz"):
        raise ParameterError(
            "A release is not written compressed as a whole.",
            found="Its name ends in .gz.",
            remedy="Use a name that ends in .csv or .parquet; Parquet is compressed inside.",
        )
    check_release(counted, content, order)
    engine = counted.table.engine
    target = _stage(engine, path, files)
    kept = None
    if not content.schema.kept:
        rows = generated_rows(content)
        file = target / part_name(0, file_format) if target.is_dir() else target
        (rows.write_parquet if file_format == "parquet" else rows.write_csv)(file, progress)
        n_rows = rows.n_rows
    else:
        n_rows = _write_joined(counted, content, target, file_format, order, progress)
        kept = _check_file(counted, content, target, file_format)
    check_number("records of the release", content.n_records, n_rows)
    return kept


def _write_joined(
    counted: CountedTable,
    content: Publishable,
    path: Path,
    file_format: FileFormat,
    order: Order,
    progress: Progress | None,
) -> int:
    """Writes a release with kept columns; returns the number of its rows."""
    engine = counted.table.engine
    if order == "sorted" and file_format == "parquet":
        # Counts tell all but the kept columns: nothing else need be sorted, and labels are not spelt by row.
        with JoinedRows(counted, content, order, labelled=False) as joined:
            kept = engine.fetch_sorted(joined.query, part(progress, 0.0, 0.7))
            if kept is not None:
                rows = ContinuedRows(generated_rows(content), kept)
                with closing(kept):
                    rows.write_parquet(path, part(progress, 0.7, 1.0))
                return rows.n_found
    with JoinedRows(counted, content, order) as joined:
        return engine.write(joined.query, path, file_format, ordered=order == "sorted", progress=progress)


def release_frame(
    counted: CountedTable,
    content: Publishable,
    *,
    order: Order = "sorted",
    progress: Progress | None = None,
) -> tuple[Any, Mapping[str, Any] | None]:
    """A release in memory, of the same kind as the table that was given, and what is said of kept columns."""
    check_release(counted, content, order)
    kept = None
    if not content.schema.kept:
        table = generated_rows(content).to_table()
    else:
        # A stored result has no order: its rows are numbered instead, and sorted here.
        with JoinedRows(counted, content, "numbered" if order == "sorted" else "any") as joined:
            table = _fetched(counted.table.engine, joined.query, progress)
        if order == "sorted":
            table = table.sort_by(sql.ROW_NUMBER).drop_columns([sql.ROW_NUMBER])
        kept = _check_frame(counted, content, table)
    check_number("records of the release", content.n_records, table.num_rows)
    return from_arrow(table, counted.table.given), kept


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
    file_format = format_of(path)
    table = counted.table
    target = _stage(table.engine, path, files, private=True)
    relations: list[str] = []
    keys: list[str] = []
    try:
        for key, encoding in zip(counted.keys, counted.encodings, strict=True):
            unknown = _cells_where(encoding, encoding.positions == UNKNOWN)
            if len(unknown):
                keys.append(key)
                relations.append(
                    table.engine.put(_relation(raw=unknown, hit=np.ones(len(unknown), np.int64)))
                )
        query = sql.quarantined_rows(table.relation, keys, relations, table.names)
        n_rows = table.engine.write(query, target, file_format, ordered=False, progress=progress)
    finally:
        table.engine.discard(*relations)
    check_number("quarantined records", counted.counts.accounting.n_quarantined, n_rows)
    return n_rows


def check_release(counted: CountedTable, content: Publishable, order: Order) -> None:
    """Refuses a release that cannot be written: no such order, a column is missing, classes of others."""
    if order not in {"sorted", "any"}:
        raise ParameterError("The order of a release is sorted or any.", found="It is neither.")
    if content.records is not counted.counts:
        raise InternalError("The classes were made for another table.")
    counted.table.require(content.schema.kept)


def check_number(of: str, expected: int, written: int) -> None:
    """Refuses rows that are more or fewer than were counted."""
    if written != expected:
        raise InternalError(
            f"The {of} are not those that were counted.",
            found=f"{expected} were counted, {written} written.",
            remedy="Make sure that nothing changes the table meanwhile; otherwise please report this.",
        )


def generated_rows(content: Publishable) -> GeneratedRows:
    """The rows of a release without kept columns: every (class, sensitive value) as often as it occurs."""
    if content.schema.also_sensitive:
        return sliced_rows(content.schema, content.labels, content.counts)
    import pyarrow as pa

    classes, values = np.nonzero(content.counts)
    columns = [
        (name, classes, pa.array([labels[place] for labels in content.labels], pa.string()))
        for place, name in enumerate(content.schema.names)
    ]
    sensitive = content.schema.sensitive
    return RepeatedRows(
        (*columns, (sensitive.name, values, sensitive.released_values())), content.counts[classes, values]
    )


class JoinedRows:
    """The query for a release with kept columns, with the small tables it needs while it is used.

    Args:
        counted: The table.
        content: What is released of it.
        order: The order of the rows.
        labelled: Whether rows have labels and sensitive values, and not their kept columns alone.
    """

    def __init__(
        self, counted: CountedTable, content: Publishable, order: sql.RowOrder, *, labelled: bool = True
    ) -> None:
        self._counted = counted
        self._labelled = labelled
        self._content = content
        self._order = order
        self._relations: list[str] = []
        self.query = ""

    def __enter__(self) -> JoinedRows:
        try:
            self._prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self._counted.table.engine.discard(*self._relations)

    def _prepare(self) -> None:
        counted, schema = self._counted, self._counted.schema
        self.query = sql.released_rows(
            counted.table.relation,
            counted.keys,
            [
                *(self._put(**encoding.usable()) for encoding in counted.encodings[:-1]),
                self._put(**self._sensitive()),
            ],
            schema.strides,
            self._put(**self._classes()),
            (*schema.names, schema.sensitive.name) if self._labelled else (),
            schema.kept,
            order=self._order,
        )

    def _put(self, **columns: Any) -> str:  # noqa: ANN401 (arrays of Arrow or numpy)
        self._relations.append(self._counted.table.engine.put(_relation(**columns)))
        return self._relations[-1]

    def _classes(self) -> dict[str, Any]:
        """The combinations that are released, their classes and labels.

        Nothing of records that are left out may come further: not even as an entry, used by no row, of a
        dictionary inside the file.
        """
        import pyarrow as pa

        content = self._content
        is_shown = content.class_of >= 0
        class_of = content.class_of[is_shown]
        labels = {
            f"l{place}": self._texts(
                pa.array([labels[place] for labels in content.labels], pa.string()), class_of
            )
            for place in range(len(content.schema.names) if self._labelled else 0)
        }
        narrow = class_of.astype(np.min_scalar_type(-len(content.counts) - 1))
        return {"rank": content.records.ranks[is_shown], "class": narrow, **labels}

    def _texts(self, cells: pa.Array, places: NDArray[np.int64]) -> pa.Array:
        """Cells by their places; texts with a dictionary, so that an engine need not carry them."""
        import pyarrow as pa

        taken = cells.take(pa.array(places))
        return taken.dictionary_encode() if pa.types.is_string(taken.type) else taken

    def _sensitive(self) -> dict[str, Any]:
        values = np.flatnonzero(self._content.counts.any(axis=0))
        encoding = self._counted.encodings[-1]
        shown = np.isin(encoding.positions, values)
        positions = encoding.positions[shown]
        written = self._texts(self._counted.schema.sensitive.released_values(), positions)
        return {"raw": _cells_where(encoding, shown), "position": positions, "value": written}


def _stage(
    engine: Engine, path: str | os.PathLike[str], files: AtomicFiles, *, private: bool = False
) -> Path:
    """Where an engine writes rows: a file, or a folder if it writes in parts."""
    if "write folder" in engine.capabilities:
        return files.stage(path, private=private, folder=True)
    require(engine, "write file", f"write {path}")
    return files.stage(path, private=private)


def _cells_where(encoding: Encoding, mask: Any) -> pa.Array:  # noqa: ANN401
    import pyarrow as pa

    return encoding.cells.filter(pa.array(mask))


def _relation(**columns: Any) -> pa.Table:  # noqa: ANN401
    import pyarrow as pa

    return pa.table(columns)


def _fetched(engine: Engine, query: str, progress: Progress | None) -> pa.Table:
    import pyarrow as pa

    stored = engine.store(query, progress)
    try:
        return pa.Table.from_batches(engine.fetch(stored))
    finally:
        engine.discard(stored)


def _check_file(
    counted: CountedTable, content: Publishable, path: Path, file_format: FileFormat
) -> dict[str, Any]:
    """Refuses a file of rows that are not those that were counted; returns what is said of kept columns.

    Raises:
        DataError: The source has said something else the second time.
    """
    _check_unchanged(counted)
    if _is_volatile(counted) and path.is_dir():  # the parts that an engine has written where the records are
        _check_counts(content, counted.table.engine.open(path))
    elif _is_volatile(counted):
        _check_stream(content, _read_columns(path, file_format, _names(content)))
    parts = sorted(path.iterdir()) if path.is_dir() else [path]
    return _kept(counted, content, file_digest(parts), "file")


def _check_frame(counted: CountedTable, content: Publishable, rows: pa.Table) -> dict[str, Any]:
    """The same for rows in memory."""
    from elldelta.engines.duckdb import connect

    _check_unchanged(counted)
    if _is_volatile(counted):
        _check_stream(content, rows.select(_names(content)).to_reader())
    with connect() as engine:
        digest = kept_digest(engine.open(rows), [*_names(content), *content.schema.kept])
    return _kept(counted, content, digest, "rows")


def check_table(counted: CountedTable, content: Publishable, name: TableName) -> dict[str, Any]:
    """The same for a table in the database of the source, in the transaction that has made it."""
    columns = tuple(TableColumn(own, "other") for own in (*_names(content), *content.schema.kept))
    table = Table(counted.table.engine, name.quoted, columns, None, "the release")
    _check_counts(content, table)
    return _kept(counted, content, kept_digest(table, table.names), "rows")


def _names(content: Publishable) -> list[str]:
    return [*content.schema.names, content.schema.sensitive.name]


def _is_volatile(counted: CountedTable) -> bool:
    """Whether the source is a query or a view, or may be one; a table in memory stays as it is.

    So do files of this machine, as long as they look the same.
    """
    table = counted.table
    return "tables" in table.engine.capabilities and table.given is None and not table.files


def _check_unchanged(counted: CountedTable) -> None:
    if counted.table.file_marks() != counted.marks:
        raise _other_records(
            "A file of it was changed meanwhile.", "Release it again when nobody writes to it."
        )


def _read_columns(path: Path, file_format: FileFormat, names: list[str]) -> pa.RecordBatchReader:
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
        columns = tuple(TableColumn(name, "text") for name in _names(content))
        _check_counts(content, Table(engine, engine.read_once(rows), columns, None, "the release"))


def _kept(counted: CountedTable, content: Publishable, digest: str, of: str) -> dict[str, Any]:
    """What a manifest says about kept columns: a digest, and the kinds of values by which they are sorted."""
    kinds = {name: counted.table.kind_of(name) for name in content.schema.kept}
    return {"digest": digest, "of": of, "kinds": kinds}


def _check_counts(content: Publishable, table: Table) -> None:
    schema = content.schema
    found = count_release(table, schema.names, schema.sensitive.name)
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
