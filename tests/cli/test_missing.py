"""Missing values as people write them: no promise may rest on them."""

import itertools
import json
import tomllib
from dataclasses import replace

import pyarrow as pa
import pytest

import elldelta as ed
from elldelta.schema.schema import Categories, Column, Integers, Schema

ROLES = ("--qi", "zip", "--sensitive", "vote")
COLUMNS = 'quasi_identifiers = ["zip"]\nsensitive = ["vote"]\n'


@pytest.fixture
def by_votes(described):
    """What an audit needs to know about a table of votes."""
    return (*described(COLUMNS), "--ell", "3")


@pytest.fixture
def votes(tmp_path):
    """A table of votes in which every answer of the list occurs 200 times in each of two areas."""

    def write(*answers, name="votes.csv"):
        rows = itertools.product(("A", "B"), answers, range(200))
        path = tmp_path / name
        path.write_text("zip,vote\n" + "".join(f"{area},{answer}\n" for area, answer, _ in rows))
        return path

    return write


def test_na_is_no_vote(elldelta, votes, by_votes, tmp_path):
    table, schema, model, plan = (
        votes("0", "1", "NA"),
        *(tmp_path / n for n in ("s.toml", "m.parquet", "p.json")),
    )
    shown = elldelta("schema", "infer", table, *ROLES, "-o", schema)
    assert "400 (NA)" in shown.out
    elldelta("estimate", table, "--schema", schema, "-o", model)
    refused = elldelta(
        "plan", model, "--ell", "3", "--releases", "1", "--records", "500", "-o", plan, "--json", code=2
    )
    assert "from 1 to 2" in refused.error["problem"]
    elldelta("plan", model, "--ell", "2", "--releases", "1", "--records", "500", "-o", plan)
    made = elldelta("release", table, "--plan", plan, "-o", tmp_path / "r.csv", "--json").json
    assert (made["diversity"], made["records"]["left_out"]["missing"]) == (2, 400)
    for command in (("audit", tmp_path / "r.csv", "--ell", "3"), ("audit", table, *by_votes)):
        found = elldelta(*command, "--json", code=3).json
        assert found["diversity_min_any"] == 2
    assert "400 records with one are left out" in elldelta("audit", table, *by_votes, code=3).out
    checked = elldelta("check", table, *ROLES, "--json").json
    assert (checked["ell"], checked["left_out"], checked["records"]) == (2, 400, 800)


@pytest.mark.parametrize("code", ["99", "-1", "999", "unknown", "Refused", "na"])
def test_a_code_for_no_answer_is_warned_of_and_can_be_declared(elldelta, votes, described, tmp_path, code):
    table, schema = votes("0", "1", code), tmp_path / "s.toml"
    warned = elldelta("schema", "infer", table, *ROLES, "-o", schema)
    assert f"WARNING  vote: {code} may stand for" in warned.out
    said = elldelta(
        "schema", "infer", table, *ROLES, "--na", f"vote=x,{code}", "-o", schema, "--overwrite", "--json"
    ).json
    assert (said["warnings"], said["sensitive"]) == ([], {"vote": 2})
    assert tomllib.loads(schema.read_text())["sensitive"][0]["missing"][-2:] == ["x", code]
    audit = ("audit", table, *described(COLUMNS), "--ell", "3")
    assert elldelta(*audit, "--json").json["diversity_min_any"] == 3
    assert f"'{code}' is counted as a real value" in elldelta(*audit).out
    text = f'quasi_identifiers = ["zip"]\nsensitive = [{{ name = "vote", missing = ["{code}"] }}]'
    described(text)
    assert elldelta(*audit, "--json", code=3).json["diversity_min_any"] == 2
    check = ("check", table, *ROLES)
    assert elldelta(*check, "--json", code=-1).json["ell"] == 3
    assert code in elldelta(*check, code=-1).err
    assert elldelta(*check, "--na", f"vote={code}", "--json", code=-1).json["ell"] == 2
    with pytest.warns(UserWarning, match="may stand for a missing value"):
        ed.Schema.infer(str(table), ["zip"], "vote")


