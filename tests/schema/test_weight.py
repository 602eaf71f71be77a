"""The column of weights in a schema: proposed with rounded numbers, written, read back, refused."""

import pandas as pd
import pytest

import elldelta as ed
from elldelta.errors import DataError, SchemaError
from elldelta.schema.schema import Weight
from elldelta.schema.weight import propose_weight


def survey(weights):
    n = len(weights)
    return pd.DataFrame(
        {"age": [20 + place % 5 for place in range(n)], "vote": ["a", "b"] * (n // 2), "w": weights}
    )


def test_a_weight_is_proposed_by_round_numbers_and_read_back():
    schema = ed.Schema.infer(survey([0.5, 1.0, 1.5, 7.3] * 5), ["age"], "vote", weight="w")
    assert schema.weight == Weight("w", 8.0, 20), "8 / 2.575 is 3.1; four times that is rounded up to 20"
    assert schema.columns == ("age", "vote", "w")
    assert "w" not in schema.dropped
    assert ed.Schema.from_toml(schema.to_toml()) == schema
    assert ed.Schema.from_dict(schema.to_dict()) == schema
    assert schema.facts()["weight"] == "w"
    plain = ed.Schema.infer(survey([1.0] * 20), ["age"], "vote")
    assert plain.weight is None
    assert "weight" not in plain.to_dict()
    assert plain.digest != schema.digest


def test_weights_that_are_much_alike_share_a_mean_of_ten():
    assert ed.Schema.infer(survey([1.0] * 20), ["age"], "vote", weight="w").weight == Weight("w", 1.0, 10)


def test_what_a_release_would_refuse_is_said_when_the_schema_is_made():
    past = survey([1.0] * 16 + [0.0, -2.0, float("nan"), float("inf")])
    with ed.engines.running(None) as engine:
        weight, [note] = propose_weight(engine.open(past), "w")
    assert weight == Weight("w", 1.0, 10)
    assert "no weight above 0 in 4 of 20 records" in str(note)


@pytest.mark.parametrize("weights", [[0.0] * 4, ["x"] * 4])
def test_a_column_without_weights_is_refused(weights):
    with pytest.raises(DataError, match="holds no weight"):
        ed.Schema.infer(survey(weights), ["age"], "vote", weight="w")


@pytest.mark.parametrize("name", [5, "", ["w"]])
def test_a_weight_has_a_name(name):
    with pytest.raises(SchemaError, match="needs a name"):
        ed.Schema.infer(survey([1.0] * 4), ["age"], "vote", weight=name)


def test_a_weight_that_is_not_there_is_named_with_what_is():
    with pytest.raises(DataError, match="Column 'wt' is missing") as caught:
        ed.Schema.infer(survey([1.0] * 4), ["age"], "vote", weight="wt")
    assert "'w'" in caught.value.found


@pytest.mark.parametrize("values", [[True, False] * 2, pd.to_datetime(["2020-01-01"] * 4)])
def test_what_are_no_numbers_are_no_weights(values):
    with pytest.raises(DataError, match="cannot hold weights"):
        ed.Schema.infer(survey(values), ["age"], "vote", weight="w")


@pytest.mark.parametrize("name", ["age", "rank"])
def test_a_weight_is_no_quasi_identifier_and_not_sensitive(name):
    table = survey([1.0] * 4).assign(rank=[1, 2, 3, 4])
    with pytest.raises(SchemaError, match="declared twice"):
        ed.Schema.infer(table, ["age"], "rank", weight=name)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ('name = "w"\nlargest = 0', 0, "must be a number above 0"),
        ('name = "w"\nlargest = inf', 0, "must be a number above 0"),
        ('name = "w"\nlargest = 5.0\nfewest = 1', 0, "share a mean weight"),
        ('name = "w"\nlargest = 5.0\nsmallest = 1', 3, "is not known here"),
        ('name = "w"', 0, "largest"),
        ('name = "age"\nlargest = 5.0', 1, "declared twice"),
    ],
)
def test_impossible_weights_are_refused_with_their_line(text, line, problem):
    start = ed.Schema.infer(survey([1.0] * 4), ["age"], "vote").to_toml() + "\n[weight]\n"
    with pytest.raises(SchemaError) as caught:
        ed.Schema.from_toml(start + text, source="s.toml")
    assert problem in str(caught.value)
    assert f"s.toml, line {start.count(chr(10)) + line}:" in caught.value.found
