"""The sharp planner: its tables, its promises recomputed, its inverses, its refusals."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import occupancy as oracle
from tests.planned import CERTIFIABLE, evaluate_sharp, fewest_records, sharp_runs, sharp_runs_per_class

from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize import sweep
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.occupancy import class_failures_upper
from elldelta.core.partition import Partition
from elldelta.core.sample_size import geometric_marginal, uniform_marginal
from elldelta.errors import ParameterError, RefusedError

UNIFORM = JointDistribution.product(uniform_marginal(3000), uniform_marginal(50))
GEOMETRIC = JointDistribution.product(uniform_marginal(3000), geometric_marginal(50, 0.95))
HUNDRED = Partition.from_starts(np.arange(0, 3000, 30), 3000)

CLASSES = [
    (UNIFORM, 10, 65_606, (1500, 600, 500, 375)),
    (UNIFORM, 30, 65_606, (600, 428, 300, 250)),
    (GEOMETRIC, 10, 36_866, (1000, 333, 250, 176)),
    (GEOMETRIC, 30, 111_229, (750, 375, 272, 187)),
]
ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult.csv"


def random_distribution(rng, n_rows, n_values, concentration=0.5):
    cells = rng.dirichlet(np.full(n_rows * n_values, concentration))
    return JointDistribution.from_probabilities(cells.reshape(n_rows, n_values))


@pytest.mark.parametrize(("distribution", "ell", "n_records", "classes"), CLASSES)
def test_classes_at_the_paper_s_records(distribution, ell, n_records, classes):
    for releases, at_least in zip((1, 2, 3, 5), classes, strict=True):
        plan = sharp_runs(distribution, ell, n_records, releases, 0.01 * releases)
        assert plan.n_classes >= at_least
        assert plan.failure_upper <= 0.01 * releases


@pytest.mark.parametrize(
    ("distribution", "ell", "releases", "about"),
    [(UNIFORM, 10, 1, 2980), (UNIFORM, 10, 2, 8600), (GEOMETRIC, 30, 1, 12_200), (GEOMETRIC, 30, 2, 27_000)],
)
def test_records_for_the_paper_s_classes(distribution, ell, releases, about):
    budget = 0.01 * releases
    plan = fewest_records(distribution, HUNDRED, ell, releases, budget)
    assert plan.n_records <= about
    assert plan.failure_upper <= budget
    fewer = evaluate_sharp(distribution, HUNDRED, ell, plan.n_records - 1, releases)
    assert fewer.failure_upper > budget
    planned = sharp_runs(distribution, ell, about, releases, budget)
    assert planned.n_classes >= 100


def test_nearly_independent_releases_gain_classes():
    options = {"shared_records": 111_229 // 20}
    plan = sharp_runs(GEOMETRIC, 30, 111_229, 5, 0.05, options)
    assert plan.n_classes >= 375
    assert sharp_runs(GEOMETRIC, 30, 111_229, 5, 0.05).n_classes < 0.6 * plan.n_classes


def adult():
    with ADULT.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("sex", "race", "marital-status")
    domains = [sorted({row[name] for row in rows}) for name in names]
    domains.append(sorted({int(row["age"]) for row in rows}))
    position = {key: index for index, key in enumerate(itertools.product(*domains))}
    occupations = sorted({row["occupation"] for row in rows})
    counts = np.zeros((len(position), len(occupations)), dtype=np.int64)
    for row in rows:
        key = (*(row[name] for name in names), int(row["age"]))
        counts[position[key], occupations.index(row["occupation"])] += 1
    return JointDistribution.from_counts(counts)


@pytest.mark.skipif(
    not ADULT.exists(), reason="UCI Adult is not beside the repository (shared/data/adult.csv)"
)
def test_adult():
    distribution = adult()
    assert sharp_runs(distribution, 5, 30_000, 1, 0.01).n_classes >= 344
    assert sharp_runs(distribution, 5, 30_000, 2, 0.02).n_classes >= 220


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 120),
    n_values=st.integers(2, 9),
    n_records=st.integers(20, 20_000),
    releases=st.integers(1, 3),
    counted=st.booleans(),
    kind=st.sampled_from(["plain", "certifiable", "apart", "once"]),
    data=st.data(),
)
def test_a_plan_keeps_its_own_promise(seed, n_rows, n_values, n_records, releases, counted, kind, data):
    rng = np.random.default_rng(seed)
    if counted:
        distribution = JointDistribution.from_counts(rng.integers(0, 30, (n_rows, n_values)) + 1)
    else:
        distribution = random_distribution(rng, n_rows, n_values)
    ell = data.draw(st.integers(1, n_values))
    options = {
        "plain": {},
        "certifiable": CERTIFIABLE,
        "apart": {"shared_records": n_records // 20},
        "once": {"eta": 1e-4},
    }[kind]
    single = evaluate_sharp(distribution, Partition.single(n_rows), ell, n_records, releases, options)
    try:
        plan = sharp_runs(distribution, ell, n_records, releases, 0.05, options)
    except RefusedError:
        assert single.failure_upper > 0.05
        return
    assert plan.partition.n_quasi_identifiers == n_rows
    assert plan.partition.is_contiguous
    # From scratch, by another way of adding up: the safe side within rounding, and within the budget.
    masses = distribution.generalized(plan.partition).mass / distribution.total
    again = class_failures_upper(
        masses,
        ell,
        n_records,
        releases,
        certifiable="certifiable" in options,
        shared_records_upper=options.get("shared_records"),
    )
    total = plan.criterion.total(again.failures_upper, masses.max(axis=1))
    assert total == pytest.approx(plan.failure_upper, rel=1e-9)
    assert plan.failure_upper <= 0.05
    assert plan.n_classes >= 1
    assert len(plan.witnesses) == plan.n_classes


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), eps=st.floats(1e-6, 0.3), certifiable=st.booleans())
def test_per_class_sweep_gives_the_most_runs(seed, eps, certifiable):
    """The greedy is optimal for a fixed eps: a dynamic programme over all cuts finds no more.

    The sweep works without Lemma B, so that the twin here does as well.
    """
    rng = np.random.default_rng(seed)
    distribution = random_distribution(rng, 14, 5)
    sweeper = sweep.Sweeper(distribution, SharpBound(3, 60, 2, certifiable=certifiable))
    run, _ = sweeper.run(eps)

    def fails(start, stop):
        return pooled(distribution.mass[start:stop].sum(axis=0), certifiable) > eps

    assert (oracle.most_runs(fails, 14) or 0) == run.n_classes


def pooled(cells, certifiable):
    """Theorem C for t = 2, ell = 3, N = 60, in floats, by the formula."""
    cells = np.sort(cells)[::-1]
    best = np.inf
    for size in range(3, 6):
        weights = np.array([1.0])
        for q in (1 - cells[:size]) ** 60:
            weights = np.append(weights * (1 - q), 0.0) + np.append(0.0, weights * q)
        tail = [float(weights @ np.maximum(0, np.arange(size + 1) - k)) for k in range(4)]
        spare = size - 3
        if certifiable:
            best = min(best, *(tail[k] / (spare // 2 + 1 - k) for k in range(spare // 2 + 1)))
        else:
            pairs = [(i, j) for i in range(spare + 1) for j in range(spare + 1 - i)]
            best = min(best, *((tail[i] + tail[j]) / (spare + 1 - i - j) for i, j in pairs))
    return best


def test_per_class_plan_for_certificates():
    fine = sharp_runs_per_class(GEOMETRIC, 10, 36_866, 2, 0.1)
    safe = sharp_runs(GEOMETRIC, 10, 36_866, 2, 0.02, CERTIFIABLE)
    assert (fine.class_failures_upper <= 0.1).all()
    assert fine.n_classes > 1.5 * safe.n_classes
    assert fine.failure_upper == pytest.approx(2 * fine.class_failures_upper.sum(), rel=1e-9)


def test_large_tables_take_the_way_through_a_sample(monkeypatch):
    rng = np.random.default_rng(3)
    distribution = random_distribution(rng, 20_000, 12, concentration=2.0)
    slow = sharp_runs(distribution, 4, 300_000, 2, 0.02)
    calls = []
    fit_many = sweep.Sweeper.fit_many

    def counted(self, budget):
        run = fit_many(self, budget)
        calls.append(run)
        return run

    monkeypatch.setattr(sweep, "MANY_ROWS", 10_000)
    monkeypatch.setattr(sweep.Sweeper, "fit_many", counted)
    fast = sharp_runs(distribution, 4, 300_000, 2, 0.02)
    assert calls
    assert calls[-1] is not None
    assert fast.failure_upper <= 0.02
    assert 0.98 * slow.n_classes <= fast.n_classes


def test_sums_over_ranges_are_exact():
    """The tree of sums gives every range; a wrong boundary would move a class."""
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 1000, (700, 3))
    distribution = JointDistribution.from_counts(counts + 1)
    sweeper = sweep.Sweeper(distribution, SharpBound(1, 10))
    from elldelta.core.generalize.sweep_kernels import range_sum

    out = np.empty(3, dtype=np.int64)
    for start, stop in [
        (0, 700),
        (0, 1),
        (7, 8),
        (8, 24),
        (3, 690),
        (63, 65),
        (64, 640),
        (699, 700),
        (1, 513),
    ]:
        range_sum(distribution.mass, sweeper.n_leaf_rows, sweeper.nodes, sweeper.offsets, start, stop, out)
        np.testing.assert_array_equal(out, (counts + 1)[start:stop].sum(axis=0))


def test_tiny_cells_do_not_make_the_bound_optimistic():
    """Differences of prefix sums would lose cells of 1e-18 behind a total near 1."""
    cells = np.full((400, 4), 1e-18)
    cells[:200] = (1.0 - 800e-18) / 800
    distribution = JointDistribution.from_probabilities(cells)
    plan = sharp_runs(distribution, 3, 20_000, 1, 0.01)
    assert plan.partition.class_of[200] == plan.partition.class_of[-1]  # nothing closes in the tiny half
    assert plan.failure_upper <= 0.01


def test_more_records_budget_or_fewer_releases_never_cost_many_classes():
    """The planner is a heuristic, but the trend must be right."""
    rng = np.random.default_rng(8)
    distribution = random_distribution(rng, 500, 10, concentration=1.0)
    by_records = [sharp_runs(distribution, 3, n, 2, 0.02).n_classes for n in (2_000, 8_000, 32_000)]
    assert by_records == sorted(by_records)
    by_releases = [sharp_runs(distribution, 3, 8_000, t, 0.02).n_classes for t in (1, 2, 3)]
    assert by_releases == sorted(by_releases, reverse=True)
    by_ell = [sharp_runs(distribution, ell, 8_000, 2, 0.02).n_classes for ell in (2, 3, 5)]
    assert by_ell == sorted(by_ell, reverse=True)
    by_budget = [sharp_runs(distribution, 3, 8_000, 2, budget).n_classes for budget in (0.001, 0.01, 0.1)]
    assert by_budget == sorted(by_budget)


def test_a_refusal_says_what_would_be_enough():
    with pytest.raises(RefusedError, match="Wait for") as refusal:
        sharp_runs(UNIFORM, 10, 20, 2, 0.02)
    needed = int(refusal.value.remedy.split()[2])
    assert sharp_runs(UNIFORM, 10, needed, 2, 0.02).n_classes == 1
    with pytest.raises(RefusedError):
        sharp_runs(UNIFORM, 10, needed - 1, 2, 0.02)


def test_a_refusal_when_no_number_of_records_is_enough():
    distribution = JointDistribution.from_counts([[5, 5, 0], [5, 5, 0]])
    with pytest.raises(RefusedError, match="fewest possible values has 2"):
        sharp_runs(distribution, 3, 10_000, 1, 0.01)
    with pytest.raises(RefusedError, match=r"within a failure of 0\.01"):
        sharp_runs_per_class(distribution, 3, 10_000, 1, 0.01)


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="budget"):
        sharp_runs(UNIFORM, 10, 1000, 2, 1.0)
    with pytest.raises(ParameterError, match="ell"):
        sharp_runs(UNIFORM, 51, 1000, 2, 0.1)
    with pytest.raises(ParameterError, match="certifiable plan"):
        SharpBound(2, 10, certifiable=True, shared_records=3)


@pytest.mark.parametrize(
    ("table", "ell", "n_records", "releases", "budget", "eta", "is_possible"),
    [
        (
            [[26, 11, 24], [29, 18, 0], [28, 0, 21], [16, 23, 2], [22, 9, 6], [1015, 1, 6]],
            2,
            300,
            2,
            0.5,
            1e-3,
            True,
        ),
        ([[19, 8], [0, 0], [9, 20], [11, 6], [5, 23], [28, 19], [100, 0]], 2, 300, 1, 0.5, 0.05, True),
        ([[0], [16], [4]], 1, 5, 3, 0.3, 0.01, False),
    ],
)
def test_rows_that_join_the_last_class_raise_the_price_of_eta(
    table, ell, n_records, releases, budget, eta, is_possible
):
    """The last class closed before its heaviest cell came: what is promised is recomputed, or refused."""
    distribution = JointDistribution.from_counts(table)
    options = {"eta": eta}
    if not is_possible:
        with pytest.raises(RefusedError, match="No classes keep"):
            sharp_runs(distribution, ell, n_records, releases, budget, options)
        return
    plan = sharp_runs(distribution, ell, n_records, releases, budget, options)
    again = evaluate_sharp(distribution, plan.partition, ell, n_records, releases, options)
    assert again.failure_upper == plan.failure_upper <= budget
