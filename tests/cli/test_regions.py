"""Models and plans by region on the command line."""

import json

import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, write_parquet

from elldelta.cli.main import execute

WISH = ("--ell", "3", "--releases", "2", "--records", "2500")


@pytest.fixture
def run(capsys):
    def called(*words, code=0):
        assert execute([str(word) for word in words]) == code
        return capsys.readouterr()

    return called


@pytest.fixture
def past(tmp_path, run):
    """Past records and their schema; regions are the values of the second quasi-identifier."""
    source = write_parquet(tmp_path / "past.parquet", make_rows(3000, 1))
    names = ("--qi", ",".join(QUASI_IDENTIFIERS), "--sensitive", SENSITIVE)
    run("schema", "infer", source, *names, "-o", tmp_path / "schema.toml")
    return source, "--schema", tmp_path / "schema.toml"


def test_from_records_to_a_plan(tmp_path, run, past):
    by = ("--by", QUASI_IDENTIFIERS[1])
    whole, counted, split = tmp_path / "model.parquet", tmp_path / "counted", tmp_path / "split"
    run("estimate", *past, "-o", whole)
    first = json.loads(run("estimate", *past, *by, "-o", counted, "--json").out)
    second = json.loads(run("model", "split", whole, *by, "-o", split, "--json").out)
    assert first["digest"] == second["digest"]
    assert first["records"] == 3000
    assert (first["by"], first["regions"]) == (QUASI_IDENTIFIERS[1], second["regions"])
    shown = json.loads(run("model", "show", counted, "--json").out)
    assert (shown["by"], shown["regions"]) == (QUASI_IDENTIFIERS[1], second["regions"])
    assert f"by {QUASI_IDENTIFIERS[1]}" in run("model", "show", split).out
    plans = [tmp_path / "one.json", tmp_path / "two.json"]
    picture = ("--picture", tmp_path / "plan.png")
    made = json.loads(run("plan", counted, *WISH, "-o", plans[0], *picture, "--json").out)
    run("plan", split, *WISH, "-o", plans[1], "--processes", "2")
    assert plans[0].read_bytes() == plans[1].read_bytes()
    assert made["classes"] >= second["regions"]
    assert (tmp_path / "plan.png").stat().st_size > 1000
    asked = ("--ell", "3", "--releases", "2", "--records", "2500")
    assert "The paper's plans are not shown" in run("frontier", split, *asked).out
    assert "The paper's plans are not shown" not in run("frontier", whole, *asked).out
    run("model", "merge", split, "-o", tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == whole.read_bytes()


def test_what_is_refused(tmp_path, run, past):
    by = ("--by", QUASI_IDENTIFIERS[1], "-o", tmp_path / "model")
    assert "model split" in run("estimate", *past, *by, "--epsilon", "1", code=2).err
    assert "model split" in run("estimate", *past, *by, "--person", "age", code=2).err
    run("estimate", *past, *by)
    assert "remove it first" in run("estimate", *past, *by, code=2).err
    assert (
        "not a model in one file"
        in run("model", "compare", tmp_path / "model", tmp_path / "model", code=2).err
    )
    wish = ("plan", tmp_path / "model", *WISH, "-o", tmp_path / "plan.json")
    assert "1 or more" in run(*wish, "--processes", "0", code=2).err
    assert "not on both" in run(*wish, "--processes", "2", "--engine", "duckdb", code=2).err
    assert "or on the workers of Spark" in run(*wish, "--engine", "duckdb", code=2).err
    assert not (tmp_path / "plan.json").exists()
