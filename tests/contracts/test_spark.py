"""Spark behind the engine contract: one JVM for all tests, because starting one takes seconds.

It serves the classic session and Spark Connect. What needs a Spark of its own is rare and slow.
"""

import datetime as dt
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contracts.engine_contract import EngineContract
from tests.contracts.failure_contract import CANARY, FailureContract, everything_said
from tests.contracts.inference_contract import InferenceContract
from tests.contracts.journey import records, tell
from tests.local_server import free_ports
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, write_parquet
from tests.spark import needs_java
from tests.switch import IS_ON, quick_or_all

from elldelta.cli.main import execute
from elldelta.engines import Query, TableName, duckdb
from elldelta.engines.spark.engine import connect
from elldelta.engines.spark.session import MEANING, Runner, Session, start_session
from elldelta.errors import FileError, InternalError, ParameterError
from elldelta.ledger.publish import release
from elldelta.ledger.verification import verify
from elldelta.model import estimate_by_region
from elldelta.model.counting import count
from elldelta.model.model import estimate
from elldelta.plan.plan import write_plan
from elldelta.plan.planner import plan
from elldelta.schema.schema import Categories, Column, Integers, Schema

pytestmark = needs_java


SETTINGS_OF_ITS_OWNER = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
}


PLAIN_EXECUTION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Queries that take rows one by one and are planned once: to compile them costs more than tables this small.

