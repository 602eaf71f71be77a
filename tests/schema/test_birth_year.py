"""Ages become years of birth, which do not change; columns that change are proposed and declared."""

import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import DataError, ParameterError
from elldelta.schema.schema import Integers, Schema

TABLE = pd.DataFrame({"age": [0, 40, 63, 40], "sex": list("FMFM"), "disease": ["flu", "cold", "flu", "gout"]})


@pytest.mark.parametrize(
    ("day", "texts"), [("2025-12-31", False), ("2026-01-01", False), ("2026-01-01", True)]
)
def test_a_year_of_birth_takes_the_place_of_an_age(tmp_path, day, texts):
    source = TABLE
    if texts:  # in CSV files everything is text
        source = tmp_path / "people.csv"
        TABLE.to_csv(source, index=False)
    schema = Schema.infer(source, ["birth_year", "sex"], "disease", birth_year={"age": day})
    assert schema.quasi_identifiers[0].domain == Integers(1962, 2025)
    assert schema.changing == ()
    model = ed.estimate(source, schema, birth_year={"age": day})
    assert sorted(schema.unrank(model.ranks)[:, 0] + 1962) == [1962, 1985, 2025]
    plan = ed.plan(model, ell=1, records=4, waiting_risk=0.5)
    release = ed.release(source, plan, birth_year={"age": day})
    assert release.manifest.records_released == 4


@pytest.mark.parametrize(
    ("ages", "error"),
    [
        ({"age": "2026-06-30"}, ParameterError),
        ({"age": "soon"}, ParameterError),
        ({"sex": "2026-01-01", "age": "2026-01-01"}, ParameterError),
        ({"years": "2026-01-01"}, DataError),
    ],
)
def test_what_leaves_the_year_open_is_refused(ages, error):
    with pytest.raises(error) as refusal:
        Schema.infer(TABLE, ["birth_year", "sex"], "disease", birth_year=ages)
    assert refusal.value.found


def test_a_column_that_is_there_is_not_replaced():
    table = TABLE.assign(birth_year=2000)
    with pytest.raises(ParameterError, match="No year of birth") as refusal:
        Schema.infer(table, ["birth_year"], "disease", birth_year={"age": "2026-01-01"})
    assert "already" in refusal.value.found


def test_ages_are_proposed_as_changing():
    note = Schema.infer(TABLE, ["age", "sex"], "disease").quasi_identifiers[0].note
    assert "changes with every birthday" in note
    schema = Schema.infer(TABLE, ["age", "sex"], "disease", changes=["age"])
    assert schema.changing == ("age",)
    assert "birthday" not in schema.quasi_identifiers[0].note
    with pytest.raises(ParameterError, match="Only quasi-identifiers"):
        Schema.infer(TABLE, ["age", "sex"], "disease", changes=["disease"])
