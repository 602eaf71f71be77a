"""PostgreSQL: the records stay in the database, which counts them; only counts come back.

The driver is ADBC's: it hands out Arrow batches from COPY as they arrive, takes Arrow in through COPY, can be
cancelled from another thread, tells the code of an error apart from its text, and brings its own libpq.

* **Counting needs no more than SELECT**, so it runs on a standby server too. What is opened or stored has a
  name and a query; the queries that a statement uses are put in front of it as WITH clauses. Only what goes
  into the database (kept columns, quarantine, tables in memory) needs temporary tables.
* **One snapshot.** Opening a source begins a transaction (REPEATABLE READ); whatever is read until the next
  source is opened sees the same state, also while others write.
* **Reading is read only.** Every statement that reads a source runs in a part of the transaction that is set
  to READ ONLY: not even a query of the user can change anything.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
from typing import TYPE_CHECKING, Any, Self, TypeVar

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from elldelta.data import sql
from elldelta.data.database_source import Query, TableName
from elldelta.data.engines import postgres_errors as errors
from elldelta.data.engines.postgres_types import (
    ColumnType,
    base_type_query,
    check_calendar,
    frame_table,
    plain_batch,
    type_query,
)
from elldelta.data.engines.task import Task
from elldelta.data.frames import is_frame, to_arrow
from elldelta.data.sources import check_distinct, hidden_names
from elldelta.data.table import Capability, Table, TableColumn, require
from elldelta.errors import DataError, ElldeltaError, FileError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from elldelta.data.csv_format import CsvFormat
    from elldelta.data.sources import FileFormat
    from elldelta.data.table import Progress

    Result = TypeVar("Result")

OLDEST = 15
"""The oldest version that works: REGEXP_LIKE came with it."""
_WAIT_SECONDS = 0.1
_PATIENCE = 50
"""How often a cancelled statement is given time to end, before the connection is given up."""
_MOST_UNKNOWN = 1000
"""A temporary table with more rows is analysed, so that joins with it are planned well."""
_SETTINGS = (
    "SET application_name = 'elldelta'",
    "SET TIME ZONE 'UTC'",
    "SET standard_conforming_strings = on",
    "SET client_encoding = 'UTF8'",
    "SET idle_in_transaction_session_timeout = 0",
)
# Quoted texts and names are passed over; what stands outside of them was written in `elldelta.data.sql`.
_WORDS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\bDOUBLE\b|(\w+[.]\w+) IS NOT DISTINCT FROM (\w+[.]\w+)"""
)


def connect(*, database: str) -> PostgresEngine:
    """Connects to a database.

    Args:
        database: Its address, such as postgresql://user@host/name. What it leaves out (a password, for
            instance) comes from where PostgreSQL's own programs take it: PGPASSWORD, PGPASSFILE and so on.
    """
    return PostgresEngine(database)


