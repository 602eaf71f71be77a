"""How counting, releasing and auditing grow with the records: fitted exponents, and peak memory.

Up to a hundred million records with `--full`. All times are processor time; see `growth`.
"""

import tempfile
from functools import partial
from pathlib import Path

from benchmarks._fit import best, fitted
from benchmarks._processes import run_command
from benchmarks._result import Fact
from benchmarks._tables_data import COLUMNS, make_table
from elldelta.audit.audit import audit
from elldelta.engines.duckdb import connect
from elldelta.ledger.publish import release
from elldelta.model.model import estimate
from elldelta.plan.plan import write_plan
from elldelta.plan.planner import plan
from elldelta.schema.schema import Schema

LARGE = 20_000_000
"""From here on the time is that of the whole command: its start no longer counts."""


def run(size):
    """Counting, a release, and an audit of two releases."""
    times, memory = {}, {}
    with tempfile.TemporaryDirectory(prefix="elldelta-growth-") as name, connect() as engine:
        folder = Path(name)
        past = make_table(folder / "past.parquet", 1_000_000, seed=3)
        schema = Schema.infer(past, COLUMNS[:3], COLUMNS[3])
        made = plan(estimate(past, schema), ell=5, releases=2, records=min(size.rows))
        write_plan(made, folder / "plan.json")
        first, second = folder / "first.parquet", folder / "second.parquet"
        for n_rows in size.rows:
            table = make_table(folder / "table.parquet", n_rows)
            spent = {"count": best(lambda table=table: estimate(table, schema, engine=engine))}
            command = ("release", table, "--plan", folder / "plan.json", "-o", first, "--overwrite")
            whole = run_command(*command)
            memory.setdefault("release", []).append(whole["peak_bytes"])
            write = partial(release, table, made, to=second, overwrite=True, engine=engine)
            spent["release"] = whole["seconds"] if n_rows > LARGE else best(write)
            if n_rows > LARGE:
                write()
            spent["audit of two releases"] = best(lambda: audit([first, second], engine=engine))
            print(
                f"  {n_rows:,} records: {', '.join(f'{step} {each:.3g} s' for step, each in spent.items())}"
            )
            for step, each in spent.items():
                times.setdefault(step, []).append(each)
    yield from fitted("records", size.rows, times, 1.2)
    for step, peaks in memory.items():
        about = {"quantity": "records", "step": step, "sizes": list(size.rows)}
        yield Fact("growth_memory", {**about, "bytes": peaks})
