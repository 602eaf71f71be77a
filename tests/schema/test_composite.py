"""Composite columns: made from their parts while a table is read, counted by the first part."""

import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import DataError, ParameterError, SchemaError
from elldelta.schema.composite import first_parts
from elldelta.schema.schema import Categories, Column, Integers, Schema

PAST = pd.DataFrame(
    {
        "age": [1, 2, 3, 4] * 60,
        "disease": ["flu", "flu", "HIV", "gout", "rash", "cold"] * 40,
        "stage": [1, 2, 2, 1, 3] * 48,
        "who": range(240),
    }
)


@pytest.fixture(scope="module")
def schema():
    return Schema.infer(PAST, ["age"], "disease+stage", widen={"age": "no"})


def test_the_values_are_the_tuples_that_occur_in_groups_by_the_first_part(schema):
    column = schema.sensitive
    pairs = zip(PAST["disease"], PAST["stage"], strict=True)
    assert sorted(column.domain.values) == sorted({f"{disease} + {stage}" for disease, stage in pairs})
    assert column.n_groups == 5
    assert schema.dropped == ("who",)
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_release_shows_tuples_in_one_column_and_is_read_back(schema, tmp_path):
    model = ed.estimate(PAST, schema)
    plan = ed.plan(model, ell=4, records=200, releases=1)
    made = ed.release(PAST, plan, to=tmp_path / "release.csv")
    assert ed.verify(tmp_path / "release.csv", plan).is_certified
    shown = pd.read_csv(tmp_path / "release.csv")
    assert list(shown.columns) == ["age", "disease+stage"]
    assert made.manifest.diversity >= 4
    # The tuples may be there already; where the parts are there too, they are what counts.
    ready = PAST.assign(**{"disease+stage": PAST["disease"] + " + " + PAST["stage"].astype(str)})
    for table in (ready.drop(columns=["disease", "stage"]), ready.assign(**{"disease+stage": "?"})):
        assert ed.estimate(table, schema).digest == model.digest
    # Parts under other names, with other spellings.
    other = PAST.assign(disease=PAST["disease"].replace("flu", "grippe")).rename(columns={"stage": "phase"})
    names = {"columns": {"phase": "stage"}, "values": {"disease": {"grippe": "flu"}}}
    again = ed.release(other, plan, **names)
    assert again.manifest.content_digest == made.manifest.content_digest
    with pytest.raises(ParameterError, match="cannot be mapped"):
        ed.release(PAST, plan, values={"disease+stage": {"grippe + 1": "flu + 1"}})


def test_a_tuple_is_missing_if_a_part_is(schema):
    table = PAST.astype({"stage": "string"})
    table.loc[:4, "stage"] = pd.NA
    table.loc[5:7, "disease"] = "NA"
    with pytest.raises(DataError, match="missing values") as refused:
        ed.estimate(table, schema)
    assert "'disease+stage': 8" in refused.value.found


def test_what_cannot_be_a_part_is_refused(schema):
    with pytest.raises(DataError, match="'stage' is missing"):
        ed.estimate(PAST.drop(columns="stage"), schema)
    with pytest.raises(DataError, match="cannot be part of the composite column"):
        ed.estimate(PAST.assign(stage=0.5), schema)
    with pytest.raises(ParameterError, match="cannot tell persons apart"):
        ed.estimate(PAST, schema, person="stage")
    tuples = Column("disease+age", Categories(("flu + 1", "flu + 2")))
    with pytest.raises(SchemaError, match="'age' is declared twice"):
        Schema((Column("age", Integers(0, 9)),), tuples)


def test_first_parts_are_found_where_there_is_one_way_to_read_them():
    assert first_parts("a+b", ["x + y", "x+z + y", "+ + +"]) == ["x", "x+z", "+"]
    for values in (["x + + y"], ["x + y + z"], ["x"]):
        with pytest.raises(DataError, match="cannot be told apart"):
            first_parts("a+b", values)
