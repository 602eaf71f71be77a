import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core.distribution import JointDistribution, check_marginal, frozen
from elldelta.core.sample_size import geometric_marginal, uniform_marginal
from elldelta.errors import DistributionError, ParameterError


def test_counts_stay_integers_so_that_sums_are_exact():
    distribution = JointDistribution.from_counts([[2**53, 1], [1, 1]])
    assert distribution.mass.dtype == np.int64
    assert distribution.mass.sum(axis=0)[0] == 2**53 + 1
    assert distribution.total == 2**53 + 3


def test_marginals_and_ranks():
    distribution = JointDistribution.from_counts([[1, 2, 0], [3, 0, 4]])
    assert distribution.value_marginal.tolist() == [0.4, 0.2, 0.4]
    assert distribution.quasi_identifier_marginal.tolist() == [0.3, 0.7]
    assert distribution.ranked_marginal.tolist() == [0.4, 0.4, 0.2]


def test_a_part_is_copied_unless_nobody_may_write_to_the_whole():
    whole = np.array([[0, 1, 2], [3, 4, 5]])
    part = whole[:]
    part.setflags(write=False)
    copied = frozen(part, np.int64, copy=True)
    whole[0, 0] = 100
    assert copied[0, 0] == 0
    whole.setflags(write=False)
    assert np.shares_memory(frozen(part, np.int64, copy=True), whole)
    columns = frozen(whole[:, :2], np.int64, copy=True)
    assert columns.flags.c_contiguous
    assert columns.tolist() == [[100, 1], [3, 4]]


def test_values_are_frozen():
    source = np.array([[1, 2], [3, 4]])
    distribution = JointDistribution.from_counts(source)
    source[0, 0] = 100
    assert distribution.total == 10
    with pytest.raises(ValueError, match="read-only"):
        distribution.mass[0, 0] = 7


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ([[0.5, -0.5], [0.5, 0.5]], "negative"),
        ([[0.5, float("nan")]], "finite"),
        ([[float("inf"), 0.0]], "finite"),
        ([[0.5, 0.4]], "sum to 1"),
        ([], "at least one row"),
        ([[]], "at least one row"),
        ([[0.5], [0.25, 0.25]], "equal length"),
        ([["a", "b"]], "numbers"),
        ([0.5, 0.5], "at least one row"),
    ],
)
def test_bad_probabilities(table, part):
    with pytest.raises(DistributionError, match=part):
        JointDistribution.from_probabilities(table)


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ([[1, -1]], "negative"),
        ([[0, 0]], "zero"),
        ([[1.5, 2.0]], "whole numbers"),
        ([[1], [2, 3]], "equal length"),
        ([[2**62, 2**62]], "too large"),
        (np.array([[2**63]], dtype=np.uint64), "too large"),
    ],
)
def test_bad_counts(table, part):
    with pytest.raises(DistributionError, match=part):
        JointDistribution.from_counts(table)


def test_sum_tolerance_is_on_both_sides():
    JointDistribution.from_probabilities([[0.5, 0.5 + 5e-10]])
    for off in (5e-9, -5e-9):
        with pytest.raises(DistributionError):
            JointDistribution.from_probabilities([[0.5, 0.5 + off]])


def test_a_product_has_its_marginals():
    values, rows = geometric_marginal(5, 0.7), uniform_marginal(7)
    made = JointDistribution.product(rows, values)
    np.testing.assert_allclose(made.value_marginal, values)
    np.testing.assert_allclose(made.quasi_identifier_marginal, rows)
    np.testing.assert_allclose(made.mass, np.outer(rows, values))


def test_geometric_marginal_is_the_papers():
    marginal = geometric_marginal(50, 0.95)
    assert marginal[0] == pytest.approx(0.054, abs=5e-4)
    assert np.allclose(marginal[1:] / marginal[:-1], 0.95)
    assert marginal.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("ratio", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_geometric_ratio_out_of_range(ratio):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        geometric_marginal(5, ratio)


@pytest.mark.parametrize("n_values", [0, -1, 1.5, True])
def test_number_of_values_out_of_range(n_values):
    with pytest.raises(ParameterError, match="1 or more"):
        uniform_marginal(n_values)


def test_marginal_must_be_one_row():
    with pytest.raises(DistributionError, match="single row"):
        check_marginal([[0.5], [0.5]])


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_threshold_on_counts_is_the_exact_integer(total, count):
    """P >= p for p = count/total must mean n >= count exactly, although p was rounded."""
    count = min(count, total)
    table = [[count, total - count]] if total > count else [[count]]
    distribution = JointDistribution.from_counts(table)
    assert distribution.threshold(count / total) == count
