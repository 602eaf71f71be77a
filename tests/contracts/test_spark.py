"""Spark behind the engine contract: one session for all tests, because starting one takes seconds."""

import os
import sys
from functools import partial

import pytest
from tests.contracts.engine_contract import EngineContract
from tests.contracts.failure_contract import FailureContract
from tests.contracts.inference_contract import InferenceContract
from tests.spark import needs_java

from elldelta.data.engines.spark import connect

pytestmark = needs_java


@pytest.fixture(scope="module")
def session():
    """A session as its owner starts it, with settings that are not ours."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.log.level", "OFF")
        # Many small queries: compiling less takes less time.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="class")
def engine(request, session):
    request.cls.start = staticmethod(partial(connect, session=session))
    with connect(session=session) as engine:
        yield engine


class TestTables(EngineContract):
    n_examples = 4
    in_parts = True


class TestInference(InferenceContract):
    """Schemas."""


class TestFailures(FailureContract):
    engine_name = "spark"
    copies_csv = True
    patience = 600
    no_room = "There is no room|not enough memory or temporary space"

    @pytest.fixture
    def engine_settings(self):
        return {"master": "local[2]"}
