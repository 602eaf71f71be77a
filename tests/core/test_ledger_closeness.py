"""What a ledger keeps for closeness: it admits exactly while E <= T, and every subset then stays within T."""

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_closeness import populations, shown
from tests.oracles import certificate as tables
from tests.oracles import closeness as oracle

from elldelta.core.certificate import certify
from elldelta.core.closeness import SmallestShares
from elldelta.core.ledger_state import LedgerState
from elldelta.core.promises import Close, Shown, Values
from elldelta.errors import ParameterError, RefusedError


def excess(reference, rows):
    """E of Theorem G in fractions, from the rows of the releases that show somebody."""
    pi, shares = oracle.shares(reference), [oracle.shares(row) for row in rows if sum(row)]
    return sum((max([Fraction(0), *(pi[s] - f[s] for f in shares)]) for s in range(len(pi))), Fraction(0))


@settings(deadline=None)
@given(
    populations(most_releases=5),
    st.sampled_from([Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4)]),
)
def test_it_admits_exactly_while_the_excess_is_within_the_limit(population, limit):
    references, releases = population
    state, admitted = LedgerState.empty([Close(np.array(references), limit, 2)]), []
    for release in releases:
        rows = [
            [tables.shown(t, of, (), of[base]) for t, of, _ in [*admitted, release]]
            for base in range(len(references))
        ]
        holds = all(excess(own, row) <= limit for own, row in zip(references, rows, strict=True))
        assert state.admits(shown(release)) == holds
        # The same question, asked as a certificate: what a class that moves up is given.
        assert certify(state.left(), shown(release)).is_certified == holds
        if not holds:
            with pytest.raises(RefusedError, match="away from the reference"):
                state.admit(shown(release))
            continue
        state = state.admit(shown(release))
        admitted.append(release)
    assert state.n_releases == len(admitted)
    for subset in chain.from_iterable(combinations(admitted, n) for n in range(1, len(admitted) + 1)):
        for base, reference in enumerate(references):
            linked = oracle.linked_counts(subset, base)
            if linked is not None:
                assert sum(linked) > 0
                assert oracle.furthest_set(oracle.shares(linked), oracle.shares(reference)) <= limit


def test_many_more_releases_than_certificates_promise_are_admitted():
    rng = np.random.default_rng(0)
    reference = np.array([[30, 25, 20, 15, 10], [10, 20, 30, 20, 20]])
    promise = Close(reference, Fraction(2, 5), 2)
    state = LedgerState.empty([promise])
    for _ in range(20):
        counts = np.stack([rng.multinomial(400, row / row.sum()) for row in reference])
        state = state.admit(Shown.of(counts))
    assert state.n_releases == 20 > promise.releases
    # A twenty-first that is far off is refused, although a certificate of its own would let it pass.
    far = np.array([[300 - 45, 250, 200 + 45, 150, 100], [100, 200, 300, 200, 200]])
    assert certify([promise], Shown.of(far)).is_certified
    assert [one.allowed for one in LedgerState.empty([promise]).left()] == [Fraction(2, 5)]


def test_both_promises_are_asked_for():
    values = Values.of([[0, 1, 2]], 3, ell=2, releases=1)
    state = LedgerState.empty([values, Close(np.array([[1, 1, 1]]), Fraction(1, 2))])
    assert state.admits(Shown.of([[5, 5, 5]]))
    assert not state.admits(Shown.of([[18, 1, 1]]))  # three values, and 0.57 from the reference
    state = state.admit(Shown.of([[5, 5, 0]]))
    with pytest.raises(RefusedError, match="Too few of the values"):
        state.admit(Shown.of([[5, 0, 5]]))


def test_a_ledger_that_is_too_far_away_is_refused():
    too_far = SmallestShares(np.array([[0, 1]]), np.array([[9, 1]]))
    with pytest.raises(ParameterError, match="close"):
        LedgerState.of([Close(np.array([[1, 1]]), Fraction(1, 4))], [], [too_far], 1)
