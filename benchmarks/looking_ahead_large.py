"""A ledger that looks ahead at the scale of a nation: plan, then two owners who publish through it.

20,000 postal codes, 100 ages and two sexes are four million combinations; 300 diagnoses become rarer like
1 / (rank + 10); ten million past records, two owners of three million. Every step is the whole command in a
process of its own. Time is processor time. Ratios: the classes that were aimed at divided by those that are
published, the memory and time aimed at, and how many times as long as numpy sorts
the past records, or as Python's json reads and writes the plan, each command takes.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._processes import run_command
from benchmarks._result import Fact
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model, write_model
from elldelta.schema.schema import Categories, Column, Integers, Schema

N_AGES, SEXES, N_VALUES, ELL = 100, ("F", "M"), 300, 5
PER_CODE = {"past": 500, "owner": 150}
"""Records for every postal code."""
N_CODES = {"quick": 1_000}
N_CODES_IN_FULL = 20_000
CLASSES_PER_CODE = 35_000 / 20_000
PLAN_SECONDS, PLAN_MEMORY, RELEASE_SECONDS = 14.0, 1.6 * 2**30, 4.0
"""What was aimed at for 20,000 postal codes."""
AGAINST_SORTING, AGAINST_JSON = {"quick": 90.0}, {"quick": 40.0}
AGAINST_SORTING_IN_FULL, AGAINST_JSON_IN_FULL = 60.0, 8.0


def schema(n_codes):
    return Schema(
        quasi_identifiers=(
            Column("postal_code", Integers(0, n_codes - 1)),
            Column("age", Integers(0, N_AGES - 1)),
            Column("sex", Categories(SEXES)),
        ),
        sensitive=Column("diagnosis", Categories(tuple(f"D{value:03d}" for value in range(N_VALUES)))),
    )


def drawn(n_codes, n_records, seed):
    """The combination and the value of every record."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / (np.arange(N_VALUES) + 10.0)
    ranks = rng.integers(0, n_codes * N_AGES * len(SEXES), n_records)
    values = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n_records))
    return ranks, np.minimum(values, N_VALUES - 1)


def write_past(n_codes, path):
    """Writes the model; returns the seconds that numpy takes to sort the past records."""
    n_records = n_codes * PER_CODE["past"]
    ranks, values = drawn(n_codes, n_records, 1)
    start = time.process_time()
    cells, n = np.unique(ranks * N_VALUES + values, return_counts=True)
    seconds = time.process_time() - start
    accounting = Accounting(n_records, n_records)
    counts = Counts.from_cells(schema(n_codes), cells // N_VALUES, cells % N_VALUES, n, accounting)
    write_model(Model(counts), path)
    return seconds


def write_owner(n_codes, path, seed):
    ranks, values = drawn(n_codes, n_codes * PER_CODE["owner"], seed)
    columns = {
        "postal_code": ranks // (N_AGES * len(SEXES)),
        "age": ranks // len(SEXES) % N_AGES,
        "sex": np.array(SEXES)[ranks % len(SEXES)],
        "diagnosis": np.array([f"D{value:03d}" for value in range(N_VALUES)])[values],
    }
    pq.write_table(pa.table(columns), path)


def json_seconds(path):
    """How long Python's json takes to read a plan and to write it."""
    start = time.process_time()
    json.dumps(json.loads(path.read_bytes()), separators=(",", ":"))
    return time.process_time() - start


def published(n_codes, folder):
    """Plans, and publishes for two owners: what each command took, and the classes of each owner."""
    plan, ledger = folder / "plan.json", folder / "releases.ledger"
    wish = ["--ell", ELL, "--records", n_codes * PER_CODE["owner"], "--owners", 2]
    yield "plan", run_command("plan", folder / "model.parquet", "-o", plan, *wish), None
    run_command("ledger", "open", ledger, "--plan", plan, "--owners", 2)
    for number in (1, 2):
        source, target = folder / f"owner{number}.parquet", folder / f"release{number}.parquet"
        write_owner(n_codes, source, 100 + number)
        where = ["--plan", plan, "-o", target, "--ledger", ledger, "--owner", f"owner {number}"]
        spent = run_command("release", source, *where, "--on-failure", "coarsen-suppress")
        manifest = json.loads(Path(f"{target}.manifest.json").read_bytes())
        yield f"release {number}", spent, manifest["classes_published"]


def run(size):
    n_codes = N_CODES.get(size.name, N_CODES_IN_FULL)
    limits = {
        "plan": AGAINST_SORTING.get(size.name, AGAINST_SORTING_IN_FULL),
        "release": AGAINST_JSON.get(size.name, AGAINST_JSON_IN_FULL),
    }
    is_whole = n_codes == N_CODES_IN_FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        beside = {"plan": write_past(n_codes, folder / "model.parquet")}
        for step, spent, classes in published(n_codes, folder):
            kind = step.split()[0]
            beside.setdefault("release", json_seconds(folder / "plan.json"))
            yield Fact("a ledger at scale", {"step": step, "codes": n_codes, "classes": classes, **spent})
            yield (
                f"{step}, {n_codes:,} postal codes, times the baseline",
                spent["seconds"] / beside[kind],
                limits[kind],
            )
            if classes is not None:
                yield f"classes aimed at / published, {step}", CLASSES_PER_CODE * n_codes / classes, 1.0
            if is_whole and kind == "plan":
                yield "plan: memory / aim", spent["peak_bytes"] / PLAN_MEMORY, 1.1
                yield "plan: processor time / aim", spent["seconds"] / PLAN_SECONDS, 1.0
            elif is_whole:
                yield f"{step}: processor time / aim", spent["seconds"] / RELEASE_SECONDS, 1.0
