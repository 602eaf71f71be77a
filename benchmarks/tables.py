"""Large tables against what the engine needs at least: a plain copy, a bare GROUP BY.

Ten million records; a hundred million with `--full`, which needs about 3 GB of disk.
"""

import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks._processes import peak_memory
from benchmarks._tables_data import COLUMNS, N_COMBINATIONS, make_table
from elldelta.app.audit import audit
from elldelta.app.estimate import estimate
from elldelta.app.plan import plan
from elldelta.app.release import release_to_file
from elldelta.app.schema import infer
from elldelta.data.engines.duckdb import connect
from elldelta.data.plan_file import write_plan

GIB = 2**30
MEMORY_ALLOWED = 1


def run(size):
    """Once for ten million records, and once for as many as the run is for."""
    for n_rows in sorted({min(max(size.rows), 10_000_000), max(size.rows)}):
        with tempfile.TemporaryDirectory(prefix="elldelta-bench-") as folder:
            yield from _run(Path(folder), n_rows)


def _run(folder, n_rows):
    table, other = (make_table(folder / f"owner{seed}.parquet", n_rows, seed) for seed in (1, 2))
    past = make_table(folder / "past.parquet", 1_000_000, seed=3)
    size, turns = f"{n_rows:,} records", 2 if n_rows > 20_000_000 else 4
    schema = infer(past, COLUMNS[:3], COLUMNS[3])
    model = estimate(past, schema)
    assert model.counts.n_combinations == N_COMBINATIONS
    made = plan(model, ell=5, releases=2, records=1_000_000)
    kept_schema = infer(past, COLUMNS[:3], COLUMNS[3], kept=("cost",))
    kept_plan = plan(estimate(past, kept_schema), ell=5, releases=2, records=1_000_000)
    plans = {"": (made, COLUMNS), " with a kept column": (kept_plan, (*COLUMNS, "cost"))}

    with connect() as engine:

        def released(plan, order="sorted", source=table, name="release"):
            target = folder / f"{name}.parquet"
            release_to_file(source, plan, target, order=order, overwrite=True, engine=engine)
            return target

        ratio = _ratio(lambda: estimate(table, schema, engine=engine), lambda: _group(table), turns)
        yield f"counting, {size}, against GROUP BY", ratio, 1.3
        for order, allowed in (("any", 1.4), ("sorted", 4.0)):
            for name, (chosen, columns) in plans.items():
                ratio = _ratio(
                    lambda chosen=chosen, order=order: released(chosen, order),
                    lambda columns=columns: _copy(table, folder / "copy.parquet", columns),
                    turns,
                )
                yield f"release --order {order}{name}, {size}, against COPY", ratio, allowed
        releases = [released(made, source=source, name=f"{source.stem}.release") for source in (table, other)]
        ratio = _ratio(
            lambda: audit(releases, engine=engine), lambda: [_group(path) for path in releases], turns
        )
        yield f"audit of two releases, {size} each, against GROUP BY of both", ratio, 3.0

    for name, (chosen, _) in plans.items():
        written = folder / "plan.json"
        write_plan(chosen, written, overwrite=True)
        for order in ("any", "sorted"):
            command = ("release", table, "--plan", written, "-o", folder / "memory.parquet", "--overwrite")
            peak = peak_memory(*command, "--order", order)
            what = f"peak memory of release --order {order}{name}, {size}, in GiB"
            yield what, peak / GIB, MEMORY_ALLOWED
    yield f"peak memory of audit, {size} each, in GiB", peak_memory("audit", *releases) / GIB, MEMORY_ALLOWED


def _ratio(call, bare, turns):
    """How much longer a call takes than the bare query, in turns: what else runs slows both alike."""
    times = {call: [], bare: []}
    for _ in range(turns):
        for action, taken in times.items():
            start = time.perf_counter()
            action()
            taken.append(time.perf_counter() - start)
    return min(times[call]) / min(times[bare])


def _connect():
    """DuckDB as somebody would set it for this; as many threads as the engine takes by default."""
    return duckdb.connect(config={"preserve_insertion_order": "false"})


def _copy(source, target, columns):
    with _connect() as connection:
        connection.execute(
            f"COPY (SELECT {', '.join(columns)} FROM '{source}') TO '{target}' "  # noqa: S608 (names made here)
            "(FORMAT PARQUET, COMPRESSION ZSTD)"
        )


def _group(source):
    listed = ", ".join(COLUMNS)
    with _connect() as connection:
        connection.sql(
            f"SELECT {listed}, count(*) FROM '{source}' GROUP BY {listed}"  # noqa: S608 (names made here)
        ).to_arrow_table()
