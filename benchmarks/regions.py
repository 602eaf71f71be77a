"""Plans by region: memory and time against the number of regions, on one process, on two, and on Spark.

Every region has 50,000 combinations of postal code and age with a million cells above zero, so 4, 40 and 400
regions are 4, 40 and 400 million cells. Owners have a twentieth of the past records, as in `sparse`. All ways
are compared on the most regions. Growth is of processor time, which other work disturbs little.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._result import Fact
from benchmarks._sparse_model import N_AGES, N_VALUES, sparse_model
from benchmarks.sparse import exponent
from elldelta.model.counts import Accounting, Counts
from elldelta.model.regions import write_regions
from elldelta.schema.schema import Categories, Column, Integers, Schema

CELLS = {"quick": 50_000}
CELLS_IN_FULL = 1_000_000
REGIONS = {"quick": (2, 8)}
REGIONS_IN_FULL = (4, 40, 400)
HERE = "one process"
N_SEEDS = 8
"""Different regions; the others are these again."""
MEMORY_GROWS = 1.5
"""The peak of the memory with the most regions, in that with the fewest. Classes of all regions are kept."""

_MEASURED = """
import json, resource, sys, time
from elldelta.cli.main import execute
start = time.perf_counter()
code = execute(sys.argv[1:])
passed = time.perf_counter() - start
own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print()
print(json.dumps({"code": code, "passed_seconds": passed, "seconds": own.ru_utime + own.ru_stime,
                  "memory_bytes": own.ru_maxrss * 1024, "worker_bytes": children.ru_maxrss * 1024}))
"""


def regions(folder, n_regions, n_cells):
    """Writes a model by region; one region after the other is in memory."""
    n_codes = -(-n_cells // 20 // (N_AGES - 1))
    schema = Schema(
        (
            Column("state", Integers(0, n_regions - 1)),
            Column("postal_code", Integers(0, n_codes - 1)),
            Column("age", Integers(0, N_AGES - 1)),
        ),
        Column("diagnosis", Categories(tuple(f"D{value:04d}" for value in range(N_VALUES)))),
    )
    made = [sparse_model(n_cells, seed).counts for seed in range(min(N_SEEDS, n_regions))]
    stride = n_codes * N_AGES

    def parts():
        for region in range(n_regions):
            counts = made[region % len(made)]
            ranks = counts.ranks[counts.rows] + region * stride
            account = Accounting(counts.n_records, counts.n_records)
            yield Counts.from_cells(schema, ranks, counts.values, counts.n, account)

    n_records = sum(made[region % len(made)].n_records for region in range(n_regions))
    write_regions(folder, schema, "state", parts(), Accounting(n_records, n_records))
    return n_records // 20


def planned(model, n_records, output, *where):
    """Runs the command; a shell starts it, as a process begins with the peak of the one that starts it."""
    wish = ["--ell", "5", "--releases", "2", "--records", str(n_records), *where]
    command = [sys.executable, "-c", _MEASURED, "plan", str(model), "-o", str(output), "--overwrite", *wish]
    finished = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *command], capture_output=True, text=True, check=True
    )
    found = json.loads(finished.stdout.splitlines()[-1])
    if found.pop("code") != 0:
        raise RuntimeError(finished.stderr)
    plan = json.loads(output.read_bytes())
    return found | {"classes": (len(plan["classes"]["attributes"]) + 1) // 2, "digest": plan["digest"]}


def run(size):
    n_cells = CELLS.get(size.name, CELLS_IN_FULL)
    sizes, rows = REGIONS.get(size.name, REGIONS_IN_FULL), []
    with tempfile.TemporaryDirectory() as name:
        folder, output = Path(name), Path(name) / "plan.json"
        for n_regions in sizes:
            n_records = regions(folder / "model", n_regions, n_cells)
            about = {"regions": n_regions, "cells": n_regions * n_cells, "records": n_records}
            for where, options in ways(is_largest=n_regions == sizes[-1]).items():
                row = planned(folder / "model", n_records, output, *options)
                rows.append({"where": where, **about, **row, "plan_bytes": output.stat().st_size})
                yield Fact("plans by region", rows[-1])
            shutil.rmtree(folder / "model")
    grown = [row for row in rows if row["where"] == HERE]
    first, last, compared = grown[0], grown[-1], rows[len(sizes) - 1 :]
    if len({row["digest"] for row in compared}) > 1:
        raise RuntimeError("The plan depends on where it is made.")
    yield (
        f"memory, {last['regions']} regions against {first['regions']}",
        last["memory_bytes"] / first["memory_bytes"],
        MEMORY_GROWS,
    )
    seconds = [row["seconds"] for row in grown]
    yield "exponent of time in the cells, by region", exponent([row["cells"] for row in grown], seconds), 1.1
    for row in compared[1:]:
        yield (
            f"{row['where']} against {HERE}, {last['regions']} regions",
            row["passed_seconds"] / last["passed_seconds"],
            np.inf if size.name == "quick" else 1.0,
        )


def ways(*, is_largest):
    """Where the regions are planned, and the options for it; of all but the largest model on one process."""
    found = {HERE: ()}
    if is_largest:
        found["two processes"] = ("--processes", "2")
    if is_largest and importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        found["Spark, two workers"] = ("--engine", "local[2]")
    return found
