"""How time grows with records, combinations, sensitive values and releases: fitted exponents.

An exponent of 1 means twice the time for twice the size. It is fitted by least squares to the logarithms of
times and sizes. Exponents may exceed 1 a little: what is 1 in theory has caches and sorting in practice.
Linking t releases takes about t squared: they cut the combinations into t times as many cells, and each cell
is looked at in t releases. All times are processor time, so that what else the machine does counts little.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._processes import peak_memory
from benchmarks._result import Fact
from benchmarks._tables_data import COLUMNS, make_table
from elldelta.app.audit import audit
from elldelta.app.estimate import estimate
from elldelta.app.plan import plan
from elldelta.app.release import release_to_file
from elldelta.app.schema import infer
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.boxes import boxes
from elldelta.core.generalize.criteria import TotalFailure
from elldelta.core.generalize.greedy import greedy
from elldelta.core.generalize.runs import sharp_runs
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.core.partition import Partition
from elldelta.data.engines.duckdb import connect
from elldelta.data.plan_file import write_plan

ELL, RELEASES, BUDGET = 10, 2, 0.02
N_VALUES = (10, 30, 100, 300, 1000)
N_RELEASES = (2, 3, 5, 7, 10)
MIDDLE, N_LINKED = 3_000, 100_000
"""Combinations, while values or releases grow; and for linking, which is fast."""
AXES = (30, 10)
"""Sizes of two attributes; a third one is as long as it takes to get so many combinations."""


def run(size):
    yield from over_records(size.rows)
    few_values = 30 if size.name == "quick" else 50
    yield from _grown("combinations", size.combinations, lambda n: planners(n, few_values, RELEASES), 1.35)
    yield from _grown("sensitive values", N_VALUES, lambda n: planners(MIDDLE, n, RELEASES), 1.35)
    yield from _grown("releases", N_RELEASES, lambda n: planners(MIDDLE, 50, n), 1.35)
    yield from _grown("releases", N_RELEASES, linking, 2.35)


def over_records(sizes):
    """Counting, both ways to write a release with a kept column, and an audit of two releases."""
    times, memory = {}, {}
    with tempfile.TemporaryDirectory(prefix="elldelta-growth-") as name, connect() as engine:
        folder = Path(name)
        past = make_table(folder / "past.parquet", 1_000_000, seed=3)
        schema = infer(past, COLUMNS[:3], COLUMNS[3], kept=("cost",))
        made = plan(estimate(past, schema), ell=5, releases=RELEASES, records=min(sizes))
        write_plan(made, folder / "plan.json")
        for n_rows in sizes:
            table = make_table(folder / "table.parquet", n_rows)
            out = {order: folder / f"{order}.parquet" for order in ("any", "sorted")}

            def released(order, table=table, out=out):
                release_to_file(table, made, out[order], order=order, overwrite=True, engine=engine)

            steps = {
                "count": lambda table=table: estimate(table, schema, engine=engine),
                "release --order any": lambda: released("any"),
                "release --order sorted": lambda: released("sorted"),
                "audit of two releases": lambda out=out: audit(list(out.values()), engine=engine),
            }
            for step, call in steps.items():
                times.setdefault(step, []).append(_best(call))
            command = (
                "release",
                table,
                "--plan",
                folder / "plan.json",
                "-o",
                folder / "m.parquet",
                "--overwrite",
            )
            for order in out:
                peak = peak_memory(*command, "--order", order)
                memory.setdefault(f"release --order {order}", []).append(peak)
    yield from _fitted("records", sizes, times, 1.2)
    for step, peaks in memory.items():
        yield Fact(
            "growth_memory", {"quantity": "records", "step": step, "sizes": list(sizes), "bytes": peaks}
        )


def planners(n_combinations, n_values, releases):
    """Ways to make a plan, on one random table; ten records per combination."""
    distribution, positions, sizes = random_model(n_combinations, n_values)
    n_records = 10 * n_combinations
    criterion = TotalFailure(ELL, n_records, releases, BUDGET)
    p = float(distribution.ranked_marginal[ELL - 1]) / max(10, n_combinations // 100)
    return {
        "plan, runs, paper": lambda: greedy(distribution, ELL, p),
        "plan, runs, sharp": lambda: sharp_runs(distribution, ELL, n_records, releases, BUDGET),
        "plan, boxes, sharp": lambda: boxes(distribution, positions, sizes, criterion),
    }


def linking(n_releases):
    """The audit's innermost step: the values that linking leaves, for releases with classes of their own."""
    rng = np.random.default_rng(n_releases)
    tables = []
    for _ in range(n_releases):
        starts = np.zeros(N_LINKED, dtype=np.int64)
        starts[rng.choice(np.arange(1, N_LINKED), N_LINKED // 50, replace=False)] = 1
        tables.append(
            ReleasedCounts.from_table(rng.poisson(1.0, (N_LINKED, 50)), Partition(np.cumsum(starts)))
        )
    return {"link": lambda: link(tables)}


def random_model(n_combinations, n_values, seed=1):
    """P with falling frequencies of values, different in every row, over three attributes."""
    rng = np.random.default_rng(seed)
    longest = -(-n_combinations // (AXES[0] * AXES[1]))
    sizes = (*AXES, longest)
    positions = np.stack(np.unravel_index(np.arange(n_combinations), sizes[::-1]), axis=1)[:, ::-1]
    mass = rng.random((n_combinations, n_values), dtype=np.float64)
    mass *= 0.97 ** np.arange(n_values)
    mass /= mass.sum()
    return JointDistribution(mass, 1.0), np.ascontiguousarray(positions), sizes


def exponent(sizes, values):
    """The slope of the straight line through the logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _grown(quantity, sizes, make, allowed):
    times = {}
    for call in make(min(sizes)).values():
        call()  # compiles
    for n in sizes:
        for step, call in make(n).items():
            times.setdefault(step, []).append(_best(call))
    yield from _fitted(quantity, sizes, times, allowed)


def _fitted(quantity, sizes, times, allowed):
    for step, seconds in times.items():
        slope = exponent(sizes, seconds)
        print(f"  {quantity}: {step}: {', '.join(f'{each:.3g}' for each in seconds)} s, exponent {slope:.2f}")
        yield Fact(
            "growth",
            {"quantity": quantity, "step": step, "sizes": list(sizes), "seconds": seconds, "exponent": slope},
        )
        yield f"exponent of time over {quantity}: {step}", slope, allowed


def _best(call):
    """The best of a few calls; one is enough for what takes long."""
    times = []
    while not times or (len(times) < 5 and sum(times) < 3.0):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
