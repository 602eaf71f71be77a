"""Small noisy tables put together: estimators beside their definitions, and draws that follow the tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from elldelta.core.marginals import MarginalTree, evened, grouped, misfit, projected, raked, shrunk

cells = st.lists(st.integers(-20, 40), min_size=1, max_size=12)


@given(cells, st.integers(1, 50))
def test_projection_is_the_nearest_table(noisy, total):
    table = np.array(noisy, dtype=float)
    found = projected(table, total)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(total)
    nearest = minimize(
        lambda x: ((x - table) ** 2).sum(),
        np.full(len(noisy), total / len(noisy)),
        bounds=[(0.0, None)] * len(noisy),
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert ((found - table) ** 2).sum() <= nearest.fun * (1 + 1e-6) + 1e-6


@given(cells, cells)
def test_one_record_changes_a_misfit_by_at_most_one(counts, expected):
    n = min(len(counts), len(expected))
    table, other = np.abs(np.array(counts[:n])), np.array(expected[:n]) + 0.3
    for place in range(n):
        neighbour = table.copy()
        neighbour[place] += 1
        assert abs(misfit(neighbour, other) - misfit(table, other)) <= 1


def test_shrinking_beats_the_noise_and_keeps_what_is_clear():
    """Mean squared error against the truth: better than noise alone by half, where cells are near E."""
    rng = np.random.default_rng(5)
    expected = rng.uniform(1.0, 60.0, 2000)
    truth = expected * rng.normal(1.0, 0.2, expected.size)
    noisy = truth + rng.normal(0.0, 20.0, expected.size)
    error = ((shrunk(noisy, 400.0, expected) - truth) ** 2).mean()
    assert error < 0.25 * ((noisy - truth) ** 2).mean()
    assert error < ((expected - truth) ** 2).mean()
    np.testing.assert_allclose(shrunk(truth, 0.0, expected), np.maximum(truth, 0.0))


def test_evening_out_follows_what_noise_explains():
    rng = np.random.default_rng(6)
    groups = np.repeat([0, 1], 50)
    flat = np.where(groups == 0, 30.0, 5.0) + rng.normal(0.0, 10.0, 100)
    assert np.ptp(evened(flat, 100.0, groups)[:50]) < 0.6 * np.ptp(flat[:50])
    steep = np.arange(100.0) * 50
    np.testing.assert_allclose(evened(steep, 100.0, groups), steep, rtol=0.02, atol=30.0)


def test_margins_are_fitted():
    rng = np.random.default_rng(7)
    truth, start = rng.uniform(1, 9, (3, 4, 2)), rng.uniform(1, 9, (3, 4, 2))
    found = raked(start, [((0, 2), truth.sum(axis=1)), ((1, 2), truth.sum(axis=0))])
    np.testing.assert_allclose(found.sum(axis=1), truth.sum(axis=1), rtol=1e-3)
    np.testing.assert_allclose(found.sum(axis=0), truth.sum(axis=0), rtol=1e-3)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 10))
def test_groups_are_runs_without_gaps(histogram, most):
    groups = grouped(np.array(histogram, dtype=float), most)
    assert groups[0] == 0
    assert set(np.diff(groups).tolist()) <= {0, 1}
    assert groups[-1] < most or len(histogram) <= most


def test_draws_follow_the_tree():
    """Two attributes, the second in groups: frequencies of draws beside the product from the definition."""
    values = np.array([30.0, 70.0])
    first = np.array([[20.0, 30.0], [10.0, 40.0]])
    second = np.array([[[5.0, 10.0], [15.0, 20.0]], [[8.0, 10.0], [2.0, 30.0]]])  # (first, group, value)
    spread, groups = np.array([1.0, 3.0, 2.0]), np.array([0, 0, 1])
    tree = MarginalTree(
        values,
        (np.arange(2), groups),
        (np.ones(2), spread),
        (0, 1),
        (None, 0),
        (first[np.newaxis], second),
    )
    wanted = np.zeros((2, 3, 2))
    for a in range(2):
        for b in range(3):
            for s in range(2):
                group = groups[b]
                inside = spread[b] / spread[groups == group].sum()
                wanted[a, b, s] = (
                    values[s] / 100 * first[a, s] / first[:, s].sum()
                    * second[a, group, s] / second[a, :, s].sum() * inside
                )  # fmt: skip
    n = 200_000
    (a, b), s = tree.draw(n, np.random.default_rng(8))
    found = np.zeros_like(wanted)
    np.add.at(found, (a, b, s), 1.0 / n)
    np.testing.assert_allclose(found, wanted, atol=5 * np.sqrt(0.25 / n))
