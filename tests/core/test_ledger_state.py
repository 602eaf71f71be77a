from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_certificate import plans, releases
from tests.oracles import certificate as oracle

from elldelta.core.certificate import CertificateTerms, certify
from elldelta.core.ledger_state import LedgerState
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError, RefusedError


@settings(deadline=None)
@given(st.data())
def test_every_subset_of_what_is_admitted_links_to_ell(data):
    witnesses, n_values, ell, _, _ = data.draw(plans(most_classes=3, most_values=4))
    r = data.draw(st.integers(1, 2))
    terms = CertificateTerms.from_lists(witnesses, n_values, ell=ell, releases=1, min_records=r)
    state = LedgerState.empty(terms)
    admitted, union = [], [set() for _ in witnesses]
    for release in data.draw(st.lists(releases(len(witnesses), n_values), max_size=4)):
        table, group_of, left_out = release
        mask = [group in left_out for group in range(max(group_of) + 1)]
        certificate = certify(table, terms, Partition(group_of), mask)
        both = [a | b for a, b in zip(union, oracle.missed(witnesses, *release, r), strict=True)]
        holds = all(len(set(a) - b) >= ell for a, b in zip(witnesses, both, strict=True))
        assert state.admits(certificate.missed) == holds
        # The same question, asked as a certificate.
        assert certify(table, state.terms_left(), Partition(group_of), mask).is_certified == holds
        if not holds:
            with pytest.raises(RefusedError):
                state.admit(certificate.missed)
            continue
        state, union = state.admit(certificate.missed), both
        admitted.append(release)
        assert state.room.tolist() == [len(set(a) - b) - ell for a, b in zip(witnesses, union, strict=True)]
    assert state.n_releases == len(admitted)
    subsets = chain.from_iterable(combinations(admitted, size) for size in range(1, len(admitted) + 1))
    for subset in subsets:
        for base in range(len(witnesses)):
            left = oracle.linked(subset, base, r)
            assert left is None or len(left) >= ell


def test_a_refusal_changes_nothing_and_counts_the_classes():
    terms = CertificateTerms.from_lists([[0, 1, 2], [0, 1, 2], [0, 1, 2]], 3, ell=2, releases=1)
    state = LedgerState.empty(terms).admit([[True, False, False], [False] * 3, [False] * 3])
    misses = np.array([[False, True, False], [True, True, False], [True, False, False]])
    with pytest.raises(RefusedError, match="fewer than 2") as refusal:
        state.admit(misses)
    assert "2 of 3 base classes" in refusal.value.found
    assert "1 admitted" in refusal.value.found
    assert state.shortfall(misses).tolist() == [1, 1, 0]
    assert state.room.tolist() == [0, 1, 1]
    assert state.n_releases == 1


def test_order_does_not_matter_for_what_is_left():
    rng = np.random.default_rng(0)
    terms = CertificateTerms(np.ones((4, 12), bool), np.zeros(4), 2, 1)
    misses = [rng.random((4, 12)) < 0.1 for _ in range(5)]
    forwards = backwards = LedgerState.empty(terms)
    for own in misses:
        forwards = forwards.admit(own)
    for own in reversed(misses):
        backwards = backwards.admit(own)
    assert np.array_equal(forwards.missed, backwards.missed)


def test_misses_that_cannot_be():
    terms = CertificateTerms.from_lists([[0, 1]], 3, ell=1, releases=1)
    state = LedgerState.empty(terms)
    with pytest.raises(ParameterError, match="Only witnesses"):
        state.admit([[False, False, True]])
    with pytest.raises(ParameterError, match="1 base classes"):
        state.admit([[False, False]])
    with pytest.raises(ParameterError, match="leave ell"):
        LedgerState(terms, [[True, True, False]])
    with pytest.raises(ValueError, match="read-only"):
        state.missed[0, 0] = True
