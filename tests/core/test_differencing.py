"""Subtraction of two releases, against all unions of their classes and against the people themselves."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.oracles import exposure as oracle
from tests.switch import quick_or_all

from elldelta.core.differencing import isolate
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.partition import Partition


def two_releases(records, first, second):
    """Both releases of one table of cells x values."""
    return [ReleasedCounts.from_table(records, Partition(np.array(own))) for own in (first, second)]


def drawn_classes(data, n_cells):
    numbers = st.lists(st.integers(0, 4), min_size=n_cells, max_size=n_cells)
    return np.unique(data.draw(numbers), return_inverse=True)[1].reshape(-1)


def true_counts(item, classes, tables):
    """The people whom a group is said to be, where everybody in the smaller table is in the other."""
    in_first, in_second = np.isin(classes[0], item.first), np.isin(classes[1], item.second)
    if item.how == "meet":
        return tables[0][in_first & in_second].sum(axis=0)
    sides = (0, in_first, in_second) if item.how == "first minus second" else (1, in_second, in_first)
    outer, inside, taken = sides
    return tables[outer][inside].sum(axis=0) - tables[1 - outer][inside & taken].sum(axis=0)


def test_a_register_less_six_people_gives_their_values():
    """Equal classes: what one holds more than the other is what the people have who are only there."""
    people = np.array([[900, 600, 500], [700, 800, 600], [900, 500, 700]])
    missing = np.array([[2, 0, 0], [0, 1, 0], [0, 3, 0]])
    register, less = two_releases(people, [0, 1, 2], [0, 1, 2])
    less = ReleasedCounts(less.partition, less.counts - missing)
    found = isolate(register, less, below=2)
    assert sorted(item.counts.tolist() for item in found) == sorted(missing.tolist())
    assert {item.how for item in found} == {"first minus second"}
    assert all(item.whole for item in found)
    assert not isolate(register, less, below=1)
    assert len(isolate(register, less)) == 3


@given(npst.arrays(np.int64, (2, 3, 3), elements=st.integers(0, 3)), st.sampled_from([None, 2, 3]))
def test_of_equal_classes_only_one_less_its_equal_is_found(counts, below):
    found = isolate(*(ReleasedCounts(Partition(np.arange(3)), each) for each in counts), below=below)
    assert {(item.how, item.first, tuple(item.counts)) for item in found} == {
        (how, (place,), tuple(rest))
        for how, (one, other) in (
            ("first minus second", counts),
            ("second minus first", counts[::-1]),
        )
        for place, rest in enumerate(one - other)
        if (rest >= 0).all()
        and rest.any()
        and ((one[place] > 0) & (other[place] > 0)).any()
        and (below is None or (rest > 0).sum() < below)
    }


def test_a_coarser_table_around_and_a_finer_one_inside_give_the_same_people():
    people = np.array([[3, 2, 4], [4, 3, 3], [2, 5, 1]])
    fewer = people - np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    for fine, coarse in (([0, 1, 2], [0, 0, 1]), ([0, 0, 1], [0, 1, 2])):
        first = ReleasedCounts.from_table(people, Partition(np.array(fine)))
        second = ReleasedCounts.from_table(fewer, Partition(np.array(coarse)))
        assert isolate(first, second)[0].counts.tolist() == [0, 1, 0]


def test_classes_that_overlap_on_both_sides_give_what_the_component_misses():
    people = np.array([[3, 3, 3], [4, 4, 4], [2, 2, 2]])
    fewer = people - np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]])
    first = ReleasedCounts.from_table(people, Partition(np.array([0, 0, 1])))
    second = ReleasedCounts.from_table(fewer, Partition(np.array([0, 1, 1])))
    found = isolate(first, second, below=2)
    assert [(item.first, item.second, item.counts.tolist()) for item in found] == [
        ((0, 1), (0, 1), [0, 0, 1])
    ]


def test_the_worked_example_gives_the_middle():
    records = np.array([[3, 2, 4], [1, 0, 0], [2, 5, 1]])
    first, second = two_releases(records, [0, 0, 1], [0, 1, 1])
    one, two = isolate(first, second)  # c1 ∪ c2 less c1, and c2 ∪ c3 less c3
    assert {one.how, two.how} == {"first minus second", "second minus first"}
    assert one.counts.tolist() == two.counts.tolist() == [1, 0, 0]
    assert (one.records, one.diversity) == (1, 1)


def test_equal_tables_under_equal_classes_give_nothing():
    records = np.array([[3, 2, 4], [1, 0, 0], [2, 5, 1]])
    assert isolate(*two_releases(records, [0, 1, 2], [0, 1, 2])) == ()


@settings(max_examples=quick_or_all(150, 600), deadline=None)
@given(st.data())
def test_no_union_of_classes_leaves_less_than_what_is_listed(data):
    """Releases of any people, against all unions of classes beside a class of the other, from both sides."""
    n_cells, n_values = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    people = npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(0, 3))
    releases = [
        ReleasedCounts.from_table(data.draw(people), Partition(drawn_classes(data, n_cells)))
        for _ in range(2)
    ]
    found = isolate(*releases)
    shown = [counts for release in releases for counts in release.counts if counts.any()]
    for side, how in enumerate(("first minus second", "second minus first")):
        listed = [item for item in found if item.how == how]
        expected = list(oracle.subtractions(releases[side], releases[1 - side]))
        by_classes = {(outer, inner): rest for outer, inner, rest in expected}
        for item in listed:
            own, others = (item.first, item.second) if side == 0 else (item.second, item.first)
            if min(len(own), len(others)) == 1:
                assert item.counts.tolist() == by_classes[own, others]
        for _, _, rest in expected:
            # At least as much as a group that is listed, or as a class that is published, or nobody.
            assert not any(rest) or any(
                (counts <= rest).all() for counts in [*(item.counts for item in listed), *shown]
            )


@settings(max_examples=quick_or_all(150, 600), deadline=None)
@given(st.data())
def test_where_one_population_is_in_the_other_every_group_is_true(data):
    n_cells, n_values = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    larger = data.draw(npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(0, 4)))
    away = data.draw(npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(0, 4)))
    tables = larger, np.minimum(larger, away)
    classes = [drawn_classes(data, n_cells) for _ in range(2)]
    releases = [
        ReleasedCounts.from_table(table, Partition(own)) for table, own in zip(tables, classes, strict=True)
    ]
    for item in isolate(*releases):
        if item.how == "first minus second":
            assert item.counts.tolist() == true_counts(item, classes, tables).tolist()
    for item in isolate(*two_releases(larger, *classes)):  # the same people: either way round
        assert item.counts.tolist() == true_counts(item, classes, (larger, larger)).tolist()


@settings(max_examples=quick_or_all(100, 400), deadline=None)
@given(st.data())
def test_whoever_is_alone_in_the_larger_table_is_found(data):
    """One person more in one class of equal classes, everybody else in both: the value is given away."""
    n_cells, n_values = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    people = data.draw(npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(0, 3)))
    cell, value = data.draw(st.integers(0, n_cells - 1)), data.draw(st.integers(0, n_values - 1))
    assume(people[cell].any())
    more = people.copy()
    more[cell, value] += 1
    classes = drawn_classes(data, n_cells)
    first, second = (ReleasedCounts.from_table(table, Partition(classes)) for table in (people, more))
    [found] = [item for item in isolate(first, second) if item.how == "second minus first"]
    assert found.second == (classes[cell],)
    assert found.counts.tolist() == np.eye(n_values, dtype=int)[value].tolist()


@settings(max_examples=quick_or_all(60, 120), deadline=None)
@given(st.data())
def test_no_determined_pair_is_missed(data):
    n_cells, n_values = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 2))
    # every cell holds every value, so that no pair of classes can be excluded by its values
    records = data.draw(npst.arrays(np.int64, (n_cells, n_values), elements=st.integers(1, 3)))
    classes = [drawn_classes(data, n_cells) for _ in range(2)]
    found = isolate(*two_releases(records, *classes))
    pairs = sorted(set(zip(*(own.tolist() for own in classes), strict=True)))
    degree = [[sum(pair[side] == own for pair in pairs) for own in range(5)] for side in (0, 1)]
    for a, b in oracle.determined_pairs(pairs, 5, 5):
        if degree[0][a] > 1 and degree[1][b] > 1:
            counts = records[(classes[0] == a) & (classes[1] == b)].sum(axis=0)
            assert any(
                (item.counts == counts).all() and (a in item.first or b in item.second) for item in found
            )


def test_components_are_judged_one_by_one():
    """Where the records are the same, subtraction gives them away, whatever the releases hold elsewhere."""
    records = np.array([[3, 2, 4], [1, 0, 0], [2, 5, 1], [1, 1, 1]])
    first, second = two_releases(records, [0, 0, 1, 2], [0, 1, 1, 2])
    other = ReleasedCounts(second.partition, second.counts + np.array([[0], [0], [1]]))
    one, two, *more = isolate(first, other)
    assert one.counts.tolist() == two.counts.tolist() == [1, 0, 0]
    assert [(item.first, item.second, item.counts.tolist()) for item in more] == [((2,), (2,), [1, 1, 1])]


def test_a_pair_is_isolated_in_a_component_of_the_same_records_only():
    """c2 meets c4 in the middle of a chain: no class lies inside another one there."""
    records = np.array([[3, 2, 4], [2, 2, 2], [1, 0, 0], [3, 3, 3], [2, 5, 1]])
    first, second = two_releases(records, [0, 0, 1, 1, 2], [0, 1, 1, 2, 2])
    found = isolate(first, second)
    assert [item.counts.tolist() for item in found if item.how == "meet"] == [[1, 0, 0]]
    more = ReleasedCounts(second.partition, second.counts + np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]]))
    assert not [item for item in isolate(first, more) if item.how == "meet"]


def test_a_class_that_shares_nobody_does_not_hide_what_the_others_leave():
    """Once all classes inside were subtracted together: one that does not fit hid the person in between."""
    outer, together = [[3, 3, 3, 1]], Partition(np.array([0, 0]))
    apart = Partition(np.array([0, 1]))
    for others in ([[3, 3, 3, 0], [0, 0, 2, 5]], [[3, 3, 3, 0], [0, 0, 2, 1]]):
        found = isolate(ReleasedCounts(together, np.array(outer)), ReleasedCounts(apart, np.array(others)))
        assert found[0].counts.tolist() == [0, 0, 0, 1]
        assert found[0].second == (0,)


def test_a_class_is_inside_another_one_if_the_rest_of_it_is_empty():
    first = ReleasedCounts(Partition(np.array([0, 1, 1])), np.array([[0, 0, 0, 0], [3, 3, 3, 1]]))
    second = ReleasedCounts(Partition(np.array([0, 0, 1])), np.array([[3, 3, 3, 0], [0, 0, 2, 1]]))
    assert isolate(first, second)[0].counts.tolist() == [0, 0, 0, 1]


def test_many_classes_inside_one_are_tried_from_those_that_leave_least():
    parts = np.vstack([np.eye(12, dtype=np.int64) * 2, np.full((1, 12), 3)])
    whole = parts[:-1].sum(axis=0) + np.eye(12, dtype=np.int64)[0]
    whole[-1] = 1  # so that the last small one does not fit, and neither do all the others together
    first = ReleasedCounts(Partition(np.zeros(13, dtype=np.int64)), whole[np.newaxis])
    second = ReleasedCounts(Partition(np.arange(13)), parts)
    [found, *_] = isolate(first, second)
    assert found.counts.tolist() == [1, *[0] * 10, 1]


@pytest.mark.parametrize("coarse", [False, True])
def test_tens_of_thousands_of_classes_take_no_pairs_of_them(coarse):
    rng = np.random.default_rng(0)
    n_cells = 40_000
    people = rng.poisson(2.0, (n_cells, 14))
    away = rng.random(n_cells) < 0.01
    people[away, 3] += 1
    fewer = people - np.where(away[:, np.newaxis], np.eye(14, dtype=np.int64)[3], 0)
    second = np.arange(n_cells) // 3 if coarse else np.arange(n_cells)
    first = ReleasedCounts.from_table(people, Partition(np.arange(n_cells)))
    start = time.perf_counter()
    found = isolate(first, ReleasedCounts.from_table(fewer, Partition(second)), below=5)
    assert time.perf_counter() - start < 20.0  # 1.6 thousand million pairs of classes take minutes
    assert len([item for item in found if item.how == "first minus second"]) >= np.unique(second[away]).size
