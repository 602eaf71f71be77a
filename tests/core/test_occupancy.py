"""Missing-value tails and class failures against exact enumeration."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import occupancy as oracle
from tests.switch import quick_or_all

from elldelta.core.occupancy import class_failures_upper
from elldelta.errors import DistributionError

SMALL = [
    ([Fraction(1, 4)] * 4, 7),
    ([Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 8)], 9),
    ([Fraction(1, 10), Fraction(1, 12), Fraction(1, 20)], 12),  # most records are elsewhere
    ([Fraction(2, 5), Fraction(3, 10), Fraction(1, 5), Fraction(1, 10)], 14),
    ([Fraction(1, 16), Fraction(1, 32), Fraction(1, 32)], 40),  # enough for Lemma B
]


def floats(cells):
    return np.array([float(cell) for cell in cells])


@pytest.mark.parametrize(("cells", "n_records"), SMALL)
def test_failures_are_above_the_exact_probability(cells, n_records):
    for allowance in range(len(cells)):
        exact = oracle.missing_tail(cells, n_records, allowance)
        assert failure(floats(cells), len(cells) - allowance, n_records) >= exact


def failure(cells, ell, n_records):
    """The failure of one class and one release."""
    return class_failures_upper(np.asarray(cells)[np.newaxis], ell, n_records).failures_upper[0]


def test_the_recurrence_agrees_with_all_outcomes():
    chances = [Fraction(1, 3), Fraction(1, 7), Fraction(4, 5), Fraction(1, 2)]
    for k in range(4):
        assert oracle.excess(chances, k) == oracle.excess_by_poisson_binomial(chances, k)


@pytest.mark.parametrize(("allowance", "n_records"), [(0, 990), (1, 490), (3, 240), (6, 110), (8, 60)])
def test_tails_keep_their_relative_accuracy_down_to_1e_300(allowance, n_records):
    cells = [Fraction(7, 8), Fraction(3, 4), *[Fraction(1, 2)] * 8]  # powers of two keep the fractions short
    exact = oracle.certifiable_failure(cells, len(cells) - allowance, n_records, 1)
    found = Fraction(failure(floats(cells), len(cells) - allowance, n_records))
    assert Fraction(1, 10**305) < exact < Fraction(1, 10**150)
    assert 1 <= found / exact < 1 + Fraction(2, 10**9) + Fraction(2, 10**306) / exact


def test_lemma_b_is_smaller_for_many_small_cells_and_larger_for_few_records(monkeypatch):
    cells, few = np.full(50, 4 / 100_000 / 50), np.array([0.5, 0.25, 0.25])
    with_both = failure(cells, 30, 2_186_866), failure(few, 3, 40)
    monkeypatch.setattr("elldelta.core.occupancy.POISSON_SHIFTS", ())
    without = failure(cells, 30, 2_186_866), failure(few, 3, 40)
    assert with_both[0] < 0.9 * without[0]
    assert with_both[1] == without[1]


def test_values_that_cannot_occur_are_no_witnesses():
    assert np.isinf(failure([0.3, 0.0], 2, 10))
    assert failure([0.3, 0.0], 1, 10) == pytest.approx(failure([0.3], 1, 10), rel=1e-12)


@pytest.mark.parametrize("sizes", [(6,), (7, 7), (5, 5, 5)])
@pytest.mark.parametrize("ell", [1, 2, 3])
def test_pooled_class_failure_is_the_best_over_all_witness_sets_and_splits(sizes, ell):
    cells = [Fraction(3, 10), Fraction(1, 4), Fraction(1, 5), Fraction(1, 10)]
    exact = oracle.pooled_failure([cells] * len(sizes), ell, sizes)
    found = class_failures_upper(floats(cells)[np.newaxis], ell, sizes[0], len(sizes))
    # Lemma B may be smaller still; with so few records it is not.
    assert 1 <= found.failures_upper[0] / float(exact) < 1 + 2e-9


@pytest.mark.parametrize("releases", [1, 2, 3])
@pytest.mark.parametrize("ell", [1, 2, 3])
def test_certifiable_class_failure_is_the_best_over_all_witness_sets(releases, ell):
    cells = [Fraction(3, 10), Fraction(1, 4), Fraction(1, 5), Fraction(1, 10), Fraction(1, 20)]
    exact = oracle.certifiable_failure(cells, ell, 8, releases)
    found = class_failures_upper(floats(cells)[np.newaxis], ell, 8, releases, checked_by="owner")
    assert 1 <= found.failures_upper[0] / float(exact) < 1 + 2e-9
    size = found.witnesses.counts[0]
    assert oracle.lemma_b_prime(cells[:size], 8, (size - ell) // releases) == exact


@pytest.mark.parametrize("certifiable", [False, True], ids=["pooled", "certifiable"])
@pytest.mark.parametrize("poissonized", [False, True], ids=["lemma B'", "lemma B"])
@pytest.mark.parametrize("releases", [1, 2, 3, 7])
def test_no_prefix_and_no_k_that_is_left_out_would_have_been_better(certifiable, poissonized, releases):
    from elldelta.core.occupancy_kernels import best_prefix

    rng = np.random.default_rng(releases)
    for _ in range(quick_or_all(8, 20)):
        n_cells, ell = int(rng.integers(5, 160)), int(rng.integers(1, 6))
        # From classes that hardly fail to hopeless ones, and from even to very uneven cells.
        chances = np.sort(rng.beta(*rng.choice([0.2, 1.0, 4.0], 2), n_cells)) * rng.choice([0.1, 0.9, 1.0])
        found, length, _ = best_prefix(
            chances, n_cells, ell, releases, certifiable, poissonized, np.inf, np.empty(n_cells + 3)
        )
        exact = oracle.best_prefix(chances, ell, releases, certifiable, poissonized)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-200)
        assert ell <= length <= n_cells


@pytest.mark.parametrize("certifiable", [False, True], ids=["pooled", "certifiable"])
@pytest.mark.parametrize("releases", [1, 2, 5])
def test_failures_that_are_too_much_anyway_stay_above_what_is_enough(certifiable, releases):
    from elldelta.core.occupancy_kernels import best_prefix, class_failure, missing_chances

    rng = np.random.default_rng(releases)
    none, n_exact = np.empty((0, 2)), 0
    for _ in range(quick_or_all(60, 400)):
        n_values, ell = int(rng.integers(2, 400)), int(rng.integers(1, 7))
        cells = rng.poisson(rng.gamma(0.3, rng.choice([1.0, 10.0, 100.0]), n_values)).astype(float)
        cells[0] += 1.0
        n_records, scale = 10 * cells.sum() * rng.choice([0.2, 1.0, 5.0]), 0.1 / cells.sum()
        chances, order = np.empty(n_values), np.argsort(-cells, kind="stable").astype(np.int32)
        n_cells = missing_chances(cells, order, scale, n_records, chances)
        exact, _, _ = best_prefix(
            chances, n_cells, ell, releases, certifiable, False, np.inf, np.empty(n_values + 3)
        )
        memory = np.empty(n_values), np.empty(n_values + 3)
        for enough in (np.inf, 0.3, 0.01):
            ranks = rng.permutation(n_values).astype(np.int32)
            found, length = class_failure(
                cells, ranks, scale, n_records, none, ell, releases, int(certifiable), enough, *memory
            )
            assert sorted(ranks) == list(range(n_values))
            if exact <= enough:
                assert found == pytest.approx(exact, rel=1e-8)
                assert ranks[:length].tolist() == order[:length].tolist()
                n_exact += np.isfinite(exact)
            else:
                assert found > enough
    assert n_exact > 20


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_ranks_fall_and_ties_are_broken_by_index(kind):
    from elldelta.core.occupancy_kernels import rank

    rng = np.random.default_rng(0)
    for n_cells in (1, 2, 15, 16, 17, 127, 128, 129, 400, 1000):
        for most in (1, 3, 1000):  # mostly zeros, many ties, few ties
            cells = rng.integers(0, most + 1, n_cells).astype(kind)
            order = np.arange(n_cells, dtype=np.int32)
            rank(cells, order, 0.0)
            assert order.tolist() == np.argsort(-cells, kind="stable").tolist()
            rank(cells, order, 0.0)  # an order that holds already is kept
            assert order.tolist() == np.argsort(-cells, kind="stable").tolist()


WORST = [
    ([Fraction(1, 4)] * 4, 8),
    ([Fraction(2, 5), Fraction(3, 10), Fraction(1, 5), Fraction(1, 10)], 12),
    ([Fraction(3, 10), Fraction(3, 10), Fraction(1, 5)], 10),
    ([Fraction(1, 8), Fraction(1, 16), Fraction(1, 16)], 34),  # enough for Lemma B
]
OFTEN = quick_or_all(WORST[1::2], WORST)


@pytest.mark.parametrize(("cells", "n_records"), OFTEN)
@pytest.mark.parametrize("ell", [1, 2, 3])
def test_two_releases_under_the_worst_dependence(cells, n_records, ell):
    worst = oracle.worst_dependence(cells, cells, ell, n_records, n_records)
    bound = class_failures_upper(floats(cells)[np.newaxis], ell, n_records, 2).failures_upper[0]
    assert bound >= worst - 1e-9
    for shared in (0, n_records // 2, n_records):
        assert worst >= float(oracle.partly_shared(cells, ell, n_records, shared)) - 1e-9


def test_the_exact_oracles_reject_an_allowance_one_too_large():
    cells, n_records = WORST[0]
    # An allowance one too large is the bound for ell - 1 claimed for ell.
    one = class_failures_upper(floats(cells)[np.newaxis], 2, n_records, 1).failures_upper[0]
    assert one < float(oracle.identical_copies(cells, 3, n_records))
    two = class_failures_upper(floats(cells)[np.newaxis], 2, n_records, 2).failures_upper[0]
    assert two < oracle.worst_dependence(cells, cells, 3, n_records, n_records)


@pytest.mark.parametrize(("cells", "n_records"), OFTEN)
@pytest.mark.parametrize("ell", [1, 2, 3])
def test_independent_releases_through_one_ledger(cells, n_records, ell):
    exact = float(oracle.partly_shared(cells, ell, n_records, 0))
    row = floats(cells)[np.newaxis]
    assert exact <= class_failures_upper(row, ell, n_records, 2, checked_by="ledger").failures_upper[0]


def test_independence_buys_more_than_any_dependence():
    cells = np.full((1, 50), 1 / 30_000)
    apart = class_failures_upper(cells, 10, 65_606, 2, checked_by="ledger").failures_upper[0]
    assert apart < 1e-6 * class_failures_upper(cells, 10, 65_606, 2).failures_upper[0]


distributions = st.lists(st.floats(0.001, 1.0), min_size=3, max_size=12).map(
    lambda weights: np.array(weights) / sum(weights)
)


@settings(deadline=None, max_examples=quick_or_all(50, 100))
@given(
    cells=distributions,
    share=st.floats(0.05, 0.9),
    n_records=st.integers(1, 3000),
    releases=st.integers(1, 4),
    data=st.data(),
)
def test_monotone(cells, share, n_records, releases, data):
    ell = data.draw(st.integers(1, len(cells) - 1))
    checked_by = data.draw(st.sampled_from(["nobody", "owner"]))

    def failure(cells, ell, n_records, releases):
        found = class_failures_upper(
            cells[np.newaxis],
            ell,
            n_records,
            releases,
            checked_by=checked_by,
        ).failures_upper[0]
        return min(1.0, found)  # above 1, where a bound says nothing, the prefactor of Lemma B is all of it

    small = failure(cells * share, ell, n_records, releases)
    slack = 1 + 1e-12
    grown = cells * share
    grown[data.draw(st.integers(0, len(cells) - 1))] += data.draw(st.floats(0.0, 1 - share))
    assert failure(grown, ell, n_records, releases) <= small * slack
    assert failure(cells * share, ell + 1, n_records, releases) * slack >= small
    assert failure(cells * share, ell, n_records, releases + 1) * slack >= small
    assert failure(cells * share, ell, 2 * n_records, releases) <= small * slack
    # From N to N + 1 Lemma B' falls; the prefactor of Lemma B may rise, by less than a percent.
    assert failure(cells * share, ell, n_records + 1, releases) <= small * 1.01


@settings(deadline=None, max_examples=quick_or_all(40, 80))
@given(cells=distributions, n_records=st.integers(1, 2000), data=st.data())
def test_relabelling_the_values_changes_nothing(cells, n_records, data):
    ell = data.draw(st.integers(1, len(cells)))
    order = np.array(data.draw(st.permutations(range(len(cells)))))
    plain = class_failures_upper(cells[np.newaxis], ell, n_records, 2)
    mixed = class_failures_upper(cells[order][np.newaxis], ell, n_records, 2)
    assert mixed.failures_upper[0] == plain.failures_upper[0]
    if len(set(cells)) == len(cells):
        assert set(order[mixed.witnesses[0]].tolist()) == set(plain.witnesses[0].tolist())


def test_pooling_never_loses_to_a_separate_check_per_release():
    rng = np.random.default_rng(5)
    cells = rng.dirichlet(np.full(12, 0.8), size=40) / 5
    for releases in (1, 2, 3, 5):
        pooled = class_failures_upper(cells, 3, 90, releases).failures_upper
        certifiable = class_failures_upper(cells, 3, 90, releases, checked_by="owner").failures_upper
        assert (pooled <= releases * certifiable * (1 + 1e-9)).all()
        assert releases == 1 or (pooled < 0.999 * releases * certifiable).any()


def test_a_class_with_too_few_possible_values_cannot_pass():
    failures = class_failures_upper(np.array([[0.5, 0.5, 0.0]]), 3, 100)
    assert np.isinf(failures.failures_upper[0])


def test_counts_and_probabilities_agree():
    counts = np.array([[30, 20, 10, 5, 1], [7, 7, 7, 7, 7]])
    by_count = class_failures_upper(counts, 2, 50, 2, total=101)
    by_chance = class_failures_upper(counts / 101, 2, 50, 2)
    np.testing.assert_allclose(by_count.failures_upper, by_chance.failures_upper, rtol=1e-12)
    chosen = by_count.witnesses[1]
    assert chosen.tolist() == list(range(len(chosen)))  # ties by index


def test_one_lambda_for_many_classes_is_still_a_bound_and_hardly_worse():
    rng = np.random.default_rng(2)
    cells = rng.dirichlet(np.full(30, 3.0), size=600) / 5_000
    many = class_failures_upper(cells, 8, 300_000, 1).failures_upper
    few = np.concatenate(
        [class_failures_upper(part, 8, 300_000, 1).failures_upper for part in np.split(cells, 6)]
    )
    assert (many >= few * (1 - 1e-12)).all()
    assert many.sum() < 1.1 * few.sum()


def test_witnesses_are_prefixes_of_the_values_by_falling_probability():
    rng = np.random.default_rng(6)
    cells = rng.dirichlet(np.full(9, 0.7), size=5) / 5
    failures = class_failures_upper(cells, 2, 300, 3)
    for row, witnesses in zip(cells, failures.witnesses, strict=True):
        assert 2 <= len(witnesses) == len(set(witnesses.tolist())) <= 9
        assert witnesses.tolist() == np.argsort(-row, kind="stable")[: len(witnesses)].tolist()
    assert failures.witnesses.counts.tolist() == [len(witnesses) for witnesses in failures.witnesses]
    for array in (failures.failures_upper, failures.witnesses.counts, failures.witnesses.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_bad_input_is_named():
    with pytest.raises(DistributionError, match="finite and not negative"):
        class_failures_upper(np.array([[0.1, -0.1]]), 1, 10)
    with pytest.raises(DistributionError, match="one row per class"):
        class_failures_upper(np.array([0.1]), 1, 10)
