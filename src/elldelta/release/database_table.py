"""A release as a table of a database: it appears whole, together with its manifest, or not at all.

Release and manifest are made under names that nobody asks for and get their own in the same transaction,
which is the only one: whoever looks sees both or none, also if the client or the server dies in the middle.
The manifest is one text in a table beside the release, whose name ends in `_manifest`. Rows go in sorted, so
that the order in which the database stores them says nothing about the input.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from elldelta.engines import Engine, Progress, TableName, require, sql
from elldelta.errors import FileError, ParameterError
from elldelta.files import as_bytes
from elldelta.release.manifest import Manifest
from elldelta.release.rows import JoinedRows, Order, check_number, check_release, check_table, generated_rows

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from elldelta.model import CountedTable
    from elldelta.release.publishable import Publishable

_SUFFIX = "_manifest"
_DOCUMENT = "document"


class DatabaseEngine(Engine, Protocol):
    """What an engine with the capability "write table" can do beyond the contract of all engines."""

    def locate(self, name: TableName) -> TableName | None:
        """The full name of the table that a name means now, or None; refuses a view and the like."""

    def has_read(self, name: TableName) -> bool:
        """Whether a table is among those that what is opened reads, be it through a query or a view."""

    def home(self, name: TableName) -> TableName:
        """The full name of a table that is to be made."""

    def publication(self, subject: str) -> AbstractContextManager[None]:
        """A block whose changes become visible together, when it ends; none of them after an error."""

    def create(self, name: TableName, rows: str | pa.RecordBatchReader, subject: str) -> int:
        """Makes a table of the rows of a query or of a stream, in their order; returns their number."""

    def move(self, table: TableName, name: TableName, subject: str, *, overwrite: bool) -> None:
        """Gives a table another name, instead of the table that has it if it may be overwritten."""


def _database(engine: Engine, target: TableName) -> DatabaseEngine:
    """The engine, if it writes tables; otherwise it is refused."""
    require(engine, "write table", f"write the table {target}")
    return cast("DatabaseEngine", engine)


def manifest_table(release: TableName) -> TableName:
    """The table that holds the manifest of a release."""
    return replace(release, name=release.name + _SUFFIX)


def check_target(engine: Engine, name: TableName, *, overwrite: bool) -> TableName:
    """The full name of a table to be written; refuses what is in the way, before anybody waits for it."""
    database = _database(engine, name)
    target = database.home(name)
    manifest_table(target)  # refuses a name that would become too long
    there = [table for table in (target, manifest_table(target)) if database.locate(table) is not None]
    if there and not overwrite:
        raise FileError(
            f"The table {there[0]} exists already.",
            found="It would be overwritten.",
            remedy="Choose another name, or allow it with `overwrite=True`.",
        )
    return target


def check_unread(engine: Engine, target: TableName) -> None:
    """Refuses to replace a table that is read: the release would destroy its own records."""
    database = _database(engine, target)
    if database.has_read(target) or database.has_read(manifest_table(target)):
        raise ParameterError(
            "A table that is read cannot be written at the same time.",
            found=f"{target} is read.",
            remedy="Choose another name for the release; the records stay as they are.",
        )


def publication(engine: Engine, target: TableName) -> AbstractContextManager[None]:
    """The block in which `write_table` is called: what it makes becomes visible together, when it ends."""
    return _database(engine, target).publication(f"the table {target}")


def write_table(
    counted: CountedTable,
    content: Publishable,
    manifest: Manifest,
    target: TableName,
    *,
    order: Order,
    overwrite: bool,
    progress: Progress | None = None,
) -> Manifest:
    """Writes rows and manifest of a release, and gives both tables their names; returns the manifest."""
    import pyarrow as pa

    check_release(counted, content, order)
    engine = _database(counted.table.engine, target)
    subject = f"the table {target}"
    rows, described = (replace(target, name=f"elldelta_{secrets.token_hex(8)}") for _ in range(2))
    if counted.schema.kept:
        with JoinedRows(counted, content, order) as joined:
            n_rows = engine.create(rows, joined.query, subject)
        manifest = replace(manifest, kept=check_table(counted, content, rows))
        if progress:
            progress(1.0)
    else:
        n_rows = engine.create(rows, generated_rows(content).to_reader(progress), subject)
    check_number("records of the release", content.n_records, n_rows)
    document = as_bytes(manifest.to_dict()).decode()
    engine.create(described, pa.table({_DOCUMENT: [document]}).to_reader(), subject)
    for table, name in ((described, manifest_table(target)), (rows, target)):
        engine.move(table, name, subject, overwrite=overwrite)
    return manifest


def read_table_manifest(engine: Engine, release: TableName) -> Manifest | None:
    """The manifest of a release in a database; None if there is none beside it."""
    require(engine, "write table", "read a release in a database")
    database = cast("DatabaseEngine", engine)
    there = database.locate(release)
    place = None if there is None else database.locate(manifest_table(there))
    if place is None:
        return None
    table = engine.open(place)
    table.require([_DOCUMENT])
    stored = engine.store(f"SELECT {sql.identifier(_DOCUMENT)} FROM {table.relation}")  # noqa: S608
    try:
        texts = [text for batch in engine.fetch(stored) for text in batch.column(0).to_pylist()]
    finally:
        engine.discard(stored)
    return Manifest.from_dict(_document(texts, place), source=f"The manifest {place}")


def _document(texts: list[Any], place: TableName) -> dict[str, Any]:
    try:
        [text] = texts
        document = json.loads(text)
    except (ValueError, TypeError):
        document = None
    if not isinstance(document, dict):
        raise FileError(
            f"The table {place} does not hold a manifest.",
            found="It is not one row with one JSON text of ours.",
            remedy="Write the release again.",
        )
    return document
