from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import certificate as oracle

from elldelta.core.certificate import certify
from elldelta.core.partition import Partition
from elldelta.core.promises import Close, Shown, Size, Values
from elldelta.errors import DistributionError, ParameterError, counted


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


def shown_of(table, group_of, left_out):
    return Shown.of(table, Partition(group_of), [group in left_out for group in range(max(group_of) + 1)])


@settings(deadline=None)
@given(st.data())
def test_the_verdict_is_the_definition(data):
    witnesses, n_values, ell, t, allowances = data.draw(plans())
    table, group_of, left_out = data.draw(releases(len(witnesses), n_values))
    r = data.draw(st.integers(1, 3))
    promise = Values.of(witnesses, n_values, ell=ell, releases=t, allowances=allowances, min_records=r)
    shown = shown_of(table, group_of, left_out)
    certificate = certify([promise], shown)
    expected = oracle.missed(witnesses, table, group_of, left_out, r)
    assert [set(np.flatnonzero(row).tolist()) for row in promise.missed(shown)] == expected
    assert certificate.violations[0].tolist() == [
        max(0, len(values) - allowance) for values, allowance in zip(expected, allowances, strict=True)
    ]
    assert certificate.is_certified == oracle.passes(witnesses, allowances, table, group_of, left_out, r)
    failing = {group_of[base] for base in np.flatnonzero(certificate.fails)}
    assert set(np.flatnonzero(certificate.failing_groups).tolist()) == failing
    is_shown = [group not in left_out for group in group_of]
    assert shown.counts.sum() == sum(sum(row) for row, own in zip(table, is_shown, strict=True) if own)
    # What fails can always be left out.
    without = Shown.of(table, Partition(group_of), certificate.failing_groups | shown.left_out)
    assert certify([promise], without).is_certified


