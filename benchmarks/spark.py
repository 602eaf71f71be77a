"""Spark on this machine (local[2]): counting and releasing against Spark's own grouping and writing.

Ten million records; a million with `--quick`. One session does both sides, in turns, so that what else the
machine does slows both alike; the time that passes is compared, the best of three. The release is written on
this machine, from the counts.
"""

import importlib.util
import math
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks._result import Fact
from benchmarks._tables_data import COLUMNS, make_table
from elldelta.engines import connect
from elldelta.ledger.publish import release
from elldelta.model.model import estimate
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

MOST_ROWS, SMALL = 10_000_000, 5_000_000
"""Below the second, ratios say little: much does not depend on the size yet."""
TURNS = 3
GROUP_ALLOWED, COPY_ALLOWED = 1.3, 2.5


def run(size):
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        print("  spark: skipped, it needs pyspark and Java 17")
        return
    n_rows = min(max(size.rows), MOST_ROWS)
    with tempfile.TemporaryDirectory(prefix="elldelta-spark-") as name:
        folder = Path(name)
        session = _session(folder)
        try:
            yield from compared(folder, n_rows, session)
        finally:
            session.stop()


def _session(folder):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    builder = SparkSession.builder.master("local[2]").appName("elldelta")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def compared(folder, n_rows, session):
    table, past = folder / "owner.parquet", folder / "past.parquet"
    make_table(table, n_rows)
    make_table(past, min(n_rows, 1_000_000), seed=3)
    schema = Schema.infer(past, COLUMNS[:3], COLUMNS[3])
    made = plan(estimate(past, schema), ell=5, releases=2, records=min(n_rows, 1_000_000))

    def group():
        counts = session.read.parquet(str(table)).groupBy(*COLUMNS).count()
        counts.write.format("noop").mode("overwrite").save()

    def copy():
        rows = session.read.parquet(str(table)).select(*COLUMNS)
        rows.write.mode("overwrite").parquet(str(folder / "copy"))

    with connect("spark", session=session) as engine:

        def publish():
            release(table, made, to=folder / "release.parquet", overwrite=True, engine=engine)

        def count():
            estimate(table, schema, engine=engine)

        for step, ours, bare, limit, allowed in (
            ("count", count, group, "read and GROUP BY", GROUP_ALLOWED),
            ("release", publish, copy, "read and write", COPY_ALLOWED),
        ):
            own, least = in_turns(ours, bare)
            about = {"records": n_rows, "step": step, "limit": limit}
            yield Fact("spark", {**about, "passed_seconds": own, "limit_passed_seconds": least})
            yield (
                f"{step}, {n_rows:,} records, against Spark's own {limit}",
                own / least,
                math.inf if n_rows < SMALL else allowed,
            )


def in_turns(ours, bare):
    """The best time that passes of both, measured in turns after each has warmed up once."""
    best = [math.inf, math.inf]
    for turn in range(TURNS + 1):
        for side, call in enumerate((ours, bare)):
            start = time.perf_counter()
            call()
            if turn:
                best[side] = min(best[side], time.perf_counter() - start)
    return best
