"""An audit of five releases that others made, of up to ten million rows each, by their labels alone.

Time against the bare GROUP BY of all five, memory in GiB. `python -m benchmarks linking` compares with the
intersection attack of a peer.
"""

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from elldelta.audit.columns import ForeignColumns
from elldelta.audit.overlay import Overlay
from elldelta.audit.releases import read_release
from elldelta.core.linkage import link
from elldelta.engines.duckdb import connect

N_RELEASES, BATCH = 5, 1_000_000
COLUMNS = ForeignColumns(("age", "code", "sex"), "ill")


def run(size):
    """In processes of their own, so that the memory is that of an audit and not of making the data."""
    n_rows = min(10 * BATCH, max(size.rows))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(1, maxtasksperchild=1) as pool:
        paths = [Path(folder) / f"release_{number}.parquet" for number in range(N_RELEASES)]
        pool.starmap(write_release, [(number, path, n_rows) for number, path in enumerate(paths)])
        bare = min(pool.apply(bare_group_by, (paths,)) for _ in range(2))
        audited = [pool.apply(audit_all, (paths,)) for _ in range(2)]
    seconds = min(each[0] for each in audited)
    print(f"  5 x {n_rows:,} rows: GROUP BY {bare:.2f} s, audit {seconds:.2f} s, {audited[0][2]} cells")
    if size.name != "quick":  # what does not depend on the rows would count too much
        yield f"audit of 5 x {n_rows:,} rows / bare GROUP BY of all", seconds / bare, 6.0
    yield "its memory, GiB", max(each[1] for each in audited), 2.0


def write_release(number, path, n_rows):
    """3000 combinations; the first release shows them all, the others cut ages, each differently."""
    rng = np.random.default_rng(number)
    width = 1 if number == 0 else 4 + number
    lows = np.arange(0, 100, width)
    ages = pa.array([str(low) if width == 1 else f"{low}-{min(low + width - 1, 99)}" for low in lows])
    codes = pa.array([f"56{place:02d}**" for place in range(15)])
    ill = pa.array([f"disease {place}" for place in range(50)])
    with pq.ParquetWriter(
        path, pa.schema({"age": pa.string(), "code": pa.string(), "sex": pa.string(), "ill": pa.string()})
    ) as writer:
        for _ in range(n_rows // BATCH):
            columns = (
                ages.take(pa.array(rng.integers(0, len(lows), BATCH))),
                codes.take(pa.array(rng.integers(0, 15, BATCH))),
                pa.array(["F", "M"]).take(pa.array(rng.integers(0, 2, BATCH))),
                ill.take(pa.array(rng.geometric(0.1, BATCH) % 50)),
            )
            writer.write_table(pa.table(dict(zip(("age", "code", "sex", "ill"), columns, strict=True))))


def bare_group_by(paths):
    with connect() as engine:
        tables = [engine.open(path) for path in paths]
        start = time.perf_counter()
        for table in tables:
            engine.store(
                f"SELECT age, code, sex, ill, count(*) AS n FROM {table.relation} GROUP BY ALL"  # noqa: S608
            )
        return time.perf_counter() - start


def audit_all(paths):
    with connect() as engine:
        start = time.perf_counter()
        read = [read_release(engine.open(path), path.name, COLUMNS) for path in paths]
        overlay = Overlay.from_releases(read, COLUMNS)
        link(overlay.releases)
        seconds = time.perf_counter() - start
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return seconds, gib, len(overlay.linked)
