"""Boxes over one ordered column: the paper's setting by the sharp bound, its inverses, its refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planned import CERTIFIABLE, evaluate_sharp, fewest_records, intervals

from elldelta.core.distribution import JointDistribution
from elldelta.core.occupancy import class_failures_upper
from elldelta.core.partition import Partition
from elldelta.core.sample_size import geometric_marginal, uniform_marginal
from elldelta.errors import ParameterError, RefusedError

UNIFORM = JointDistribution.product(uniform_marginal(3000), uniform_marginal(50))
GEOMETRIC = JointDistribution.product(uniform_marginal(3000), geometric_marginal(50, 0.95))
HUNDRED = Partition.from_starts(np.arange(0, 3000, 30), 3000)

CLASSES = [  # the table of docs/theory/sharper.md
    (UNIFORM, 10, 65_606, (1025, 512, 452, 256)),
    (UNIFORM, 30, 65_606, (512, 260, 256, 256)),
    (GEOMETRIC, 10, 36_866, (953, 256, 255, 130)),
    (GEOMETRIC, 30, 111_229, (520, 257, 256, 134)),
]


def random_distribution(rng, n_rows, n_values, concentration=0.5):
    cells = rng.dirichlet(np.full(n_rows * n_values, concentration))
    return JointDistribution.from_probabilities(cells.reshape(n_rows, n_values))


@pytest.mark.parametrize(("distribution", "ell", "n_records", "classes"), CLASSES)
def test_classes_at_the_paper_s_records(distribution, ell, n_records, classes):
    for releases, at_least in zip((1, 2, 3, 5), classes, strict=True):
        plan = intervals(distribution, ell, n_records, releases, 0.01 * releases)
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
    planned = intervals(distribution, ell, about, releases, budget)
    assert planned.n_classes >= 64  # cutting in two, again and again, finds fewer than the hundred alike


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 120),
    n_values=st.integers(2, 9),
    n_records=st.integers(20, 20_000),
    releases=st.integers(1, 3),
    counted=st.booleans(),
    checked_by=st.sampled_from(["nobody", "owner", "ledger"]),
    data=st.data(),
)
def test_a_plan_keeps_its_own_promise(seed, n_rows, n_values, n_records, releases, counted, checked_by, data):
    rng = np.random.default_rng(seed)
    if counted:
        distribution = JointDistribution.from_counts(rng.integers(0, 30, (n_rows, n_values)) + 1)
    else:
        distribution = random_distribution(rng, n_rows, n_values)
    ell = data.draw(st.integers(1, n_values))
    options = {"checked_by": checked_by}
    single = evaluate_sharp(distribution, Partition.single(n_rows), ell, n_records, releases, options)
    try:
        plan = intervals(distribution, ell, n_records, releases, 0.05, options)
    except RefusedError:
        assert single.failure_upper > 0.05
        return
    assert plan.partition.n_quasi_identifiers == n_rows
    assert sorted(plan.lows[:, 0].tolist())[1:] == (np.sort(plan.highs[:, 0])[:-1] + 1).tolist()
    # From scratch, by another way of adding up: the safe side within rounding, and within the budget.
    masses = distribution.generalized(plan.partition).mass / distribution.total
    again = class_failures_upper(masses, ell, n_records, releases, checked_by=checked_by)
    assert plan.bound.total(again.failures_upper) == pytest.approx(plan.failure_upper, rel=1e-9)
    assert plan.failure_upper <= 0.05
    assert plan.n_classes >= 1
    assert len(plan.witnesses) == plan.n_classes


def test_per_class_plan_for_certificates():
    fine = intervals(GEOMETRIC, 10, 36_866, 2, 0.1, {**CERTIFIABLE, "per_class": True})
    safe = intervals(GEOMETRIC, 10, 36_866, 2, 0.02, CERTIFIABLE)
    assert (fine.class_failures_upper <= 0.1).all()
    assert fine.n_classes > 1.5 * safe.n_classes
    assert fine.failure_upper == pytest.approx(2 * fine.class_failures_upper.sum(), rel=1e-9)


def test_tiny_cells_do_not_make_the_bound_optimistic():
    """Differences of prefix sums would lose cells of 1e-18 behind a total near 1."""
    cells = np.full((400, 4), 1e-18)
    cells[:200] = (1.0 - 800e-18) / 800
    distribution = JointDistribution.from_probabilities(cells)
    plan = intervals(distribution, 3, 20_000, 1, 0.01)
    assert plan.partition.class_of[200] == plan.partition.class_of[-1]  # nothing closes in the tiny half
    assert plan.failure_upper <= 0.01


def test_more_records_budget_or_fewer_releases_never_cost_many_classes():
    """The planner is a heuristic, but the trend must be right."""
    rng = np.random.default_rng(8)
    distribution = random_distribution(rng, 500, 10, concentration=1.0)
    by_records = [intervals(distribution, 3, n, 2, 0.02).n_classes for n in (2_000, 8_000, 32_000)]
    assert by_records == sorted(by_records)
    by_releases = [intervals(distribution, 3, 8_000, t, 0.02).n_classes for t in (1, 2, 3)]
    assert by_releases == sorted(by_releases, reverse=True)
    by_ell = [intervals(distribution, ell, 8_000, 2, 0.02).n_classes for ell in (2, 3, 5)]
    assert by_ell == sorted(by_ell, reverse=True)
    by_budget = [intervals(distribution, 3, 8_000, 2, budget).n_classes for budget in (0.001, 0.01, 0.1)]
    assert by_budget == sorted(by_budget)


def test_a_refusal_says_what_would_be_enough():
    with pytest.raises(RefusedError, match="Wait for") as refusal:
        intervals(UNIFORM, 10, 20, 2, 0.02)
    needed = int(refusal.value.remedy.split()[2])
    assert intervals(UNIFORM, 10, needed, 2, 0.02).n_classes == 1
    with pytest.raises(RefusedError):
        intervals(UNIFORM, 10, needed - 1, 2, 0.02)


def test_a_refusal_when_no_number_of_records_is_enough():
    distribution = JointDistribution.from_counts([[5, 5, 0], [5, 5, 0]])
    with pytest.raises(RefusedError, match="fewest possible values has 2"):
        intervals(distribution, 3, 10_000, 1, 0.01)
    with pytest.raises(RefusedError, match=r"within a failure of 0\.01"):
        intervals(distribution, 3, 10_000, 1, 0.01, {**CERTIFIABLE, "per_class": True})


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="budget"):
        intervals(UNIFORM, 10, 1000, 2, 1.0)
    with pytest.raises(ParameterError, match="ell"):
        intervals(UNIFORM, 51, 1000, 2, 0.1)
