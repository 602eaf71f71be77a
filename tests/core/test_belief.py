"""The worst group of releases for a belief, against every group and every set of values in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import belief as oracle

from elldelta.core.belief import furthest_in_any_group, largest_share_in_any_group
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
def test_the_surest_guess_is_that_of_the_worst_group(case):
    releases, _, reference_of, _ = case
    truth = max(oracle.largest_share(releases, cell) for cell in range(len(reference_of)))
    assert (largest_share_in_any_group(counted(releases)) or 0.0) == pytest.approx(float(truth), abs=1e-12)


def test_a_group_can_be_further_away_than_all_releases_together():
    # The third release holds nobody who is in the first two: all three together show nothing at all.
    releases = [([0], [[9, 1, 0]]), ([0], [[8, 0, 0]]), ([0], [[0, 0, 4]])]
    found = furthest_in_any_group(counted(releases), [0], [[1, 1, 1]], Fraction(1, 2))
    assert found.distances[0] == pytest.approx(2 / 3)
    assert found.above[0]
    assert largest_share_in_any_group(counted(releases)) == 1.0


def test_exactly_what_is_allowed_is_allowed():
    releases = counted([([0], [[7, 3]])])  # 0.7 - 0.5 is more than 0.2 in floating point
    assert not furthest_in_any_group(releases, [0], [[1, 1]], Fraction(1, 5)).above[0]
    assert furthest_in_any_group(releases, [0], [[1, 1]], Fraction(1, 5) - Fraction(1, 10**15)).above[0]


def test_a_reference_without_a_weight_is_refused():
    with pytest.raises(ParameterError):
        furthest_in_any_group(counted([([0], [[1, 1]])]), [0], [[0, 0]], Fraction(1, 2))