class PostgresEngine:
    """PostgreSQL behind the engine contract; see `elldelta.data.table`."""

    name = "postgres"
    capabilities: frozenset[Capability] = frozenset(
        {"frames", "tables", "write file", "write table", "order"}
    )

    def __init__(self, database: str) -> None:
        self._numbers = itertools.count()
        # Nobody's tables have such names: ours must neither hide one nor be hidden.
        self._prefix = f"elldelta_{secrets.token_hex(6)}"
        self._queries: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._progress: dict[str, Progress] = {}
        self._in_transaction = False
        self._is_lost = False
        self._connection: dbapi.Connection | None = None
        self._connection = self._call(lambda: dbapi.connect(database, autocommit=True), "connect")
        try:
            self._check_server()
        except BaseException:
            self.close()
            raise

    def open(self, source: Any, csv_format: CsvFormat | None = None) -> Table:  # noqa: ANN401
        """Opens a table by its name, a query, or a table in memory."""
        if is_frame(source):
            return self._open_frame(source)
        if isinstance(source, list | tuple) and len(source) == 1:
            [source] = source
        if isinstance(source, str):
            source = TableName.parse(source)
        if isinstance(source, TableName):
            return self._open(f"SELECT * FROM {source.quoted}", f"the table {source}")  # noqa: S608
        if isinstance(source, Query):
            return self._open(source.text, "the query")
        if isinstance(source, list | tuple):
            raise ParameterError(
                "A database is read one table at a time.",
                found=f"{len(source)} were given.",
                remedy="Put them together with a query: SELECT ... UNION ALL SELECT ...",
            )
        require(self, "files", "read files")
        raise ParameterError("A table is given by its name.", found=f"It is a {type(source).__name__}.")

    def store(self, query: str, progress: Progress | None = None) -> str:
        """Gives a query a name; it runs when it is fetched, on the snapshot of its source."""
        relation = self._name()
        self._queries[relation] = query
        if progress:
            self._progress[relation] = progress
        return relation

    def fetch(self, relation: str) -> Iterator[pa.RecordBatch]:
        """Hands out a stored result as it arrives, a batch at a time."""
        progress = self._progress.get(relation)
        for batch in self._stream(f"SELECT * FROM {relation}"):  # noqa: S608 (a name made here)
            if progress:
                progress(1.0)  # the counting is done when the first batch is there
            yield batch

    def put(self, table: pa.Table) -> str:
        """Brings a small table in, as a temporary one; returns the relation that stands for it."""
        relation = self._name()
        if not self._in_transaction:
            self._begin()
        with self._part("put"):
            self.ingest(relation.strip('"'), table, temporary=True)
            if table.num_rows > _MOST_UNKNOWN:
                self._execute(f"ANALYZE {relation}", "put")
        return relation

    def discard(self, *relations: str) -> None:
        """Forgets stored results."""
        for relation in relations:
            self._progress.pop(relation, None)
            if self._queries.pop(relation, None) is None and not self._is_lost:
                with self._part("put"):
                    self._execute(f"DROP TABLE IF EXISTS {relation}", "put")

    def write(
        self,
        query: str,
        path: Path,
        file_format: FileFormat,
        *,
        ordered: bool,
        progress: Progress | None = None,
    ) -> int:
        """Writes the rows of a query to a file on this machine; returns their number."""
        from elldelta.data.engines.duckdb import connect as connect_duckdb

        problems: list[BaseException] = []
        batches = self._stream(query)
        first = next(batches)  # when it is there the database has sorted, and the rest comes without a pause

        def rows() -> Iterator[pa.RecordBatch]:
            try:
                for batch in itertools.chain([first], batches):
                    check_calendar(batch)
                    yield batch
            except BaseException as problem:
                problems.append(problem)
                raise

        # DuckDB writes the file, so that it is the same as without a database.
        with contextlib.closing(batches), connect_duckdb() as writer:
            reader = pa.RecordBatchReader.from_batches(first.schema, rows())
            n_rows = 0
            try:
                relation = writer.read_once(reader)
                statement = f"SELECT * FROM {relation}"  # noqa: S608 (a name made here)
                n_rows = writer.write(statement, path, file_format, ordered=ordered, progress=progress)
            except ElldeltaError:
                if not problems:
                    raise
        if problems:
            raise problems[0]
        return n_rows

    def close(self) -> None:
        """Ends the connection; the database forgets everything that was temporary."""
        if self._connection is not None and not self._is_lost:
            with contextlib.suppress(adbc_driver_manager.Error):
                self._connection.close()
        self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # What writing a release to a table needs beyond the contract; see `elldelta.data.release_table`.

    @contextlib.contextmanager
    def publication(self, subject: str) -> Iterator[None]:
        """A block whose changes become visible together, when it ends; none of them after an error."""
        if not self._in_transaction:
            self._begin()
        with self._part("create", subject):
            yield
        self._in_transaction = False
        self._execute("COMMIT", "commit", subject)

    def execute(self, statement: str, subject: str) -> None:
        """Runs a statement that makes or replaces a table, inside the block of `publication`."""
        self._execute(statement, "create", subject)

    def create(self, table: str, query: str, subject: str) -> None:
        """Makes a table, given quoted, of the rows of a query, in their order; as `execute`."""
        self._execute(f"CREATE TABLE {table} AS {self._native(query)}", "create", subject)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The few rows of a query about the database itself."""
        return [row for batch in self._stream(query) for row in batch.to_pylist()]

    def ingest(
        self,
        name: str,
        rows: pa.Table | pa.RecordBatchReader,
        *,
        schema: str | None = None,
        temporary: bool = False,
        subject: str = "",
    ) -> None:
        """Makes a table of rows, in their order."""
        connection = self._alive()

        def ingest() -> None:
            with connection.cursor() as cursor:
                cursor.adbc_ingest(name, rows, "create", db_schema_name=schema, temporary=temporary)

        self._call(ingest, "put" if temporary else "create", subject)

    # The rest is inside.

    def _open(self, query: str, origin: str) -> Table:
        self._begin()
        raw = self._name()
        # The line break ends a comment at the end of the query.
        self._queries[raw] = f"{query}\n"
        self._origins[raw] = origin
        try:
            names, types = self._types(raw)
        except BaseException:
            del self._queries[raw]
            raise
        hidden = hidden_names(tuple(names))
        shown = [place for place, name in enumerate(names) if name not in hidden]
        if not shown:
            raise DataError(
                f"There is no column to read in {origin}.",
                found=f"It has {len(names)} columns with names that can be told apart.",
                remedy="Give a table with columns.",
            )
        listed = ", ".join(
            f"{types[place].read(sql.identifier(names[place]))} AS {sql.identifier(names[place])}"
            for place in shown
        )
        return Table(
            engine=self,
            relation=self.store(f"SELECT {listed} FROM {raw}"),  # noqa: S608
            columns=tuple(TableColumn(names[place], types[place].kind) for place in shown),
            n_rows=None,
            origin=origin,
            hidden=hidden,
        )

    def _open_frame(self, frame: object) -> Table:
        table = to_arrow(frame)
        check_distinct("the table", table.column_names)
        self._begin()
        problem = None
        try:
            table = frame_table(table)
        except pa.ArrowException:
            problem = DataError(
                "The table has a column that a database cannot hold.",
                found="Its values do not fit any type there.",
                remedy="Convert the column, or use --engine duckdb.",
            )
        if problem is not None:
            raise problem  # outside of the handler: Arrow's text quotes cells
        relation = self.put(table)
        opened = self._open(f"SELECT * FROM {relation}", "the table")  # noqa: S608
        return Table(
            self,
            opened.relation,
            opened.columns,
            table.num_rows,
            "the table",
            hidden=opened.hidden,
            given=frame,
        )

    def _types(self, relation: str) -> tuple[list[str], list[ColumnType]]:
        """The names and types of the columns of a relation; nothing is read from it."""
        with self._part("open", self._origins[relation], read_only=True):
            schema = self._schema(f"SELECT * FROM {relation}", self._origins[relation])  # noqa: S608
        names = list(schema.names)
        check_distinct(self._origins[relation], names)
        if not names:
            return names, []
        [numbers] = self.rows(type_query(relation, names))
        places = [numbers[f"c{place}"] for place in range(len(names))]
        below = {row.pop("number"): row for row in self.rows(base_type_query(set(places)))}
        modifiers = [int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) for field in schema]
        return names, [
            ColumnType(**below[number], modifier=modifier)
            for number, modifier in zip(places, modifiers, strict=True)
        ]

    def _schema(self, query: str, subject: str) -> pa.Schema:
        connection = self._alive()
        statement = self._native(query)

        def ask() -> pa.Schema:
            with connection.cursor() as cursor:
                return cursor.adbc_execute_schema(statement)

        return self._call(ask, "open", subject)

    def _stream(self, query: str) -> Generator[pa.RecordBatch, None, None]:
        """The result of a query, at least one batch, as it arrives."""
        connection = self._alive()
        statement = self._native(query)
        subject = next((self._origins[name] for name in self._used(query) if name in self._origins), "it")
        if not self._in_transaction:
            self._begin()
        with self._part("read", subject, read_only=True):
            cursor = self._call(connection.cursor, "read", subject)
            n_batches, is_whole = 0, False
            try:
                self._call(lambda: cursor.execute(statement), "read", subject)
                reader = self._call(cursor.fetch_record_batch, "read", subject)
                while (batch := self._call(lambda: _next(reader), "read", subject)) is not None:
                    n_batches += 1
                    yield plain_batch(batch)
                is_whole = True
                if n_batches == 0:
                    empty = [pa.array([], field.type) for field in reader.schema]
                    yield plain_batch(pa.RecordBatch.from_arrays(empty, schema=reader.schema))
            finally:
                if not is_whole:
                    self._cancel()  # otherwise closing would wait for all the rest
                with contextlib.suppress(adbc_driver_manager.Error):
                    cursor.close()

    def _begin(self) -> None:
        """Begins a new snapshot; what is temporary stays."""
        if self._in_transaction:
            self._in_transaction = False
            self._execute("COMMIT", "open")
        self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ", "open")
        self._in_transaction = True

    @contextlib.contextmanager
    def _part(self, doing: errors.Doing, subject: str = "", *, read_only: bool = False) -> Iterator[None]:
        """A part of the transaction: an error in it ends the part, not the snapshot."""
        self._execute("SAVEPOINT elldelta", doing, subject)
        try:
            if read_only:  # until the end of the part: the database then sets it back
                self._execute("SET TRANSACTION READ ONLY", doing, subject)
            yield
        except BaseException:
            # What is wrong is told already; if the connection is gone, there is nothing left to take back.
            with contextlib.suppress(ElldeltaError):
                self._execute("ROLLBACK TO SAVEPOINT elldelta", doing, subject)
                self._execute("RELEASE SAVEPOINT elldelta", doing, subject)
            raise
        self._execute("RELEASE SAVEPOINT elldelta", doing, subject)

    def _check_server(self) -> None:
        for setting in _SETTINGS:
            self._execute(setting, "connect")
        [server] = self.rows(
            "SELECT CAST(current_setting('server_version_num') AS integer) / 10000 AS version, "
            "current_setting('server_encoding') AS encoding"
        )
        if server["version"] < OLDEST:
            raise errors.too_old(server["version"], OLDEST)
        if server["encoding"] == "SQL_ASCII":
            raise errors.without_encoding()

    def _name(self) -> str:
        return sql.identifier(f"{self._prefix}_{next(self._numbers)}")

    def _used(self, query: str) -> list[str]:
        """The named queries that a query needs, each after those that it needs itself."""
        used: dict[str, None] = {}
        for name in re.findall(rf'"{self._prefix}_[0-9]+"', query):
            if name in self._queries:
                used |= dict.fromkeys([*self._used(self._queries[name]), name])
        return list(used)

    def _native(self, query: str) -> str:
        """A statement as PostgreSQL runs it: with the queries that it uses in front, and in its words.

        It spells DOUBLE as DOUBLE PRECISION, and joins by IS NOT DISTINCT FROM in loops only; arrays find
        each other by hashing, and one that holds a missing value equals another that does.
        """
        clauses = [
            # What is opened holds the user's own text, which stays as it is.
            f"{name} AS NOT MATERIALIZED ({text if name in self._origins else _spelt(text)})"
            for name, text in ((name, self._queries[name]) for name in self._used(query))
        ]
        return (f"WITH {', '.join(clauses)} " if clauses else "") + _spelt(query)

    def _execute(self, statement: str, doing: errors.Doing, subject: str = "") -> None:
        connection = self._alive()

        def execute() -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)

        self._call(execute, doing, subject)

    def _alive(self) -> dbapi.Connection:
        if self._connection is None or self._is_lost:
            raise FileError(
                "The connection to the database was lost.",
                found="It was closed.",
                remedy="Connect again.",
            )
        return self._connection

    def _cancel(self) -> None:
        if self._connection is not None and not self._is_lost:
            with contextlib.suppress(adbc_driver_manager.Error):
                self._connection.adbc_cancel()

    def _call(self, action: Callable[[], Result], doing: errors.Doing, subject: str = "") -> Result:
        """Calls the driver and hears Ctrl-C; what it raises is replaced, because its texts quote cells."""
        task = Task(action)
        try:
            while not task.done.wait(_WAIT_SECONDS):
                pass
        except BaseException:
            for _ in range(_PATIENCE):
                self._cancel()
                if task.done.wait(_WAIT_SECONDS):
                    break
            else:
                self._is_lost = True  # the driver is still at it: the connection must not be touched again
            raise
        problem: ElldeltaError
        try:
            return task.result()
        except adbc_driver_manager.Error as error:
            problem = errors.translated(error, doing, subject)
        except (pa.ArrowException, OSError, UnicodeError):
            problem = errors.unreadable(subject)
        raise problem  # outside of the handler: nothing of the driver's error hangs on to it


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _spelt(query: str) -> str:
    def spell(found: re.Match[str]) -> str:
        if found[1]:
            return f"ARRAY[{found[1]}] = ARRAY[{found[2]}]"
        return "DOUBLE PRECISION" if found[0] == "DOUBLE" else found[0]

    return _WORDS.sub(spell, query)
