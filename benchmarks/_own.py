"""Our side of a comparison, in a process of its own like the peers' drivers, with an answer of the same form.

`python -m benchmarks._own '{"step": "verify", ...}'`. The clock starts when the command has been imported and
stops when its files are written: unlike the peers', our time includes reading the table from the disk and
writing the release. It is processor time, of all threads together.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.peer_drivers._driver import peak_bytes
from elldelta.audit.columns import ForeignColumns
from elldelta.audit.overlay import Overlay
from elldelta.audit.releases import read_release
from elldelta.audit.targets import find_people
from elldelta.engines.duckdb import connect
from elldelta.ledger.publish import release
from elldelta.ledger.verification import verify
from elldelta.model.model import estimate
from elldelta.plan.plan import read_plan, write_plan
from elldelta.plan.planner import plan
from elldelta.schema.label_columns import ColumnRules
from elldelta.schema.schema import Schema

REPEATS_BELOW_SECONDS = 10.0


def anonymize_step(request):
    """From a table to a plan and to a release of the same table: schema, model, plan, release."""
    table, output = Path(request["table"]), Path(request["output"])
    written = output.with_suffix(".plan.json")

    def work():
        with connect() as engine:
            schema = Schema.infer(table, request["columns"], request["sensitive"], engine=engine)
            model = estimate(table, schema, engine=engine)
            made = plan(model, ell=request["ell"], releases=request["releases"], records=request["records"])
            write_plan(made, written, overwrite=True)
            return release(table, made, to=output, overwrite=True, engine=engine).manifest

    manifest, seconds = timed(work)
    return {**seconds, "released": manifest.records_released}


def release_step(request):
    """A release under a plan that is there already: what an owner runs every month."""
    made = read_plan(Path(request["plan"]))

    def work():
        release(Path(request["table"]), made, to=Path(request["output"]), overwrite=True)

    return timed(work)[1]


def verify_step(request):
    found, seconds = timed(lambda: verify(Path(request["table"])))
    return {"k": found.k, "ell": found.diversity, **seconds}


def attack_step(request):
    """What is left for everybody after linking releases that others made, from their labels alone."""
    columns, sensitive = request["columns"], request["sensitive"]
    (left, values), seconds = timed(
        lambda: candidates(request["outputs"], request["people"], columns, sensitive, request["texts"])
    )
    names = [[values[place] for place in np.flatnonzero(row)] for row in left[: request["listed"]]]
    return {**seconds, "n_left": left.sum(axis=1).tolist(), "left": names}


def candidates(releases, people, columns, sensitive, texts):
    """For every person the sensitive values that are left, as a table of yes and no, and the values."""
    import pyarrow.parquet as pq

    table = pq.read_table(people, columns=list(columns))
    rules = {name: ColumnRules(kind="text", separators="sets") for name in texts}
    linked = ForeignColumns(tuple(columns), sensitive, rules=rules)
    with connect() as engine:
        read = [read_release(engine.open(Path(path)), str(path), linked) for path in releases]
    overlay = Overlay.from_releases(read, linked, people=table)
    found = find_people(overlay, table)
    assert found.person.tolist() == list(range(table.num_rows)), "everybody lies in one cell"
    left = np.logical_and.reduce(
        [shown[rows] > 0 for shown, rows in zip(found.tables, found.rows.T, strict=True)]
    )
    return left, overlay.values


def timed(call):
    """What a call returns, and the processor time and the time that it takes at best, of at least two.

    The first one also loads compiled programs, or compiles them, which happens once per installation.
    """
    times = []
    while len(times) < 2 or (len(times) < 4 and times[-1][0] < REPEATS_BELOW_SECONDS):
        start, passed = time.process_time(), time.perf_counter()
        result = call()
        times.append((time.process_time() - start, time.perf_counter() - passed))
    return result, {
        "seconds": min(each[0] for each in times),
        "passed_seconds": min(each[1] for each in times),
    }


STEPS = {
    "anonymize": anonymize_step,
    "release": release_step,
    "verify": verify_step,
    "attack": attack_step,
}

if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    answer = STEPS[asked["step"]](asked)
    answer["peak_bytes"] = peak_bytes()
    print(json.dumps(answer))
