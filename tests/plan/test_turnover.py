"""Plans for tables that live: how often a class can change, from the definition and by drawing updates."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elldelta as ed
from elldelta.core.updates import chance_of_change
from elldelta.errors import FileError, ParameterError
from elldelta.files import seal
from elldelta.plan.plan import Plan, write_plan

N = 20_000


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    values = np.array(["flu", "cold", "gout", "acne", "mumps", "croup", "polio", "colic"])
    shares = np.array([8, 7, 6, 5, 4, 3, 2, 1]) / 36
    past = pd.DataFrame(
        {
            "age": rng.integers(20, 60, 40_000),
            "zip": np.array(["A", "B", "C", "D"])[rng.integers(0, 4, 40_000)],
            "disease": rng.choice(values, 40_000, p=shares),
        }
    )
    schema = ed.Schema.infer(past, quasi_identifiers=["age", "zip"], sensitive="disease")
    return ed.estimate(past, schema)


@pytest.fixture(scope="module")
def living(model):
    return ed.plan(model, ell=3, records=N, turnover=0.05)


def present(mean, least):
    """The chance of at least so many records, where the number is Poisson."""
    return 1.0 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(least))


@given(
    st.lists(st.floats(0.0, 0.02), min_size=1, max_size=5),
    st.integers(1, 3),
    st.floats(0.01, 0.5),
    st.integers(1, 3),
)
@settings(max_examples=40)
def test_the_chance_of_a_change_is_that_of_enough_survivors(cells, ell, turnover, least):
    n_records = 500
    survives = [
        present(turnover * n_records * cell, least) ** 2 * present((1 - turnover) * n_records * cell, least)
        for cell in cells
    ]
    wanted = sum(
        math.prod(p if is_left else 1 - p for p, is_left in zip(survives, left, strict=True))
        for left in itertools.product((False, True), repeat=len(cells))
        if sum(left) >= ell
    )
    [found] = chance_of_change(np.array([cells]), ell, n_records, turnover, least)
    assert found == pytest.approx(wanted, abs=1e-9)


def changes(plan, rng, n_updates, *, skips_leavers=False):
    """The share of drawn updates in which a class may change, class by class, told from the groups alone."""
    cells, passed = plan.cells(), np.zeros(plan.n_classes)
    for _ in range(n_updates):
        shares = [plan.turnover, plan.turnover, 1.0 - plan.turnover][int(skips_leavers) :]
        seen = [rng.poisson(share * plan.records * cells) > 0 for share in shares]
        passed += np.logical_and.reduce(seen).sum(axis=1) >= plan.ell
    return passed / n_updates


def test_classes_change_as_often_as_was_estimated(living):
    """2,000 updates of every class: the mean errs by 0.0005 or so; 0.005 is ten times as much."""
    rng, estimate = np.random.default_rng(7), chance_of_change(living.cells(), living.ell, N, living.turnover)
    assert changes(living, rng, 2000).mean() == pytest.approx(estimate.mean(), abs=0.005)
    assert changes(living, rng, 2000, skips_leavers=True).mean() > estimate.mean() + 0.01
    assert estimate.min() > 1.0 - living.waiting_risk - 0.01


def test_a_turnover_makes_classes_that_can_change(model, living):
    plain = ed.plan(model, ell=3, records=N, waiting_risk=0.3)
    assert plain.n_classes > 2 * living.n_classes
    assert chance_of_change(plain.cells(), 3, N, 0.05).mean() < 0.7
    assert "0.05 of 20000 records come" in living.promise
    assert "can be expected to change in" in living.notes[-1]
    assert ed.plan(model, ell=3, records=N, turnover=0.2).n_classes > living.n_classes


def test_it_is_written_and_read(tmp_path, living):
    write_plan(living, tmp_path / "plan.json")
    found = ed.read_plan(tmp_path / "plan.json")
    assert found == living
    assert found.turnover == 0.05


@pytest.mark.parametrize("turnover", [0.01, 0.9, 0.0, "0.05", True, None])
def test_a_turnover_that_was_changed_is_noticed(living, turnover):
    document = living.to_dict() | {"turnover": turnover}
    document.pop("digest")
    kind, version = document.pop("kind").removeprefix("elldelta "), document.pop("format")
    with pytest.raises(FileError):
        Plan.from_dict(seal(kind, version, document))


@pytest.mark.parametrize(
    "wrong",
    [
        {"turnover": 0.0},
        {"turnover": 0.6},
        {"turnover": "much"},
        {"turnover": 0.1, "releases": 2},
        {"turnover": 0.1, "owners": 2},
        {"turnover": 0.1, "closeness": 0.4},
        {"turnover": 0.1, "waiting_risk": "auto"},
        {"turnover": 0.1, "guarantee": "probabilistic"},
        {"turnover": 0.00001},
        {"turnover": 0.1, "records": None, "classes": 5},
        {"turnover": 0.1, "movers": "any"},
    ],
)
def test_what_does_not_go_together(model, wrong):
    with pytest.raises(ParameterError):
        ed.plan(model, **{"ell": 3, "records": N} | wrong)
