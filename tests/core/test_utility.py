import numpy as np
import pytest
from tests.oracles import boxes as oracle
from tests.planned import sharp_runs

from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.generalize.boxes import boxes
from elldelta.core.partition import Partition
from elldelta.core.utility import (
    ANY_VALUE,
    Workload,
    answered_shares,
    measure_utility,
    ncp_by_attribute,
    occupied_hulls,
    random_workload,
    true_shares,
    workload_error,
)
from elldelta.errors import ParameterError

SIZES = (3, 5, 1)
POSITIONS = np.array([[0, 0, 0], [0, 3, 0], [1, 1, 0], [2, 4, 0], [2, 0, 0]])
COUNTS = np.array([[2, 1], [0, 3], [1, 1], [4, 0], [0, 0]])
CLASSES = Partition([0, 0, 1, 1, 1])


@pytest.fixture
def distribution():
    return JointDistribution.from_counts(COUNTS)


def test_measures_by_hand(distribution):
    """Classes of 6 and 6 records; the row without a record does not count for a hull."""
    found = measure_utility(distribution, CLASSES, POSITIONS, SIZES, k=2, n_records=12)
    assert found.n_classes == 2
    assert (found.smallest_class, found.median_class, found.largest_class) == (6, 6, 6)
    assert found.discernibility == 72 + 12 * 0.5  # the squares, and the variance of each class
    assert found.average_class_size_ratio == 12 / (2 * 2)
    # attribute 1: lengths 0 and 1 of 2; attribute 2: 3 and 3 of 4; attribute 3 has one position
    assert found.ncp_by_attribute == pytest.approx((0.25, 0.75, 0.0))
    assert found.ncp == pytest.approx(1 / 3)
    assert found.ncp == pytest.approx(oracle.ncp(COUNTS, POSITIONS, SIZES, CLASSES.class_of))


def test_the_ends_of_the_scale(distribution):
    rows = distribution.n_quasi_identifiers
    assert max(ncp_by_attribute(distribution, Partition(np.arange(rows)), POSITIONS, SIZES)) == 0.0
    assert ncp_by_attribute(distribution, Partition.single(rows), POSITIONS, SIZES) == (1.0, 1.0, 0.0)


def test_a_forecast_is_the_mean_over_samples(distribution):
    """5000 samples: the mean is within 5 standard errors but for one run in a million."""
    found = measure_utility(distribution, CLASSES, POSITIONS, SIZES, k=2, n_records=40)
    shares = [6 / 12, 6 / 12]
    samples = (np.random.default_rng(3).multinomial(40, shares, 5000) ** 2).sum(axis=1)
    error = 5 * samples.std() / 5000**0.5
    assert abs(samples.mean() - found.discernibility) < error
    assert abs(samples.mean() - sum((40 * share) ** 2 for share in shares)) > error  # the variance matters
    assert found.largest_class == 20


def test_probabilities_are_measured_like_counts():
    distribution = JointDistribution.from_probabilities(COUNTS / COUNTS.sum())
    assert measure_utility(distribution, CLASSES, POSITIONS, SIZES, k=2, n_records=12).largest_class == 6


def test_a_class_that_never_occurs_has_the_hull_of_its_rows(distribution):
    lows, highs = occupied_hulls(distribution, Partition([0, 0, 1, 1, 2]), POSITIONS, SIZES)
    assert lows[2].tolist() == highs[2].tolist() == [2, 0, 0]
    assert (lows[1].tolist(), highs[1].tolist()) == ([1, 1, 0], [2, 4, 0])


def test_answers_by_hand(distribution):
    """One class covers 2 x 4 positions, a quarter of which is asked for; the other lies outside."""
    lows, highs = [[0, 0, 0], [2, 0, 0]], [[1, 3, 0], [2, 4, 0]]
    workload = Workload([[0, 1, 0], [0, 1, 0]], [[0, 2, 0], [0, 2, 0]], [ANY_VALUE, 1], SIZES)
    answers = answered_shares(distribution, CLASSES, lows, highs, workload)
    assert answers == pytest.approx([6 / 12 / 4, 4 / 12 / 4])
    assert true_shares(distribution, POSITIONS, workload) == pytest.approx([0.0, 0.0])