What they mean does not depend on it; with everything switched on, Spark is as its users have it.
"""


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    """Spark in a JVM as we start it, which also answers over Spark Connect: its session, and that address."""
    [port] = free_ports(1)
    settings = {
        **({} if IS_ON else PLAIN_EXECUTION),
        "spark.sql.shuffle.partitions": "3",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    started = start_session("local[2]", settings, tmp_path_factory.mktemp("spark"))
    yield started.spark, f"sc://127.0.0.1:{port}"
    started.leave()


@pytest.fixture(scope="module")
def session(jvm):
    """A session as its owner has it, with settings that are not ours."""
    session, _ = jvm
    for key, value in SETTINGS_OF_ITS_OWNER.items():
        session.conf.set(key, value)
    return session


@pytest.fixture(scope="class")
def engine(request, session):
    request.cls.start = staticmethod(partial(connect, session=session))
    with connect(session=session) as engine:
        yield engine


class InMemory:
    """Brings what other engines read as CSV to Spark as a table in memory."""

    def place_file(self, engine, path):
        if path.suffix == ".parquet":
            return path
        with duckdb.connect() as reader:
            return pa.Table.from_batches(reader.fetch(reader.open(path).relation))


class TestTables(InMemory, EngineContract):
    n_examples = quick_or_all(3, 6)
    often = (
        "test_a_release_holds_what_the_definition_says",
        "test_counts_of_typed_columns_equal_the_definition",
        "test_persons_are_counted_once_per_value_of_every_column",
        "test_several_sensitive_columns_are_counted_each_by_itself",
        "test_texts_and_names_of_users_are_never_read_as_sql",
        "test_what_it_cannot_do_is_refused_with_the_engine_that_can",
    )


class TestInference(InMemory, InferenceContract):
    often = (
        "test_texts_that_stand_for_missing_values_are_no_values",
        "test_spaces_and_the_form_of_accents_make_no_other_value",
    )


class TestFailures(FailureContract):
    engine_name = "spark"
    often = (
        "test_bad_files_are_refused_without_a_cell_and_stay_as_they_are",
        "test_files_that_cannot_be_one_table_fail_without_a_cell",
        "test_the_canary_is_in_no_message[text]",
    )
    no_room = "There is no room|not enough memory or temporary space"

    @pytest.fixture
    def engine_settings(self):
        return {"master": "local[2]"}

    # Each of these starts Spark in another process; what Spark has no part in is tried on DuckDB.

    @pytest.mark.slow
    @pytest.mark.parametrize(("suffix", "written"), [("parquet", "quarantine")])
    def test_a_full_disk_is_named_and_leaves_nothing(self, engine_settings, tmp_path, suffix, written):
        super().test_a_full_disk_is_named_and_leaves_nothing(engine_settings, tmp_path, suffix, written)

    @pytest.mark.slow
    @pytest.mark.parametrize("moment", ["count", "quarantine"])
    def test_an_interrupt_is_heard_and_leaves_nothing(self, engine_settings, tmp_path, moment):
        super().test_an_interrupt_is_heard_and_leaves_nothing(engine_settings, tmp_path, moment)


# What all engines agree on


@pytest.mark.slow
def test_nobody_can_tell_a_story_on_spark_from_one_on_duckdb(session, tmp_path):
    rows = records()
    source = tmp_path / "records"
    (source / "a").mkdir(parents=True)
    write_parquet(source / "a" / "1.parquet", rows[:1700])
    write_parquet(source / "2.parquet", rows[1700:])
    for name in ("duckdb", "spark"):
        (tmp_path / name).mkdir()
    with duckdb.connect() as own, connect(session=session) as engine:
        assert tell(engine, source, tmp_path / "spark") == tell(own, source, tmp_path / "duckdb")


@pytest.mark.slow
def test_the_story_is_the_same_over_spark_connect(jvm, tmp_path):
    """Only gRPC between: what is asked for comes as text, what comes back is Arrow."""
    _, address = jvm
    source = write_parquet(tmp_path / "records.parquet", records())
    environment = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    for name in ("duckdb", "connect"):
        (tmp_path / name).mkdir()
    with duckdb.connect() as own, connect(master=address) as engine:
        expected = tell(own, source, tmp_path / "duckdb")
        seen = []
        stored = engine.store("SELECT COUNT(*) AS n FROM RANGE(1000)", seen.append)
        assert [batch.to_pydict() for batch in engine.fetch(stored)] == [{"n": [1000]}]
        assert seen[-1] == 1.0
        assert tell(engine, source, tmp_path / "connect") == expected
    assert dict(os.environ) == environment  # a process started later finds no trace of Spark Connect


def test_a_command_releases_on_spark(jvm, tmp_path, capsys):
    """Over Spark Connect, and the content is the one that DuckDB releases."""
    _, address = jvm
    source = write_parquet(tmp_path / "records.parquet", records())
    schema = Schema.infer(source, QUASI_IDENTIFIERS, SENSITIVE)
    made = plan(estimate(source, schema), ell=3, releases=2, records=2500)
    write_plan(made, tmp_path / "plan.json")
    target = tmp_path / "release.parquet"
    words = ("release", source, "--plan", tmp_path / "plan.json", "-o", target, "--json")
    spark = ("--engine", address)
    assert execute([str(word) for word in (*words, *spark)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    same = release(source, made, to=tmp_path / "duckdb.parquet").manifest
    assert json.loads(said.out)["content_digest"] == same.content_digest
    assert target.read_bytes() == (tmp_path / "duckdb.parquet").read_bytes()
    assert verify(target, made).records == 3000


@pytest.mark.parametrize("way", ["classic", pytest.param("connect", marks=pytest.mark.slow)])
def test_regions_are_planned_on_its_workers(way, session, jvm, tmp_path, monkeypatch):
    """The same plan, byte for byte, as on this machine; damage that a worker finds is told as here."""
    source = write_parquet(tmp_path / "records.parquet", records())
    schema = Schema.infer(source, QUASI_IDENTIFIERS, SENSITIVE)
    asked = {"ell": 3, "releases": 2, "records": 2500}
    with connect(session=session) if way == "classic" else connect(master=jvm[1]) as engine:
        monkeypatch.chdir(tmp_path)
        model = estimate_by_region(source, schema, QUASI_IDENTIFIERS[1], "model", engine=engine)
        assert len(model.regions) > 1
        assert plan(model, **asked, engine=engine).file_content == plan(model, **asked).file_content
        (model.folder / model.regions[-1].file_name).write_bytes(b"")
        with pytest.raises(FileError, match="not a model"):
            plan(model, **asked, engine=engine)


STRANGE = {
    "nanoseconds": pa.array([-1, 951_782_400_000_000_001, None, 0], pa.timestamp("ns")),
    "milliseconds": pa.array([951_782_400_000, -1, None, 0], pa.timestamp("ms")),
    "tiny": pa.array([-128, 127, None, 0], pa.int8()),
    "unsigned": pa.array([0, 2**32 - 1, None, 7], pa.uint32()),
    "long": pa.array([0, 2**40, None, 7], pa.uint64()),
    "real": pa.array([0.5, -0.0, float("nan"), 0.0], pa.float32()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01"), None, Decimal("9.99")], pa.decimal128(9, 2)),
    "old": pa.array([dt.date(1500, 1, 1), dt.date(1582, 10, 4), None, dt.date(1899, 12, 31)]),
    "coded": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "wide": pa.array(["é", "", None, "Z"], pa.large_string()),
    "Wide name `x`.y": pa.array(["p", "q", None, "P"]),
}


@pytest.mark.parametrize(
    "form", ["int96", *(pytest.param(form, marks=pytest.mark.slow) for form in ("frame", "file"))]
)
def test_columns_of_strange_types_count_alike(session, tmp_path, form):
    table = pa.table({**STRANGE, "s": pa.array(["x", "y", "x", "y"])})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=form == "int96")
    source = table if form == "frame" else path

    def counts(engine):
        opened = engine.open(source)
        return {name: sorted(_texts(opened, name), key=repr) for name in STRANGE}

    with duckdb.connect() as own, connect(session=session) as engine:
        assert counts(engine) == counts(own)


def _texts(table, name):
    """The values of a column and how often each occurs, cut to microseconds, for Spark has no others."""
    for batch in table.count_texts([name]):
        for text, n in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield (
                None
                if text is None
                else re.sub(r"[.]([0-9]{6})[0-9]+$", r".\1", text).removesuffix(".000000"),
                n,
            )


# What is particular to Spark


def test_small_tables_are_broadcast(session):
    with connect(session=session) as engine:
        records = engine.open(pa.table({"a": np.arange(5000) % 10})).relation
        small = engine.put(pa.table({"raw": np.arange(10), "position": np.arange(10)}))
        joined = f"SELECT * FROM {records} AS r JOIN {small} AS e ON r.a IS NOT DISTINCT FROM e.raw"  # noqa: S608
        [[plan]] = session.sql(f"EXPLAIN {joined}").collect()
    assert "BroadcastHashJoin" in plan
    assert "SortMergeJoin" not in plan
    assert "ShuffledHashJoin" not in plan


def test_a_session_that_is_given_is_left_as_it_was(session):
    session.conf.set("spark.sql.caseSensitive", "false")
    before = {key: session.conf.get(key, None) for key in MEANING}
    views = {table.name for table in session.catalog.listTables()}
    with connect(session=session) as engine:
        assert session.conf.get("spark.sql.caseSensitive") == "true"
        engine.store("SELECT 1 AS one")
        engine.open(pa.table({"a": [1]}))
    assert {key: session.conf.get(key, None) for key in MEANING} == before
    assert {table.name for table in session.catalog.listTables()} == views
    assert session.range(3).count() == 3


def test_tables_of_the_session_are_opened_by_name(session):
    session.createDataFrame(pa.table({"a": [1, 2, 2], "s": ["x", "y", "x"]})).createOrReplaceTempView(
        "patients"
    )
    schema = Schema((Column("a", Integers(0, 9)),), Column("s", Categories(("x", "y"))))
    with connect(session=session) as engine:
        for source in (
            TableName("patients"),
            Query("SELECT * FROM patients"),
            session.table("patients"),
        ):
            assert count(engine.open(source), schema).counts.n_records == 3
        for source in (TableName("strangers"), Query("SELEC nothing"), Query("DROP VIEW patients")):
            with pytest.raises(FileError, match="Spark cannot read"):
                engine.open(source)
        assert session.table("patients").count() == 3


def test_addresses_are_left_to_spark(session, tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "s": ["x", "y"]}), tmp_path / "t.parquet")
    schema = Schema((Column("a", Integers(0, 9)),), Column("s", Categories(("x", "y"))))
    with connect(session=session) as engine:
        table = engine.open(f"file://{tmp_path}/t.parquet")
        assert count(table, schema).counts.n_records == 2
        with pytest.raises(FileError, match="no Parquet table at the address"):
            engine.open(f"file://{tmp_path}/none.parquet")
        with pytest.raises(FileError, match="hadoop-aws"):
            engine.open("s3a://bucket/t.parquet")  # a library is missing, which Spark reports in its own way
        with pytest.raises(ParameterError, match=r"cannot read s3a://bucket/t\.csv") as refusal:
            engine.open("s3a://bucket/t.csv")
        assert "Parquet" in refusal.value.remedy


def test_large_results_come_in_pieces(session):
    with connect(session=session) as engine:
        session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
        engine.rows_at_once = 1000
        stored = engine.store("SELECT id % 5000 AS k, COUNT(*) AS n FROM RANGE(10000) GROUP BY id % 5000")
        batches = list(engine.fetch(stored))
        session.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    table = pa.Table.from_batches(batches)
    assert len(batches) > 1
    assert sorted(table.column("k").to_pylist()) == list(range(5000))


@pytest.mark.slow
@pytest.mark.parametrize("doing", ["count", "jobs"])
# Stopped first, it leaves a question unread, and the connection is reset; otherwise it is closed.
@pytest.mark.parametrize("signals", [("SIGKILL",), ("SIGSTOP", "SIGKILL")], ids=["closed", "reset"])
def test_a_jvm_that_is_killed_is_named_and_nothing_else_is_said(doing, signals):
    command = [sys.executable, Path(__file__).with_name("lost_jvm.py"), doing, *signals]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 2, found
    assert found.stderr.startswith("Spark ended, or the connection to it was lost. ")
    assert found.stderr.count("\n") == 1


def test_an_error_of_py4j_while_spark_answers_is_no_lost_connection(session):
    from py4j.protocol import Py4JError

    def fail():
        raise Py4JError(f"An error occurred while calling {CANARY}")

    runner = Runner(Session(session, is_connect=False, is_local=True, leave=lambda: None))
    with pytest.raises(InternalError, match="Py4JError") as refusal:
        runner.run(fail)
    assert CANARY not in everything_said(refusal.value)


def test_what_cannot_be_started_is_refused(session):
    for settings, found in (
        ({"session": session, "master": "local[2]"}, "given"),
        ({"master": "local[2]"}, "already a Spark session"),
        ({"master": "nonsense"}, "not understood"),
        ({"master": "spark://127.0.0.1:1"}, "cannot be reached"),
        ({"master": "sc://127.0.0.1:1"}, "cannot be reached"),
    ):
        with pytest.raises(ParameterError, match=found):
            connect(**settings)


def test_a_missing_java_is_named(session, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ParameterError, match="needs Java") as refusal:
        connect(master="local[1]")
    assert "apt install openjdk-17-jre-headless" in refusal.value.remedy
