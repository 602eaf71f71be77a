"""Counting persons: what is counted may be added up over any union of classes, and is published as it is."""

import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elldelta as ed
from elldelta.agency.registration import Registration, registration_of, validate_registration
from elldelta.engines.duckdb import connect
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, seal
from elldelta.model import count, count_persons, rounding
from elldelta.release.manifest import FORMAT_VERSION, KIND, manifest_path, read_manifest
from elldelta.schema.schema import Categories, Column, Integers, Schema

DISEASES = ("flu", "hiv", "cold", "gout", "acne", "mumps")


def visits(n_people, seed, most_values=3):
    """People with one to three values, each with one to four records, some of them a year older."""
    rng = np.random.default_rng(seed)
    rows = []
    for who in range(n_people):
        age, sex = int(rng.integers(20, 60)), "MF"[rng.integers(2)]
        for disease in rng.choice(DISEASES, rng.integers(1, most_values + 1)):
            rows += [
                {"who": f"p{who}", "age": age + int(rng.integers(2)), "sex": sex, "disease": str(disease)}
                for _ in range(rng.integers(1, 5))
            ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def past():
    return visits(3000, 0)


@pytest.fixture(scope="module")
def model(past):
    schema = Schema.infer(past, ["age", "sex"], "disease", widen={"age": "18..62"})
    return ed.estimate(past, schema, person="who")


@pytest.fixture(scope="module")
def plan(model):
    return ed.plan(model, ell=3, releases=2, records=3000, delta=0.01, min_records=2)


rows = st.lists(
    st.tuples(st.sampled_from("pqrst"), st.integers(0, 5), st.sampled_from("xyz")), min_size=1, max_size=20
)


@given(rows, st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_no_union_of_classes_counts_more_persons_than_it_has(rows, class_of):
    """Adding up the persons of every combination would: somebody may be in two of them."""
    schema = Schema((Column("age", Integers(0, 5)),), Column("s", Categories(("x", "y", "z"))))
    frame = pd.DataFrame(rows, columns=["who", "age", "s"])
    with connect() as engine:
        found = count_persons(count(engine.open(frame), schema), "who").counts
    cells, classes = defaultdict(set), defaultdict(set)
    for who, age, value in rows:
        cells[class_of[age], "xyz".index(value)].add(who)
        classes[class_of[age]].add(who)
    unions = found.by_class(np.array(class_of)[found.ranks], 3)
    persons = np.bincount(np.array(class_of)[found.ranks], found.persons, minlength=3)
    for (one, value), n in np.ndenumerate(unions):
        assert n <= len(cells[one, value])
    assert all(n <= len(classes[one]) for one, n in enumerate(persons))
    # and nobody is lost: all persons, with all values, are counted once
    assert unions.sum() == len({(who, value) for who, _, value in rows})
    assert persons.sum() == len({who for who, *_ in rows})


def test_a_release_shows_every_person_once_per_value(plan, tmp_path):
    table, path = visits(4000, 1), tmp_path / "release.parquet"
    made = ed.release(table, plan, to=path, person="who")
    pairs = table.drop_duplicates(["who", "disease"])
    assert made.manifest.records_released == len(pairs)
    shown = pd.read_parquet(path)
    assert list(shown) == ["age", "sex", "disease"]
    assert shown.disease.value_counts().to_dict() == pairs.disease.value_counts().to_dict()
    said = made.manifest.persons
    assert said["persons"] == 4000
    assert said["records_repeated"] == len(table) - len(pairs)
    assert said["persons_per_class"] >= 6
    assert read_manifest(manifest_path(path)).persons == said
    verified = ed.verify(path, plan)
    assert verified.claimed["persons"] == 4000
    assert "persons 4,000" in " ".join(verified.sentences)
    registration = Registration.from_bytes(registration_of(path, plan).to_bytes())
    assert validate_registration(plan, registration, owner="a").counts.sum() == len(pairs)


def test_a_plan_of_people_with_several_records_counts_records_for_nobody(model, past, plan, tmp_path):
    """All values of a class may be those of one person, if records are counted: it passes, and names them."""
    assert plan.persons
    assert any("counts persons, not records" in condition for condition in plan.conditions)
    with pytest.raises(ParameterError, match="no column tells them apart") as refused:
        ed.release(visits(4000, 1), plan, to=tmp_path / "release.csv")
    assert refused.value.parameter == ("person",)
    assert not list(tmp_path.iterdir())
    wish = {"ell": 3, "releases": 2, "records": 3000}
    by_records = ed.plan(ed.estimate(past, model.schema), **wish)
    assert not by_records.persons
    assert "persons" not in " ".join(by_records.conditions)
    rounded = rounding.rounded(model, np.random.default_rng(1))
    noisy = ed.estimate(past, model.schema, person="who", epsilon=1, delta_dp=1e-6, domains_are_public=True)
    assert noisy.counts_persons
    for known in (rounded, ed.merge_models([ed.estimate(past, model.schema), model])):
        assert ed.plan(known, **wish).persons
    for make in (ed.plan, ed.frontier):
        with pytest.raises(RefusedError, match="classes are fixed"):
            make(model, **(wish | {"records": [3000] if make is ed.frontier else 3000}), merge_risk=0.1)


def test_a_frontier_shows_the_plans_that_can_be_made_of_persons(model, past):
    """Not the paper's where people have several values: they are no independent records."""
    asked = {"ell": 3, "releases": 2, "records": [3000]}
    [row] = ed.frontier(model, **asked).rows
    assert row.classes == {"certified": ed.plan(model, **(asked | {"records": 3000})).n_classes}
    with pytest.raises(RefusedError, match="not made from persons with several values"):
        ed.frontier(model, **asked, kind="probabilistic")
    once = ed.estimate(past.drop_duplicates(["who"]), model.schema, person="who")
    repeated = ed.estimate(pd.concat([past.drop_duplicates(["who"])] * 2), model.schema, person="who")
    assert repeated.counts_persons
    for known in (once, repeated):
        [row] = ed.frontier(known, **asked).rows
        assert set(row.classes) == {"paper", "certified"}


def test_a_release_that_counts_records_does_not_follow_such_a_plan(plan, tmp_path):
    path = tmp_path / "release.csv"
    ed.release(visits(4000, 1), plan, to=path, person="who")
    document = json.loads(manifest_path(path).read_text())
    content = {key: document[key] for key in document.keys() - {"kind", "format", "digest"}}
    content["records_read"] -= content["persons"]["records_repeated"]
    content["persons"] = None
    manifest_path(path).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))
    ed.verify(path)
    with pytest.raises(FileError, match="It counts records, and releases of this plan count persons"):
        ed.verify(path, plan)


