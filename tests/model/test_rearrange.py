"""Orders of categories: similar profiles of the sensitive column next to each other."""

import numpy as np
import pytest

from elldelta.model.rearrange import order_by_profile


def test_similar_profiles_come_next_to_each_other():
    """Four planted kinds of profile, shuffled: each kind is one stretch of the order."""
    rng = np.random.default_rng(4)
    kinds = rng.dirichlet(np.full(8, 0.5), 4)
    kind_of = rng.permutation(np.repeat(np.arange(4), 5))
    counts = np.stack([rng.multinomial(5000, kinds[kind]) for kind in kind_of])
    order = order_by_profile(counts)
    assert sorted(order.tolist()) == list(range(20))
    assert np.count_nonzero(np.diff(kind_of[order])) == 3
    assert (order_by_profile(counts) == order).all()


def test_an_order_does_not_depend_on_the_order_it_is_given():
    rng = np.random.default_rng(5)
    counts = rng.poisson(rng.gamma(1.0, 30.0, (12, 6))) + 1
    shuffle = rng.permutation(12)
    order, other = order_by_profile(counts), shuffle[order_by_profile(counts[shuffle])]
    assert other.tolist() in (order.tolist(), order[::-1].tolist())


@pytest.mark.parametrize("n_categories", [1, 2, 3])
def test_few_categories_have_an_order_too(n_categories):
    counts = np.eye(3, dtype=np.int64)[:n_categories] + 1
    assert sorted(order_by_profile(counts).tolist()) == list(range(n_categories))


def test_a_category_without_records_is_no_obstacle():
    assert sorted(order_by_profile(np.array([[5, 1], [0, 0], [1, 5], [4, 2]])).tolist()) == [0, 1, 2, 3]
