"""Large tables against what the engine needs at least: a plain copy, a bare GROUP BY, counting.

Ten million records; with `--full` also a hundred million, which needs about 3 GB of disk. Ratios compare the
time that passes, in turns, so that what else runs slows both alike; processor times are kept beside them. For
ten million records our side is the function behind the command, because the start of a command would count
too much; for a hundred million it is the whole command. Memory is always that of the whole command.

A release whose combinations hardly repeat, in very many classes, is compared with counting its table, in
processor time: what comes after the counting must not take half as long. The file of its plan is read, too.
"""

import math
import tempfile
import time
import tracemalloc
from pathlib import Path

import duckdb
import numpy as np

from benchmarks._processes import run_command
from benchmarks._result import Fact
from benchmarks._tables_data import (
    COLUMNS,
    FIRST_AGE,
    FIRST_CODE,
    N_COMBINATIONS,
    N_DISEASES,
    make_people,
    make_table,
)
from elldelta.audit.audit import audit
from elldelta.core.box_tree import LEAF, BoxTree
from elldelta.core.ladder import rounded_total
from elldelta.core.witnesses import Witnesses
from elldelta.engines.duckdb import connect
from elldelta.ledger.publish import release
from elldelta.model.model import estimate
from elldelta.plan.classes import Boxes
from elldelta.plan.columns import ColumnPlan
from elldelta.plan.plan import Plan, read_plan, write_plan
from elldelta.plan.planner import plan
from elldelta.schema.schema import Categories, Column, Integers, Schema
from elldelta.schema.schema_file import write_schema

GIB = 2**30
MEMORY_ALLOWED = 1
SMALL, LARGE = 5_000_000, 20_000_000
"""Below the first, ratios say little, because much does not depend on the size yet."""
RELEASE_ALLOWED = 0.8
TIMES = ("passed_seconds", "seconds")
N_CODES, N_AGES, N_CLASSES, N_WITNESSES = 20_000, 100, 51_000, 20
"""Four million combinations in very many classes, by a plan that is made by hand."""
COUNTINGS_ALLOWED = 1.5
READING_ALLOWED, READING_MEMORY_ALLOWED = 0.5, 1.5
"""Seconds of processor time, and the memory at its peak against what the plan holds then."""


def run(size):
    """Once for ten million records, and once for as many as the run is for."""
    for n_rows in sorted({min(max(size.rows), 10_000_000), max(size.rows)}):
        with tempfile.TemporaryDirectory(prefix="elldelta-bench-") as folder, connect() as engine:
            yield from _Bench(Path(folder), n_rows, engine).run()
    with tempfile.TemporaryDirectory(prefix="elldelta-bench-") as folder, connect() as engine:
        yield from many_classes(Path(folder), min(max(size.rows), 3_000_000), engine)


def many_classes(folder, n_rows, engine):
    """A release of many combinations in many classes, against counting the same table."""
    table = make_people(folder / "people.parquet", n_rows, n_codes=N_CODES, n_ages=N_AGES)
    made, target = _plan_by_hand(n_rows), folder / "release.parquet"
    calls = {
        "release": lambda: release(table, made, to=target, overwrite=True, engine=engine),
        "counting": lambda: estimate(table, made.schema, engine=engine),
    }
    found = {name: [] for name in calls}
    for _ in range(5):
        for name, call in calls.items():
            found[name].append(_timed(call)["seconds"])
    spent = {name: min(seconds) for name, seconds in found.items()}
    yield Fact("tables_many_classes", {"records": n_rows, "classes": N_CLASSES, **spent})
    what = f"release, {n_rows:,} records, {made.schema.n_combinations:,} combinations, {N_CLASSES:,} classes"
    allowed = COUNTINGS_ALLOWED if n_rows >= 3_000_000 else math.inf
    yield f"{what}, against counting, processor time", spent["release"] / spent["counting"], allowed
    yield from _reading(made, folder / "plan.json")


def _reading(made, path):
    """Reading and checking the file of a plan: how long it takes, and its memory."""
    write_plan(made, path)
    seconds = min(_timed(lambda: read_plan(path))["seconds"] for _ in range(5))
    tracemalloc.start()
    held = read_plan(path)  # it holds its arrays while memory is looked at
    holds, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    about = {"classes": held.n_classes, "bytes": path.stat().st_size, "seconds": seconds}
    yield Fact("plan_reading", {**about, "peak_bytes": peak, "held_bytes": holds})
    what = f"reading a plan of {held.n_classes:,} classes"
    yield f"{what}: processor time in seconds", seconds, READING_ALLOWED
    yield f"{what}: peak memory against what it holds", peak / holds, READING_MEMORY_ALLOWED


