"""The measures of an audit against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.oracles import exposure as oracle

from elldelta.core.diversity import (
    distances_to_overall,
    entropy_diversities,
    largest_shares,
    recursive_c,
    t_closeness,
)
from elldelta.core.inference import posterior
from elldelta.core.linkage import (
    ReleasedCounts,
    distinct_cells,
    exposure_curve,
    fewest_in_any_group,
    fewest_in_union,
    leave_one_out,
    link,
    measure,
)
from elldelta.core.partition import Partition
from elldelta.errors import DistributionError

tables = npst.arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.integers(0, 3))


@given(tables, st.integers(1, 5))
def test_measures_of_one_table_equal_their_definitions(table, ell):
    overall = table.sum(axis=0).tolist()
    entropies, c = entropy_diversities(table), recursive_c(table, ell)
    variation, moved = distances_to_overall(table), distances_to_overall(table, ordered=True)
    for place, row in enumerate(table.tolist()):
        if not sum(row):
            assert entropies[place] == largest_shares(table)[place] == 0
            assert np.isnan(c[place])
            assert np.isnan(variation[place])
            continue
        assert math.log(entropies[place]) == pytest.approx(oracle.entropy(row), abs=1e-12)
        assert largest_shares(table)[place] == max(row) / sum(row)
        assert variation[place] == pytest.approx(float(oracle.total_variation(row, overall)))
        assert moved[place] == pytest.approx(float(oracle.earth_mover(row, overall)))
        if math.isinf(c[place]):
            assert not oracle.is_recursive(row, 1e9, ell)
        else:
            assert not oracle.is_recursive(row, c[place] * (1 - 1e-9), ell)
            assert oracle.is_recursive(row, c[place] * (1 + 1e-9), ell)
    worst = t_closeness(table)
    assert worst is None if not table.any() else worst == pytest.approx(np.nanmax(variation))


def test_entropy_diversity_never_exceeds_the_number_of_values():
    table = np.array([[5, 5, 5], [9, 1, 0], [1, 0, 0]])
    assert entropy_diversities(table) == pytest.approx([3, math.exp(oracle.entropy([9, 1])), 1])


@st.composite
def released(draw, most=4):
    n_cells, n_values = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    found = []
    for _ in range(draw(st.integers(1, most))):
        numbers = draw(st.lists(st.integers(0, 2), min_size=n_cells, max_size=n_cells))
        _, class_of = np.unique(numbers, return_inverse=True)
        counts = draw(npst.arrays(np.int64, (int(class_of.max()) + 1, n_values), elements=st.integers(0, 2)))
        found.append(ReleasedCounts(Partition(class_of), counts))
    return found


def plain(releases):
    return [(release.partition.class_of.tolist(), release.counts.tolist()) for release in releases]


@given(released(), st.integers(1, 4))
def test_the_worst_group_is_found_without_asking_every_group(releases, ell):
    expected = plain(releases)
    n_cells = releases[0].partition.n_quasi_identifiers
    found = fewest_in_any_group(releases)
    assert found.tolist() == [oracle.fewest_in_any_group(expected, cell) for cell in range(n_cells)]
    for member in range(len(releases)):
        found = fewest_in_any_group(releases, member_of=member)
        assert found.tolist() == [
            oracle.fewest_in_any_group(expected, cell, member) for cell in range(n_cells)
        ]
    left_out = leave_one_out(releases, ell)
    assert len(left_out) == (len(releases) if len(releases) > 1 else 0)
    for item in left_out:
        others = [own for place, own in enumerate(expected) if place != item.release]
        fewest = [oracle.fewest_in_any_group(others, cell) for cell in range(n_cells)]
        assert item.diversity_min_any == min((n for n in fewest if n), default=None)


def test_more_than_sixty_four_values_need_more_than_one_word():
    rng = np.random.default_rng(1)
    releases = [
        ReleasedCounts(Partition(rng.permutation(np.arange(8) % 3)), rng.integers(0, 2, (3, 130)))
        for _ in range(3)
    ]
    expected = [oracle.fewest_in_any_group(plain(releases), cell) for cell in range(8)]
    assert fewest_in_any_group(releases).tolist() == expected


@given(released(), st.integers(1, 4))
def test_the_curve_equals_the_loop_over_all_groups(releases, ell):
    expected = plain(releases)
    assert len(link(distinct_cells(releases)).counts) == len(link(releases).counts)
    curve = exposure_curve(releases, ell)
    assert [point.n_releases for point in curve] == list(range(1, len(releases) + 1))
    for point in curve:
        groups = [group for group in oracle.groups(expected) if len(group) == point.n_releases]
        assert point.groups == point.groups_possible
        assert point.groups == len(groups)
        rows = [found for group in groups if (found := list(oracle.linkage_classes(group).values()))]
        shares = [oracle.shares(found, ell) for found in rows]
        lefts = [sum(n > 0 for n in row) for found in rows for row in found]
        assert point.diversity_min == min(lefts, default=None)
        assert point.share_below_max == pytest.approx(max((below for below, _ in shares), default=0))
        assert point.share_exposed_max == pytest.approx(max((one for _, one in shares), default=0))
        mean = sum(below for below, _ in shares) / len(shares) if shares else 0
        assert point.share_below_mean == pytest.approx(mean)
        guesses = [sum(map(max, found)) / sum(map(sum, found)) for found in rows]
        assert point.guess_mean_max == (pytest.approx(max(guesses)) if guesses else None)


def test_a_curve_with_too_many_groups_says_so_and_stays_fast():
    rng = np.random.default_rng(2)
    releases = [ReleasedCounts(Partition(np.arange(4)), rng.integers(0, 3, (4, 5))) for _ in range(60)]
    curve = exposure_curve(releases, 2, most_groups=120)
    assert [point.groups for point in curve] == [min(2, math.comb(60, k)) for k in range(1, 61)]
    assert curve[29].groups < curve[29].groups_possible
    assert curve[-1].groups == curve[-1].groups_possible
    assert curve[-1].diversity_min == link(releases).diversity


@given(released())
def test_membership_unknown_leaves_what_any_release_shows(releases):
    n_cells, n_values = releases[0].partition.n_quasi_identifiers, releases[0].counts.shape[1]
    found = []
    for cell in range(n_cells):
        shown = {
            value
            for class_of, counts in plain(releases)
            for value in range(n_values)
            if counts[class_of[cell]][value]
        }
        found.append(len(shown))
    assert fewest_in_union(releases) == min((n for n in found if n), default=None)


def test_measures_of_nothing():
    empty = measure(np.zeros((0, 3), dtype=np.int64), 2)
    assert (empty.records, empty.diversity_min, empty.share_below, empty.share_exposed) == (0, None, 0.0, 0.0)
    assert measure(np.zeros((2, 3), dtype=np.int64), 2) == empty


def test_the_numbers_of_an_exposure():
    found = measure(np.array([[3, 1, 0], [0, 0, 2], [0, 0, 0], [1, 1, 1]]), 3)
    assert (found.classes, found.records, found.diversity_min) == (3, 9, 1)
    assert (found.classes_below, found.records_below) == (2, 6)
    assert (found.classes_exposed, found.records_exposed) == (1, 2)
    assert found.share_below == pytest.approx(6 / 9)
    assert found.guess_mean == pytest.approx((3 + 2 + 1) / 9)
    assert math.isinf(found.recursive_c_max)


# The posterior


@given(st.data())
def test_the_posterior_is_bayes_rule_for_independent_remainders(data):
    n_values, t = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 4), min_size=n_values, max_size=n_values)
    chance = st.lists(st.integers(1, 8), min_size=n_values, max_size=n_values)
    prior = data.draw(row)
    counts = [data.draw(row) for _ in range(t)]
    masses = [data.draw(chance) for _ in range(t)]
    found = posterior(
        np.array([prior], dtype=float), [np.array([n]) for n in counts], [np.array([p]) / 40 for p in masses]
    )
    from fractions import Fraction

    expected = oracle.bayes(prior, counts, [[Fraction(n, 40) for n in p] for p in masses])
    assert found[0] == pytest.approx([float(belief) for belief in expected])


def test_for_one_release_and_no_knowledge_the_posterior_is_the_share():
    overall = np.array([0.5, 0.3, 0.2])
    counts = np.array([[4, 1, 0], [2, 2, 4]])
    found = posterior(np.tile(overall, (2, 1)), [counts], [np.tile(overall, (2, 1))])
    assert found == pytest.approx(counts / counts.sum(axis=1, keepdims=True))


def test_a_value_without_probability_is_refused_and_many_releases_do_not_underflow():
    with pytest.raises(DistributionError, match="probability 0"):
        posterior(np.ones((1, 2)), [np.array([[1, 1]])], [np.array([[0.5, 0.0]])])
    counts = [np.array([[1, 2]])] * 400
    found = posterior(np.ones((1, 2)), counts, [np.array([[1e-9, 2e-9]])] * 400)
    assert found == pytest.approx(np.array([[0.5, 0.5]]))
