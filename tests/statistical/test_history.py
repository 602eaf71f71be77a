"""A probabilistic plan with a confidence in its history holds for the true distribution as often as it says.

A trial: past records are drawn from a distribution that is known here, a plan is made from them, and what its
classes promise is computed again from the true distribution. The plan misleads if that is worse than what it
allows. False alarms: misleading plans are at most Binomial(n, 1 - confidence); the test fails by chance with
probability below 1e-6. Rejects: plans that take the past records for the distribution.
"""

import numpy as np
import pytest
from scipy.stats import beta, binom
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.core.distribution import JointDistribution
from elldelta.core.generalize.bounds import SharpBound
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import seal
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.plan.history import cells_lower, split
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

SCHEMA = Schema(
    (Column("age", Integers(0, 59)),), Column("disease", Categories(tuple(f"d{n}" for n in range(8))))
)
WISH = {"ell": 3, "releases": 2, "records": 1500, "delta": 0.05, "guarantee": "probabilistic"}
CONFIDENCE = 0.8


def model_of(table, **account):
    rows, values = np.nonzero(table)
    n = int(table.sum())
    accounting = Accounting(n + sum(account.values()), n, **account)
    return Model(Counts.from_cells(SCHEMA, rows, values, table[rows, values], accounting))


def truth(seed=3):
    return np.random.default_rng(seed).dirichlet(np.full(60 * 8, 0.8)).reshape(60, 8)


def misleads(plan, probabilities):
    masses = np.zeros((plan.n_classes, 8))
    np.add.at(masses, plan.class_of(np.arange(60)), probabilities)
    true = SharpBound(plan.ell, plan.records, plan.releases).evaluate(JointDistribution(masses, 1.0))
    return true.failure_upper > plan.releases * plan.delta


@pytest.mark.statistical
def test_the_confidence_is_kept_and_without_it_there_is_none():
    n_trials, rng, probabilities = quick_or_all(60, 150), np.random.default_rng(4), truth()
    most = binom.isf(1e-6, n_trials, 1.0 - CONFIDENCE)
    wrong, wrong_plain = 0, 0
    for _ in range(n_trials):
        past = model_of(rng.multinomial(3000, probabilities.ravel()).reshape(60, 8))
        plan = ed.plan(past, history_confidence=CONFIDENCE, **WISH)
        assert plan.failure_upper <= 0.1
        wrong += misleads(plan, probabilities)
        wrong_plain += misleads(ed.plan(past, **WISH), probabilities)
    assert wrong <= most
    assert wrong_plain > most


def test_bounds_of_all_cells_are_those_of_the_definition():
    counts = np.array([[0, 1, 40], [7, 2, 50]])
    lower = cells_lower(counts, 100, 0.06)
    for n, bound in zip(counts.ravel(), lower.ravel(), strict=True):
        # The smallest p with which n or more of 100 still occur with probability 0.01.
        assert bound == 0.0 if n == 0 else binom.sf(n - 1, 100, bound) == pytest.approx(0.01, rel=1e-6)
    assert lower[1, 0] <= beta.ppf(0.01, 7, 94)


def test_halves_add_up():
    past = model_of(np.random.default_rng(1).integers(0, 9, (60, 8)))
    halves = split(past, np.random.default_rng(0))
    assert ed.merge_models(halves) == past
    assert 0.4 < halves[0].n_records / past.n_records < 0.6


def test_a_plan_says_how_sure_it_is(tmp_path):
    past = model_of(np.random.default_rng(2).multinomial(20_000, truth().ravel()).reshape(60, 8))
    plan = ed.plan(past, history_confidence=0.95, **WISH)
    plain = ed.plan(past, **WISH)
    assert 1 < plan.n_classes < plain.n_classes
    ed.write_plan(plan, tmp_path / "plan.json")
    again = ed.read_plan(tmp_path / "plan.json")
    assert again.history_confidence == 0.95
    assert any("mislead with probability at most 0.05" in words for words in again.conditions)
    document = plan.to_dict()
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    with pytest.raises(FileError):
        ed.Plan.from_dict(seal("plan", 1, {**content, "history_confidence": 0.99}))


def test_what_needs_no_confidence_or_can_have_none_is_refused():
    past = model_of(np.random.default_rng(2).integers(5, 60, (60, 8)))
    with pytest.raises(ParameterError, match="certificate needs no confidence"):
        ed.plan(past, ell=3, records=1500, history_confidence=0.95)
    with pytest.raises(ParameterError, match="between"):
        ed.plan(past, history_confidence=1.0, **WISH)
    clustered = model_of(np.random.default_rng(2).integers(5, 60, (60, 8)), n_repeated=10)
    with pytest.raises(RefusedError, match="independent"):
        ed.plan(clustered, history_confidence=0.95, **WISH)
    few = model_of(np.random.default_rng(2).multinomial(40, truth().ravel()).reshape(60, 8))
    with pytest.raises(RefusedError, match="too few"):
        ed.plan(few, history_confidence=0.95, **{**WISH, "records": 30})
