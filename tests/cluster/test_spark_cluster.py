"""A release that a real Spark cluster counts: identical to DuckDB's, also if a worker dies.

ELLDELTA_CLUSTER_ROWS=10000000 makes the table as large as the page about engines says it was tried.
"""

import os
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cluster.standalone import Process, StandaloneCluster, until
from tests.spark import needs_java

import elldelta as ed

pytestmark = [pytest.mark.slow, needs_java, pytest.mark.timeout(1200)]

N_ROWS = int(os.environ.get("ELLDELTA_CLUSTER_ROWS", "300000"))
N_FILES = 8
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": "24",
    # Many small tasks, so that there is a middle in which somebody can die.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}


def write_folder(folder):
    """A table in parts: who, what, and a column that nobody asks for."""
    rng = np.random.default_rng(8)
    folder.mkdir()
    for place, n in enumerate(np.diff(np.linspace(0, N_ROWS, N_FILES + 1).astype(int)).tolist()):
        postal_code, age = rng.integers(0, 40, n), rng.integers(20, 80, n)
        disease = (rng.geometric(0.08, n) + age // 20 + postal_code % 3) % 30
        table = pa.table(
            {
                "postal_code": pa.array([f"{code:05}" for code in range(40)]).take(pa.array(postal_code)),
                "gender": pa.array(["F", "M", None]).take(pa.array(rng.choice(3, n, p=[0.5, 0.49, 0.01]))),
                "age": age,
                "disease": pa.array([f"disease {number:02}" for number in range(30)]).take(pa.array(disease)),
                "visit": pa.array(rng.integers(0, 10**9, n), mask=rng.random(n) < 0.01),
            }
        )
        pq.write_table(table, folder / f"{place}.parquet", row_group_size=50_000)
    return folder


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Records, a plan, and the release that DuckDB makes of them."""
    folder = tmp_path_factory.mktemp("story")
    records = write_folder(folder / "records")
    schema = ed.Schema.infer(
        str(records), quasi_identifiers=["postal_code", "gender", "age"], sensitive="disease"
    )
    plan = ed.plan(ed.estimate(str(records), schema), ell=5, releases=2, records=N_ROWS // 2)
    ed.write_plan(plan, folder / "plan.json")
    ed.release(records, plan, to=folder / "duckdb.parquet")
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def start_release(cluster, story, target):
    settings = story / "conf"
    settings.mkdir(exist_ok=True)
    lines = [f"{key} {value}\n" for key, value in SETTINGS.items()]
    (settings / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    run = Process(
        [
            *(sys.executable, "-c", "from elldelta.cli.main import run; run()"),
            *("release", str(story / "records")),
            *("--plan", str(story / "plan.json"), "-o", str(target)),
            *("--engine", cluster.url, "--json"),
        ],
        target.with_suffix(".log"),
        SPARK_CONF_DIR=str(settings),
    )
    cluster.drivers.append(run)
    return run


def is_counting(cluster, before):
    """Whether tasks have begun to group records: what they have grouped so far lies on their disks."""
    return cluster.shuffled() - before


def check_equal(story, target):
    """The same release and the same manifest as DuckDB's, byte for byte."""
    for suffix in ("", ".manifest.json"):
        found, expected = (path.with_name(path.name + suffix) for path in (target, story / "duckdb.parquet"))
        assert found.read_bytes() == expected.read_bytes()


def test_a_release_on_a_cluster_is_the_one_of_a_single_machine(cluster, story, tmp_path):
    target = tmp_path / "release.parquet"
    run = start_release(cluster, story, target)
    assert run.code == 0, run.said()
    check_equal(story, target)
    assert len(cluster.busy_workers()) == 2
    assert ed.verify(target, ed.read_plan(story / "plan.json")).records == N_ROWS


def test_a_release_survives_the_death_of_a_worker(cluster, story, tmp_path):
    target, before = tmp_path / "release.parquet", cluster.shuffled()
    run = start_release(cluster, story, target)
    until(lambda: is_counting(cluster, before) or not run.runs, "the workers count")
    assert run.runs, run.said()
    cluster.busy_workers()[0].kill()
    assert not target.exists()
    assert run.code == 0, run.said()
    check_equal(story, target)
    cluster.add_worker()


def test_a_driver_that_dies_leaves_no_release(cluster, story, tmp_path):
    target, before = tmp_path / "release.parquet", cluster.shuffled()
    ended = cluster.ended_applications()
    run = start_release(cluster, story, target)
    until(lambda: is_counting(cluster, before) or not run.runs, "the workers count")
    assert run.runs, run.said()
    run.kill()
    until(lambda: cluster.ended_applications() > ended, "the master notices")
    time.sleep(1)  # for executors that have not noticed yet
    assert list(tmp_path.iterdir()) == [run.log]
    ed.release(story / "records", ed.read_plan(story / "plan.json"), to=target)
    assert ed.verify(target).records == N_ROWS
