import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.oracles import paper

from elldelta.core.sample_size import (
    Mechanism,
    geometric_marginal,
    p_ell,
    smallest_p,
    uniform_marginal,
    union_bound,
)
from elldelta.errors import ParameterError, RefusedError
from elldelta.paper import largest_ell

UNIFORM = uniform_marginal(50)
GEOMETRIC = geometric_marginal(50, 0.95)


@pytest.mark.parametrize(
    ("marginal", "ell", "beta", "p", "m", "n_001", "n_0001"),
    [
        (UNIFORM, 10, 0.01, "0.0002", "500", "65605.255", "77117.030"),
        (UNIFORM, 30, 0.02, "0.0004", "83.3333", "31066.825", "36822.137"),
        (GEOMETRIC, 10, 0.01, "0.000341393", "292.917", "36865.108", "43608.629"),
        (GEOMETRIC, 40, 0.02, "0.000146552", "170.587", "91655.344", "107365.875"),
    ],
)
def test_numbers_of_the_paper_to_the_printed_digits(marginal, ell, beta, p, m, n_001, n_0001):
    mechanism = Mechanism.from_beta(marginal, 3000, ell, beta)

    def printed(number, text):
        return f"{number:.{len(text.partition('.')[2])}f}" == text

    assert printed(mechanism.p, p)
    assert printed(mechanism.classes_upper, m)
    assert printed(mechanism.records_exact(0.01), n_001)
    assert printed(mechanism.records_exact(0.001), n_0001)
    assert mechanism.records(0.01) == math.ceil(float(n_001))


@st.composite
def settings(draw):
    n_values = draw(st.integers(1, 12))
    weights = draw(st.lists(st.integers(1, 50), min_size=n_values, max_size=n_values))
    marginal = [weight / sum(weights) for weight in weights]
    ell = draw(st.integers(1, n_values))
    p = p_ell(marginal, ell) * draw(st.floats(1e-6, 1.0))
    return marginal, draw(st.integers(1, 10**6)), ell, p


deltas = st.floats(1e-15, 0.999)


@given(settings(), deltas)
def test_m_and_n_equal_high_precision_arithmetic(setting, delta):
    marginal, n_rows, ell, p = setting
    assume(p < 1.0)
    mechanism = Mechanism.create(marginal, n_rows, ell, p)
    m = paper.m_bound(marginal, n_rows, ell, mechanism.p)
    assert paper.is_close(mechanism.classes_upper, m)
    expected = paper.records(mechanism.classes_upper, ell, delta, mechanism.p)
    assert paper.is_close(mechanism.records_exact(delta), expected, 1e-9)


@given(settings(), deltas)
def test_rounding_up_keeps_the_promise_and_wastes_at_most_one(setting, delta):
    mechanism = Mechanism.create(*setting)
    n_records = mechanism.records(delta)
    assert mechanism.delta_reached(n_records) <= delta
    if n_records > 2:
        assert mechanism.delta_reached(n_records - 2) > delta


@given(settings())
def test_m_is_at_least_one_and_p_ell_at_most_one_over_ell(setting):
    marginal, n_rows, ell, p = setting
    mechanism = Mechanism.create(marginal, n_rows, ell, p)
    assert mechanism.classes_upper >= 1 - 1e-12
    assert mechanism.p_ell <= 1 / ell + 1e-12


@given(settings(), deltas, deltas)
def test_fewer_records_for_larger_delta_and_larger_p(setting, one, other):
    marginal, n_rows, ell, p = setting
    mechanism = Mechanism.create(marginal, n_rows, ell, p)
    low, high = sorted((one, other))
    assert mechanism.records(high) <= mechanism.records(low)
    coarser = Mechanism.create(marginal, n_rows, ell, min(2 * p, mechanism.p_ell))
    assert coarser.records(one) <= mechanism.records(one)


@given(settings(), st.integers(1, 10**6))
def test_delta_falls_with_records_and_ignores_the_names_of_values(setting, n_records):
    marginal, n_rows, ell, p = setting
    mechanism = Mechanism.create(marginal, n_rows, ell, p)
    assert mechanism.delta_reached(n_records + 1) <= mechanism.delta_reached(n_records) <= 1.0
    relabelled = Mechanism.create(marginal[::-1], n_rows, ell, p)
    assert relabelled.records(0.01) == mechanism.records(0.01)


@given(settings(), deltas)
def test_smallest_p_inverts_n(setting, delta):
    marginal, n_rows, ell, p = setting
    n_records = Mechanism.create(marginal, n_rows, ell, p).records(delta)
    smallest = smallest_p(marginal, n_rows, ell, delta, n_records)
    assert smallest <= p * (1 + 1e-9)
    assert Mechanism.create(marginal, n_rows, ell, smallest).records(delta) <= n_records
    finer = smallest * (1 - 1e-6)
    assert Mechanism.create(marginal, n_rows, ell, finer).records_exact(delta) > n_records * (1 - 1e-9)


@given(settings(), st.floats(1e-6, 0.9))
def test_largest_ell_by_trying_all(setting, delta):
    marginal, n_rows, ell, p = setting
    n_records = Mechanism.create(marginal, n_rows, ell, p).records(delta)
    found = largest_ell(marginal, n_rows, delta, n_records, p=p)
    fits = [
        other
        for other in range(1, len(marginal) + 1)
        if p <= p_ell(marginal, other)
        and Mechanism.create(marginal, n_rows, other, p).records(delta) <= n_records
    ]
    assert found == max(fits)
    assert found >= ell


