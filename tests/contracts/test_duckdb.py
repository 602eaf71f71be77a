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
    start = staticmethod(connect)
