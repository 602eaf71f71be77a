from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import certificate as oracle

from elldelta.core.certificate import CertificateTerms, certify
from elldelta.core.closeness import ClosenessTerms
from elldelta.core.partition import Partition
from elldelta.core.several import JointTerms
from elldelta.core.several import certify as certify_all
from elldelta.errors import DistributionError, ParameterError


@st.composite
def plans(draw, most_classes=5, most_values=5):
    """Witnesses per base class, allowances, ell and t."""
    n_classes = draw(st.integers(1, most_classes))
    n_values = draw(st.integers(1, most_values))
    ell = draw(st.integers(1, n_values))
    releases = draw(st.integers(1, 4))
    witnesses = [
        draw(st.lists(st.integers(0, n_values - 1), unique=True, min_size=ell, max_size=n_values))
        for _ in range(n_classes)
    ]
    allowances = [draw(st.integers(0, (len(values) - ell) // releases)) for values in witnesses]
    return witnesses, n_values, ell, releases, allowances


@st.composite
def releases(draw, n_classes, n_values):
    """A table, a grouping of its classes, and published classes to leave out."""
    table = [[draw(st.integers(0, 3)) for _ in range(n_values)] for _ in range(n_classes)]
    group_of = draw(st.sampled_from(list(oracle.groupings(n_classes))))
    left_out = draw(st.sets(st.sampled_from(sorted(set(group_of)))))
    return table, group_of, left_out


@settings(deadline=None)
@given(st.data())
def test_the_verdict_is_the_definition(data):
    witnesses, n_values, ell, t, allowances = data.draw(plans())
    table, group_of, left_out = data.draw(releases(len(witnesses), n_values))
    r = data.draw(st.integers(1, 3))
    terms = CertificateTerms.from_lists(
        witnesses, n_values, ell=ell, releases=t, allowances=allowances, min_records=r
    )
    mask = [group in left_out for group in range(max(group_of) + 1)]
    certificate = certify(table, terms, Partition(group_of), mask)
    expected = oracle.missed(witnesses, table, group_of, left_out, r)
    assert [set(np.flatnonzero(row).tolist()) for row in certificate.missed] == expected
    assert certificate.n_missed.tolist() == [len(values) for values in expected]
    assert certificate.fails.tolist() == [
        len(values) > allowance for values, allowance in zip(expected, allowances, strict=True)
    ]
    assert certificate.is_certified == oracle.passes(witnesses, allowances, table, group_of, left_out, r)
    failing = {group_of[base] for base in np.flatnonzero(certificate.fails)}
    assert set(np.flatnonzero(certificate.failing_groups).tolist()) == failing
    assert certificate.n_records + certificate.n_suppressed == sum(map(sum, table))
    # What fails can always be left out.
    assert certify(table, terms, Partition(group_of), certificate.failing_groups | mask).is_certified


def test_a_class_without_a_record_asks_for_its_witnesses_once_it_is_merged():
    terms = CertificateTerms.from_lists([[0, 1], [2, 3]], 4, ell=2, releases=1)
    table = [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert certify(table, terms).is_certified
    merged = certify(table, terms, Partition.single(2))
    assert merged.fails.tolist() == [False, True]


def test_few_records_of_a_witness_do_not_count():
    table = [[3, 3, 1]]
    terms = CertificateTerms.from_lists([[0, 1, 2]], 3, ell=3, releases=1)
    assert certify(table, terms).is_certified
    strict = CertificateTerms.from_lists([[0, 1, 2]], 3, ell=3, releases=1, min_records=2)
    assert certify(table, strict).missed.tolist() == [[False, False, True]]


@settings(deadline=None)
@given(st.data())
def test_a_published_class_holds_k_records_or_none(data):
    """From the definition: add up what each published class shows."""
    witnesses, n_values, ell, t, allowances = data.draw(plans())
    table, group_of, left_out = data.draw(releases(len(witnesses), n_values))
    k = data.draw(st.integers(1, 12))
    mask = [group in left_out for group in range(max(group_of) + 1)]
    options = {"ell": ell, "releases": t, "allowances": allowances}
    terms = CertificateTerms.from_lists(witnesses, n_values, **options, k=k)
    certificate = certify(table, terms, Partition(group_of), mask)
    sizes = [sum(oracle.shown(table, group_of, left_out, group)) for group in group_of]
    assert certificate.too_small.tolist() == [0 < size < k for size in sizes]
    without = certify(
        table, CertificateTerms.from_lists(witnesses, n_values, **options), Partition(group_of), mask
    )
    assert certificate.fails.tolist() == (without.fails | certificate.too_small).tolist()
    small = [reason for reason in certificate.reasons if f"fewer than {k} records" in reason]
    assert small == (
        [f"{sum(0 < size < k for size in sizes)} hold fewer than {k} records"]
        if any(certificate.too_small)
        else []
    )


@settings(deadline=None)
@given(st.data())
def test_witnesses_alone_make_sure_of_ell_times_their_records(data):
    witnesses, n_values, ell, t, allowances = data.draw(plans())
    table, group_of, left_out = data.draw(releases(len(witnesses), n_values))
    r = data.draw(st.integers(1, 3))
    terms = CertificateTerms.from_lists(
        witnesses, n_values, ell=ell, releases=t, allowances=allowances, min_records=r, k=ell * r
    )
    mask = [group in left_out for group in range(max(group_of) + 1)]
    certificate = certify(table, terms, Partition(group_of), mask)
    assert not (certificate.too_small & ~certificate.misses_too_many).any()


def test_a_class_of_one_record_is_refused_where_only_closeness_is_promised():
    near = ClosenessTerms(np.array([[9, 1], [9, 1]]), Fraction(1, 5))
    table = [[90, 10], [1, 0]]  # one negative person, within 0.1 of the reference

    def terms(k):
        return CertificateTerms(np.zeros((2, 2), bool), np.zeros(2), 1, 1, closeness=near, k=k)

    assert certify(table, terms(1)).is_certified
    refused = certify(table, terms(10))
    assert refused.too_small.tolist() == [False, True]
    assert refused.fails.tolist() == [False, True]
    assert "a class of fewer than 10 records" in refused.broken_promise
    assert refused.reasons == ("1 hold fewer than 10 records",)
    with pytest.raises(ParameterError, match="fewest records of a class, k, must be"):
        terms(0)


def test_columns_of_one_plan_have_one_k():
    one = CertificateTerms.from_lists([[0, 1]], 2, ell=1, releases=1, k=5)
    with pytest.raises(ParameterError, match="and k"):
        JointTerms((one, CertificateTerms.from_lists([[0, 1]], 2, ell=1, releases=1)))
    both = JointTerms((one, one))
    assert both.k == 5
    verdict = certify_all([[2, 2, 1, 3]], both)
    assert verdict.too_small.tolist() == [True]
    assert verdict.reasons == ("1 hold fewer than 5 records",)
    assert certify_all([[2, 3, 1, 4]], both).is_certified


def test_terms_of_a_planner():
    terms = CertificateTerms.from_lists([[2, 0, 1, 3], [3, 2]], 4, ell=2, releases=2)
    assert terms.membership.tolist() == [[True] * 4, [False, False, True, True]]
    assert terms.allowances.tolist() == [1, 0]
    assert terms.n_witnesses.tolist() == [4, 2]
    assert not CertificateTerms.from_lists([[0, 1]], 2, ell=2, releases=10**30).allowances.any()


@pytest.mark.parametrize("allowances", [[2], [-1]])
def test_allowances_that_leave_fewer_than_ell_are_refused(allowances):
    with pytest.raises(ParameterError, match="t b_c <= a_c - ell"):
        CertificateTerms.from_lists([[0, 1, 2, 3]], 4, ell=2, releases=2, allowances=allowances)


def test_terms_that_make_no_sense():
    with pytest.raises(ParameterError, match="ell"):
        CertificateTerms.from_lists([[0]], 1, ell=2, releases=1)
    with pytest.raises(ParameterError, match="t b_c"):
        CertificateTerms.from_lists([[0, 1], [0]], 2, ell=2, releases=1)
    with pytest.raises(ParameterError, match="positions"):
        CertificateTerms.from_lists([[0, 2]], 2, ell=1, releases=1)
    with pytest.raises(ParameterError, match="records of a witness"):
        CertificateTerms.from_lists([[0, 1]], 2, ell=1, releases=1, min_records=0)
    with pytest.raises(ParameterError, match="every base class"):
        CertificateTerms(np.ones((2, 3), bool), np.zeros(3), 1, 1)


def test_tables_that_do_not_fit():
    terms = CertificateTerms.from_lists([[0, 1], [0, 1]], 2, ell=1, releases=1)
    with pytest.raises(ParameterError, match="2 base classes"):
        certify([[1, 1]], terms)
    with pytest.raises(ParameterError, match="2 base classes"):
        certify([[1, 1], [1, 1]], terms, Partition.single(3))
    with pytest.raises(ParameterError, match="published classes"):
        certify([[1, 1], [1, 1]], terms, suppressed=[True])
    with pytest.raises(DistributionError):
        certify([[1, -1], [1, 1]], terms)


def test_everything_is_frozen():
    terms = CertificateTerms.from_lists([[0, 1]], 2, ell=1, releases=1)
    certificate = certify([[1, 1]], terms)
    arrays = (terms.membership, terms.allowances, certificate.missed, certificate.fails, certificate.counts)
    for array in (*arrays, certificate.suppressed, certificate.published, certificate.n_missed):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_verdict_says_how_much_fails():
    terms = CertificateTerms.from_lists([[0, 1, 2], [0, 1, 2]], 3, ell=3, releases=1)
    certificate = certify([[1, 1, 1], [4, 0, 0]], terms)
    assert certificate.reasons == ("1 miss more witness values than they may, by up to 2",)
    assert certificate.broken_promise == "show fewer than 3 values"
    good = certify([[1, 1, 1], [0, 0, 0]], terms)
    assert good.is_certified
    assert good.reasons == ()


def test_differencing_is_beyond_a_certificate():
    """The example of the guide: two certified releases of the same people whose difference is one person."""
    table = np.array([[2, 1, 1, 0], [1, 0, 0, 0], [0, 2, 1, 1]])
    terms = CertificateTerms.from_lists([[0, 1, 2], [0, 1, 2], [1, 2, 3]], 4, ell=3, releases=2)
    spring = certify(table, terms, Partition([0, 0, 1]))
    autumn = certify(table, terms, Partition([0, 1, 1]))
    assert spring.is_certified
    assert autumn.is_certified
    assert (spring.counts[0] - autumn.counts[0]).tolist() == [1, 0, 0, 0]
