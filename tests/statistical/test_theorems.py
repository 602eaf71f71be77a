"""Theorems 1 and 2 by simulation with fixed N.

Each test counts failures in independent runs and compares with the promised probability by an exact
binomial test. False alarms: a correct bound is rejected with probability below 1e-6 per test. Power: the
same test must reject a broken variant that waits for N / 20 records only.
"""

import numpy as np
import pytest
from scipy import stats

from elldelta.core.distribution import JointDistribution
from elldelta.core.partition import greedy
from elldelta.core.sample_size import Mechanism, geometric_marginal, uniform_marginal
from elldelta.paper import compose

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
N_RUNS = 4000
ELL, DELTA = 4, 0.05


def distributions():
    rng = np.random.default_rng(11)
    yield "uniform", JointDistribution.product(uniform_marginal(60), uniform_marginal(10))
    yield "geometric", JointDistribution.product(uniform_marginal(60), geometric_marginal(10, 0.8))
    cells = rng.dirichlet(np.full(600, 0.7)).reshape(60, 10)
    yield "random", JointDistribution.from_probabilities(cells)


def plan(distribution):
    """The paper's mechanism at p = p_ell / 10: the cells of the classes, and N."""
    p = float(distribution.ranked_marginal[ELL - 1]) / 10
    partition = greedy(distribution, ELL, p)
    p = partition.snapped_p(distribution, ELL)
    mechanism = Mechanism.create(distribution.value_marginal, 60, ELL, p)
    return distribution.generalized(partition).mass / distribution.total, mechanism.records(DELTA)


def draw(rng, cells, n_records):
    """Many releases of n_records i.i.d. records each: runs x classes x values."""
    flat = rng.multinomial(n_records, cells.ravel() / cells.sum(), size=N_RUNS)
    return flat.reshape(N_RUNS, *cells.shape)


def failures(*releases):
    """Runs in which a class with a record in every release links to fewer than ELL values."""
    linked = np.minimum.reduce(releases)
    occupied = np.logical_and.reduce([release.any(axis=2) for release in releases])
    below = (linked > 0).sum(axis=2) < ELL
    return int((below & occupied).any(axis=1).sum())


def is_rejected(n_failures, promised):
    return stats.binom.sf(n_failures - 1, N_RUNS, promised) < FALSE_ALARM


@pytest.mark.parametrize(("name", "distribution"), list(distributions()))
def test_theorem_1(name, distribution):
    cells, n_records = plan(distribution)
    rng = np.random.default_rng(1)
    assert not is_rejected(failures(draw(rng, cells, n_records)), DELTA)
    assert is_rejected(failures(draw(rng, cells, n_records // 20)), DELTA)


def dependent(rng, cells, n_records, kind, t):
    """T releases: independent, identical copies, or with half of their records in common."""
    if kind == "copies":
        return [draw(rng, cells, n_records)] * t
    if kind == "half shared":
        common = draw(rng, cells, n_records // 2)
        return [common + draw(rng, cells, n_records - n_records // 2) for _ in range(t)]
    return [draw(rng, cells, n_records) for _ in range(t)]


@pytest.mark.parametrize("kind", ["independent", "half shared", "copies"])
@pytest.mark.parametrize(("name", "distribution"), list(distributions()))
def test_theorem_2(name, distribution, kind):
    cells, n_records = plan(distribution)
    rng = np.random.default_rng(2)
    for t in (2, 3):
        promised = compose(ELL, [DELTA] * t).delta
        assert not is_rejected(failures(*dependent(rng, cells, n_records, kind, t)), promised)
        assert is_rejected(failures(*dependent(rng, cells, n_records // 20, kind, t)), promised)
