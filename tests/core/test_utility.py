from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core.utility import information_loss, spans_of_hulls

RANGES = ((0, 2), (1, 4), (0, 0))
LOWS = np.array([[0, 0, 0], [1, 1, 0], [0, 4, 0]])
HIGHS = np.array([[0, 3, 0], [2, 5, 0], [0, 5, 0]])


def test_by_hand():
    """Classes of 6, 3 and no records; lengths 0 and 1 of 2, 2 and 3 of 3, and a column of one value."""
    spans = spans_of_hulls(LOWS, HIGHS, RANGES)
    assert spans == pytest.approx(np.array([[0, 2 / 3, 0], [1 / 2, 1, 0], [0, 0, 0]]))
    records = np.array([6, 3, 0])
    found = (6 * (2 / 3) + 3 * (3 / 2)) / 3 / 9
    assert information_loss(records, spans) == pytest.approx(found)
    assert information_loss(records, spans, 3) == pytest.approx((9 * found + 3) / 12)


def test_the_ends_of_the_scale():
    ones = np.array([4, 5, 6])
    assert information_loss(ones, spans_of_hulls(LOWS, LOWS, RANGES)) == 0.0
    assert information_loss(np.zeros(3, dtype=int), spans_of_hulls(LOWS, HIGHS, RANGES)) is None
    assert information_loss(np.zeros(3, dtype=int), spans_of_hulls(LOWS, HIGHS, RANGES), 2) == 1.0
    whole = spans_of_hulls(np.array([[0, 0]]), np.array([[9, 9]]), ((2, 5), (0, 9)))
    assert information_loss(np.array([7]), whole) == 1.0


classes = st.lists(
    st.tuples(st.integers(0, 5), st.tuples(*[st.tuples(st.integers(0, 6), st.integers(0, 6))] * 2)),
    min_size=1,
)


@given(classes, st.tuples(*[st.tuples(st.integers(0, 6), st.integers(0, 6))] * 2), st.integers(0, 4))
def test_record_by_record_in_fractions(found, ranges, n_left_out):
    """The definition: a record pays for the values of the range that its label does not tell from its own."""
    ranges = tuple(tuple(sorted(each)) for each in ranges)
    paid = [Fraction(1)] * n_left_out
    for n_records, hull in found:
        shares = []
        for ends, (first, last) in zip(hull, ranges, strict=True):
            shown = [place for place in range(first, last + 1) if min(ends) <= place <= max(ends)]
            shares.append(Fraction(max(0, len(shown) - 1), max(1, last - first)))
        paid += [sum(shares, Fraction(0)) / 2] * n_records
    lows, highs = (np.array([[pick(ends) for ends in hull] for _, hull in found]) for pick in (min, max))
    loss = information_loss(np.array([n for n, _ in found]), spans_of_hulls(lows, highs, ranges), n_left_out)
    assert loss == (pytest.approx(float(sum(paid) / len(paid))) if paid else None)
