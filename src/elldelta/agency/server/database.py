"""The database: one engine, transactions that read and transactions that write.

On SQLite a transaction that writes begins with BEGIN IMMEDIATE, so two of them never interleave, and writers
of this process queue up in front of the database instead of polling it. On PostgreSQL whoever has to be alone
locks a row (`SELECT ... FOR UPDATE`).
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from elldelta.agency.server.errors import BusyError, DatabaseError
from elldelta.errors import ElldeltaError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Engine

POOL_SIZE = 16
"""Connections that one process may hold; as many as requests are handled at a time."""

PROBE_SECONDS = 10.0
"""How often it is tried whether the database can be written, at most."""

FREE_BYTES = 32 << 20
"""With less than this free on its disk, an SQLite database counts as one that cannot be written."""

_BEGIN_TO_READ = ("BEGIN",)
_BEGIN_TO_WRITE = ("BEGIN IMMEDIATE",)
"""How transactions begin on SQLite."""

_LOCKED = frozenset({"55P03", "57014", "40001", "40P01"})
"""PostgreSQL: a lock was not available, a statement was cancelled, serialization failed, a deadlock."""

_LOCKED_FILE = "database is locked"
"""What SQLite says."""

_DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "DataCorrupted", "IndexCorrupted"})
"""The file is not what it was, or no database at all."""


class Database:
    """An engine and the two kinds of transaction.

    Args:
        url: The database, as SQLAlchemy spells it.
        timeout: Seconds to wait for a connection or a lock.
        before_commit: Is given every transaction that writes, before it is committed.
    """

    def __init__(
        self, url: str, *, timeout: float = 15.0, before_commit: Callable[[Session], None] | None = None
    ) -> None:
        try:
            self.url = make_url(url)
        except ArgumentError:
            raise ParameterError(
                "The URL of the database cannot be read.",
                remedy="Write for example postgresql://user:password@host/name.",
            ) from None
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._writer = threading.Lock()
        self._probing = threading.Lock()
        self._problem: DatabaseError | None = None
        self._next_probe = 0.0
        self._timeout = timeout
        self._before_commit = before_commit
        self.engine: Engine = self._sqlite() if self.is_sqlite else self._postgresql()
        self._reading_engine = self.engine
        if not self.is_sqlite:  # there a statement would see what others have committed since the one before
            self._reading_engine = self.engine.execution_options(isolation_level="REPEATABLE READ")
        self._writing_engine = self.engine.execution_options(elldelta_begin=_BEGIN_TO_WRITE)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that only reads, and sees one state of the database throughout."""
        with _translated(), Session(self._reading_engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that writes: everything in it happens, or nothing."""
        with (
            self._remembered(),
            _translated(),
            self._queue(),
            Session(self._writing_engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session
            if self._before_commit is not None:
                self._before_commit(session)

    def insert(self, row: object) -> bool:
        """Adds one row; False if the table has one that is the same in what must be unique."""
        try:
            with self.writing() as session:
                session.add(row)
        except IntegrityError:
            return False
        return True

    def check_writable(self) -> None:
        """Finds out whether something could be written now, by writing something now and then.

        Raises:
            DatabaseError: The disk is full, or the database could not be written a moment ago.
        """
        if self.is_sqlite and shutil.disk_usage(Path(self.url.database or "").parent).free < FREE_BYTES:
            raise DatabaseError("DISK_NEARLY_FULL")
        with self._probing:
            if time.monotonic() < self._next_probe:
                if self._problem is not None:
                    raise self._problem
                return
            self._next_probe = time.monotonic() + PROBE_SECONDS
            with self.writing() as session:
                session.execute(text("UPDATE secrets SET value = value"))

    def close(self) -> None:
        """Gives all connections back."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _remembered(self) -> Iterator[None]:
        """Remembers whether the last transaction that writes has failed because of the database."""
        try:
            yield
        except DatabaseError as error:
            self._problem, self._next_probe = error, time.monotonic() + PROBE_SECONDS
            raise
        self._problem = None

    @contextlib.contextmanager
    def _queue(self) -> Iterator[None]:
        """SQLite lets waiting writers sleep and try again; a lock in front wakes them in turn."""
        if not self.is_sqlite:
            yield
            return
        if not self._writer.acquire(timeout=self._timeout):
            raise BusyError
        try:
            yield
        finally:
            self._writer.release()

    def _sqlite(self) -> Engine:
        if not self.url.database or self.url.database == ":memory:":
            raise ParameterError(
                "The service needs a database that several processes can open.",
                found="It is an SQLite database in memory.",
                remedy="Name a file: sqlite:///folder/agency.sqlite",
            )
        _create_private(Path(self.url.database))
        engine = create_engine(
            self.url,
            poolclass=QueuePool,
            pool_size=POOL_SIZE,
            max_overflow=0,
            pool_timeout=self._timeout,
            hide_parameters=True,
            connect_args={"timeout": self._timeout, "check_same_thread": False},
        )

        @event.listens_for(engine, "connect")
        def _connected(connection: Any, _record: Any) -> None:  # noqa: ANN401 (the driver's own)
            # The driver would begin transactions by itself, too late for a consistent read.
            connection.isolation_level = None
            for pragma in (
                "journal_mode=WAL",
                "synchronous=FULL",  # what was acknowledged survives a power cut
                "foreign_keys=ON",
                "recursive_triggers=ON",  # or REPLACE would remove a line without asking its triggers
                "trusted_schema=OFF",
            ):
                connection.execute(f"PRAGMA {pragma}").close()

        @event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            statements = connection.get_execution_options().get("elldelta_begin", _BEGIN_TO_READ)
            driver: Any = connection.connection.driver_connection
            for statement in statements:
                driver.execute(statement).close()

        return engine

    def _postgresql(self) -> Engine:
        milliseconds = int(self._timeout * 1000)
        return create_engine(
            self.url,
            pool_size=POOL_SIZE,
            max_overflow=0,
            pool_timeout=self._timeout,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={
                "connect_timeout": max(2, int(self._timeout)),
                "options": f"-c lock_timeout={milliseconds} -c statement_timeout={milliseconds} "
                f"-c idle_in_transaction_session_timeout={4 * milliseconds} -c timezone=UTC",
            },
        )


def _create_private(path: Path) -> None:
    """Makes an empty file that only its owner may read: it will hold models, which are nearly records.

    A file or a folder that others can write is refused: they could put another ledger in its place.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            path.touch(0o600, exist_ok=False)
        modes = {place: place.stat().st_mode for place in (path, path.parent)}
    except OSError as problem:
        raise ParameterError(
            f"The database {path} cannot be made.",
            found=f"The system says: {problem.strerror}.",
            remedy="Choose another folder or another database.",
            parameter=("data", "database"),
        ) from None
    for place, mode in modes.items():
        is_open = mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_open and not mode & stat.S_ISVTX:  # where it is set, nobody can replace somebody else's file
            raise ParameterError(
                "Others than the owner can write to the agency's database.",
                found=f"{place} has the permissions {stat.filemode(mode)}.",
                remedy=f"Run chmod go-w {place}, and find out whether somebody has written to it.",
            )


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """A database's error text quotes what was written: only its kind goes on."""
    problem: ElldeltaError
    try:
        yield
    except PoolTimeoutError:
        problem = BusyError()
    except DBAPIError as error:
        if _is_busy(error):
            problem = BusyError()
        elif isinstance(error, OperationalError) or _kind(error.orig) in _DAMAGED:
            problem = DatabaseError(_kind(error.orig), is_damaged=_kind(error.orig) in _DAMAGED)
        else:
            raise
    except sqlite3.Error as error:
        is_busy, kind = _LOCKED_FILE in str(error), _kind(error)
        problem = BusyError() if is_busy else DatabaseError(kind, is_damaged=kind in _DAMAGED)
    else:
        return
    raise problem


def _kind(error: BaseException | None) -> str:
    """The name that a driver gives to what went wrong, which quotes nothing: SQLITE_FULL, DiskFull."""
    return str(getattr(error, "sqlite_errorname", None) or type(error).__name__)


def _is_busy(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state in _LOCKED or _LOCKED_FILE in str(error.orig)
