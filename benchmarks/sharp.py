"""The sharp planner against one cumulative sum of the same array: time and memory."""

import tracemalloc

import numpy as np

from benchmarks._timing import best_time
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.generalize.runs import sharp_runs
from elldelta.core.sample_size import geometric_marginal

N_ROWS, N_VALUES = 1_000_000, 50
LIMITS = ((10_000_000, 15.0), (1_000_000, 5.0))


def distributions():
    yield "random", lambda: np.random.default_rng(1).random((N_ROWS, N_VALUES))
    yield "geometric", lambda: np.tile(geometric_marginal(N_VALUES, 0.95), (N_ROWS, 1))


def run():
    rows = []
    for name, make in distributions():
        mass = make()
        mass /= mass.sum()
        distribution = JointDistribution(mass, 1.0)
        cumsum = best_time(lambda mass=mass: np.cumsum(mass))
        for n_records, limit in LIMITS:
            seconds = best_time(
                lambda distribution=distribution, n_records=n_records: sharp_runs(
                    distribution, SharpBound(10, n_records, 2, 0.02)
                ),
                repeats=2,
            )
            rows.append(
                (
                    f"sharp plan, 1,000,000 x 50, {name}, N = {n_records:,}, t = 2, against numpy.cumsum",
                    seconds / cumsum,
                    limit,
                )
            )
    tracemalloc.start()
    sharp_runs(distribution, SharpBound(10, LIMITS[0][0], 2, 0.02))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rows.append(("memory of a sharp plan, array included, in arrays", 1.0 + peak / mass.nbytes, 3.0))
    return rows
