"""Theorem G and what follows from it, against oracles that count linked records and look at every set."""

from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import certificate as tables
from tests.oracles import closeness as oracle

from elldelta.core.closeness import (
    SmallestShares,
    as_limit,
    linked_excess,
    values_lower,
)
from elldelta.core.closeness_kernels import Nearness, distance_moments, too_far_chance
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import ClosenessBound
from elldelta.core.partition import Partition
from elldelta.core.promises import Close, Shown
from elldelta.errors import ParameterError


@st.composite
def populations(draw, most_classes=3, most_values=4, most_releases=3):
    """References per base class, and releases: tables of very different sizes with their own unions."""
    n_classes, n_values = draw(st.integers(1, most_classes)), draw(st.integers(1, most_values))
    row = st.lists(st.integers(0, 6), min_size=n_values, max_size=n_values)
    references = [draw(row.filter(any)) for _ in range(n_classes)]
    releases = []
    for _ in range(draw(st.integers(1, most_releases))):
        scale = draw(st.sampled_from([1, 2, 50]))
        table = [[scale * n for n in draw(row)] for _ in range(n_classes)]
        releases.append((table, draw(st.sampled_from(list(tables.groupings(n_classes)))), ()))
    return references, releases


def shown(release):
    table, group_of, _ = release
    grouping = Partition(group_of)
    rows = [tables.shown(table, group_of, (), group) for group in range(grouping.n_classes)]
    return Shown(np.array(rows, dtype=np.int64), grouping)


@settings(deadline=None)
@given(populations())
def test_linked_records_are_within_the_excess_for_every_set_of_values(population):
    references, releases = population
    for base, reference in enumerate(references):
        linked = oracle.linked_counts(releases, base)
        if linked is None:
            continue
        rows = [tables.shown(table, group_of, (), group_of[base]) for table, group_of, _ in releases]
        excess = linked_excess(reference, rows)
        assert excess <= sum(linked_excess(reference, [row]) for row in rows)
        if excess >= 1:
            continue
        assert sum(linked) >= (1 - excess) * min(oracle.sizes(releases, base)) > 0
        truth, public = oracle.shares(linked), oracle.shares(reference)
        assert oracle.furthest_set(truth, public) <= excess
        floats, limit = [float(share) for share in public], float(excess)
        assert sum(share > 0 for share in truth) >= values_lower(floats, limit)


def test_the_excess_can_be_reached():
    # Two releases that are each too low in another value: what is linked lacks both.
    reference, rows = [2, 1, 1], [[4, 0, 4], [4, 4, 0]]
    linked = oracle.shares([4, 0, 0])
    assert linked_excess(reference, rows) == Fraction(1, 2)
    assert oracle.furthest_set(linked, oracle.shares(reference)) == Fraction(1, 2)


@settings(deadline=None)
@given(populations(most_releases=1), st.fractions(min_value=Fraction(1, 20), max_value=Fraction(19, 20)))
def test_one_release_is_judged_by_the_definition(population, limit):
    references, (release,) = population
    table, group_of, _ = release
    promise = Close(np.array(references), limit)
    too_far = promise.violation(shown(release)) > 0
    assert too_far.any() != oracle.passes(references, limit, table, group_of)
    for base, reference in enumerate(references):
        row = tables.shown(table, group_of, (), group_of[base])
        exact = oracle.furthest_set(oracle.shares(row), oracle.shares(reference)) if any(row) else 0
        assert float(exact) <= promise.distances_upper(shown(release))[base] <= float(exact) + 1e-12
        assert too_far[base] == (exact > limit)
        assert linked_excess(reference, [row]) == exact


@settings(deadline=None)
@given(populations())
def test_a_ledger_of_smallest_shares_is_the_excess_of_all(population):
    references, releases = population
    smallest = SmallestShares.none(len(references), len(references[0]))
    promise = Close(np.array(references), Fraction(1, 3), 2)
    for number, release in enumerate(releases):
        left = promise.beside(smallest)
        upper, too_far = left.distances_upper(shown(release)), left.violation(shown(release)) > 0
        smallest = left.after(shown(release)).smallest
        for base, reference in enumerate(references):
            rows = [
                tables.shown(table, group_of, (), group_of[base])
                for table, group_of, _ in releases[: number + 1]
            ]
            exact = linked_excess(reference, rows)
            assert too_far[base] == (exact > Fraction(1, 3))
            assert float(exact) <= upper[base] <= float(exact) + 1e-12


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 10**9), st.integers(2, 10**12), st.sampled_from([-1, 0, 1]))
def test_the_limit_itself_passes_and_nothing_beyond_it_does(weight, n, step):
    # Shares 1/2 - x and 1/2 + x for a limit of exactly x: neither rounding nor 64 bits decide.
    reference = np.array([[weight, weight]])
    table = np.array([[n, 3 * n + step]])
    promise = Close(reference, Fraction(1, 4))
    exact = abs(Fraction(n, 4 * n + step) - Fraction(1, 2))
    assert bool(promise.violation(Shown.of(table)).any()) == (exact > Fraction(1, 4))
    joined = SmallestShares.none(1, 2).joined(table, Partition([0]))
    again = joined.joined(np.array([[n + 1, 3 * n + step]]), Partition([0]))
    assert again.counts[0, 0] == n  # the larger share of the first value changes nothing
    assert again.counts[0, 1] == 3 * n + step  # and lowers that of the second


