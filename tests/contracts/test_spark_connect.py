"""The same engine over Spark Connect: a server in a process of its own, and only gRPC between."""

import os
import sys
from pathlib import Path

import pyspark
import pytest
from tests.cluster.standalone import Process, free_port, until
from tests.contracts.journey import records, tell
from tests.release.hospital_tables import write_parquet
from tests.spark import needs_java

from elldelta.engines import connect

pytestmark = [needs_java, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server of Spark Connect."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    process = Process(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        ],
        tmp_path_factory.mktemp("server") / "server.log",
    )
    try:
        until(
            lambda: "Spark Connect server started" in process.said() or not process.runs, "the server starts"
        )
        assert process.runs, process.said()
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()


def test_the_story_is_the_same_over_spark_connect(server, tmp_path):
    source = write_parquet(tmp_path / "records.parquet", records())
    environment = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    for name in ("duckdb", "connect"):
        (tmp_path / name).mkdir()
    with connect("duckdb") as own, connect("spark", master=server) as engine:
        expected = tell(own, source, tmp_path / "duckdb", kept=("ward",))
        seen = []
        stored = engine.store("SELECT COUNT(*) AS n FROM RANGE(1000)", seen.append)
        assert [batch.to_pydict() for batch in engine.fetch(stored)] == [{"n": [1000]}]
        assert seen[-1] == 1.0
        assert tell(engine, source, tmp_path / "connect", kept=("ward",)) == expected
    assert dict(os.environ) == environment  # a process started later finds no trace of Spark Connect