def test_witnesses_need_so_many_persons_and_not_records(plan):
    """A value that one person has, however often, is no witness where two persons are needed."""
    table = pd.DataFrame(
        [
            {
                "who": f"{age} {sex} {disease} {copy}" if age > 26 or disease == "flu" else f"one {disease}",
                "age": age,
                "sex": sex,
                "disease": disease,
            }
            for age in range(18, 63)
            for sex in "MF"
            for disease in DISEASES
            for copy in range(12)
        ]
    )
    numbered = table.assign(who=range(len(table)))
    assert ed.release(numbered, plan, person="who").manifest.classes_published == plan.n_classes
    with pytest.raises(RefusedError, match="does not pass the certificate"):
        ed.release(table, plan, person="who")


def test_classes_need_persons(model):
    """One person has all values of a class: five values, one person."""
    plan = ed.plan(model, ell=3, releases=1, records=60, delta=0.1)
    frame = pd.DataFrame(
        [
            {"who": f"{age}-{copy}", "age": age, "sex": sex, "disease": disease}
            for age in range(18, 63)
            for sex in "MF"
            for copy in range(2)
            for disease in DISEASES
        ]
    )
    ed.release(frame, plan, person="who")
    few = frame[(frame.age == 20) | (frame.age > 40)]
    few = few[(few.age > 40) | (few.who == "20-0")]
    ed.release(few.assign(who=range(len(few))), plan, person="who")
    with pytest.raises(RefusedError, match="Every class needs 3 persons"):
        ed.release(few, plan, person="who")


def test_columns_with_a_role_tell_no_persons_apart(plan, past):
    for name in ("age", "disease", "Sex"):
        with pytest.raises(ParameterError, match="cannot tell persons apart"):
            ed.release(past, plan, person=name)


def test_a_model_of_persons_is_read_again(model, past, tmp_path):
    ed.write_model(model, tmp_path / "model.parquet")
    assert ed.read_model(tmp_path / "model.parquet") == model
    assert model.n_records == len(past.drop_duplicates(["who", "disease"]))
    assert model.accounting.n_repeated == len(past) - model.n_records


