"""A connection to PostgreSQL that hears Ctrl-C, keeps its snapshot after an error, and quotes no cell.

The driver is ADBC's: it hands out Arrow batches from COPY as they arrive, takes Arrow in through COPY, can be
cancelled from another thread, tells the code of an error apart from its text, and brings its own libpq.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from elldelta.engines.task import Task
from elldelta.errors import DataError, ElldeltaError, FileError, InternalError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

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


Doing = Literal["connect", "open", "read", "put"]
"""What was going on: reaching the server; looking at a source; reading it; bringing a small table in as a
temporary one."""


_LOST = {"08000", "08003", "08006", "57P01", "57P02", "57P03", "25P03"}


class _Meaning(NamedTuple):
    """What some codes, or beginnings of codes, mean while something is going on; {it} is what it is about."""

    codes: str
    doing: frozenset[Doing] | None  # None: whatever it is
    kind: type[ElldeltaError]
    problem: str
    found: str
    remedy: str


# The first that fits is meant.
_MEANINGS = (
    _Meaning(
        "42P01 3F000 3D000", None, FileError, "{It} cannot be read.",
        "The database has no such table, or not any more.",
        "Check the name, its schema and the database; quote a name with capital letters.",
    ),
    _Meaning(
        "42501", frozenset({"put"}), FileError, "The database does not allow temporary tables.",
        "Quarantine, persons and tables in memory need them, counting does not.",
        "Ask its administrator for GRANT TEMPORARY ON DATABASE.",
    ),
    _Meaning(
        "42501", None, FileError, "{It} cannot be read.", "The role may not read it, or something in it.",
        "Ask the administrator for GRANT SELECT, or name the columns it may read in a query.",
    ),
    _Meaning(
        "25006", frozenset({"put"}), FileError, "The database cannot be written to.",
        "It is a copy that follows another server, or is set to read only.",
        "Give the address of the main server; counting works here too.",
    ),
    _Meaning(
        "25006", None, ParameterError, "{It} would change the database.",
        "It was stopped; nothing has changed.", "Give a query that only reads.",
    ),
    _Meaning(
        "57014", None, FileError, "The database stopped working on {it}.",
        "A time limit was reached, or somebody cancelled it.",
        "Ask the administrator for a longer statement_timeout, and try again.",
    ),
    _Meaning(
        "53 54 58030", None, FileError, "The database has not enough room for this.",
        "It reached a limit of memory, disk or connections.", "Make room on the server, and try again.",
    ),
    _Meaning(
        "40 55P03 XX000", None, FileError, "The database gave up working on {it}.",
        "Somebody else worked on the same tables.", "Try again.",
    ),
    _Meaning(
        "22021 22P05", None, DataError, "A text cannot be stored in the database.",
        "It has a zero byte, or a character that its encoding lacks.",
        "Correct the text, or count on this machine with DuckDB.",
    ),
    _Meaning(
        "22", None, DataError, "{It} holds values that cannot be converted.",
        "A number, date or text does not have the form that is needed.",
        "Correct the query, or convert the column in it.",
    ),
    _Meaning(
        "42883 42804 42P22 42P18 0A000", frozenset({"read", "put"}), DataError,
        "{It} has a column of a type that cannot be compared or sorted.",
        "The database says SQLSTATE {code}.",
        "Convert the column in a query, or leave it out.",
    ),
    _Meaning(
        "42601", None, ParameterError, "{It} cannot be run.", "The database says: it is not SQL.",
        "Try it in psql first.",
    ),
    _Meaning(
        "42703", None, ParameterError, "{It} cannot be run.",
        "The database says: it names a column that does not exist.", "Try it in psql first.",
    ),
    _Meaning(
        "42 0A000 21000", None, ParameterError, "{It} cannot be run.", "The database says: SQLSTATE {code}.",
        "Try it in psql first.",
    ),
)  # fmt: skip


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
            problem = _translated(error, doing, subject)
        except (pa.ArrowException, OSError, UnicodeError):
            problem = _unreadable(subject)
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


def _translated(error: adbc_driver_manager.Error, doing: Doing, subject: str) -> ElldeltaError:
    """One of our errors for one of the database's.

    Args:
        error: What the driver raised.
        doing: What was going on.
        subject: Words for the table, the query or the release that it was about.
    """
    code = error.sqlstate or ""
    if doing == "connect":
        return _unreachable(str(error), code)
    is_lost = error.status_code == adbc_driver_manager.AdbcStatusCode.IO if not code else code in _LOST
    if is_lost:
        return FileError(
            "The connection to the database was lost.",
            found="The server ended it, or the network did.",
            remedy="Try again; nothing was left half written.",
        )
    if not code:
        return _unreadable(subject)
    names = {"it": subject, "It": _capital(subject), "code": code}
    for meaning in _MEANINGS:
        if code.startswith(tuple(meaning.codes.split())) and doing in (meaning.doing or (doing,)):
            problem, found = meaning.problem.format(**names), meaning.found.format(**names)
            return meaning.kind(problem, found=found, remedy=meaning.remedy)
    return InternalError(
        "The database refused a query.",
        found=f"It says SQLSTATE {code}; its message is withheld, because it may quote records.",
        remedy="Please report what you did, without the data.",
    )


def _unreadable(subject: str) -> DataError:
    """Cells that Arrow cannot take."""
    return DataError(
        f"{_capital(subject)} holds values that cannot be read.",
        found="A column has a type, or a text an encoding, that Arrow lacks.",
        remedy="Convert the column in a query, or leave it out.",
    )


def _unreachable(words: str, code: str) -> FileError:
    """Why there is no connection. Only the libpq texts tell, and they may be in any language."""
    if code[:2] == "28" or "authentication failed" in words or "no password supplied" in words:
        found, remedy = "It does not accept the role or its password.", "Check both in the address."
    elif "Connection refused" in words or "No such file or directory" in words:
        found, remedy = "Nobody listens at the address.", "Check host and port, and that the server runs."
    elif "translate host name" in words:
        found, remedy = "The name of the host is not known.", "Check the host in the address."
    elif 'database "' in words and "does not exist" in words:
        found, remedy = "The server has no database of that name.", "Check the name in the address."
    elif 'role "' in words and ("does not exist" in words or "not permitted to log in" in words):
        found, remedy = "The server does not let the role in.", "Check the name in the address."
    elif "pg_hba.conf" in words:
        found, remedy = "The server does not let this role in from here.", "Ask its administrator."
    elif "too many" in words:
        found, remedy = "It has no room for another connection.", "Try again later."
    elif "URI" in words or "connection option" in words or 'missing "=" after' in words:
        found = "The address cannot be understood."
        remedy = "Write postgresql://role@host:5432/database, with other marks as %20 and so on."
    else:
        found = "The reason is withheld, because it may quote the address."
        remedy = "Check the address, the network and the server's log."
    return FileError("The database cannot be reached.", found=found, remedy=remedy)


def _capital(subject: str) -> str:
    return subject[:1].upper() + subject[1:]
