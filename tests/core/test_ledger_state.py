from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_promises import plans, releases, shown_of
from tests.oracles import certificate as oracle

from elldelta.core.certificate import certify
from elldelta.core.closeness import linked_excess
from elldelta.core.ledger_state import LedgerState, LinkedValues, Missed
from elldelta.core.promises import Close, Shown, Values
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


def test_a_refusal_changes_nothing_and_says_which_promise_and_no_more():
    promise = Values.of([[0, 1, 2]] * 3, 3, ell=2, releases=1, column="disease")
    state = LedgerState.empty([promise]).admit(missing([1, 0, 0], [0, 0, 0], [0, 0, 0]))
    again = missing([0, 1, 0], [1, 1, 0], [1, 0, 0])
    with pytest.raises(RefusedError, match="would break what the plan promises") as refusal:
        state.admit(again)
    assert refusal.value.found == "Too few of the values of 'disease' that the plan counts on."
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


def most_lost(promise, tables):
    """By the definition: the most witnesses that somebody loses, wherever a person is in each release."""
    ranges = range(len(promise.witnesses)) if promise.ranges is None else promise.ranges
    missed = [promise.missed(Shown.of(table)) for table in tables]
    most = []
    for number in set(ranges):
        classes = [base for base, other in enumerate(ranges) if other == number]
        paths = (
            product(classes, repeat=len(tables)) if promise.ranges is not None else [classes * len(tables)]
        )
        most += [
            int(np.any([one[c] for one, c in zip(missed, path, strict=True)], axis=0).sum()) for path in paths
        ]
    return max(most)


@pytest.mark.parametrize("kind", ["values", "people move", "closeness"])
def test_whatever_is_admitted_beside_unseen_releases_keeps_the_promise(kind):
    """Releases are certified and admitted by what is public; what is hidden may come out at any time."""
    rng, n_admitted, n_refused, n_late = np.random.default_rng(7), 0, 0, 0
    for _ in range(60):
        ell, t, n_values = int(rng.integers(1, 3)), int(rng.integers(1, 4)), 6
        ranges = np.zeros(2, np.int64) if kind == "people move" else None
        promise = (
            Close(np.full((2, n_values), 10), Fraction(2, 5), releases=t)
            if kind == "closeness"
            else Values.of([range(n_values)] * 2, n_values, ell=ell, releases=t, ranges=ranges)
        )
        tables, is_hidden = [], []
        for _ in range(6):
            table = rng.integers(1, 5, size=(2, n_values)) * (rng.random((2, n_values)) < 0.8)
            table[:, -1] = 1
            shown = Shown.of(table)
            if not certify([promise], shown).is_certified:
                continue
            state = LedgerState.empty([promise])
            for one, hidden in zip(tables, is_hidden, strict=True):
                state = (
                    state
                    if hidden
                    else replace(state, linked=tuple(each.after(Shown.of(one)) for each in state.linked))
                )
            state = state.beside_unseen(sum(is_hidden)) if any(is_hidden) else state
            fits = certify(state.left(), shown).is_certified
            assert not fits or state.admits(shown)  # what is left suffices
            if not state.admits(shown):
                n_refused += 1
                assert len(tables) >= t  # certificates promise that the first t are admitted
                continue
            tables.append(table)
            is_hidden = [hidden and rng.random() < 0.7 for hidden in is_hidden] + [rng.random() < 0.6]
            n_admitted, n_late = n_admitted + 1, n_late + (len(tables) > t)
            if kind == "closeness":
                for base in range(2):
                    rows = [one[base].tolist() for one in tables]
                    assert linked_excess([10] * n_values, rows) <= promise.limit
            else:
                assert most_lost(promise, tables) <= n_values - ell
    assert min(n_admitted, n_refused) > 10
    assert n_late > 1


def test_an_update_that_nobody_sees_leaves_room_for_nothing_new():
    promise = Values.of([range(6)], 6, ell=2, releases=2)
    state = LedgerState.empty([promise]).admit(missing([1, 0, 0, 0, 0, 0]))
    for beside, fits in ((state, True), (state.beside_unseen(1), True), (state.beside_unseen(2), False)):
        assert beside.admits(missing([1, 1, 0, 0, 0, 0])) == fits
        assert beside.admits(missing([1, 0, 0, 0, 0, 0]))
    blocked = state.beside_unseen(1, with_updates=True)
    assert not blocked.admits(missing([1, 1, 0, 0, 0, 0]))
    assert blocked.admits(missing([1, 0, 0, 0, 0, 0]))
    with pytest.raises(RefusedError) as refusal:
        blocked.admit(missing([1, 1, 0, 0, 0, 0]))
    assert "1 release is not published yet" in refusal.value.found
