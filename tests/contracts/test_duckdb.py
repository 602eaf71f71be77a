import duckdb
import pyarrow as pa
import pytest
from tests.contracts.engine_contract import EngineContract
from tests.contracts.failure_contract import FailureContract
from tests.contracts.inference_contract import InferenceContract

from elldelta.engines.duckdb import connect
from elldelta.engines.task import Task
from elldelta.errors import FileError, InternalError


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
