"""What a plan tells of past counts: rounded down to a ladder, always; promises stay on the safe side."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planned import with_column

import elldelta as ed
from elldelta.core.distribution import JointDistribution
from elldelta.core.ladder import ladder, rungs_below
from elldelta.plan.failure import sharp_failures
from elldelta.plan.plan import Plan
from elldelta.plan.words import rounded_up
from elldelta.schema.schema import Schema

SICK = np.array(["flu", "cold", "gout", "acne", "mumps", "hiv"])


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30))
def test_the_rung_below_is_no_larger_and_at_most_half_smaller(counts):
    counts = np.array(counts)
    told = rungs_below(counts)
    assert (told <= counts).all()
    assert ((told == 0) == (counts < 5)).all()
    shown = told > 0
    assert (counts[shown] < 2 * told[shown]).all()
    assert set(told.tolist()) <= set(ladder(10**7).tolist())


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_a_larger_class_never_tells_less(counts):
    """What the search for classes relies on."""
    counts = np.array(counts)
    more = counts + np.random.default_rng(len(counts)).integers(0, 40, counts.size)
    assert (rungs_below(counts) <= rungs_below(more)).all()


def test_both_forms_of_a_table_are_rounded_alike():
    table = np.array([[3, 9, 0], [50, 61, 100]])
    assert JointDistribution.from_counts(table).rounded_down().mass.tolist() == [[0, 5, 0], [50, 60, 95]]
    sparse = JointDistribution.from_cells([0, 2, 5], [0, 1, 0, 1, 2], [3, 9, 50, 61, 100], 3)
    assert sparse.rounded_down().mass.cells.tolist() == [5, 50, 60, 95]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"age": rng.integers(20, 50, 6000), "zip": rng.choice(list("ABCD"), 6000)})
    table["disease"] = SICK[np.minimum(rng.geometric(0.4, 6000) - 1, 5)]
    return ed.estimate(table, Schema.infer(table, ["age", "zip"], "disease"))


WISHES = [
    {"ell": 3},
    {"ell": 3, "merge_risk": 0.1},
    {"ell": 3, "releases": 2},
    {"ell": 3, "owners": 2},
    {"ell": 3, "owners": 2, "merge_risk": 0.1},
    {"ell": 3, "min_records": 2},
    {"ell": 3, "movers": "any"},
    {"ell": 3, "kind": "probabilistic"},
    {"ell": 3, "releases": 1, "kind": "paper", "records": 60_000},
    {"closeness": 0.4},
    {"ell": 2, "closeness": 0.4},
]


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_every_number_of_a_plan_from_counts_is_on_a_rung(model, wish):
    plan = ed.plan(model, **{"releases": 1, "records": 5000} | wish)
    assert Plan.from_dict(plan.to_dict()) == plan
    [column] = plan.columns
    near = column.closeness
    counts = column.past_counts if near is None else near.past_sizes
    assert set(counts.tolist()) <= set(ladder(model.n_records).tolist())
    # Against the true counts: never above, and below by less than a rung.
    found = model.counts.by_class(plan.class_of(model.ranks), plan.n_classes)
    true = found[column.witnesses.classes, column.witnesses.values]
    true = true if near is None else found.sum(axis=1)
    assert rungs_below(true).tolist() == counts.tolist()
    if near is None and "movers" not in wish:
        assert true.min() >= 5


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_the_failure_is_a_bound_and_follows_from_what_is_told(model, wish):
    """From the true counts follows less than from those that are told; no more is told than is allowed."""
    plan = ed.plan(model, **{"releases": 1, "records": 5000} | wish)
    found = model.counts.by_class(plan.class_of(model.ranks), plan.n_classes)
    [column] = plan.columns
    if plan.kind != "paper":
        exact = with_column(plan, past_counts=found[column.witnesses.classes, column.witnesses.values])
        k = plan.k if plan.k > column.ell * plan.min_records else 1
        true, worst = sharp_failures(exact, k=k)
        told, told_worst = sharp_failures(plan, k=k)
        allowed = plan.n_planned * plan.delta
        follows = allowed if column.closeness is not None else min(float(rounded_up(told)), allowed)
        assert true <= column.failure_upper == follows
        assert worst <= told_worst
        assert plan.moving is None or worst <= plan.moving.merge_risk * (1 + 1e-9)
    assert 0.0 <= column.failure_upper <= plan.n_planned * plan.delta


def test_one_past_person_seldom_changes_what_is_told(model):
    """The told number stays the same for most changes of one count: it is not the count itself."""
    counts = np.arange(5, 400)
    assert np.mean(rungs_below(counts) == rungs_below(counts + 1)) > 0.75
