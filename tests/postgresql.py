"""A real PostgreSQL for tests: one server per process, started when the first test asks for it.

`tests/conftest.py` makes the fixtures known to every test. A test takes `postgres_url`, the address of an
empty database of its own; whoever needs the server itself (roles, its log) takes `postgres_server`.
"""

import contextlib
import itertools
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest


@dataclass(frozen=True)
class PostgresServer:
    """A running server. It listens on a socket in its own folder only; nobody else can reach it.

    Attributes:
        folder: Its folder, which is also where its socket is.
        guarded_role: A role that must give `password`; everybody else is let in without.
        password: The password of that role.
    """

    folder: Path
    guarded_role: str = "guarded"
    password: str = "Sesame7Open"  # noqa: S105 (of a server that lives as long as the tests)
    _numbers: itertools.count = field(default_factory=itertools.count, repr=False)

    def url(self, database="postgres", role="postgres", password=None):
        """The address of a database."""
        who = role if password is None else f"{role}:{password}"
        return f"postgresql://{who}@/{database}?host={self.folder}"

    def execute(self, *statements):
        """Runs statements where no database of a test is meant."""
        return run_statements(self.url(), *statements)

    @contextlib.contextmanager
    def new_database(self, template="template1"):
        """The address of a database that is made for the block; then whoever still works in it is ended."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def run_statements(url, *statements):
    """Runs statements, each in a transaction of its own, and returns the rows of the last."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def running_server():
    """Starts a server in a folder of its own, which goes when the block ends; skips where it cannot start."""
    # The packaged server asks for the user's runtime folder when it is imported, and warns if there is none.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver", reason="PostgreSQL's tests need the package pgserver")
    folder = Path(tempfile.mkdtemp(prefix="elldelta-pg-"))  # a short name: sockets have a limit
    started = None
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                started = pgserver.get_server(folder, cleanup_mode="stop")
        except Exception as problem:  # noqa: BLE001 (whatever it is, there is no server here)
            pytest.skip(f"PostgreSQL cannot be started here: {type(problem).__name__}")
        server = PostgresServer(folder)
        rules = folder / "pg_hba.conf"
        rules.write_text(f"local all {server.guarded_role} scram-sha-256\n{rules.read_text()}")
        server.execute(
            "ALTER SYSTEM SET fsync = off",  # nothing here must survive a power cut
            f"CREATE ROLE {server.guarded_role} LOGIN PASSWORD '{server.password}'",
            "SELECT pg_reload_conf()",
        )
        yield server
    finally:
        if started is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server():
    """A server for all tests of this process."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The address of an empty database, which is removed when the test ends."""
    with postgres_server.new_database() as url:
        yield url


@pytest.fixture
def run_sql(postgres_url):
    """Runs statements in that database as somebody else does: over a connection of their own."""
    return partial(run_statements, postgres_url)
