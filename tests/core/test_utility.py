import numpy as np
import pytest

from elldelta.core.utility import measure_utility

SIZES = (3, 5, 1)
LOWS = np.array([[0, 0, 0], [1, 1, 0], [0, 4, 0]])
HIGHS = np.array([[0, 3, 0], [2, 4, 0], [0, 4, 0]])


def test_measures_by_hand():
    """Classes of 6, 3 and no records."""
    found = measure_utility(np.array([2 / 3, 1 / 3, 0.0]), LOWS, HIGHS, SIZES, n_records=9)
    assert found.n_classes == 3
    assert (found.smallest_class, found.median_class, found.largest_class) == pytest.approx((3, 4.5, 6))
    # attribute 1: lengths 0 and 1 of 2; attribute 2: 3 and 3 of 4; attribute 3 has one position
    assert found.ncp_by_attribute == pytest.approx((1 / 6, 0.75, 0.0))
    assert found.ncp == pytest.approx(np.mean([1 / 6, 0.75, 0.0]))


def test_the_ends_of_the_scale():
    shares = np.full(3, 1 / 3)
    assert measure_utility(shares, LOWS, LOWS, SIZES, 9).ncp_by_attribute == (0.0, 0.0, 0.0)
    whole = np.zeros((1, 3), dtype=np.int64), np.array([[2, 4, 0]])
    assert measure_utility(np.ones(1), *whole, SIZES, 9).ncp_by_attribute == (1.0, 1.0, 0.0)
