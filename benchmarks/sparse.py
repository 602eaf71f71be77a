"""Plans of sparse models, by the whole command: time per cell above zero, memory, and how both grow.

A million combinations and a thousand sensitive values would be eight gigabytes, nearly all of them zeros;
twenty million cells are not. Time is processor time, of this process and of the command alike, so that
whatever else runs on the machine counts little. The command reads the model, plans and
writes the plan.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._result import Fact
from benchmarks._sparse_model import N_VALUES, sparse_model
from elldelta.model.model import write_model

MILLION = 1_000_000
MEMORY = 4 * 2**30
CELLS = {"quick": (3 * MILLION, 6 * MILLION)}
CELLS_IN_FULL = (5 * MILLION, 10 * MILLION, 20 * MILLION)
LIMIT = 1200.0
"""Processor time of the command, in numpy.bincount of the same cells."""

_MEASURED = """
import resource, sys
from elldelta.cli.main import execute
code = execute(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(f"\\n{code} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}")
"""


def bincount_seconds(counts):
    """The best of three, after one to warm up."""
    seconds = []
    for _ in range(4):
        start = time.process_time()
        np.bincount(counts.values, counts.n, N_VALUES)
        seconds.append(time.process_time() - start)
    return min(seconds[1:])


def planned(model, n_records, folder):
    """Runs the command and returns the number of classes, its processor time and its largest memory.

    A shell starts it: a process begins with the peak of the one that starts it, and this one is large.
    """
    output = folder / "plan.json"
    wish = ["--ell", "5", "--releases", "2", "--records", str(n_records)]
    command = [sys.executable, "-c", _MEASURED, "plan", str(model), "-o", str(output), "--overwrite", *wish]
    finished = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *command], capture_output=True, text=True, check=True
    )
    code, seconds, kibibytes = finished.stdout.splitlines()[-1].split()
    if code != "0":
        raise RuntimeError(finished.stderr)
    return {
        "classes": len(json.loads(output.read_bytes())["columns"][0]["witnesses"]["counts"]),
        "plan_bytes": output.stat().st_size,
        "seconds": float(seconds),
        "memory_bytes": int(kibibytes) * 1024,
    }


def exponent(sizes, seconds):
    """The slope of time against size, both as logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def run(size):
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model.parquet"
        write_model(sparse_model(MILLION // 5), model)
        planned(model, 10_000, folder)  # compiles what is not compiled yet
        for n_cells in CELLS.get(size.name, CELLS_IN_FULL):
            made = sparse_model(n_cells)
            baseline = bincount_seconds(made.counts)
            write_model(made, model, overwrite=True)
            about = {"cells": n_cells, "combinations": made.counts.n_combinations, "values": N_VALUES}
            del made
            rows.append({**planned(model, n_cells // 20, folder), **about, "bincount_seconds": baseline})
            yield Fact("sparse models", rows[-1])
    last = rows[-1]
    what = f"plan, {last['combinations']:,} x {N_VALUES}, {last['cells'] / MILLION:g} million cells"
    yield f"{what}: memory, in 4 GiB", last["memory_bytes"] / MEMORY, 1.0
    yield f"{what}, against numpy.bincount", last["seconds"] / last["bincount_seconds"], LIMIT
    grown = exponent([row["cells"] for row in rows], [row["seconds"] for row in rows])
    yield "exponent of time in the cells", grown, 1.15
