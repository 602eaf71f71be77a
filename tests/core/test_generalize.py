from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import paper
from tests.switch import quick_or_all

from elldelta.core.distribution import JointDistribution
from elldelta.core.partition import greedy
from elldelta.core.sample_size import geometric_marginal, uniform_marginal
from elldelta.errors import ParameterError
from elldelta.paper import generalize_independent, uniform_classes


@st.composite
def small_cases(draw):
    """A small table of counts, ell, and a p that is possible for it, as a whole number of records."""
    n_rows, n_values = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    table = draw(
        st.lists(
            st.lists(st.integers(0, 4), min_size=n_values, max_size=n_values),
            min_size=n_rows,
            max_size=n_rows,
        ).filter(lambda rows: any(map(any, rows)))
    )
    marginal = sorted((sum(column) for column in zip(*table, strict=True)), reverse=True)
    ell = draw(st.integers(1, sum(1 for cell in marginal if cell)))
    return table, ell, draw(st.integers(1, marginal[ell - 1]))


@settings(max_examples=quick_or_all(400, 1000), deadline=None)
@given(small_cases(), st.booleans())
def test_greedy_is_optimal_among_contiguous_partitions(case, as_probabilities):
    table, ell, threshold = case
    total = sum(map(sum, table))
    if as_probabilities:
        distribution = JointDistribution.from_probabilities(np.array(table) / total)
    else:
        distribution = JointDistribution.from_counts(table)
    partition = greedy(distribution, ell, threshold / total)
    assert partition.n_classes == paper.most_contiguous_classes(table, ell, threshold)
    assert partition.is_contiguous
    assert partition.is_admissible(distribution, ell, threshold / total)
    for part in partition:
        assert paper.admissible([table[row] for row in part], ell, threshold)
    assert sorted(row for part in partition for row in part) == list(range(len(table)))


@given(small_cases())
def test_more_classes_for_smaller_p_and_smaller_ell(case):
    table, ell, threshold = case
    distribution = JointDistribution.from_counts(table)
    n_classes = greedy(distribution, ell, threshold / distribution.total).n_classes
    if threshold > 1:
        assert greedy(distribution, ell, (threshold - 1) / distribution.total).n_classes >= n_classes
    if ell > 1:
        assert greedy(distribution, ell - 1, threshold / distribution.total).n_classes >= n_classes


@given(small_cases(), st.randoms(use_true_random=False))
def test_relabelling_the_values_changes_nothing(case, random):
    table, ell, threshold = case
    columns = list(range(len(table[0])))
    random.shuffle(columns)
    one = JointDistribution.from_counts(table)
    other = JointDistribution.from_counts(np.array(table)[:, columns])
    p = threshold / one.total
    assert greedy(one, ell, p) == greedy(other, ell, p)


def test_the_printed_pseudo_code_forgets_the_last_quasi_identifier():
    """Fault (a): a class closes at |Q| - 1 and `while i < |Q|` ends; and |Q| = 1 returns nothing."""
    table = [[1, 1], [1, 1], [1, 0]]
    assert paper.printed_greedy(table, 2, 1) == [[0], [1]]
    partition = greedy(JointDistribution.from_counts(table), 2, 1 / 5)
    assert [part.tolist() for part in partition] == [[0], [1, 2]]
    assert sum(map(len, paper.printed_greedy([[1, 1]], 2, 1))) == 0
    assert greedy(JointDistribution.from_counts([[1, 1]]), 2, 1 / 2).n_classes == 1


def test_the_printed_pseudo_code_keeps_an_inadmissible_last_class():
    """Fault (b): after the inner break j is advanced, so the final test looks at an empty class."""
    table = [[1, 1], [1, 0], [1, 0]]
    printed = paper.printed_greedy(table, 2, 1)
    assert printed[-1] == [1, 2]
    assert not paper.admissible([table[row] for row in printed[-1]], 2, 1)
    partition = greedy(JointDistribution.from_counts(table), 2, 1 / 4)
    assert [part.tolist() for part in partition] == [[0, 1, 2]]


def test_how_often_the_printed_pseudo_code_goes_wrong():
    rng = np.random.default_rng(5)
    unassigned = inadmissible = 0
    for _ in range(400):
        table = rng.integers(0, 4, size=(8, 3)).tolist()
        classes = paper.printed_greedy(table, 2, 3)
        unassigned += sum(map(len, classes)) < 8
        inadmissible += any(not paper.admissible([table[r] for r in rows], 2, 3) for rows in classes)
        distribution = JointDistribution.from_counts(table)
        ours = greedy(distribution, 2, 3 / distribution.total)
        assert ours.n_quasi_identifiers == 8
        assert ours.is_admissible(distribution, 2, 3 / distribution.total)
    assert unassigned > 40
    assert inadmissible > 20


