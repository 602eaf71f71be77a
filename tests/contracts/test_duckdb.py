from tests.contracts.engine_contract import EngineContract
from tests.contracts.failure_contract import FailureContract
from tests.contracts.inference_contract import InferenceContract

from elldelta.engines.duckdb import connect


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