def test_comparing_a_union_with_one_of_its_classes_is_not_enough():
    """The broken certificate lets a release pass whose link is further from a reference than was promised."""
    references = [[9, 1], [1, 9]]
    limit = Fraction(1, 10)
    release = ([[90, 10], [0, 0]], (0, 0), ())
    assert oracle.passes_for_one_only(references, limit, *release)
    assert not oracle.passes(references, limit, *release)
    violation = Close(np.array(references), limit).violation(shown(release))
    assert (violation > 0).tolist() == [False, True]
    linked = oracle.linked_counts([release, ([[90, 10], [10, 90]], (0, 1), ())], 1)
    assert oracle.furthest_set(oracle.shares(linked), oracle.shares(references[1])) > 2 * limit


@pytest.mark.parametrize("limit", [0, 1, -0.1, True, None, "a", float("nan"), float("inf"), Fraction(3, 2)])
def test_a_limit_is_a_distance_between_0_and_1(limit):
    with pytest.raises(ParameterError, match="strictly between 0 and 1"):
        as_limit(limit)


def test_a_limit_is_the_number_that_was_written():
    assert as_limit(0.1) == Fraction(1, 10)
    assert as_limit(np.float64(0.3)) == Fraction(3, 10)
    assert as_limit(Fraction(1, 3)) == Fraction(1, 3)


def test_references_and_shares_are_checked():
    with pytest.raises(ParameterError, match="not all of them 0"):
        Close(np.zeros((1, 2), dtype=np.int64), Fraction(1, 2))
    with pytest.raises(ParameterError, match="other classes or values"):
        Close(np.ones((1, 2), dtype=np.int64), Fraction(1, 2), smallest=SmallestShares.none(2, 2))
    with pytest.raises(ParameterError, match="at least that"):
        SmallestShares(np.array([[2, 1]]), np.array([[1, 1]]))


@pytest.mark.parametrize("concentration", [0.3, 2.0])
@pytest.mark.parametrize("n_expected", [40, 200, 1000])
def test_the_tail_of_the_distance_is_about_right_and_that_of_a_normal_is_not(n_expected, concentration):
    """Classes drawn 100,000 times: how often they are further away than in one of 1,000 of these.

    One of 1,000 is known to a tenth (one standard error) from so many draws; the estimate may be half of it,
    or four times as large. A normal tail is less than half.
    """
    rng = np.random.default_rng([n_expected, int(10 * concentration)])
    n_records, draws = 30_000, 100_000
    shares = rng.dirichlet(np.full(14, concentration))
    sizes = np.maximum(1, rng.binomial(n_records, n_expected / n_records, draws))
    drawn = rng.multinomial(sizes, shares)
    distances = 0.5 * np.abs(drawn / sizes[:, np.newaxis] - shares).sum(axis=1)
    limit = float(np.quantile(distances, 0.999))
    nothing = np.zeros(0)
    nothing.setflags(write=False)
    near = Nearness(limit, float(n_records), nothing, nothing, np.inf)
    estimated = too_far_chance(shares, 1.0, float(n_expected), near)
    assert 0.0005 < estimated < 0.004
    mean, variance = distance_moments(shares, 1.0, float(n_expected), near)
    assert mean == pytest.approx(distances.mean(), rel=0.02)
    assert variance == pytest.approx(distances.var(), rel=0.08)
    assert NormalDist(mean, variance**0.5).cdf(limit) > 1.0 - 0.0005


def test_references_that_are_away_from_the_class_cost_chances():
    classes = JointDistribution.from_probabilities([[0.3, 0.1, 0.1], [0.1, 0.2, 0.2]])
    own = np.array([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]])
    bound = ClosenessBound(0.1)
    same = bound.chances(classes, 400)
    assert bound.chances(classes, 400, own) == pytest.approx(same, rel=0.1)
    moved = bound.chances(classes, 400, own + np.array([[-0.08, 0.08, 0.0], [0.0, 0.0, 0.0]]))
    assert moved[0] > 5 * same[0]
    assert moved[1] == pytest.approx(same[1], rel=0.1)
    beyond = bound.chances(classes, 4000, own + np.array([[-0.2, 0.2, 0.0], [0.0, 0.0, 0.0]]))
    assert beyond[0] > 0.99
    # What is away by itself, and never varies.
    certain = JointDistribution.from_probabilities([[1.0, 0.0]])
    assert bound.chances(certain, 50, np.array([[0.8, 0.2]])).tolist() == [1.0]
    assert bound.chances(certain, 50, np.array([[0.95, 0.05]])).tolist() == [0.0]
    # A past of as many records as a release is as uncertain: as if there were half as many.
    drawn = ClosenessBound(0.1, n_past=400).chances(classes, 400)
    assert drawn == pytest.approx(bound.chances(classes, 200), rel=0.1)