def test_a_class_without_a_record_asks_for_its_witnesses_once_it_is_merged():
    promise = Values.of([[0, 1], [2, 3]], 4, ell=2, releases=1)
    table = [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert certify([promise], Shown.of(table)).is_certified
    merged = certify([promise], Shown.of(table, Partition.single(2)))
    assert merged.fails.tolist() == [False, True]


def test_few_records_of_a_witness_do_not_count():
    shown = Shown.of([[3, 3, 1]])
    promise = Values.of([[0, 1, 2]], 3, ell=3, releases=1)
    assert certify([promise], shown).is_certified
    strict = Values.of([[0, 1, 2]], 3, ell=3, releases=1, min_records=2)
    assert strict.missed(shown).tolist() == [[False, False, True]]


@settings(deadline=None)
@given(st.data())
def test_a_published_class_holds_k_records_or_none(data):
    """From the definition: add up what each published class shows."""
    witnesses, n_values, ell, t, allowances = data.draw(plans())
    table, group_of, left_out = data.draw(releases(len(witnesses), n_values))
    k = data.draw(st.integers(1, 12))
    values = Values.of(witnesses, n_values, ell=ell, releases=t, allowances=allowances)
    shown = shown_of(table, group_of, left_out)
    certificate = certify([values, Size(k, slice(0, n_values))], shown)
    sizes = [sum(oracle.shown(table, group_of, left_out, group)) for group in group_of]
    is_small = [0 < size < k for size in sizes]
    assert (certificate.violations[1] > 0).tolist() == is_small
    assert certificate.fails.tolist() == (certify([values], shown).fails | is_small).tolist()
    small = [reason for reason in certificate.reasons if f"Fewer than {k} records" in reason]
    n_classes = len(witnesses)
    expected = f"Fewer than {k} records in {sum(is_small)} of {counted(n_classes, 'class', 'classes')}."
    assert small == ([expected] if any(is_small) else [])


@settings(deadline=None)
@given(st.data())
def test_witnesses_alone_make_sure_of_ell_times_their_records(data):
    witnesses, n_values, ell, t, allowances = data.draw(plans())
    r = data.draw(st.integers(1, 3))
    values = Values.of(witnesses, n_values, ell=ell, releases=t, allowances=allowances, min_records=r)
    shown = shown_of(*data.draw(releases(len(witnesses), n_values)))
    missing, small = certify([values, Size(ell * r, values.values)], shown).violations
    assert not ((small > 0) & (missing == 0)).any()


def test_a_class_of_one_record_is_refused_where_only_closeness_is_promised():
    near = Close(np.array([[9, 1], [9, 1]]), Fraction(1, 5))
    shown = Shown.of([[90, 10], [1, 0]])  # one negative person, within 0.1 of the reference
    assert certify([near, Size(1, near.values)], shown).is_certified
    refused = certify([near, Size(10, near.values)], shown)
    assert refused.fails.tolist() == [False, True]
    assert refused.reasons == ("Fewer than 10 records in 1 of 2 classes.",)
    with pytest.raises(ParameterError, match="fewest records of a class, k, must be"):
        Size(0, near.values)


def test_columns_of_one_release_hold_the_same_records():
    one = Values.of([[0, 1]], 2, ell=1, releases=1, column="one")
    other = Values.of([[0, 1]], 2, ell=2, releases=1, column="other", start=2)
    size = Size(5, one.values)
    verdict = certify([one, other, size], Shown.of([[2, 2, 0, 4]]))
    assert verdict.reasons == (
        "1 of 1 class misses too many of the values of 'other' that the plan counts on.",
        "Fewer than 5 records in 1 of 1 class.",
    )
    assert certify([one, other, size], Shown.of([[2, 3, 1, 4]])).is_certified
    with pytest.raises(ParameterError, match="one value in every sensitive column"):
        certify([one, other], Shown.of([[2, 2, 1, 4]]))


def test_promises_of_a_planner():
    terms = Values.of([[2, 0, 1, 3], [3, 2]], 4, ell=2, releases=2)
    assert terms.witnesses.tolist() == [[True] * 4, [False, False, True, True]]
    assert terms.allowances.tolist() == [1, 0]
    assert terms.n_witnesses.tolist() == [4, 2]
    assert not Values.of([[0, 1]], 2, ell=2, releases=10**30).allowances.any()


@pytest.mark.parametrize("allowances", [[2], [-1]])
def test_allowances_that_leave_fewer_than_ell_are_refused(allowances):
    with pytest.raises(ParameterError, match="t b_c <= a_c - ell"):
        Values.of([[0, 1, 2, 3]], 4, ell=2, releases=2, allowances=allowances)


def test_terms_that_make_no_sense():
    with pytest.raises(ParameterError, match="ell"):
        Values.of([[0]], 1, ell=2, releases=1)
    with pytest.raises(ParameterError, match="t b_c"):
        Values.of([[0, 1], [0]], 2, ell=2, releases=1)
    with pytest.raises(ParameterError, match="positions"):
        Values.of([[0, 2]], 2, ell=1, releases=1)
    with pytest.raises(ParameterError, match="records of a witness"):
        Values.of([[0, 1]], 2, ell=1, releases=1, min_records=0)
    with pytest.raises(ParameterError, match="every base class"):
        Values(np.ones((2, 3), bool), np.zeros(3), 1, 1)


def test_tables_that_do_not_fit():
    promises = [Values.of([[0, 1], [0, 1]], 2, ell=1, releases=1)]
    with pytest.raises(ParameterError, match="2 base classes"):
        certify(promises, Shown.of([[1, 1]]))
    with pytest.raises(ParameterError, match="2 sensitive values"):
        certify(promises, Shown.of([[1, 1, 1], [1, 1, 1]]))
    with pytest.raises(ParameterError, match="2 base classes"):
        Shown.of([[1, 1], [1, 1]], Partition.single(3))
    with pytest.raises(ParameterError, match="published classes"):
        Shown.of([[1, 1], [1, 1]], left_out=[True])
    with pytest.raises(DistributionError):
        Shown.of([[1, -1], [1, 1]])


def test_everything_is_frozen():
    promise = Values.of([[0, 1]], 2, ell=1, releases=1)
    certificate = certify([promise], Shown.of([[1, 1]]))
    near = Close(np.array([[1, 1]]), Fraction(1, 2))
    arrays = (promise.witnesses, promise.allowances, certificate.fails, certificate.shown.counts)
    for array in (*arrays, certificate.shown.left_out, promise.n_witnesses, near.references):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_verdict_says_how_much_fails():
    promise = Values.of([[0, 1, 2], [0, 1, 2]], 3, ell=3, releases=1, column="disease")
    certificate = certify([promise], Shown.of([[1, 1, 1], [4, 0, 0]]))
    assert certificate.reasons == (
        "1 of 2 classes misses too many of the values of 'disease' that the plan counts on.",
    )
    good = certify([promise], Shown.of([[1, 1, 1], [0, 0, 0]]))
    assert good.is_certified
    assert good.reasons == ()


def test_differencing_is_beyond_a_certificate():
    """The example of the guide: two certified releases of the same people whose difference is one person."""
    table = np.array([[2, 1, 1, 0], [1, 0, 0, 0], [0, 2, 1, 1]])
    promises = [Values.of([[0, 1, 2], [0, 1, 2], [1, 2, 3]], 4, ell=3, releases=2)]
    spring = certify(promises, Shown.of(table, Partition([0, 0, 1])))
    autumn = certify(promises, Shown.of(table, Partition([0, 1, 1])))
    assert spring.is_certified
    assert autumn.is_certified
    assert (spring.shown.counts[0] - autumn.shown.counts[0]).tolist() == [1, 0, 0, 0]
