"""How likely classes hold fewer than k records, against exact fractions and against drawn releases."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound, holds
from elldelta.core.generalize.boxes import boxes
from elldelta.core.occupancy import least_mass, shortfalls_upper
from elldelta.errors import RefusedError


def fewer_than(k, n_records, mass):
    """P(Bin(N, m) < k) from its definition."""
    return sum(math.comb(n_records, n) * mass**n * (1 - mass) ** (n_records - n) for n in range(k))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(2, 12), st.fractions(0, 1, max_denominator=50))
@example(587, 26, Fraction(0.7348457855675093))
def test_the_chance_is_that_of_a_binomial(n_records, k, mass):
    exact = float(fewer_than(k, n_records, mass)) if k <= n_records else 1.0
    found = float(shortfalls_upper(float(mass), n_records, k))
    assert exact * (1.0 - 1e-12) <= found <= min(1.0, exact * (1.0 + 1e-8)) + 1e-300


def test_one_record_is_never_too_few():
    assert shortfalls_upper([0.0, 0.5], 10, 1).tolist() == [0.0, 0.0]
    assert least_mass(10, 1, 1e-9, per_class=False) == 0.0


@settings(deadline=None)
@given(
    st.integers(20, 2000),
    st.integers(2, 15),
    st.sampled_from([1e-6, 1e-3, 0.05]),
    st.booleans(),
)
def test_the_least_mass_is_just_enough(n_records, k, limit, per_class):
    least = least_mass(n_records, k, limit, per_class=per_class)
    assert least <= 1.0
    n_classes = 1 if per_class else 1 / least
    assert n_classes * float(shortfalls_upper(least, n_records, k)) <= limit
    less = 0.999 * least
    assert (1 if per_class else 1 / less) * float(shortfalls_upper(less, n_records, k)) > limit


def test_more_than_all_records_are_never_there():
    assert least_mass(9, 10, 0.5, per_class=True) > 1.0


def grid(seed, n_rows=8, n_columns=9, n_values=4):
    """Past records over a grid, of very different density."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.5, size=(n_rows * n_columns, 1)) * rng.dirichlet(np.full(n_values, 4.0))
    counts = rng.poisson(4000 * weights / weights.sum())
    positions = np.stack(np.divmod(np.arange(n_rows * n_columns), n_columns), axis=1)
    seen = counts.any(axis=1)
    return JointDistribution.from_counts(counts[seen]), positions[seen], (n_rows, n_columns)


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(("releases", "n_parts"), [(1, 1), (3, 1), (2, 2)])
def test_classes_are_made_for_k_and_releases_of_them_hold_it(per_class, releases, n_parts):
    """The bound is recomputed, and owners drawn from the model fall short no more often than it says.

    With 4,000 owners a chance of at most 0.05 is seen more than 0.05 + 5 sqrt(0.05 / 4,000) = 0.068 of the
    time in fewer than one of a million runs. Classes made without k fall short nearly always.
    """
    distribution, positions, sizes = grid(3)
    n_records, limit = 1500, 0.05
    asked = {
        "ell": 2,
        "n_records": n_records // n_parts,
        "releases": releases * n_parts,
        "limit": limit / n_parts if per_class else limit * releases,
        "per_class": per_class,
        "checked_by": "owner",
        "n_parts": n_parts,
    }
    rng = np.random.default_rng(7)
    seen = {}
    for k in (1, 40):
        bound = SharpBound(**asked, k=k)
        partition, _ = boxes(distribution, positions, sizes, (bound,))
        classes = distribution.generalized(partition)
        made = bound.evaluate(classes)
        assert holds((made,))
        assert partition.n_classes > 3
        masses = classes.quasi_identifier_marginal
        table = rng.multinomial(n_records, masses / masses.sum(), 4000)
        short = (table > 0) & (table < 40)
        seen[k] = short.mean(axis=0).max() if per_class else short.any(axis=1).mean()
        if k > 1:
            # From the witnesses alone, one by one, in exact numbers.
            told = made.witnesses.sums(made.witnesses.cells(classes)) / classes.total
            exact = [fewer_than(k, n_records, mass) for mass in told.tolist()]
            np.testing.assert_allclose(made.short, exact, rtol=1e-6, atol=1e-300)
            own = [sum(classes.mass[row, values]) for row, values in enumerate(made.witnesses)]
            np.testing.assert_allclose(told, np.array(own) / classes.total)
            values = made.bound.total(made.classes.failures_upper)
            assert made.failure_upper == pytest.approx(values + releases * sum(exact))
    assert seen[40] <= 0.068
    assert seen[1] > 0.068


def test_k_that_no_class_holds_is_refused():
    distribution, positions, sizes = grid(3)
    bound = SharpBound(2, 1500, 1, 0.01, checked_by="owner", k=1501)
    with pytest.raises(RefusedError, match="1,501 records"):
        boxes(distribution, positions, sizes, (bound,))
