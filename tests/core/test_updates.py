"""Theorem I against its definition, and the counterexample without the stayers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import updates as oracle

from elldelta.core.ledger_state import LedgerState
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown, Values
from elldelta.core.updates import Groups, Series, Update
from elldelta.errors import RefusedError

N_VALUES = 9
values = st.frozensets(st.integers(0, N_VALUES - 1), max_size=3)
owners = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.tuples(values, values, values), min_size=1, max_size=3)
)


def mask(*sets):
    table = np.zeros((len(sets), N_VALUES), dtype=bool)
    for row, members in enumerate(sets):
        table[row, list(members)] = True
    return table


@settings(max_examples=200)
@given(owners, st.lists(values, max_size=3))
def test_the_worst_history_is_found(updates, whole):
    series = Series({owner: [Update(*map(mask, groups)) for groups in own] for owner, own in updates.items()})
    missed = mask(frozenset().union(*whole))
    fewest = oracle.fewest_left(set(range(N_VALUES)), whole, updates)
    assert N_VALUES - series.most_missed(missed).tolist()[0] == fewest


def test_somebody_who_stays_alone_is_seen():
    """Old 1, 2, 3, 4; 1, 2, 3 leave and 1, 2, 3 join: the one who stayed has 4."""
    promise = Values.of([range(4)], 4, ell=3, releases=1)
    group = Groups(*(np.array([row]) for row in ([1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1])))
    update = group.missed([promise], Partition.single(1))
    assert update.joiners.tolist() == update.leavers.tolist() == [[False, False, False, True]]
    nothing = np.zeros((1, 4), dtype=bool)
    assert Series({"a": [update]}).most_missed(nothing).tolist() == [4]
    without = Update(update.joiners, update.leavers, nothing)
    assert Series({"a": [without]}).most_missed(nothing).tolist() == [1]
    with pytest.raises(RefusedError):
        LedgerState.empty([promise]).with_update("a", update)


def test_classes_without_a_change_miss_nothing():
    promise = Values.of([range(3), range(3)], 3, ell=1, releases=1)
    group = Groups(np.array([[0, 0, 0], [1, 0, 0]]), np.zeros((2, 3), int), np.array([[1, 0, 0], [0, 1, 1]]))
    update = group.missed([promise], Partition(np.arange(2)))
    assert group.changes.tolist() == [False, True]
    assert update.stayers.tolist() == [[False] * 3, [True, False, False]]
    assert not update.leavers.any()


def test_a_release_of_another_owner_must_leave_enough_for_those_who_came_and_went():
    promise = Values.of([range(5)], 5, ell=3, releases=1)
    misses = np.array([[True, False, False, False, False]])
    none = np.zeros((1, 5), dtype=bool)
    state = LedgerState.empty([promise]).with_update("a", Update(misses, np.roll(misses, 1), none))
    assert state.rooms[0].tolist() == [1]  # joined in one update, and left in a later one that is yet to come
    later = state.with_update("a", Update(none, np.roll(misses, 1), none))
    assert later.rooms[0].tolist() == [0]
    first, third = (Shown.of(np.where(np.roll(misses, by), 0, 1)) for by in (0, 2))
    assert later.admits(first)
    assert not later.admits(third)
    assert LedgerState.empty([promise]).admits(third)
    assert later.left()[0].allowances.tolist() == [0]
