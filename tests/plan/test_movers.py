"""Plans for people who move: what is promised, what is written, what is refused, and whether it is true."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import FileError, ParameterError
from elldelta.files import seal
from elldelta.ledger.ledger import OpenLedger
from elldelta.plan.plan import Plan
from elldelta.schema.schema import Categories, Column, Integers, Schema

DISEASES = np.array(["flu", "cold", "gout", "acne", "mumps", "asthma", "ulcer", "angina"])


def table(seed, n_rows):
    """What people have depends on their age: classes by themselves have very different witnesses."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 60, n_rows)
    place = (rng.geometric(0.5, n_rows) - 1 + 2 * ((age - 20) // 10)) % len(DISEASES)
    return pd.DataFrame(
        {"age": age, "sex": np.array(["F", "M"])[rng.integers(0, 2, n_rows)], "disease": DISEASES[place]}
    )


@pytest.fixture(scope="module")
def past():
    return table(0, 20_000)


@pytest.fixture(scope="module")
def still(past):
    return ed.estimate(past, Schema.infer(past, ["age", "sex"], "disease", widen={"age": "no"}))


@pytest.fixture(scope="module")
def moving(past, still):
    age, sex = still.schema.quasi_identifiers
    schema = replace(still.schema, quasi_identifiers=(replace(age, changes=True), sex))
    return ed.estimate(past, schema)


@pytest.fixture(scope="module")
def plans(still, moving):
    asked = {"ell": 3, "releases": 2, "records": 4000, "delta": 0.001}
    return {
        "nobody": ed.plan(still, **asked),
        "declared": ed.plan(moving, **asked),
        "any": ed.plan(moving, movers="any", **asked),
    }


def fewest_left(plan, releases):
    """The fewest values left to anybody who is anywhere in their range, over every pair of classes."""
    moves = plan.promises[0].ranges if plan.movers else np.arange(plan.n_classes)
    shown = [published(plan, release) for release in releases]
    fewest = {True: plan.schema.n_values, False: plan.schema.n_values}
    for first, second in product(range(plan.n_classes), repeat=2):
        if shown[0][first].any() and shown[1][second].any():
            left = int((shown[0][first] & shown[1][second]).sum())
            fewest[bool(moves[first] == moves[second])] = min(
                fewest[bool(moves[first] == moves[second])], left
            )
    return fewest


def published(plan, release):
    """Which values a release shows in the published class of every class of the plan."""
    manifest, rows = release.manifest, release.table
    labels = list(zip(*(rows[name].astype(str) for name in plan.schema.names), strict=True))
    values = plan.schema.sensitive.domain.values
    found = {label: np.zeros(len(values), bool) for label in labels}
    for label, value in zip(labels, rows[plan.schema.sensitive.name], strict=True):
        found[label][values.index(value)] = True
    group_of = getattr(manifest.classes, "group_of", np.arange(plan.n_classes))
    named = ed_labels(plan, manifest.classes)
    return [found.get(named[group], np.zeros(len(values), bool)) for group in group_of]


def ed_labels(plan, classes):
    from elldelta.plan.classes import class_labels

    return class_labels(plan.schema, classes)


@pytest.mark.parametrize("name", ["declared", "any"])
def test_whoever_moves_keeps_ell_values_and_the_file_keeps_the_promise(plans, name, tmp_path):
    plan = plans[name]
    releases = [ed.release(table(seed, 4000), plan) for seed in (1, 2)]
    assert fewest_left(plan, releases)[True] >= 3
    assert plan.movers == name
    assert Plan.from_dict(plan.to_dict()) == plan
    assert (
        len({frozenset(values.tolist()) for values in plan.columns[0].witnesses})
        <= plan.promises[0].ranges.max() + 1
    )
    assert plan.about_changes in plan.conditions
    for release, owner in zip(releases, "AB", strict=True):
        path = tmp_path / f"{owner}.csv"
        ed.release(table(ord(owner), 4000), plan, to=path, ledger=ed.Ledger(tmp_path / "ledger", owner))
        ed.verify(path, plan)
        assert release.manifest.ell == 3
    with OpenLedger.open(tmp_path / "ledger", plan.digest, plan.promises) as ledger:
        assert ledger.state.n_releases == 2


def test_without_it_somebody_who_moves_falls_below(plans):
    """The broken variant: certified all the same, and enough for those who stay."""
    plan = plans["nobody"]
    left = fewest_left(plan, [ed.release(table(seed, 4000), plan) for seed in (1, 2)])
    assert left[True] >= 3 > left[False]
    assert "stay in their class" in plan.about_changes
    assert plan.about_changes in plan.conditions
    assert "Everybody has the same value of 'disease' in every linked release." in plan.conditions


def test_those_who_stay_the_same_are_apart(plans):
    """A man and a woman never change places here, so their classes need nothing in common."""
    plan = plans["declared"]
    lows, highs = plan.classes.hulls(plan.schema)
    for number in range(plan.promises[0].ranges.max() + 1):
        own = plan.promises[0].ranges == number
        for other in set(plan.promises[0].ranges.tolist()) - {number}:
            rest = plan.promises[0].ranges == other
            assert highs[own, 1].max() < lows[rest, 1].min() or highs[rest, 1].max() < lows[own, 1].min()
    assert plans["any"].n_classes <= plan.n_classes <= plans["nobody"].n_classes


def test_a_plan_whose_classes_have_nothing_in_common_is_refused(plans):
    document = plans["nobody"].to_dict()
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    forged = replace(plans["nobody"], movers="any", promise="", conditions=())
    content |= {"movers": "any", "promise": forged.promise, "conditions": list(forged.conditions)}
    with pytest.raises(FileError, match="contradicts itself") as refusal:
        Plan.from_dict(seal("plan", 1, content))
    assert "in common" in refusal.value.found


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "probabilistic"},
        {"kind": "paper"},
        {"owners": 2, "releases": 1},
        {"closeness": 0.4},
    ],
)
def test_what_is_not_for_people_who_move_is_refused(moving, asked):
    with pytest.raises(ParameterError, match="people who move") as refusal:
        ed.plan(moving, **{"ell": 3, "releases": 2, "records": 4000, **asked})
    assert "'age'" in refusal.value.found or "closeness" in asked
    assert "birth year" in refusal.value.remedy


