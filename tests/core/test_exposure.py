"""The measures of an audit against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.oracles import exposure as oracle
from tests.switch import quick_or_all

from elldelta.core.bayes import posterior
from elldelta.core.differencing import isolate
from elldelta.core.diversity import (
    distances_to_overall,
    entropy_diversities,
    largest_shares,
    recursive_c,
    t_closeness,
)
from elldelta.core.exposure import (
    distinct_cells,
    exposure_curve,
    fewest_in_any_group,
    fewest_in_union,
    leave_one_out,
    measure,
)
from elldelta.core.linkage import ReleasedCounts, link
from elldelta.core.partition import Partition
from elldelta.errors import DataError, DistributionError

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


# Differencing


def two_releases(records, first, second):
    """Both releases of one table of cells x values."""
    return [ReleasedCounts.from_table(records, Partition(np.array(own))) for own in (first, second)]


def test_the_worked_example_gives_the_middle():
    records = np.array([[3, 2, 4], [1, 0, 0], [2, 5, 1]])
    first, second = two_releases(records, [0, 0, 1], [0, 1, 1])
    [found] = isolate(first, second)
    assert found.how == "meet"
    assert (found.first, found.second) == ((0,), (1,))
    assert found.counts.tolist() == [1, 0, 0]
    assert (found.records, found.diversity) == (1, 1)


@settings(max_examples=quick_or_all(60, 120))
@given(st.data())
def test_what_is_isolated_is_true_and_no_determined_pair_is_missed(data):
    n_cells, n_values = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 2))
    # every cell holds every value, so that no pair of classes can be excluded by its values
    records = data.draw(npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(1, 3)))
    numbers = st.lists(st.integers(0, 3), min_size=n_cells, max_size=n_cells)
    classes = [np.unique(data.draw(numbers), return_inverse=True)[1] for _ in range(2)]
    found = isolate(*two_releases(records, *classes))
    pairs = sorted(set(zip(*(own.tolist() for own in classes), strict=True)))
    inside = [(classes[0] == a) & (classes[1] == b) for a, b in pairs]
    degree = [[sum(pair[side] == own for pair in pairs) for own in range(4)] for side in (0, 1)]
    expected = {
        (a, b) for a, b in oracle.determined_pairs(pairs, 4, 4) if degree[0][a] > 1 and degree[1][b] > 1
    }
    assert {(item.first[0], item.second[0]) for item in found if item.how == "meet"} == expected
    for item in found:
        if item.how == "meet":
            mask = inside[pairs.index((item.first[0], item.second[0]))]
        else:
            outer = 0 if item.how == "first minus second" else 1
            own, others = (item.first, item.second) if outer == 0 else (item.second, item.first)
            assert len(own) == 1
            assert others
            mask = (classes[outer] == own[0]) & ~np.isin(classes[1 - outer], others)
            assert mask.any()
        assert item.counts.tolist() == records[mask].sum(axis=0).tolist()


@given(st.data())
def test_values_that_do_not_occur_only_sharpen_what_is_isolated(data):
    n_cells = data.draw(st.integers(1, 8))
    records = data.draw(npst.arrays(np.int64, (n_cells, 3), elements=st.integers(0, 2)))
    numbers = st.lists(st.integers(0, 3), min_size=n_cells, max_size=n_cells)
    classes = [np.unique(data.draw(numbers), return_inverse=True)[1] for _ in range(2)]
    for item in isolate(*two_releases(records, *classes)):
        if item.how == "meet":
            mask = (classes[0] == item.first[0]) & (classes[1] == item.second[0])
        else:
            outer = 0 if item.how == "first minus second" else 1
            own, others = (item.first, item.second) if outer == 0 else (item.second, item.first)
            mask = (classes[outer] == own[0]) & ~np.isin(classes[1 - outer], others)
        assert item.counts.tolist() == records[mask].sum(axis=0).tolist()


def test_components_are_judged_one_by_one():
    """Where the records are the same, subtraction gives them away, whatever the releases hold elsewhere."""
    records = np.array([[3, 2, 4], [1, 0, 0], [2, 5, 1], [1, 1, 1]])
    first, second = two_releases(records, [0, 0, 1, 2], [0, 1, 1, 2])
    other = ReleasedCounts(second.partition, second.counts + np.array([[0], [0], [1]]))
    with pytest.raises(DataError, match="cannot hold the same records"):
        isolate(first, other)
    [one, two] = isolate(first, other, declared=False)  # c1 ∪ c2 less c1, and c2 ∪ c3 less c3
    assert one.counts.tolist() == two.counts.tolist() == [1, 0, 0]


def test_a_pair_is_isolated_in_a_component_of_the_same_records_only():
    """c2 meets c4 in the middle of a chain: no class lies inside another one there."""
    records = np.array([[3, 2, 4], [2, 2, 2], [1, 0, 0], [3, 3, 3], [2, 5, 1]])
    first, second = two_releases(records, [0, 0, 1, 1, 2], [0, 1, 1, 2, 2])
    found = isolate(first, second, declared=False)
    assert [item.counts.tolist() for item in found if item.how == "meet"] == [[1, 0, 0]]
    more = ReleasedCounts(second.partition, second.counts + np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]]))
    assert not [item for item in isolate(first, more, declared=False) if item.how == "meet"]


@settings(max_examples=quick_or_all(150, 600))
@given(st.data())
def test_no_set_of_classes_inside_another_leaves_less_than_what_is_found(data):
    """Releases of people who are not all the same, against all sets of classes that may be subtracted."""
    n_cells, n_values = data.draw(st.integers(2, 7)), data.draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, 4), min_size=n_cells, max_size=n_cells)
    people = npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(0, 3))
    first, second = (
        ReleasedCounts.from_table(
            data.draw(people), Partition(np.unique(data.draw(numbers), return_inverse=True)[1])
        )
        for _ in range(2)
    )
    found = {}
    for item in isolate(first, second, declared=False):
        if item.how != "meet":
            taken = item.second if item.outer[0] == 0 else item.first
            found.setdefault(item.outer, {})[taken] = item.counts
    for side, (own, other) in enumerate(((first, second), (second, first))):
        for outer in range(len(own.counts)):
            fitting = {
                taken: own.counts[outer] - other.counts[list(taken)].sum(axis=0)
                for taken in oracle.sets_inside(own, other, outer)
            }
            fitting = {taken: rest for taken, rest in fitting.items() if (rest >= 0).all()}
            listed = found.pop((side, outer), {})
            for taken, counts in listed.items():
                assert counts.tolist() == fitting[taken].tolist()
            for taken, rest in fitting.items():
                # What is left by this set, or else by one more class: then it holds whole published classes.
                assert any((counts <= rest).all() for counts in listed.values()) or any(
                    set(taken) <= set(more) and not left.any() for more, left in fitting.items()
                )
    assert not found


def test_a_class_that_shares_nobody_does_not_hide_what_the_others_leave():
    """Once all classes inside were subtracted together: one that does not fit hid the person in between."""
    outer, together = [[3, 3, 3, 1]], Partition(np.array([0, 0]))
    apart = Partition(np.array([0, 1]))
    for others in ([[3, 3, 3, 0], [0, 0, 2, 5]], [[3, 3, 3, 0], [0, 0, 2, 1]]):
        found = isolate(
            ReleasedCounts(together, np.array(outer)),
            ReleasedCounts(apart, np.array(others)),
            declared=False,
        )
        assert found[0].counts.tolist() == [0, 0, 0, 1]
        assert found[0].second == (0,)


def test_a_class_is_inside_another_one_if_the_rest_of_it_is_empty():
    first = ReleasedCounts(Partition(np.array([0, 1, 1])), np.array([[0, 0, 0, 0], [3, 3, 3, 1]]))
    second = ReleasedCounts(Partition(np.array([0, 0, 1])), np.array([[3, 3, 3, 0], [0, 0, 2, 1]]))
    found = isolate(first, second, declared=False)
    assert found[0].counts.tolist() == [0, 0, 0, 1]


def test_many_classes_inside_one_are_tried_from_those_that_leave_least():
    parts = np.vstack([np.eye(12, dtype=np.int64) * 2, np.full((1, 12), 3)])
    whole = parts[:-1].sum(axis=0) + np.eye(12, dtype=np.int64)[0]
    whole[-1] = 1  # so that the last small one does not fit, and neither do all the others together
    first = ReleasedCounts(Partition(np.zeros(13, dtype=np.int64)), whole[np.newaxis])
    second = ReleasedCounts(Partition(np.arange(13)), parts)
    [found, *_] = isolate(first, second, declared=False)
    assert found.counts.tolist() == [1, *[0] * 10, 1]


def test_releases_of_different_records_are_refused():
    records = np.array([[3, 2, 4], [1, 0, 0], [2, 5, 1]])
    first, _ = two_releases(records, [0, 0, 1], [0, 1, 1])
    _, second = two_releases(records + 1, [0, 0, 1], [0, 1, 1])
    with pytest.raises(DataError, match="cannot hold the same records"):
        isolate(first, second)
