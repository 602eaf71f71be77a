"""Plans that count groups of like values: one witness of each, and the words for it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import FileError, ParameterError
from elldelta.files import seal
from elldelta.plan.plan import Plan
from elldelta.schema.hierarchy import HierarchyRows
from elldelta.schema.schema import Schema

GROUPS = {"lung": "cancer", "skin": "cancer", "bone": "cancer", "flu": "infection", "cold": "infection",
          "gout": "gout", "acne": "acne"}  # fmt: skip
ROWS = HierarchyRows(tuple((value, group, "*") for value, group in GROUPS.items()))


def table(seed, n_rows):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n_rows),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, n_rows)],
            "disease": np.array(list(GROUPS))[rng.integers(0, len(GROUPS), n_rows)],
        }
    )


@pytest.fixture(scope="module")
def model():
    past = table(0, 20_000)
    return ed.estimate(past, Schema.infer(past, ["age", "sex"], "disease", hierarchies={"disease": ROWS}))


@pytest.mark.parametrize("more", [{}, {"movers": "any", "delta": 0.001}, {"kind": "probabilistic"}])
def test_what_is_left_are_values_of_ell_groups(model, more):
    plan = ed.plan(model, ell=3, releases=2, records=3000, **more)
    groups = plan.schema.sensitive.value_groups
    assert plan.schema.sensitive.n_groups == 4
    assert all(len(set(groups[values])) == len(values) for values in plan.columns[0].witnesses)
    assert "at least 3 groups of values of 'disease'" in plan.promise
    assert Plan.from_dict(plan.to_dict()) == plan
    made = [ed.release(table(seed, 3000), plan) for seed in (1, 2)]
    assert set(made[0].table["disease"]) <= set(GROUPS)  # the values themselves
    assert made[0].manifest.diversity <= 4
    if "movers" not in more:
        shown = [own.table.groupby(["age", "sex"])["disease"].agg(set) for own in made]
        for place in set(shown[0].index) & set(shown[1].index):
            assert len({GROUPS[value] for value in shown[0][place] & shown[1][place]}) >= 3


def test_audits_count_groups(model):
    plan = ed.plan(model, ell=3, releases=2, records=3000)
    made = [ed.release(table(seed, 3000), plan) for seed in (1, 2)]
    found = ed.audit(made)
    assert 3 <= found.diversity_min <= 4
    assert any("count as one" in line.words for line in found.assumptions)
    people = pd.DataFrame({"age": [30, 31], "sex": ["F", "M"]})
    assert ed.audit(made, targets=people).targets.below == 0
    assert ed.audit_before(made[1], [made[0]]).diversity_min == found.diversity_min
    # The same records from somebody who has no groups: more is left than means something different.
    plain = replace(model.schema, sensitive=replace(model.schema.sensitive, hierarchy=None))
    tables = [own.table for own in made]
    assert ed.audit(tables, ell=3, columns=plain).diversity_min > 4
    assert ed.audit(tables, ell=3, columns=model.schema).diversity_min == found.diversity_min


def test_a_schema_keeps_its_groups(model):
    schema = model.schema
    assert Schema.from_toml(schema.to_toml()) == schema
    assert sorted(schema.sensitive.released_values().to_pylist()) == sorted(GROUPS)
    with pytest.raises(ParameterError, match="ell"):
        ed.plan(model, ell=5, releases=1, records=3000)
    for more in ({"closeness": 0.5}, {"kind": "paper"}):
        with pytest.raises(ParameterError, match="counts groups"):
            ed.plan(model, ell=3, releases=1, records=3000, **more)


def test_a_plan_that_counts_a_group_twice_is_refused(model):
    plain = replace(model.schema, sensitive=replace(model.schema.sensitive, hierarchy=None))
    plan = ed.plan(ed.estimate(table(0, 20_000), plain), ell=3, releases=1, records=3000)
    forged = replace(plan, schema=model.schema, promise="", conditions=())
    content = {
        key: value for key, value in forged.to_dict().items() if key not in ("kind", "format", "digest")
    }
    with pytest.raises(FileError, match="contradicts itself") as refusal:
        Plan.from_dict(seal("plan", forged.to_dict()["format"], content))
    assert "two values of one group" in refusal.value.found
