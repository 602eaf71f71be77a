"""Sample sizes for closeness: against exact enumeration on small cases, against simulation on larger ones.

Every simulation states its errors: how rarely it fails by chance, and a broken variant that it rejects.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from elldelta.core.closeness import closeness_for_records, records_for_closeness, too_far_upper
from elldelta.errors import RefusedError


def exact_tail(shares, truth, n, limit):
    """Pr[TV(f, shares) > limit] for n records drawn from `truth`, by enumerating all tables."""
    total = 0.0
    for cut in itertools.combinations_with_replacement(range(n + 1), len(shares) - 1):
        counts = np.diff([0, *cut, n])
        if 0.5 * np.abs(counts / n - shares).sum() > limit + 1e-12:
            logs = math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in counts)
            chances = [k * math.log(p) for k, p in zip(counts, truth, strict=True) if k]
            possible = all(p > 0 for k, p in zip(counts, truth, strict=True) if k)
            total += math.exp(logs + sum(chances)) if possible else 0.0
    return total


def exact_mixture(shares, truth, mass, n_records, limit):
    """The same for a class that gets Bin(N, mass) records; without a record nothing is published."""
    return sum(
        binom.pmf(n, n_records, mass) * exact_tail(shares, truth, n, limit) for n in range(1, n_records + 1)
    )


@pytest.mark.parametrize("mass", [1.0, 0.7, 0.3])
@pytest.mark.parametrize("limit", [0.1, 0.2, 0.35, 0.6])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.6, 0.3, 0.1), (0.98, 0.01, 0.01)])
def test_the_bound_is_above_the_exact_chance(shares, mass, limit):
    n_records = 40 if len(shares) == 2 else 24
    shares = np.array(shares)
    exact = exact_mixture(shares, shares, mass, n_records, limit)
    assert float(too_far_upper(shares, [mass], n_records, limit)[0]) >= exact
    # Also if records are drawn from another distribution, by as much as is told.
    truth = np.roll(shares, 1) * 0.1 + shares * 0.9
    bias = 0.5 * np.abs(truth - shares).sum()
    exact = exact_mixture(shares, truth, mass, n_records, limit)
    assert float(too_far_upper(shares, [mass], n_records, limit, [bias])[0]) >= exact
    assert exact > 0.0 or limit > 0.3


def test_the_bound_falls_with_records_mass_and_limit_and_rises_with_the_bias():
    shares = np.array([0.5, 0.2, 0.2, 0.1])

    def bound(n_records=2000, mass=0.2, limit=0.12, bias=0.0):
        return float(too_far_upper(shares, [mass], n_records, limit, [bias])[0])

    for numbers, name in (
        ((500, 1000, 2000, 4000, 8000), "n_records"),
        ((0.05, 0.1, 0.2, 0.5), "mass"),
        ((0.05, 0.1, 0.2), "limit"),
    ):
        found = [bound(**{name: number}) for number in numbers]
        assert found == sorted(found, reverse=True)
        assert found[0] > found[-1]
    assert bound(bias=0.05) > bound()
    assert bound(bias=0.2) == 1.0


def test_the_inverses_agree():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(8), 20)
    masses = rng.dirichlet(np.full(20, 5.0))
    for limit in (0.1, 0.2):
        n_records = records_for_closeness(shares, masses, limit, 0.01)
        assert too_far_upper(shares, masses, n_records, limit).sum() <= 0.01
        assert too_far_upper(shares, masses, n_records - 1, limit).sum() > 0.01
        assert closeness_for_records(shares, masses, n_records, 0.01) <= limit
        assert closeness_for_records(shares, masses, n_records // 2, 0.01) > limit
    with pytest.raises(RefusedError, match="No number of records"):
        records_for_closeness(shares[0], [1.0], 0.1, 0.01, [0.1])


def furthest_share(rng, shares, masses, n_records, limit, n_draws=400):
    """How often some class of a release is further than the limit."""
    cells = (masses[:, np.newaxis] * shares).ravel()
    fails = 0
    for _ in range(n_draws):
        table = rng.multinomial(n_records, cells).reshape(shares.shape)
        sizes = np.maximum(1, table.sum(axis=1, keepdims=True))
        distances = 0.5 * np.abs(table / sizes - shares).sum(axis=1)
        fails += bool((distances[table.any(axis=1)] > limit).any())
    return fails / n_draws


def test_releases_with_enough_records_are_close():
    """With delta = 0.1 and 400 releases, 65 failures or more happen with probability 1e-4 at most.

    The broken variant waits for a quarter of the records. Then almost every release fails, and the test would
    accept it with probability below 1e-9.
    """
    rng = np.random.default_rng(1)
    shares, masses = rng.dirichlet(np.ones(6), 30), rng.dirichlet(np.full(30, 8.0))
    n_records = records_for_closeness(shares, masses, 0.15, 0.1)
    assert furthest_share(rng, shares, masses, n_records, 0.15) < 65 / 400
    assert furthest_share(rng, shares, masses, n_records // 4, 0.15) > 65 / 400


def test_linked_releases_keep_twice_the_limit():
    """(tau, delta) composes to (t tau, t delta): pairs of releases that share half of their people.

    With t delta = 0.2 and 300 pairs, 85 failures or more happen with probability 1e-3 at most; the broken
    variant, a quarter of the records and half the distance, fails in almost all of them.
    """
    rng = np.random.default_rng(2)
    shares, masses = rng.dirichlet(np.ones(6), 20), rng.dirichlet(np.full(20, 8.0))
    cells = (masses[:, np.newaxis] * shares).ravel()

    def failures(n_records, limit):
        fails = 0
        for _ in range(300):
            shared = rng.multinomial(n_records // 2, cells)
            pair = [shared + rng.multinomial(n_records - n_records // 2, cells) for _ in range(2)]
            linked = np.minimum(*pair).reshape(shares.shape)
            sizes = np.maximum(1, linked.sum(axis=1, keepdims=True))
            fails += bool((0.5 * np.abs(linked / sizes - shares).sum(axis=1) > limit).any())
        return fails

    n_records = records_for_closeness(shares, masses, 0.15, 0.1)
    assert failures(n_records, 0.3) < 85
    assert failures(n_records // 4, 0.15) > 200
