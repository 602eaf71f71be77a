"""Boxes for a million occupied combinations against one cumulative sum of the same array.

A cumulative sum runs on one processor, the search for boxes on all: both the time that passes and the
processor time are compared.
"""

import time

import numpy as np

from benchmarks._timing import best_time
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.generalize.boxes import boxes

SIZES = (40, 40, 40, 40)


def table(n_rows=1_000_000, n_values=50):
    rng = np.random.default_rng(1)
    cells = np.sort(rng.choice(np.prod(SIZES), n_rows, replace=False))
    mass = rng.random((n_rows, n_values))
    return JointDistribution.from_probabilities(mass / mass.sum()), np.stack(
        np.unravel_index(cells, SIZES), 1
    )


def run():
    distribution, positions = table()
    criterion = SharpBound(ell=10, n_records=1_000_000, releases=1, limit=0.01)
    what = "boxes, 1,000,000 x 50, 4 attributes"
    for kind, clock in (("time", time.perf_counter), ("processor time", time.process_time)):
        cumsum = best_time(lambda: np.cumsum(distribution.mass), clock=clock)
        took = best_time(lambda: boxes(distribution, positions, SIZES, (criterion,)), clock=clock)
        yield f"{what}, against numpy.cumsum, {kind}", took / cumsum, 10.0