@pytest.mark.parametrize("asked", [{"delta": 0.01}, {"min_records": 2}])
def test_other_wishes(moving, asked):
    plan = ed.plan(moving, ell=2, releases=2, records=4000, **asked)
    assert Plan.from_dict(plan.to_dict()) == plan
    assert plan.n_classes > 1
    if "delta" in asked:
        assert plan.failure_upper <= 0.02


def test_a_schema_says_what_changes(moving, still):
    assert Schema.from_toml(moving.schema.to_toml()) == moving.schema
    assert Schema.from_dict(moving.schema.to_dict()) == moving.schema
    assert moving.schema.changing == ("age",)
    assert still.schema.to_dict()["quasi_identifiers"][0]["changes"] is False
    with pytest.raises(ed.ElldeltaError, match="is said to change"):
        replace(still.schema, sensitive=replace(still.schema.sensitive, changes=True))
    with pytest.raises(ed.ElldeltaError, match="true or false") as refusal:
        Schema.from_toml(moving.schema.to_toml().replace("changes = true", 'changes = "yes"', 2))
    assert "line" in refusal.value.found


def test_ranges_in_which_few_values_of_another_column_occur_are_joined():
    """Classes are those of one column, and in some of their ranges too little of the other one occurs."""
    rng = np.random.default_rng(0)
    places, diseases, pays = ("A", "B", "C"), [f"d{number}" for number in range(6)], ("a", "b", "c")
    place = rng.choice(3, 800)
    rows = pd.DataFrame(
        {
            "age": rng.integers(0, 12, 800),
            "place": np.array(places)[place],
            "job": rng.choice(["p", "q"], 800),
            "disease": np.array(diseases)[(rng.geometric(0.35, 800) - 1) % 6],
            "pay": rng.choice(pays, 800),
        }
    )
    age, home = Column("age", Integers(0, 20)), Column("place", Categories(places))
    schema = Schema(
        (age, home, Column("job", Categories(("p", "q")), changes=True)),
        Column("disease", Categories(tuple(diseases))),
        also_sensitive=(Column("pay", Categories(pays)),),
    )
    asked = {"ell": {"disease": 2, "pay": 2}, "releases": 2, "records": 30_000, "delta": 0.1}
    plan = ed.plan(ed.estimate(rows, schema), **asked)
    assert plan.n_classes > 10
    assert plan.promises[0].ranges.max() > 0
    for column in plan.columns:
        assert len({frozenset(values.tolist()) for values in column.witnesses}) == 1  # all in common
    assert Plan.from_dict(plan.to_dict()) == plan
