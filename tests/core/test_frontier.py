import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import paper

from elldelta.core.distribution import JointDistribution, geometric_marginal, uniform_marginal
from elldelta.core.frontier import frontier, most_classes, piece_at
from elldelta.core.generalize.greedy import greedy
from elldelta.core.sample_size import Mechanism, union_records
from elldelta.errors import RefusedError

tables = st.integers(1, 4).flatmap(
    lambda n_values: st.lists(
        st.lists(st.integers(0, 6), min_size=n_values, max_size=n_values), min_size=1, max_size=8
    )
).filter(lambda rows: any(map(any, rows)))  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(tables, st.data(), st.booleans())
def test_frontier_equals_trying_every_threshold(table, data, as_probabilities):
    marginal = sorted((sum(column) for column in zip(*table, strict=True)), reverse=True)
    ell = data.draw(st.integers(1, sum(1 for cell in marginal if cell)))
    total = sum(map(sum, table))
    expected = {}
    for threshold in paper.all_thresholds(table):
        n_classes = paper.most_contiguous_classes(table, ell, threshold) if len(table) <= 6 else None
        if n_classes is None:
            n_classes = (
                greedy(JointDistribution.from_counts(table), ell, threshold / total).n_classes
                if threshold <= marginal[ell - 1]
                else 0
            )
        if n_classes:
            expected[n_classes] = max(threshold, expected.get(n_classes, 0))
    distribution = (
        JointDistribution.from_probabilities(np.array(table) / total)
        if as_probabilities
        else JointDistribution.from_counts(table)
    )
    found = {point.n_classes: point.p * total for point in frontier(distribution, ell, 0.1).points}
    assert found.keys() == expected.keys()
    for n_classes, threshold in expected.items():
        assert found[n_classes] == pytest.approx(threshold, rel=1e-9)


@given(tables, st.data())
def test_a_piece_is_the_whole_interval_of_one_partition(table, data):
    distribution = JointDistribution.from_counts(table)
    marginal = np.sort(distribution.mass.sum(axis=0))[::-1]
    ell = data.draw(st.integers(1, int((marginal > 0).sum())))
    threshold = data.draw(st.integers(1, int(marginal[ell - 1])))
    piece = piece_at(distribution, ell, threshold)
    for inside in range(int(piece.low) + 1, int(piece.high) + 1):
        assert piece_at(distribution, ell, inside).partition == piece.partition


@pytest.mark.parametrize("marginal", [uniform_marginal(50), geometric_marginal(50, 0.95)])
def test_the_papers_setting_takes_under_200_sweeps(marginal):
    distribution = JointDistribution.product(uniform_marginal(3000), marginal)
    result = frontier(distribution, 10, 0.01)
    # |Q| / T for every run length T: the distinct values of floor(3000 / T)
    assert {point.n_classes for point in result.points} == {3000 // t for t in range(1, 3001)}
    assert result.n_sweeps < 200
    p_ell = float(distribution.ranked_marginal[9])
    for point in result.points:
        assert point.p == pytest.approx(3000 // point.n_classes / 3000 * p_ell, rel=1e-9)


def test_records_fall_along_the_frontier_and_union_never_needs_more():
    rng = np.random.default_rng(3)
    distribution = JointDistribution.from_counts(rng.poisson(2.0, size=(200, 8)))
    points = frontier(distribution, 4, 0.01).points
    records = [point.records for point in points]
    assert records == sorted(records, reverse=True)
    for point in points:
        mechanism = Mechanism.create(distribution.value_marginal, 200, 4, point.p)
        assert point.records == mechanism.records(0.01)
        assert point.records_union == union_records(point.n_classes, 4, point.p, 0.01)
        assert point.n_classes <= mechanism.classes_upper * (1 + 1e-9)
        assert point.records_union <= point.records


@settings(max_examples=200, deadline=None)
@given(tables, st.data())
def test_most_classes_is_the_best_point_for_the_records(table, data):
    distribution = JointDistribution.from_counts(table)
    marginal = np.sort(distribution.mass.sum(axis=0))[::-1]
    ell = data.draw(st.integers(1, int((marginal > 0).sum())))
    points = frontier(distribution, ell, 0.05)
    n_records = data.draw(st.integers(points.points[-1].records, points.points[0].records + 5))
    partition, p = most_classes(distribution, ell, 0.05, n_records)
    best = points.most_classes(n_records)
    assert best is not None
    assert partition.n_classes == best.n_classes
    assert partition.is_admissible(distribution, ell, p)
    mechanism = Mechanism.create(distribution.value_marginal, len(table), ell, p)
    assert mechanism.records(0.05) <= n_records
    limited = frontier(distribution, ell, 0.05, n_records_upper=n_records)
    assert limited.points[0].n_classes == best.n_classes


def test_too_few_records_are_refused():
    distribution = JointDistribution.from_counts([[1, 1], [1, 1]])
    with pytest.raises(RefusedError, match="not enough"):
        most_classes(distribution, 2, 0.01, 3)
    with pytest.raises(RefusedError, match="not enough"):
        frontier(distribution, 2, 0.01, n_records_upper=3)


def test_records_that_pay_for_one_class_are_never_refused():
    """Two rows that differ from p_ell by less than the tolerance: one class is affordable."""
    distribution = JointDistribution.from_probabilities([[0.5 + 1e-10, 0.0], [0.0, 0.5 - 1e-10]])
    p_ell = float(distribution.ranked_marginal[0])
    delta = Mechanism.create(distribution.value_marginal, 2, 1, p_ell).delta_reached(10)
    partition, p = most_classes(distribution, 1, delta, 10)
    assert partition.n_classes == 1
    assert Mechanism.create(distribution.value_marginal, 2, 1, p).records(delta) <= 10


def test_a_single_value_whose_shares_sum_to_a_little_more_than_one():
    """3/13 + 4/13 + 3/13 + 3/13 exceeds 1 in the last digit, and p must not."""
    distribution = JointDistribution.from_probabilities(np.array([[3], [4], [3], [3]]) / 13)
    assert distribution.value_marginal[0] > 1.0
    assert frontier(distribution, 1, 0.1).points[-1].records == 1
