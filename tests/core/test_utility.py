import numpy as np
import pytest
from tests.oracles import boxes as oracle

from elldelta.core.distribution import JointDistribution
from elldelta.core.partition import Partition
from elldelta.core.utility import measure_utility, ncp_by_attribute, occupied_hulls

SIZES = (3, 5, 1)
POSITIONS = np.array([[0, 0, 0], [0, 3, 0], [1, 1, 0], [2, 4, 0], [2, 0, 0]])
COUNTS = np.array([[2, 1], [0, 3], [1, 1], [4, 0], [0, 0]])
CLASSES = Partition([0, 0, 1, 1, 1])


@pytest.fixture
def distribution():
    return JointDistribution.from_counts(COUNTS)


def test_measures_by_hand(distribution):
    """Classes of 6 and 6 records; the row without a record does not count for a hull."""
    found = measure_utility(distribution, CLASSES, POSITIONS, SIZES, n_records=12)
    assert found.n_classes == 2
    assert (found.smallest_class, found.median_class, found.largest_class) == (6, 6, 6)
    # attribute 1: lengths 0 and 1 of 2; attribute 2: 3 and 3 of 4; attribute 3 has one position
    assert found.ncp_by_attribute == pytest.approx((0.25, 0.75, 0.0))
    assert found.ncp == pytest.approx(1 / 3)
    assert found.ncp == pytest.approx(oracle.ncp(COUNTS, POSITIONS, SIZES, CLASSES.class_of))


def test_the_ends_of_the_scale(distribution):
    rows = distribution.n_quasi_identifiers
    assert max(ncp_by_attribute(distribution, Partition(np.arange(rows)), POSITIONS, SIZES)) == 0.0
    assert ncp_by_attribute(distribution, Partition.single(rows), POSITIONS, SIZES) == (1.0, 1.0, 0.0)


def test_probabilities_are_measured_like_counts():
    distribution = JointDistribution.from_probabilities(COUNTS / COUNTS.sum())
    assert measure_utility(distribution, CLASSES, POSITIONS, SIZES, n_records=12).largest_class == 6


def test_a_class_that_never_occurs_has_the_hull_of_its_rows(distribution):
    lows, highs = occupied_hulls(distribution, Partition([0, 0, 1, 1, 2]), POSITIONS, SIZES)
    assert lows[2].tolist() == highs[2].tolist() == [2, 0, 0]
    assert (lows[1].tolist(), highs[1].tolist()) == ([1, 1, 0], [2, 4, 0])
