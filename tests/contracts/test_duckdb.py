import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contracts.engine_contract import EngineContract
from tests.contracts.failure_contract import SCHEMA, FailureContract
from tests.contracts.inference_contract import InferenceContract

from elldelta.engines.duckdb import connect
from elldelta.engines.task import Task
from elldelta.errors import FileError, InternalError
from elldelta.model.counting import count


class TestTables(EngineContract):
    start = staticmethod(connect)


class TestInference(InferenceContract):
    start = staticmethod(connect)


class TestFailures(FailureContract):
    engine_name = "duckdb"
    rarely = (
        "test_a_full_disk_is_named_and_leaves_nothing[release-parquet]",
        "test_a_full_disk_is_named_and_leaves_nothing[quarantine-csv]",
        "test_an_interrupt_is_heard_and_leaves_nothing[release]",
    )
    start = staticmethod(connect)


def test_what_nobody_has_foreseen_is_no_damaged_file():
    def stop():
        raise duckdb.InvalidInputException("Invalid Input Error: Could not do so because: canary")

    with connect() as engine:
        with pytest.raises(InternalError, match="InvalidInputException") as caught:
            engine._run(stop, "read")
        assert "canary" not in str(caught.value)
    with pytest.raises(FileError, match="does not accept its settings"):
        connect(memory_limit="much")


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"a": [1, 2, 2], "s": ["x", "y", "x"]}), path)
    return path


@pytest.fixture
def impossible(whole):
    """A file with a column of fewer than no bytes, which DuckDB takes for an error of its own."""
    size = 2 * pq.read_metadata(whole).row_group(0).column(0).total_compressed_size
    # Numbers of fields 7 and 9 around it; an odd number is a negative one.
    told, instead = (b"\x16" + bytes([n & 127 | 128, n >> 7]) + b"\x26" for n in (size, size - 1))
    content = whole.read_bytes()
    assert content.count(told) == 1
    path = whole.with_name("impossible.parquet")
    path.write_bytes(content.replace(told, instead))
    return path


def test_a_file_with_impossible_numbers_is_a_damaged_one_and_others_are_read_after_it(whole, impossible):
    with connect() as engine:
        with pytest.raises(FileError, match="damaged"):
            count(engine.open(impossible), SCHEMA)
        assert count(engine.open(whole), SCHEMA).counts.n_records == 3
        with pytest.raises(FileError, match="damaged"):
            count(engine.open([whole, impossible]), SCHEMA)
        assert count(engine.open(pa.table({"a": [1], "s": ["x"]})), SCHEMA).counts.n_records == 1


@pytest.mark.parametrize("kind", [duckdb.InternalException, duckdb.FatalException])
def test_an_error_of_duckdb_itself_is_no_damaged_file(whole, kind):
    def stop():
        raise kind("INTERNAL Error: Information loss: canary")

    with connect() as engine:
        count(engine.open(whole), SCHEMA)
        with pytest.raises(InternalError, match=kind.__name__) as caught:
            engine._run(stop, "read")
    assert "canary" not in str(caught.value)


def test_an_interrupt_when_a_result_has_just_come_leaves_none_open(monkeypatch):
    """The thread has opened it, and nobody has it yet: an open result would hold the connection."""
    wait = Task._wait

    def interrupted(task):
        while not wait(task):
            pass
        raise KeyboardInterrupt

    with connect() as engine:
        stored = engine.store(f"SELECT * FROM {engine.open(pa.table({'a': range(9)})).relation}")  # noqa: S608
        monkeypatch.setattr(Task, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt) as interrupt:
            next(engine.fetch(stored))
        monkeypatch.undo()
        engine.discard(stored)
        assert interrupt.traceback  # its frames held the result
