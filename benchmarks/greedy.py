"""Greedy-Generalize against one cumulative sum of the same array; the frontier in sweeps."""

import numpy as np

from benchmarks._timing import best_time
from elldelta.core.distribution import JointDistribution, geometric_marginal, uniform_marginal
from elldelta.core.frontier import frontier
from elldelta.core.generalize.greedy import greedy


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
    for name, marginal in (("uniform", uniform_marginal(50)), ("geometric", geometric_marginal(50, 0.95))):
        paper = JointDistribution.product(uniform_marginal(3000), marginal)
        yield f"sweeps for the paper's frontier, {name}", float(frontier(paper, 10, 0.01).n_sweeps), 199.0
