"""`elldelta hierarchy`, and the options of other commands that take hierarchies and orders."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracles.boxes import sibling_runs

import elldelta as ed
from elldelta.cli.main import execute


def run(capsys, *arguments):
    code = execute([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert err == ""
    return code, json.loads(out)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(7)
    n = 4000
    table = pa.table(
        {
            "branch": rng.choice(["army", "navy", "air", "coast"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "age": rng.integers(20, 60, n),
            "rank": rng.choice(list("abcdef"), n),
        }
    )
    pq.write_table(table, tmp_path / "past.parquet")
    (tmp_path / "branch.csv").write_text("army;land;*\ncoast;sea;*\nair;air force;*\nnavy;sea;*\n")
    (tmp_path / "shifted.csv").write_text(
        "".join(f"{n};{(n - 1) // 10 * 10}-{(n - 1) // 10 * 10 + 9};*\n" for n in range(20, 60))
    )
    return tmp_path


def test_make_check_and_use_hierarchies(capsys, folder):
    age, schema = folder / "age.csv", folder / "schema.toml"
    code, made = run_json(capsys, "hierarchy", "make", "--integers", "20-59", "--widths", "5,10", "-o", age)
    assert (code, made["leaves"], made["levels"]) == (0, 40, 4)
    assert age.read_text().splitlines()[3] == "23;20-24;20-29;*"
    code, _ = run_json(
        capsys, "schema", "infer", folder / "past.parquet", "--qi", "branch,age", "--sensitive", "rank",
        "--hierarchy", f"branch={folder / 'branch.csv'}", "--widen", "age=no", "-o", schema,
    )  # fmt: skip
    assert code == 0
    code, checked = run_json(capsys, "hierarchy", "check", age, "--schema", schema, "--column", "age")
    assert (code, checked["usable"], checked["problems"]) == (0, True, [])
    model, plan = folder / "model.parquet", folder / "plan.json"
    run_json(capsys, "estimate", folder / "past.parquet", "--schema", schema, "-o", model)
    code, _ = run_json(
        capsys,
        "plan",
        model,
        "--ell",
        "5",
        "--releases",
        "1",
        "--records",
        "4000",
        "--hierarchy",
        f"age={age}",
        "-o",
        plan,
    )
    assert code == 0
    made = ed.read_plan(plan)
    assert [column.hierarchy.n_levels for column in made.schema.quasi_identifiers] == [3, 4]
    age.unlink()  # the plan needs no file beside it
    lows, highs = made.classes.hulls(made.schema)
    for place, column in enumerate(made.schema.quasi_identifiers):
        for low, high in zip(lows[:, place], highs[:, place], strict=True):
            assert (low, high) in sibling_runs(column.cut_tree.levels.tolist())
    assert made.schema.quasi_identifiers[0].domain.values[1:3] in (("navy", "coast"), ("coast", "navy"))


def test_a_misleading_file_is_refused(capsys, folder):
    schema, model, plan = folder / "s.toml", folder / "m.parquet", folder / "p.json"
    past, shifted = folder / "past.parquet", folder / "shifted.csv"
    roles = ("--qi", "branch,age", "--sensitive", "rank", "--widen", "age=no")
    run(capsys, "schema", "infer", past, *roles, "-o", schema)
    run(capsys, "estimate", past, "--schema", schema, "-o", model)
    code, checked = run_json(capsys, "hierarchy", "check", shifted, "--schema", schema, "--column", "age")
    assert (code, checked["usable"]) == (2, False)
    assert [(problem["kind"], problem["count"]) for problem in checked["problems"]] == [("ambiguous", 4)]
    planning = ("plan", model, "--ell", "5", "--releases", "1", "--records", "4000", "-o", plan)
    code, refused = run_json(capsys, *planning, "--hierarchy", f"age={shifted}")
    assert (code, plan.exists()) == (2, False)
    assert "Rename these groups" in refused["error"]["remedy"]
    # The table may hold a slip with a name in it, the file for its column may not: its groups are named.
    code, refused = run_json(
        capsys, "schema", "infer", past, *roles, "-o", folder / "t.toml", "--hierarchy", f"age={shifted}"
    )
    assert code == 2
    assert "4 groups have a name that means other values: '" in refused["error"]["found"]
    assert "holds" not in refused["error"]["found"]


def test_it_is_said_that_a_hierarchy_groups_the_values(capsys, folder):
    roles = ("--qi", "branch,age", "--sensitive", "rank", "-o", folder / "s.toml", "--overwrite")
    grouped = ("--hierarchy", f"branch={folder / 'branch.csv'}")
    _, shown, _ = run(capsys, "schema", "infer", folder / "past.parquet", *roles, *grouped)
    assert f"Grouped by the hierarchy {folder / 'branch.csv'}, 3 levels." in shown
    assert "--hierarchy branch=" not in shown
    assert "--hierarchy rank=" in shown


def test_check_lists_every_problem_with_lines(capsys, folder):
    schema = folder / "s.toml"
    run(
        capsys,
        "schema",
        "infer",
        folder / "past.parquet",
        "--qi",
        "branch,age",
        "--sensitive",
        "rank",
        "-o",
        schema,
    )
    wrong = folder / "wrong.csv"
    wrong.write_text("army;land;*\narmy;land;*\nnavy;*\nair;air force;+\n")
    code, out, err = run(capsys, "hierarchy", "check", wrong, "--schema", schema, "--column", "branch")
    assert (code, err) == (2, "")
    for words in (
        "line 3",
        "lines 1, 2",
        "different roots",
        "2 values of the column have no row: 'navy', 'coast'",
    ):
        assert words in out
    code, _, err = run(capsys, "hierarchy", "check", wrong, "--schema", schema, "--column", "rank")
    assert (code, "no quasi-identifier 'rank'" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("--integers", "-5..6", "--widths", "4"), "-5;-5;*"),
        (("--integers", "17-30", "--widths", "7", "--start", "17"), "17;17-23;*"),
        (("--dates", "2020-12-31..2021-01-02"), "2020-12-31;2020-12;2020;2020s;*"),
        (("--dates", "2020-12-31..2021-01-02", "--unit", "month"), "2020-12;2020;2020s;*"),
        (("--codes", "CODES", "--prefix", "4,2"), "560012;5600**;56****;*"),
        (("--codes", "CODES"), "560012;56001*;5600**;560***;56****;5*****;*"),
    ],
)
def test_make(capsys, tmp_path, arguments, first):
    codes = tmp_path / "codes.txt"
    codes.write_text("\ufeff560012\n560034\n\n560012\n")
    arguments = [str(codes) if argument == "CODES" else argument for argument in arguments]
    target = tmp_path / "h.csv"
    code, out, _ = run(capsys, "hierarchy", "make", *arguments, "-o", target)
    assert code == 0
    assert target.read_text().splitlines()[0] == first
    assert first in out
    before = target.read_bytes()
    code, _, err = run(capsys, "hierarchy", "make", *arguments, "-o", target)
    assert (code, "--overwrite" in err) == (2, True)
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--integers", "1-9", "--dates", "2020-01-01..2020-01-02"),
        ("--integers", "nine"),
        ("--integers", "1-9", "--widths", "two"),
        ("--integers", "1-9", "--widths", "2,3"),
        ("--integers", "9-1"),
        ("--dates", "2020-01-01"),
        ("--dates", "2020-01-01..2020-13-01"),
        ("--codes", "none.txt"),
    ],
)
def test_make_refuses_what_cannot_be_meant(capsys, tmp_path, arguments):
    code, result = run_json(capsys, "hierarchy", "make", *arguments, "-o", tmp_path / "h.csv")
    assert code == 2
    assert result["error"]["problem"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["age", "=x.csv", "age="])
def test_a_hierarchy_option_needs_a_column_and_a_file(capsys, folder, text):
    arguments = ("schema", "infer", folder / "past.parquet", "--qi", "age", "--sensitive", "rank")
    code, result = run_json(capsys, *arguments, "-o", folder / "s.toml", "--hierarchy", text)
    assert code == 2
    assert "age=age.csv" in result["error"]["problem"]
