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

from elldelta.core.certificate import CertificateTerms, certify
from elldelta.core.closeness import ClosenessTerms, SmallestShares
from elldelta.core.ledger_state import LedgerState
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError, RefusedError


def excess(reference, rows):
    """E of Theorem G in fractions, from the rows of the releases that show somebody."""
    pi, shares = oracle.shares(reference), [oracle.shares(row) for row in rows if sum(row)]
    return sum((max([Fraction(0), *(pi[s] - f[s] for f in shares)]) for s in range(len(pi))), Fraction(0))


def terms_for(references, limit, releases, ell=1, witnesses=None):
    values = len(references[0])
    closeness = ClosenessTerms(np.array(references), limit / releases)
    chosen = [[] for _ in references] if witnesses is None else witnesses
    return CertificateTerms.from_lists(chosen, values, ell=ell, releases=releases, closeness=closeness)


@settings(deadline=None)
@given(
    populations(most_releases=5),
    st.sampled_from([Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4)]),
)
def test_it_admits_exactly_while_the_excess_is_within_the_limit(population, limit):
    references, releases = population
    terms = terms_for(references, limit, 2)
    state, admitted = LedgerState.empty(terms), []
    nothing = np.zeros(terms.membership.shape, dtype=bool)
    for release in releases:
        table, group_of, _ = release
        rows = [
            [tables.shown(t, of, (), of[base]) for t, of, _ in [*admitted, release]]
            for base in range(len(references))
        ]
        holds = all(excess(own, row) <= limit for own, row in zip(references, rows, strict=True))
        assert state.admits(nothing, shown(release)) == holds
        # The same question, asked as a certificate: what a class that moves up is given.
        assert certify(table, state.terms_left(), Partition(group_of)).is_certified == holds
        if not holds:
            with pytest.raises(RefusedError, match="further away"):
                state.admit(nothing, shown(release))
            continue
        state = state.admit(nothing, shown(release))
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
    terms = terms_for(reference, Fraction(2, 5), 2)
    state, nothing = LedgerState.empty(terms), np.zeros((2, 5), dtype=bool)
    for _ in range(20):
        counts = np.stack([rng.multinomial(400, row / row.sum()) for row in reference])
        state = state.admit(nothing, (counts, Partition([0, 1])))
    assert state.n_releases == 20 > terms.releases
    # A twenty-first that is far off is refused, although a certificate of its own would let it pass.
    far = np.array([[300 - 45, 250, 200 + 45, 150, 100], [100, 200, 300, 200, 200]])
    assert certify(far, terms).is_certified
    closer = LedgerState.empty(terms).closeness_left
    assert closer is not None
    assert closer.limit == Fraction(2, 5)


def test_both_promises_are_asked_for():
    reference = [[1, 1, 1]]
    terms = terms_for(reference, Fraction(1, 2), 1, ell=2, witnesses=[[0, 1, 2]])
    state, alone = LedgerState.empty(terms), Partition([0])
    even = (np.array([[5, 5, 5]]), alone)
    skewed = (np.array([[18, 1, 1]]), alone)  # three values, and 0.57 from the reference
    few = (np.array([[5, 5, 0]]), alone)
    assert state.admits([[False] * 3], even)
    assert not state.admits([[False] * 3], skewed)
    state = state.admit([[False, False, True]], few)
    with pytest.raises(RefusedError, match="fewer than 2"):
        state.admit([[False, True, False]], (np.array([[5, 0, 5]]), alone))


def test_a_ledger_for_closeness_must_know_what_a_release_shows():
    terms = terms_for([[1, 1]], Fraction(1, 4), 1)
    with pytest.raises(ParameterError, match="must know"):
        LedgerState.empty(terms).admit([[False, False]])
    too_far = SmallestShares(np.array([[0, 1]]), np.array([[9, 1]]))
    with pytest.raises(ParameterError, match="close"):
        LedgerState(terms, np.zeros((1, 2), dtype=bool), 1, smallest=too_far)
