"""Greedy-Generalize against one cumulative sum of the same array."""

import numpy as np

from benchmarks._timing import best_time
from elldelta.core.distribution import JointDistribution
from elldelta.core.partition import greedy


def run():
    rng = np.random.default_rng(1)
    mass = rng.random((1_000_000, 50))
    distribution = JointDistribution.from_probabilities(mass / mass.sum())
    p = float(distribution.ranked_marginal[9]) / 10_000
    cumsum = best_time(lambda: np.cumsum(distribution.mass))
    yield (
        "greedy, 1,000,000 x 50, against numpy.cumsum",
        best_time(lambda: greedy(distribution, 10, p)) / cumsum,
        4.0,
    )
