"""The worst group of releases, against every group and every set of values in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import belief as oracle

from elldelta.core.inference import furthest_in_any_group, gain_by_bayes, gain_in_shares
from elldelta.core.linkage import ReleasedCounts
from elldelta.errors import ParameterError


@st.composite
def laid(draw):
    """Releases over a few cells, with unequal sizes and classes, and a reference for every cell."""
    n_cells, n_values = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    few = st.lists(st.integers(0, draw(st.sampled_from([2, 9, 40]))), min_size=n_values, max_size=n_values)
    releases = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(few, min_size=1, max_size=n_cells))
        class_of = draw(st.lists(st.integers(0, len(rows) - 1), min_size=n_cells, max_size=n_cells))
        used = sorted(set(class_of))
        releases.append(([used.index(c) for c in class_of], [rows[c] for c in used]))
    references = draw(st.lists(few.filter(any), min_size=1, max_size=3))
    reference_of = draw(st.lists(st.integers(0, len(references) - 1), min_size=n_cells, max_size=n_cells))
    allowed = draw(st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)]))
    return releases, references, reference_of, allowed


def counted(releases):
    return [ReleasedCounts.from_rows(class_of, rows) for class_of, rows in releases]


@given(laid(), st.booleans())
@settings(deadline=None)
def test_the_furthest_group_and_the_bound_are_those_of_the_definition(case, with_last):
    releases, references, reference_of, allowed = case
    member = len(releases) - 1 if with_last else None
    found = furthest_in_any_group(counted(releases), reference_of, references, allowed, member_of=member)
    assert found.is_complete
    truth = [oracle.furthest(releases, cell, references[of], member) for cell, of in enumerate(reference_of)]
    for cell, (distance, of) in enumerate(zip(truth, reference_of, strict=True)):
        assert found.above[cell] == (distance is not None and distance > allowed)
        if distance is None:
            assert np.isnan(found.distances[cell])
            continue
        bound = oracle.excess(releases, cell, references[of])
        assert found.bounds[cell] == pytest.approx(float(bound), abs=1e-12)
        assert found.distances[cell] <= float(distance) + 1e-12 <= float(bound) + 2e-12  # Theorem G
        group = [releases[j] for j in np.flatnonzero(found.groups[cell])]
        linked = oracle.exposure.linked(group, cell)
        assert float(oracle.furthest_set(linked, references[of])) == pytest.approx(found.distances[cell])
    largest = max((distance for distance in truth if distance is not None), default=None)
    if largest is not None:
        assert np.nanmax(found.distances) == pytest.approx(float(largest), abs=1e-12)


@given(laid())
@settings(deadline=None)
def test_without_time_for_every_group_the_bound_decides_on_the_safe_side(case):
    releases, references, reference_of, allowed = case
    quick = furthest_in_any_group(counted(releases), reference_of, references, allowed, most_work=0)
    for cell, of in enumerate(reference_of):
        if np.isnan(quick.bounds[cell]):
            assert not quick.above[cell]
        elif not quick.is_complete:
            assert quick.above[cell] == (oracle.excess(releases, cell, references[of]) > allowed)
        distance = oracle.furthest(releases, cell, references[of])
        assert quick.above[cell] or distance is None or distance <= allowed


@given(laid())
@settings(deadline=None)
def test_the_largest_share_and_gain_are_those_of_the_worst_group(case):
    releases, references, reference_of, _ = case
    found = gain_in_shares(counted(releases), reference_of, references)
    truth = [
        oracle.surest_and_gain(oracle.led_by_shares(releases, cell), references[of])
        for cell, of in enumerate(reference_of)
    ]
    truth = [each for each in truth if each is not None]
    if not truth:
        assert found is None
        return
    assert found.surest == pytest.approx(float(max(surest for surest, _ in truth)), abs=1e-12)
    assert found.gain == pytest.approx(float(max(gain for _, gain in truth)), abs=1e-12)


@given(laid(), st.data())
@settings(deadline=None)
def test_the_largest_gain_by_bayes_rule_is_that_of_the_worst_group(case, data):
    releases, references, reference_of, _ = case
    references = [[n + 1 for n in row] for row in references]
    n_values = len(references[0])
    chance = st.lists(st.integers(1, 9), min_size=n_values, max_size=n_values)
    masses = [[data.draw(chance) for _ in rows] for _, rows in releases]
    tables = [np.array(own, dtype=float) for own in masses]
    found = gain_by_bayes(counted(releases), reference_of, references, tables)
    truth = []
    for cell, of in enumerate(reference_of):
        chances = [
            oracle.shares(own[class_of[cell]]) for own, (class_of, _) in zip(masses, releases, strict=True)
        ]
        led = oracle.led_by_bayes(releases, cell, references[of], chances)
        truth.append(oracle.surest_and_gain(led, references[of]))
    truth = [each for each in truth if each is not None]
    if not truth:
        assert found is None
        return
    surest, gain = float(max(one for one, _ in truth)), float(max(one for _, one in truth))
    assert found.is_exact
    assert found.surest == pytest.approx(surest, abs=1e-9)
    assert found.gain == pytest.approx(gain, abs=1e-9)
    bound = gain_by_bayes(counted(releases), reference_of, references, tables, most_work=0)
    assert not bound.is_exact
    assert bound.surest >= surest - 1e-9
    assert bound.gain >= gain - 1e-9


def test_shares_within_the_promise_can_lead_much_further_by_bayes_rule():
    """Reference 1 %, two releases at 20 %: the promise allows 41 %, the shares are 20 %, Bayes says 86 %."""
    reference, row = [1, 99], [1, 4]
    releases = [([0], [row]), ([0], [row])]
    limit = 2 * oracle.furthest_set(row, reference)  # what two such releases need: T = 0.38, planned as 0.4
    assert Fraction(1, 100) + Fraction(2, 5) == Fraction(41, 100)
    assert limit == Fraction(38, 100)
    shown = gain_in_shares(counted(releases), [0], [reference])
    assert (shown.before, shown.after) == pytest.approx((0.01, 0.2))
    truth = oracle.by_enumeration(reference, [row, row])
    assert float(truth[0]) == pytest.approx(0.8609, abs=5e-5)
    led = gain_by_bayes(counted(releases), [0], [reference], [np.array([reference], dtype=float)] * 2)
    assert (led.before, led.after) == pytest.approx((0.01, float(truth[0])))
    # For somebody in one release only it is the share itself: the second one does the rest.
    assert oracle.by_enumeration(reference, [row]) == [Fraction(1, 5), Fraction(4, 5)]


def test_nobody_is_certain_while_another_value_is_possible():
    releases = counted([([0], [[10**6, 1]])] * 9)
    reference = np.array([[1.0, 10.0**9]])
    led = gain_by_bayes(releases, [0], reference, [reference] * 9)
    assert 1.0 - 1e-9 < led.surest < 1.0


def test_a_value_that_the_reference_excludes_makes_two_releases_certain():
    releases = counted([([0], [[1, 9]]), ([0], [[1, 9]])])
    led = gain_by_bayes(releases, [0], [[0, 10]], [np.array([[0.0, 1.0]])] * 2)
    assert led.after > 0.999


def test_a_group_can_be_further_away_than_all_releases_together():
    # The third release holds nobody who is in the first two: all three together show nothing at all.
    releases = [([0], [[9, 1, 0]]), ([0], [[8, 0, 0]]), ([0], [[0, 0, 4]])]
    found = furthest_in_any_group(counted(releases), [0], [[1, 1, 1]], Fraction(1, 2))
    assert found.distances[0] == pytest.approx(2 / 3)
    assert found.above[0]
    assert gain_in_shares(counted(releases), [0], [[1, 1, 1]]).surest == 1.0


def test_exactly_what_is_allowed_is_allowed():
    releases = counted([([0], [[7, 3]])])  # 0.7 - 0.5 is more than 0.2 in floating point
    assert not furthest_in_any_group(releases, [0], [[1, 1]], Fraction(1, 5)).above[0]
    assert furthest_in_any_group(releases, [0], [[1, 1]], Fraction(1, 5) - Fraction(1, 10**15)).above[0]


def test_a_reference_without_a_weight_is_refused():
    with pytest.raises(ParameterError):
        furthest_in_any_group(counted([([0], [[1, 1]])]), [0], [[0, 0]], Fraction(1, 2))
