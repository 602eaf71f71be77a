from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_promises import plans, releases, shown_of
from tests.oracles import certificate as oracle

from elldelta.core.ledger_state import LedgerState, LinkedValues, Missed
from elldelta.core.promises import Shown, Values, certify
from elldelta.core.updates import missed_witnesses
from elldelta.errors import ParameterError, RefusedError


@settings(deadline=None)
@given(st.data())
def test_every_subset_of_what_is_admitted_links_to_ell(data):
    witnesses, n_values, ell, _, _ = data.draw(plans(most_classes=3, most_values=4))
    r = data.draw(st.integers(1, 2))
    promise = Values.of(witnesses, n_values, ell=ell, releases=1, min_records=r)
    state = LedgerState.empty([promise])
    admitted, union = [], [set() for _ in witnesses]
    for release in data.draw(st.lists(releases(len(witnesses), n_values), max_size=4)):
        shown = shown_of(*release)
        both = [a | b for a, b in zip(union, oracle.missed(witnesses, *release, r), strict=True)]
        holds = all(len(set(a) - b) >= ell for a, b in zip(witnesses, both, strict=True))
        assert state.admits(shown) == holds
        # The same question, asked as a certificate.
        assert certify(state.left(), shown).is_certified == holds
        if not holds:
            with pytest.raises(RefusedError):
                state.admit(shown)
            continue
        state, union = state.admit(shown), both
        admitted.append(release)
        assert state.rooms[0].tolist() == [
            len(set(a) - b) - ell for a, b in zip(witnesses, union, strict=True)
        ]
    assert state.n_releases == len(admitted)
    subsets = chain.from_iterable(combinations(admitted, size) for size in range(1, len(admitted) + 1))
    for subset in subsets:
        for base in range(len(witnesses)):
            left = oracle.linked(subset, base, r)
            assert left is None or len(left) >= ell


def missing(*rows):
    """What a release shows that misses exactly these of all values."""
    return Shown.of(np.where(np.array(rows), 0, 1))


def test_a_refusal_changes_nothing_and_counts_the_classes():
    promise = Values.of([[0, 1, 2]] * 3, 3, ell=2, releases=1, column="disease")
    state = LedgerState.empty([promise]).admit(missing([1, 0, 0], [0, 0, 0], [0, 0, 0]))
    again = missing([0, 1, 0], [1, 1, 0], [1, 0, 0])
    with pytest.raises(RefusedError, match="would break what the plan promises") as refusal:
        state.admit(again)
    assert (
        "2 of 3 classes miss too many of the values of 'disease' that the plan counts on."
        in refusal.value.found
    )
    assert "holds 1 release." in refusal.value.found
    assert state.violations(again)[0].tolist() == [1, 1, 0]
    assert state.rooms[0].tolist() == [0, 1, 1]
    assert state.n_releases == 1


def test_order_does_not_matter_for_what_is_left():
    rng = np.random.default_rng(0)
    promise = Values(np.ones((4, 12), bool), np.zeros(4), 2)
    releases = [missing(*(rng.random((4, 12)) < 0.1)) for _ in range(5)]
    forwards = backwards = LedgerState.empty([promise])
    for shown in releases:
        forwards = forwards.admit(shown)
    for shown in reversed(releases):
        backwards = backwards.admit(shown)
    assert np.array_equal(forwards.linked[0].missed.union, backwards.linked[0].missed.union)


def test_misses_that_cannot_be():
    promise = Values.of([[0, 1]], 3, ell=1, releases=1)
    with pytest.raises(ParameterError, match="Only witnesses"):
        LinkedValues(promise, Missed(np.array([[False, False, True]])))
    with pytest.raises(ParameterError, match="1 base class"):
        LinkedValues(promise, Missed(np.array([[False, False]])))
    with pytest.raises(ParameterError, match="leave ell"):
        LedgerState.of([promise], [Missed(np.array([[True, True, False]]))], [])
    with pytest.raises(ValueError, match="read-only"):
        Missed.nothing((1, 3)).union[0, 0] = True
    assert missed_witnesses([promise], Shown.of([[1, 0, 0]])).tolist() == [[False, True, False]]