@pytest.mark.parametrize(
    ("marginal", "ell", "beta", "expected"),
    [
        (uniform_marginal(50), 10, 0.01, 100),
        (uniform_marginal(50), 30, 0.02, 50),
        (geometric_marginal(50, 0.95), 10, 0.01, 100),
        (geometric_marginal(50, 0.95), 40, 0.02, 50),
    ],
)
def test_greedy_classes_of_the_papers_setting(marginal, ell, beta, expected):
    distribution = JointDistribution.product(uniform_marginal(3000), marginal)
    p_ell = float(distribution.ranked_marginal[ell - 1])
    partition = greedy(distribution, ell, beta * p_ell)
    assert partition.n_classes == expected
    assert uniform_classes(3000, beta * p_ell, p_ell) == expected
    # the tolerance that saved the class does not count towards the promise
    assert partition.snapped_p(distribution, ell) == pytest.approx(beta * p_ell, rel=1e-9)


def test_tiny_cells_are_summed_without_cancellation():
    """A class of cells around 1e-12 behind a heavy row: differences of prefix sums would lose it."""
    tiny = np.full((1000, 2), 1e-12)
    heavy = np.array([[0.5 - 1e-9, 0.5 - 1e-9]])
    distribution = JointDistribution.from_probabilities(np.vstack((heavy, tiny)))
    partition = greedy(distribution, 2, 1e-10)
    assert partition.n_classes == 1 + 10
    assert partition.snapped_p(distribution, 2) == pytest.approx(1e-10, rel=1e-9)


@settings(max_examples=quick_or_all(60, 150), deadline=None)
@given(st.integers(1, 7), st.integers(1, 3), st.data())
def test_uniform_classes_is_the_optimum_of_all_partitions(n_rows, n_values, data):
    weights = data.draw(st.lists(st.integers(1, 5), min_size=n_values, max_size=n_values))
    ell = data.draw(st.integers(1, n_values))
    p_ell = Fraction(sorted(weights, reverse=True)[ell - 1], sum(weights))
    p = p_ell * data.draw(st.fractions(Fraction(1, 20), 1))
    table = [[Fraction(weight, sum(weights) * n_rows) for weight in weights] for _ in range(n_rows)]
    best = paper.most_classes(table, ell, p)
    assert uniform_classes(n_rows, float(p), float(p_ell)) == best
    distribution = JointDistribution.from_probabilities(np.array(table, dtype=float))
    marginal = np.array(weights) / sum(weights)
    assert generalize_independent(uniform_marginal(n_rows), marginal, ell, float(p)).n_classes == best
    assert greedy(distribution, ell, float(p)).n_classes == best


@given(st.integers(1, 40), st.data())
def test_generalize_independent_is_admissible_for_any_product(n_rows, data):
    rows = np.array(data.draw(st.lists(st.integers(1, 9), min_size=n_rows, max_size=n_rows)))
    values = np.array(data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=5)))
    distribution = JointDistribution.from_counts(np.outer(rows, values))
    ell = data.draw(st.integers(1, len(values)))
    p = float(distribution.ranked_marginal[ell - 1]) * data.draw(st.floats(0.01, 1.0))
    partition = generalize_independent(rows / rows.sum(), values / values.sum(), ell, p)
    assert partition.is_admissible(distribution, ell, p)
    assert partition.n_classes <= greedy(distribution, ell, p).n_classes


def test_lemma_4_and_corollary_2_promise_too_much():
    """|Q| = 3 uniform and p_ell / p = 2.5: two classes are promised, one is the most."""
    table = [[Fraction(1, 6)] * 2] * 3
    assert paper.most_classes(table, 2, Fraction(1, 5)) == 1
    assert uniform_classes(3, 0.2, 0.5) == 1
    # for p < p_ell / |Q| they promise more classes than there are quasi-identifiers
    assert uniform_classes(3, 0.01, 0.5) == 3


@pytest.mark.parametrize(("ell", "p"), [(3, 0.1), (0, 0.1), (1, 0.9), (2, 0.0), (1, float("nan"))])
def test_bad_parameters(ell, p):
    with pytest.raises(ParameterError):
        greedy(JointDistribution.from_counts([[1, 2], [2, 1]]), ell, p)
    with pytest.raises(ParameterError):
        generalize_independent([0.5, 0.5], [0.5, 0.5], ell, p)
