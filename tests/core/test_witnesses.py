"""Witnesses as flat arrays: what is said of every class is what lists say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core.distribution import JointDistribution
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError

LISTS = st.lists(st.lists(st.integers(0, 8), max_size=5), min_size=1, max_size=7)


@given(LISTS, st.data())
def test_flat_arrays_say_what_lists_say(lists, data):
    witnesses = Witnesses.of(lists)
    assert [own.tolist() for own in witnesses] == lists
    assert witnesses.repeat_any() == any(len(set(own)) < len(own) for own in lists)
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=9))
    some = witnesses.at(np.array(chosen, dtype=np.int64))
    assert [own.tolist() for own in some] == [lists[number] for number in chosen]
    assert witnesses.sums(witnesses.values + 1).tolist() == [sum(own) + len(own) for own in lists]
    order = witnesses.most_probable_first(witnesses.values % 3)
    falling = [sorted(own, key=lambda value: (-(value % 3), value)) for own in lists]
    assert witnesses.values[order].tolist() == [value for own in falling for value in own]
    table = np.arange(1, 9 * len(lists) + 1).reshape(-1, 9)
    cells = witnesses.cells(JointDistribution.from_counts(table))
    assert cells.tolist() == [table[row, value] for row, own in enumerate(lists) for value in own]
    shown = np.zeros_like(table)
    for row, own in enumerate(lists):
        shown[row, own] = table[row, own]
    assert (witnesses.table(9, cells) == shown).all()


@pytest.mark.parametrize(
    ("counts", "values"),
    [([1, 1], [0]), ([-1, 2], [0]), ([2**62] * 4, []), ([1], [-1]), ([1], [2**32]), ([[1]], [0])],
    ids=str,
)
def test_arrays_that_contradict_each_other_are_refused(counts, values):
    with pytest.raises(ParameterError):
        Witnesses(np.array(counts), np.array(values, dtype=np.int64))