def test_largest_ell_for_beta_is_consistent():
    n_records = Mechanism.from_beta(GEOMETRIC, 3000, 20, 0.01).records(0.01)
    assert largest_ell(GEOMETRIC, 3000, 0.01, n_records, beta=0.01) == 20


def test_extreme_p_and_delta_stay_accurate():
    """p = 1e-12 and delta = 1e-15: naive formulas would give log(1 - p) with four digits."""
    mechanism = Mechanism.create(uniform_marginal(2), 10**9, 2, 1e-12)
    expected = paper.records(mechanism.classes_upper, 2, 1e-15, 1e-12)
    assert paper.is_close(mechanism.records_exact(1e-15), expected, 1e-13)
    n_records = mechanism.records(1e-15)
    assert mechanism.delta_reached(n_records) <= 1e-15
    assert mechanism.delta_reached(n_records) == pytest.approx(1e-15, rel=1e-6)


def test_p_of_one_needs_one_record():
    mechanism = Mechanism.create([1.0], 10, 1, 1.0)
    assert mechanism.records(0.5) == 1
    assert mechanism.records_exact(0.5) == 1.0
    assert mechanism.delta_reached(1) == 0.0


def test_neither_term_of_m_is_always_smaller():
    """The paper's remark: 1/(ell p) wins for a uniform marginal, the tail for a skewed one."""
    even = Mechanism.create([1 / 3] * 3, 10**9, 2, 0.01)
    assert even.classes_upper == pytest.approx(1 / 0.02)
    skewed = Mechanism.create([0.99, 0.009, 0.001], 10**9, 3, 0.0001)
    assert skewed.classes_upper == pytest.approx(0.001 / 0.0001)


def test_union_bound_is_exact_for_a_small_case():
    assert union_bound(3, 2, 0.5, 4) == pytest.approx(float(Fraction(6, 16)))
    assert union_bound(3, 2, 0.5, 1) == 1.0


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, float("nan"), None])
def test_delta_out_of_range(delta):
    with pytest.raises(ParameterError, match="between 0 and 1"):
        Mechanism.from_beta(UNIFORM, 3000, 10, 0.01).records(delta)


@pytest.mark.parametrize("p", [0.0, -0.1, 0.0201, 2.0, float("nan"), float("inf")])
def test_p_out_of_range_names_the_range(p):
    with pytest.raises(ParameterError, match=r"\(0, 0.02\]"):
        Mechanism.create(UNIFORM, 3000, 10, p)


@pytest.mark.parametrize("beta", [0.0, 1.01, -1, float("nan")])
def test_beta_out_of_range(beta):
    with pytest.raises(ParameterError, match=r"\(0, 1\]"):
        Mechanism.from_beta(UNIFORM, 3000, 10, beta)


@pytest.mark.parametrize("ell", [0, 51, 2.5, -3])
def test_ell_out_of_range(ell):
    with pytest.raises(ParameterError, match="1 to 50"):
        Mechanism.from_beta(UNIFORM, 3000, ell, 0.01)


def test_values_without_mass_are_named():
    with pytest.raises(ParameterError, match="fewer than ell = 3"):
        Mechanism.from_beta([0.5, 0.5, 0.0], 10, 3, 0.5)


def test_too_few_records_say_how_many_are_needed():
    with pytest.raises(RefusedError, match=r"needs [0-9]+ records"):
        smallest_p(UNIFORM, 3000, 10, 0.01, 5)
    with pytest.raises(RefusedError, match=r"ell = 1"):
        largest_ell(UNIFORM, 3000, 0.01, 1, beta=0.01)


def test_largest_ell_needs_exactly_one_of_p_and_beta():
    with pytest.raises(ParameterError, match="either p or beta"):
        largest_ell(UNIFORM, 3000, 0.01, 100)


@pytest.mark.parametrize("n_records", [1, 7, 300, 4000])
def test_union_bound_errs_upwards_in_its_last_digits(n_records):
    """Compared with whole numbers; the nearest float lies below the truth as often as above, or is 0."""
    for numerator in range(1, 40):
        p = numerator / 40
        exact = 6 * (1 - Fraction(p)) ** n_records
        bound = union_bound(3, 2, p, n_records)
        assert exact <= Fraction(bound) or bound == 1.0
        assert bound <= float(exact) * (1.0 + 1e-11) + 1e-305


def test_the_search_for_records_ends_for_every_p_and_delta():
    for p in (1e-15, 1e-12, 1e-6, 0.01, 0.5, 0.99):
        for delta in (1e-305, 1e-300, 1e-20, 0.01, 0.9):
            mechanism = Mechanism.create([1.0], 10**18, 1, p)
            n = mechanism.records(delta)
            assert mechanism.delta_reached(n) <= delta
            # Below, the last digits of the exponent are worth more than a record.
            assert p < 1e-6 or n == 1 or mechanism.delta_reached(n - 1) > delta
    with pytest.raises(ParameterError, match="too small"):
        Mechanism.create([1.0], 10, 1, 0.5).records(5e-324)
