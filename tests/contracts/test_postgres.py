"""PostgreSQL behind the engine contract: the contract's tables are real tables in a real server."""

import itertools

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi
from tests.contracts.engine_contract import EngineContract
from tests.contracts.failure_contract import FailureContract
from tests.contracts.inference_contract import InferenceContract

from elldelta.engines import duckdb
from elldelta.engines.postgres.engine import connect


@pytest.fixture(scope="class")
def database(request, postgres_server):
    """A database for the tests of a class; its contract places tables there."""
    with postgres_server.new_database() as request.cls.database:
        yield request.cls.database


@pytest.fixture(scope="class")
def engine(database):
    with connect(database=database) as engine:
        yield engine


class InDatabase:
    """Puts the contract's tables into the database, as somebody else does it: over another connection."""

    _numbers = itertools.count()

    def place(self, engine, table):
        name = f"placed_{next(self._numbers)}"
        with dbapi.connect(self.database, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table)
        return name

    def place_file(self, engine, path):
        with duckdb.connect() as reader:
            table = reader.open(path)
            return self.place(engine, pa.Table.from_batches(reader.fetch(table.relation)))


class TestTables(InDatabase, EngineContract):
    start = staticmethod(connect)


class TestInference(InDatabase, InferenceContract):
    start = staticmethod(connect)


class TestFailures(InDatabase, FailureContract):
    engine_name = "postgres"
    rarely = (
        "test_a_full_disk_is_named_and_leaves_nothing[release-csv]",
        "test_a_full_disk_is_named_and_leaves_nothing[release-parquet]",
        "test_a_full_disk_is_named_and_leaves_nothing[quarantine-csv]",
        "test_an_interrupt_is_heard_and_leaves_nothing[quarantine]",
        "test_an_interrupt_is_heard_and_leaves_nothing[release]",
    )
    start = staticmethod(connect)

    @pytest.fixture
    def engine_settings(self, database):
        return {"database": database}