@pytest.mark.parametrize(
    "changes",
    [
        {"persons": 10**6},
        {"persons_per_class": 10**6},
        {"persons_per_class": 1},
        {"records_repeated": 0},
        {"records_repeated": -1},
        {"more": 1},
    ],
)
def test_a_claim_that_the_table_contradicts_is_noticed(plan, tmp_path, changes):
    path = tmp_path / "release.parquet"
    ed.release(visits(4000, 1), plan, to=path, person="who")
    document = json.loads(manifest_path(path).read_text())
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    content["persons"] |= changes
    manifest_path(path).write_bytes(as_bytes(seal(KIND, 1, content)))
    with pytest.raises(FileError):
        ed.verify(path, plan)


def test_a_check_counts_persons_and_warns_without():
    table = pd.DataFrame(
        {
            "patient_id": [1, 1, 1, 2, 3, 3, 4],
            "sex": ["f", "f", "f", "f", "m", "m", "m"],
            "disease": ["flu", "flu", "hiv ", "hiv", "flu", "NA", "hiv"],
        }
    )
    plain = ed.check(table, ["sex"], "disease")
    assert (plain.k, plain.ell, plain.persons) == (2, 2, None)
    found = ed.check(table, ["sex"], "disease", person="patient_id")
    assert (found.k, found.ell, found.persons, found.warnings) == (2, 2, 4, ())
    assert found.records == 5  # flu and hiv of the first, hiv of the second, one value of each other one
    with pytest.raises(ParameterError):
        ed.check(table, ["sex"], "disease", person="sex")
    panel = pd.DataFrame(
        {"nr": np.arange(60) // 3, "sex": np.arange(60) // 3 % 2, "born": np.arange(60) // 3 % 5}
    )
    warned = ed.check(panel.assign(disease=np.arange(60) % 4), ["sex", "born"], "disease").warnings
    assert [(note.parameter, note.value) for note in warned] == [("person", "nr")]


class TestIndependentRecords:
    """A probabilistic plan needs independent records, and those of one person are not.

    Everybody has ten of twenty values, the first ten or the others. A table of 60 records holds six people. A
    class of all of them shows eleven values unless all six are of one kind: it fails once in 32 tables.
    """

    @staticmethod
    def table(kinds):
        who = np.repeat(np.arange(len(kinds)), 10)
        values = (np.arange(10) + 10 * np.asarray(kinds)[:, np.newaxis]).ravel()
        return pd.DataFrame({"who": who, "sex": "F", "value": [f"v{value:02}" for value in values]})

    @pytest.fixture(scope="class")
    @classmethod
    def past(cls):
        return cls.table([0, 1] * 300)

    @pytest.mark.parametrize("kind", ["probabilistic", "paper"])
    def test_no_such_plan_is_made_where_persons_have_several_values(self, past, kind, tmp_path):
        schema = ed.Schema.infer(past, ["sex"], "value")
        wish = {"ell": 11, "releases": 1, "records": 600, "kind": kind, "delta": 0.001}
        assert ed.plan(ed.estimate(past, schema), **wish).failure_upper < 1 / 32  # what 60 draws would do
        model = ed.estimate(past, schema, person="who")
        ed.write_model(model, tmp_path / "past.parquet")
        merged = ed.merge_models([ed.estimate(past, schema), model])
        rounded = rounding.rounded(model, np.random.default_rng(1))
        for known in (model, ed.read_model(tmp_path / "past.parquet"), merged, rounded):
            with pytest.raises(RefusedError, match="not made from persons with several values"):
                ed.plan(known, **wish)
        once = ed.estimate(past.drop_duplicates("who"), schema, person="who")
        assert ed.plan(once, **(wish | {"ell": 2})).kind == kind
        assert ed.plan(model, **(wish | {"kind": "certified"})).is_certified

    def test_no_release_of_such_a_plan_counts_persons(self, past, tmp_path):
        schema = ed.Schema.infer(past, ["sex"], "value")
        wish = {"ell": 11, "releases": 1, "records": 60, "kind": "probabilistic", "delta": 0.001}
        plan = ed.plan(ed.estimate(past, schema), **wish)
        assert plan.failure_upper < 1 / 32
        with pytest.raises(ParameterError, match="under certified plans only"):
            ed.release(self.table([0, 1, 0, 1, 1, 0]), plan, person="who")
        path = tmp_path / "release.csv"
        ed.release(self.table([0, 1, 0, 1, 1, 0]), plan, to=path)
        document = json.loads(manifest_path(path).read_text())
        content = {key: document[key] for key in document.keys() - {"kind", "format", "digest"}}
        content["persons"] = {"persons": 6, "records_repeated": 0, "persons_per_class": 6}
        manifest_path(path).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))
        with pytest.raises(FileError, match="It counts persons"):
            ed.verify(path, plan)