def _plan_by_hand(n_records):
    """A plan for `make_people`; which classes and witnesses it has does not matter here."""
    codes, ages = Integers(FIRST_CODE, FIRST_CODE + N_CODES - 1), Integers(FIRST_AGE, FIRST_AGE + N_AGES - 1)
    schema = Schema(
        (Column("postal_code", codes), Column("gender", Categories(("F", "M"))), Column("age", ages)),
        Column("disease", Categories(tuple(f"disease {number:02}" for number in range(N_DISEASES)))),
    )
    every = Witnesses([N_WITNESSES] * N_CLASSES, list(range(N_WITNESSES)) * N_CLASSES)
    past = np.full(every.values.size, 5)
    column = ColumnPlan(2, 0.01, None, every, past, rounded_total(past.sum()))
    return Plan(
        schema=schema,
        classes=Boxes(_even_cuts(schema.sizes, N_CLASSES)),
        columns=(column,),
        delta=0.01,
        releases=1,
        records=n_records,
        kind="certified",
        min_records=1,
        k=2,
    )


def _even_cuts(sizes, n_leaves):
    """A tree of so many boxes, each cut in the middle along its longest side."""
    cuts, waiting = [], [([0] * len(sizes), list(sizes), n_leaves)]
    while waiting:
        lows, ends, n = waiting.pop()
        if n == 1:
            cuts.append((LEAF, 0))
            continue
        along = max(range(len(sizes)), key=lambda each: (ends[each] - lows[each] - 1) / sizes[each])
        middle = (lows[along] + ends[along]) // 2
        cuts.append((along, middle - 1))
        lower, upper = list(ends), list(lows)
        lower[along] = upper[along] = middle
        waiting += [(upper, ends, n - n // 2), (lows, lower, n // 2)]
    attributes, places = zip(*cuts, strict=True)
    return BoxTree(attributes, places, sizes)


class _Bench:
    def __init__(self, folder, n_rows, engine):
        self.folder = folder
        self.n_rows = n_rows
        self.engine = engine
        self.is_large = n_rows > LARGE
        self.table = make_table(folder / "owner1.parquet", n_rows)
        past = make_table(folder / "past.parquet", 1_000_000, seed=3)
        schema = Schema.infer(past, COLUMNS[:3], COLUMNS[3])
        model = estimate(past, schema)
        assert model.counts.n_combinations == N_COMBINATIONS
        self.plan = plan(model, ell=5, releases=2, records=1_000_000)
        write_schema(schema, folder / "schema.toml")
        write_plan(self.plan, folder / "plan.json")

    def run(self):
        yield from self.counting()
        yield from self.releasing()
        if not self.is_large:
            yield from self.auditing()

    def counting(self):
        schema = self.plan.schema
        command = ("estimate", self.table, "--schema", self.folder / "schema.toml")
        command += ("-o", self.folder / "model.parquet", "--overwrite")
        yield from self.compared(
            "counting",
            lambda: estimate(self.table, schema, engine=self.engine),
            command,
            lambda: _group(self.table),
            "GROUP BY",
            1.3,
        )

    def releasing(self):
        target = self.folder / "release.parquet"
        yield from self.compared(
            "release",
            lambda: release(self.table, self.plan, to=target, overwrite=True, engine=self.engine),
            ("release", self.table, "--plan", self.folder / "plan.json", "-o", target, "--overwrite"),
            lambda: _copy(self.table, self.folder / "copy.parquet", COLUMNS),
            "COPY",
            RELEASE_ALLOWED,
        )

    def auditing(self):
        other = make_table(self.folder / "owner2.parquet", self.n_rows, seed=2)
        releases = [self.folder / f"{source.stem}.release.parquet" for source in (self.table, other)]
        for source, target in zip((self.table, other), releases, strict=True):
            release(source, self.plan, to=target, engine=self.engine)
        yield from self.compared(
            "audit of two releases",
            lambda: audit(releases, engine=self.engine),
            ("audit", *releases),
            lambda: [_group(path) for path in releases],
            "GROUP BY of both",
            2.0,
        )

    def compared(self, step, call, command, bare, limit, allowed):
        """How much longer it takes than the bare query, and the peak memory of the command."""
        whole = run_command(*command)
        ours, theirs = ([whole], [_timed(bare)]) if self.is_large else ([], [])
        for _ in range(0 if self.is_large else 4):
            ours.append(_timed(call))
            theirs.append(_timed(bare))
        best = {name: min(each[name] for each in ours) for name in TIMES}
        least = {f"limit_{name}": min(each[name] for each in theirs) for name in TIMES}
        about = {"records": self.n_rows, "step": step, "limit": limit, "peak_bytes": whole["peak_bytes"]}
        yield Fact("tables", {**about, **best, **least})
        what = f"{step}, {self.n_rows:,} records"
        ratio = best["passed_seconds"] / least["limit_passed_seconds"]
        yield f"{what}, against {limit}", ratio, math.inf if self.n_rows < SMALL else allowed
        yield f"{what}: peak memory in GiB", whole["peak_bytes"] / GIB, MEMORY_ALLOWED


def _timed(call):
    passed, used = time.perf_counter(), time.process_time()
    call()
    return {"passed_seconds": time.perf_counter() - passed, "seconds": time.process_time() - used}


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
