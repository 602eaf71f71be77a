"""Whoever gives something of the wrong type is told so in three parts, not by a traceback."""

import numpy as np
import pyarrow as pa
import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows

import elldelta as ed
from elldelta.errors import ParameterError


@pytest.fixture(scope="module")
def given():
    past = pa.Table.from_pylist(make_rows(3000, seed=1))
    schema = ed.Schema.infer(past, quasi_identifiers=QUASI_IDENTIFIERS, sensitive=SENSITIVE)
    model = ed.estimate(past, schema)
    plan = ed.plan(model, ell=3, releases=2, records=2500)
    return {"past": past, "schema": schema, "model": model, "plan": plan, "release": ed.release(past, plan)}


ARRAY = np.zeros((3, 2))

WRONG = {
    "names in one text": lambda g: ed.Schema.infer(
        g["past"], quasi_identifiers="gender,age", sensitive=SENSITIVE
    ),
    "sensitive columns that are no names": lambda g: ed.Schema.infer(
        g["past"], quasi_identifiers=["age"], sensitive=["disease", 3]
    ),
    "an array to infer from": lambda g: ed.Schema.infer(
        ARRAY, quasi_identifiers=["age"], sensitive=SENSITIVE
    ),
    "an array to estimate from": lambda g: ed.estimate(ARRAY, g["schema"]),
    "a number as schema": lambda g: ed.estimate(g["past"], 3),
    "an unknown engine": lambda g: ed.estimate(g["past"], g["schema"], engine="abacus"),
    "a table as model": lambda g: ed.plan(g["past"], ell=3, releases=1, records=2500),
    "a plan as model": lambda g: ed.plan(g["plan"], ell=3, releases=1, records=2500),
    "a real ell": lambda g: ed.plan(g["model"], ell=4.0, releases=1, records=2500),
    "a text as ell": lambda g: ed.plan(g["model"], ell="4", releases=1, records=2500),
    "an array as ell": lambda g: ed.plan(g["model"], ell=ARRAY, releases=1, records=2500),
    "real records": lambda g: ed.plan(g["model"], ell=4, releases=1, records=2500.5),
    "a text as delta": lambda g: ed.plan(g["model"], ell=4, releases=1, records=2500, delta="0.1"),
    "an unknown kind": lambda g: ed.plan(g["model"], ell=4, releases=1, records=2500, kind="circles"),
    "rows as a hierarchy": lambda g: ed.plan(
        g["model"], ell=3, releases=1, records=2500, hierarchies={"gender": [["F", "*"], ["M", "*"]]}
    ),
    "one hierarchy for nobody": lambda g: ed.plan(
        g["model"], ell=3, releases=1, records=2500, hierarchies=["gender.csv"]
    ),
    "a model as plan": lambda g: ed.release(g["past"], g["model"]),
    "an array to release": lambda g: ed.release(ARRAY, g["plan"]),
    "a name for classes that do not move": lambda g: ed.release(g["past"], g["plan"], announced="2026"),
    "a single path to audit": lambda g: ed.audit("release.csv"),
    "a single release to audit": lambda g: ed.audit(g["release"]),
    "a single table to audit": lambda g: ed.audit(g["past"]),
    "a number to audit": lambda g: ed.audit([3]),
    "nothing to audit": lambda g: ed.audit([]),
    "a number to verify": lambda g: ed.verify(3),
    "a single model to merge": lambda g: ed.merge_models(g["model"]),
    "a number to read": lambda g: ed.read_plan(3),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types_are_refused_in_three_parts(given, case):
    with pytest.raises(ParameterError) as caught:
        WRONG[case](given)
    assert caught.value.problem.endswith(".")
    assert len(str(caught.value)) < 400


def test_paths_are_taken_wherever_objects_are(given, tmp_path):
    (tmp_path / "schema.toml").write_text(given["schema"].to_toml(), encoding="utf-8")
    model = ed.estimate(given["past"], tmp_path / "schema.toml")
    assert model.digest == given["model"].digest
    ed.write_model(model, tmp_path / "model.parquet")
    plan = ed.plan(str(tmp_path / "model.parquet"), ell=3, releases=2, records=2500)
    assert plan == given["plan"]
    ed.write_plan(plan, tmp_path / "plan.json")
    release = ed.release(given["past"], str(tmp_path / "plan.json"), to=tmp_path / "a.parquet", name="spring")
    assert ed.verify(str(tmp_path / "a.parquet"), tmp_path / "plan.json").plan_digest == plan.digest
    assert ed.audit([release, str(tmp_path / "a.parquet")], model=tmp_path / "model.parquet").holds
    both = ed.merge_models([model, tmp_path / "model.parquet"])
    assert both.n_records == 2 * model.n_records


def test_whole_numbers_of_numpy_are_whole_numbers(given):
    plan = ed.plan(given["model"], ell=np.int64(3), releases=np.int32(2), records=np.int64(2500))
    assert plan == given["plan"]
