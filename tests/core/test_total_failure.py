"""What an error in P costs, against the worst error found by search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planned import evaluate_sharp, sharp_runs
from tests.switch import quick_or_all

from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.occupancy import class_failures_upper, total_failure_upper
from elldelta.core.sample_size import geometric_marginal, uniform_marginal
from elldelta.errors import ParameterError

ROWS = [
    ("uniform", uniform_marginal(50), 10, 65_606, 600),
    ("geometric", geometric_marginal(50, 0.95), 10, 36_866, 333),
    ("geometric", geometric_marginal(50, 0.95), 30, 111_229, 300),
]


@pytest.mark.parametrize(("name", "marginal", "ell", "n_records", "n_classes"), ROWS)
def test_paying_once_keeps_the_classes(name, marginal, ell, n_records, n_classes):
    distribution = JointDistribution.product(uniform_marginal(3000), marginal)
    options = {"eta": 1e-4}
    plan = sharp_runs(distribution, ell, n_records, 2, 0.02, options)
    assert plan.n_classes >= n_classes
    assert plan.failure_upper <= 0.02
    again = evaluate_sharp(distribution, plan.partition, ell, n_records, 2, options)
    assert again.failure_upper == plan.failure_upper


@settings(deadline=None, max_examples=quick_or_all(40, 80))
@given(seed=st.integers(0, 2**32 - 1), eta=st.floats(1e-5, 0.05), releases=st.integers(1, 3))
def test_no_error_of_that_size_exceeds_the_bound(seed, eta, releases):
    """Moves eta of mass out of the cells, in many ways; witnesses and allowances stay those of the plan."""
    rng = np.random.default_rng(seed)
    cells = rng.dirichlet(np.full(24, 0.9)).reshape(4, 6)
    n_records = int(rng.integers(20, 400))
    planned = class_failures_upper(cells, 2, n_records, releases)
    bound = total_failure_upper(planned.failures_upper, cells.max(axis=1), n_records, eta)
    for focus in range(6):
        weights = rng.dirichlet(np.full(24, 0.1)).reshape(4, 6)
        if focus < 4:  # the whole error in one class
            weights = np.zeros((4, 6))
            weights[focus] = rng.dirichlet(np.full(6, 0.3))
        true = np.maximum(0.0, cells - eta * weights)
        total = 0.0
        for index in range(4):
            witnesses = list(planned.witnesses[index])
            there = class_failures_upper(true[index : index + 1, witnesses], 2, n_records, releases)
            total += min(float(releases), there.failures_upper[0])  # infinite where fewer than ell are left
        assert total <= bound * (1 + 1e-6)


def test_the_bound_is_attained_when_one_cell_decides():
    cells = np.full((50, 10), 0.002)
    cells[:, 0] = 0.001  # with ell = 10 the class fails when this one is missing
    n_records, eta = 3_000, 0.0005
    failures = class_failures_upper(cells, 10, n_records).failures_upper
    bound = total_failure_upper(failures, cells.max(axis=1), n_records, eta)
    true = cells.copy()
    true[0, 0] -= eta
    worst = class_failures_upper(true, 10, n_records).failures_upper.sum()
    assert failures.sum() < worst <= bound < 1.03 * worst
    half = total_failure_upper(failures, cells.max(axis=1), n_records, eta / 2)
    assert half < worst


def test_without_error_the_total_is_the_sum():
    assert total_failure_upper([0.25, 0.5], [0.1, 0.2], 100, 0.0) == 0.75


def test_a_class_that_may_hold_everything_cannot_be_bounded():
    assert total_failure_upper([1e-300], [1.0], 100, 0.01) == np.inf


@settings(deadline=None, max_examples=50)
@given(first=st.floats(0, 0.01), second=st.floats(0, 0.01))
def test_monotone_in_eta(first, second):
    failures, peaks = np.array([1e-4, 1e-6]), np.array([0.01, 0.2])
    low, high = sorted((first, second))
    assert total_failure_upper(failures, peaks, 500, low) <= total_failure_upper(failures, peaks, 500, high)


@pytest.mark.parametrize("eta", [-0.1, 1.0, float("nan"), True, "0.1"])
def test_eta_out_of_range(eta):
    with pytest.raises(ParameterError, match=r"\[0, 1\)"):
        SharpBound(2, 10, eta=eta)


@settings(deadline=None, max_examples=quick_or_all(40, 80))
@given(seed=st.integers(0, 2**32 - 1), eta=st.floats(1e-4, 0.05), releases=st.integers(1, 4))
def test_owners_with_truths_of_their_own_pay_once_if_they_contribute_equally(seed, eta, releases):
    """Theorem C with equal k_j: tails from the definition, each owner's with its own error."""
    rng = np.random.default_rng(seed)
    n_classes, n_values, ell = 3, 5, 2
    cells = rng.dirichlet(np.full(n_classes * n_values, 2.0)).reshape(n_classes, n_values)
    n_records = int(rng.integers(5, 80))
    shares = []
    for _ in cells:
        spare = n_values - ell
        k = int(rng.integers(0, spare // releases + 1))
        shares.append((k, spare + 1 - releases * k))
    planned = np.array(
        [releases * excess(row, n_records, k) / room for row, (k, room) in zip(cells, shares, strict=True)]
    )
    promised = total_failure_upper(planned, cells.max(axis=1), n_records, eta)
    total = 0.0
    for owner in range(releases):
        # All in one class, each owner in another one: the worst that a common truth would exclude.
        true = cells.copy()
        row = (owner + int(rng.integers(0, 2))) % n_classes
        taken = min(eta, cells[row].sum())
        true[row] = np.maximum(0.0, cells[row] - taken * rng.dirichlet(np.full(n_values, 0.3)))
        total += sum(excess(own, n_records, k) / room for own, (k, room) in zip(true, shares, strict=True))
    assert total <= promised * (1.0 + 1e-9)


def excess(cells, n_records, k):
    """E(W - k)^+ for independent indicators that a value is missing, by adding one value after the other."""
    chances = np.array([1.0])
    for cell in cells:
        q = (1.0 - cell) ** n_records
        chances = np.append(chances, 0.0) * (1.0 - q) + np.append(0.0, chances) * q
    return float((chances * np.maximum(0, np.arange(chances.size) - k)).sum())


def test_unequal_contributions_may_pay_more_without_a_common_truth():
    """The test above can fail: two owners, two classes, each owner the whole failure of one class."""
    n_records, eta, failures = 100, 0.02, np.array([0.01, 0.01])
    promised = total_failure_upper(failures, np.array([0.1, 0.1]), n_records, eta)
    growth = np.exp(n_records * eta / 0.9)
    assert failures.sum() * growth > promised