def test_whoever_insists_is_quoted(elldelta, votes, described, by_votes, tmp_path):
    table, schema, model, plan = (
        votes("0", "1", ""),
        *(tmp_path / n for n in ("s.toml", "m.parquet", "p.json")),
    )
    elldelta("schema", "infer", table, *ROLES, "-o", schema)
    schema.write_text(schema.read_text().replace('"suppress"', '"category"'))
    elldelta("estimate", table, "--schema", schema, "-o", model)
    elldelta("plan", model, "--ell", "3", "--releases", "1", "--records", "500", "-o", plan)
    words = json.loads(plan.read_text())["promise"]
    assert "3 values of 'vote' (a missing one counts as a value)" in words
    made = elldelta("release", table, "--plan", plan, "-o", tmp_path / "r.parquet")
    assert "3 values of 'vote' (a missing one counts as a value)" in made.out
    assert "A missing value counts as one of them." in elldelta("audit", tmp_path / "r.parquet").out
    assert elldelta("audit", table, *by_votes, "--json", code=3).json["diversity_min_any"] == 2
    described('quasi_identifiers = ["zip"]\nsensitive = [{ name = "vote", nulls = "category" }]')
    theirs = elldelta("audit", table, *by_votes, "--json").json
    assert theirs["verdict"].endswith("A missing value counts as one of them.")
    # A plan that says nothing of it is a lie.
    silent = words.replace(" (a missing one counts as a value)", "")
    lie = replace(ed.read_plan(plan), promise=silent)
    with pytest.raises(ed.ElldeltaError):
        ed.Plan.from_dict(lie.to_dict())


def test_a_declared_value_is_never_missing(elldelta, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("land,s\n" + "NA,x\nDE,y\n" * 5)
    schema = tmp_path / "s.toml"
    roles = ("--qi", "land", "--sensitive", "s", "-o", schema, "--overwrite", "--json")
    assert elldelta("schema", "infer", table, *roles).json["quasi_identifiers"] == {"land": 2}  # and missing
    assert "NA" not in tomllib.loads(schema.read_text())["quasi_identifiers"][0]["values"]
    elldelta("schema", "infer", table, *roles, "--not-na", "land=NA")
    [land] = tomllib.loads(schema.read_text())["quasi_identifiers"]
    assert ("NA" in land["values"], "NA" in land["missing"]) == (True, False)
    column = Column("land", Categories(("NA", "DE")), missing=("NA", "?"))
    assert column.encode(pa.array(["NA", "?", "DE", "x"])).tolist() == [0, -2, 1, -1]


def test_a_schema_reads_numbers_and_truth_in_every_spelling(elldelta, described, tmp_path):
    schema, table = tmp_path / "s.toml", tmp_path / "r.csv"
    own = Schema((Column("zip", Categories(("A", "B"))),), Column("vote", Integers(0, 5)))
    schema.write_text(own.to_toml())
    for spelt in ("{}", "{}.0"):
        rows = "".join(f"{area},{spelt.format(vote)}\n" for area in "AB" for vote in (1, 5))
        table.write_text("zip,vote\n" + rows)
        found = elldelta("audit", table, "--columns", schema, "--ell", "2", "--json").json
        assert (found["holds"], found["diversity_min_any"]) == (True, 2)
    other = tmp_path / "other.csv"
    table.write_text("zip,vote\nA,True\nA,False\n")
    other.write_text("zip,vote\nA,true\nA,false\n")
    assert (
        elldelta("audit", table, other, *described(COLUMNS), "--ell", "2", "--json").json["diversity_min_any"]
        == 2
    )


def test_a_schema_that_was_there_before_is_warned_of(elldelta, votes, tmp_path):
    schema = tmp_path / "s.toml"
    area = Column("zip", Categories(("A", "B")))
    for vote, answers, code in (
        (Categories(("0", "1", "NA")), ("0", "1", "NA"), "NA"),
        (Integers(0, 99), ("0", "1", "99"), "99"),
        (Integers(-1, 1), ("0", "1", "-1"), "-1"),
        (Integers(0, 99), ("0", "98", "99"), None),
    ):
        schema.write_text(Schema((area,), Column("vote", vote)).to_toml())
        said = elldelta(
            "estimate",
            votes(*answers),
            "--schema",
            schema,
            "-o",
            tmp_path / "m.parquet",
            "--overwrite",
            "--json",
        )
        assert said.json["records_suppressed"] == 0  # it is read as before
        assert said.err == "" if code is None else f"WARNING  vote: {code} may stand for" in said.err


def test_one_number_in_two_spellings_is_one_value(elldelta, votes):
    assert elldelta("check", votes("1", "1.0", " 1"), *ROLES, "--json").json["ell"] == 1
    assert elldelta("check", votes("true", "TRUE", "False"), *ROLES, "--json").json["ell"] == 2


def test_what_is_not_known_about_people_may_be_written_as_na(elldelta, described, tmp_path):
    table, people = tmp_path / "t.csv", tmp_path / "people.csv"
    rows = itertools.product((1, 2), "ab", (0, 1))
    table.write_text("age,job,vote\n" + "".join(f"{age},{job},{vote}\n" for age, job, vote in rows))
    people.write_text("age,job\n1,NA\nNA,a\n3,?\n")
    columns = described('quasi_identifiers = ["age", "job"]\nsensitive = ["vote"]')
    audit = ("audit", table, *columns, "--ell", "2", "--json")
    left = ("--targets-output", tmp_path / "left.csv")
    found = elldelta(*audit, "--targets", people, *left).json["targets"]
    assert (found["targets"], found["in_all"]) == (3, 2)
