"""A connection to PostgreSQL that hears Ctrl-C, keeps its snapshot after an error, and quotes no cell.

The driver is ADBC's: it hands out Arrow batches from COPY as they arrive, takes Arrow in through COPY, can be
cancelled from another thread, tells the code of an error apart from its text, and brings its own libpq.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from elldelta.engines.postgres import errors
from elldelta.engines.task import Task
from elldelta.errors import ElldeltaError, FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from elldelta.engines.postgres.errors import Doing

    Result = TypeVar("Result")

_SENT_ROWS = 1 << 15
_SETTINGS = (
    "SET application_name = 'elldelta'",
    "SET TIME ZONE 'UTC'",
    "SET standard_conforming_strings = on",
    "SET client_encoding = 'UTF8'",
    "SET idle_in_transaction_session_timeout = 0",
    # Nobody asks for what functions say, which may be cells.
    "SET client_min_messages = error",
)


class Connection:
    """A connection with at most one transaction, which is one snapshot (REPEATABLE READ).

    Args:
        database: The address of the database.
    """

    def __init__(self, database: str) -> None:
        self._in_transaction = False
        self._is_stopping = False
        self._driver: dbapi.Connection | None = None
        self._driver = self._call(lambda: dbapi.connect(database, autocommit=True), "connect")
        try:
            for setting in _SETTINGS:
                self.execute(setting, "connect")
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._driver is not None

    def begin(self) -> None:
        """Begins a new snapshot; what was made in the last one stays."""
        if self._in_transaction:
            self._in_transaction = False
            self.execute("COMMIT", "open")
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ", "open")
        self._in_transaction = True

    @contextlib.contextmanager
    def part(self, doing: Doing, subject: str = "", *, read_only: bool = False) -> Iterator[None]:
        """A part of the transaction: an error in it takes back the part, not the snapshot.

        Args:
            doing: What the part does.
            subject: Words for what it is about.
            read_only: Whether the database is to refuse every change in it.
        """
        if not self._in_transaction:
            self.begin()
        self.execute("SAVEPOINT elldelta", doing, subject)
        try:
            if read_only:  # at the end of the part the database sets it back
                self.execute("SET TRANSACTION READ ONLY", doing, subject)
            yield
        except BaseException:
            # What is wrong is told already; if the connection is gone, there is nothing left to take back.
            with contextlib.suppress(ElldeltaError):
                self.execute("ROLLBACK TO SAVEPOINT elldelta", doing, subject)
                self.execute("RELEASE SAVEPOINT elldelta", doing, subject)
            raise
        self.execute("RELEASE SAVEPOINT elldelta", doing, subject)

    def execute(self, statement: str, doing: Doing, subject: str = "") -> None:
        """Runs a statement that returns no rows."""
        driver = self._alive()

        def execute() -> None:
            with driver.cursor() as cursor:
                cursor.execute(statement)

        self._call(execute, doing, subject)

    def describe(self, query: str, subject: str) -> pa.Schema:
        """The columns of a query, which does not run."""
        driver = self._alive()

        def ask() -> pa.Schema:
            with driver.cursor() as cursor:
                return cursor.adbc_execute_schema(query)

        return self._call(ask, "open", subject)

    def stream(self, query: str, doing: Doing, subject: str) -> Generator[pa.RecordBatch, None, None]:
        """The result of a query as it arrives, at least one batch; the query cannot change anything."""
        driver = self._alive()
        with self.part(doing, subject, read_only=True):
            cursor = self._call(driver.cursor, doing, subject)
            n_batches, is_whole = 0, False
            try:
                self._call(lambda: cursor.execute(query), doing, subject)
                # Not the reader that the driver hands out: only its own knows the code of an error.
                reader = self._call(lambda: cursor._results.reader, doing, subject)
                while (batch := self._call(lambda: _next(reader), doing, subject)) is not None:
                    n_batches += 1
                    yield batch
                is_whole = True
                if n_batches == 0:
                    empty = [pa.array([], field.type) for field in reader.schema]
                    yield pa.RecordBatch.from_arrays(empty, schema=reader.schema)
            finally:
                if not is_whole:
                    self._cancel()  # otherwise closing would wait for all the rest
                if self.is_open:
                    with contextlib.suppress(adbc_driver_manager.Error):
                        cursor.close()

    def ingest(self, name: str, rows: pa.Table) -> None:
        """Puts rows into a temporary table."""
        driver = self._alive()
        sent = pa.RecordBatchReader.from_batches(rows.schema, self._until_stopped(rows))

        def ingest() -> None:
            with driver.cursor() as cursor:
                cursor.adbc_ingest(name, sent, "append", temporary=True)

        self._call(ingest, "put")

    def close(self) -> None:
        """Ends the connection; the database takes back what was not committed, and all that is temporary."""
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(adbc_driver_manager.Error):
                driver.close()

    def _until_stopped(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows on their way in. Cancelling a statement does not keep the driver from sending them all."""
        for batch in rows.to_batches():
            for start in range(0, batch.num_rows, _SENT_ROWS):
                if self._is_stopping:
                    return  # too few rows, in a transaction that is taken back
                yield batch.slice(start, _SENT_ROWS)

    def _alive(self) -> dbapi.Connection:
        if self._driver is None:
            raise FileError(
                "The connection to the database was lost.", found="It was closed.", remedy="Connect again."
            )
        return self._driver

    def _cancel(self) -> None:
        if self._driver is not None:
            with contextlib.suppress(adbc_driver_manager.Error):
                self._driver.adbc_cancel()

    def _stop(self) -> None:
        self._is_stopping = True
        self._cancel()

    def _call(self, action: Callable[[], Result], doing: Doing, subject: str = "") -> Result:
        """Calls the driver and hears Ctrl-C; what it raises is replaced, because its texts quote cells."""
        task = Task(action)
        problem: ElldeltaError
        try:
            return task.run(self._stop)
        except adbc_driver_manager.Error as error:
            problem = errors.translated(error, doing, subject)
        except (pa.ArrowException, OSError, UnicodeError):
            problem = errors.unreadable(subject)
        finally:
            self._is_stopping = False
            if task.is_running:
                self._driver = None  # the driver is still at it: the connection must not be touched again
        raise problem  # outside of the handler: nothing of the driver's error hangs on to it


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