def test_the_finest_classes_answer_exactly():
    rng = np.random.default_rng(1)
    sizes = (4, 6, 3)
    positions = np.array(oracle.every_combination(sizes))
    table = rng.poisson(3.0, (len(positions), 4)) + 1
    distribution = JointDistribution.from_counts(table)
    workload = random_workload(rng, sizes, 4, n_queries=200)
    truth = true_shares(distribution, positions, workload)
    for query in range(0, 200, 17):
        inside = ((positions >= workload.lows[query]) & (positions <= workload.highs[query])).all(axis=1)
        value = workload.values[query]
        cells = table[inside] if value == ANY_VALUE else table[inside, value]
        assert truth[query] == pytest.approx(cells.sum() / table.sum())
    finest = Partition(np.arange(len(positions)))
    assert answered_shares(distribution, finest, positions, positions, workload) == pytest.approx(truth)
    exact = workload_error(truth, truth)
    assert (exact.median, exact.mean) == (0.0, 0.0)
    single = Partition.single(len(positions))
    ends = occupied_hulls(distribution, single, positions, sizes)
    assert workload_error(truth, answered_shares(distribution, single, *ends, workload)).mean > 0.01


def test_a_workload_is_what_it_says():
    sizes = (2, 40, 25, 10)
    workload = random_workload(
        np.random.default_rng(2), sizes, 7, n_queries=4000, selectivity=0.05, value_share=0.25
    )
    again = random_workload(
        np.random.default_rng(2), sizes, 7, n_queries=4000, selectivity=0.05, value_share=0.25
    )
    assert (workload.lows == again.lows).all()
    assert (workload.values == again.values).all()
    assert (workload.lows >= 0).all()
    assert (workload.highs < np.array(sizes)).all()
    # 1000 +- 137 is five standard deviations
    assert abs((workload.values != ANY_VALUE).sum() - 1000) < 137
    lengths = workload.highs - workload.lows + 1
    only_second = (lengths[:, [0, 2, 3]] == np.array(sizes)[[0, 2, 3]]).all(axis=1) & (lengths[:, 1] < 40)
    assert only_second.sum() > 0
    assert set(lengths[only_second, 1].tolist()) == {2}  # 40 x 0.05
    assert set(np.unique(workload.lows[only_second, 1]).tolist()) <= set(range(39))


def test_the_floor_under_the_truth():
    found = workload_error([0.0, 0.5, 0.0001], [0.002, 0.25, 0.0001], sanity_share=0.001)
    assert (found.median, found.n_below_sanity) == (0.5, 2)
    assert found.mean == pytest.approx((2.0 + 0.5 + 0.0) / 3)
    with pytest.raises(ParameterError, match="floor under the truth"):
        workload_error([0.1], [0.1], sanity_share=0.0)
    with pytest.raises(ParameterError, match="one answer per query"):
        workload_error([0.1], [0.1, 0.2])


def test_boxes_answer_better_than_runs_on_adult():
    table, positions, sizes = oracle.adult("sex", "education", "age")
    distribution = JointDistribution.from_counts(table)
    workload = random_workload(np.random.default_rng(1), sizes, distribution.n_values, n_queries=1000)
    truth = true_shares(distribution, positions, workload)
    errors = []
    for partition in (
        boxes(distribution, positions, sizes, SharpBound(5, 30_000, 1, 0.01))[0],
        sharp_runs(distribution, 5, 30_000, 1, 0.01).partition,
    ):
        ends = occupied_hulls(distribution, partition, positions, sizes)
        errors.append(workload_error(truth, answered_shares(distribution, partition, *ends, workload)))
    assert errors[0].median < 0.8 * errors[1].median
    assert errors[0].mean < 0.8 * errors[1].mean
