"""What stands in other people's pipelines: the action, the hook, and the package for dbt."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from tests.docs.test_docs import all_commands

import elldelta as ed
from elldelta.plan.plan import write_plan

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def test_the_action_puts_no_input_into_a_script():
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert {name for name in step["env"] if f"${name}" not in step["run"]} == set()


def test_the_gate_of_the_action_types_what_was_given(tmp_path):
    command = tmp_path / "elldelta"
    command.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    command.chmod(0o755)
    gate = next(step for step in ACTION["runs"]["steps"] if step["name"] == "Gate")
    given = {"BEFORE": "new; rm x.csv", "PUBLISHED": "old/*.csv\nother one.csv\n", "ELL": "4"}
    done = subprocess.run(
        ["bash", "-e", "-c", gate["run"]],
        env={**os.environ, **given, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3
    typed = ["audit", "--before", "new; rm x.csv", "--public", "--ell", "4"]
    assert done.stdout.splitlines() == [*typed, "old/*.csv", "other one.csv"]
    known = {text for option in all_commands()["audit"].params for text in option.opts}
    assert {word for word in done.stdout.split() if word.startswith("--")} <= known


def test_the_hook_runs_a_command_that_is_there():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"].removeprefix("elldelta ") in all_commands()
    assert hook["pass_filenames"] is False


PROFILE = "try:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: try.duckdb}\n"
PROJECT = "name: try_it\nversion: '1.0'\nprofile: try\nmodel-paths: [models]\n"
RELEASES = {  # class 1 is left with two values of a and b, and with one of all three; class 2 with two of all
    "a": [(1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y")],
    "b": [(1, "x"), (1, "y"), (1, "y"), (2, "x"), (2, "y")],
    "c": [(1, "x"), (1, "z"), (2, "x"), (2, "y")],
}


CASES = [(["b"], 2, "pass"), (["b"], 3, "fail"), (["b", "c"], 2, "fail"), ([], 2, "pass"), ([], 3, "fail")]


def dbt_project(folder):
    """A project with the releases, and one more copy of the first for each case."""
    models = folder / "models"
    models.mkdir(parents=True)
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "profiles.yml").write_text(PROFILE)
    (folder / "packages.yml").write_text(f"packages:\n  - local: {ROOT / 'integrations' / 'dbt'}\n")
    tables = {**RELEASES, **{f"case_{number}": RELEASES["a"] for number in range(len(CASES))}}
    for name, rows in tables.items():
        told = " union all ".join(f"select {q} as age, '{s}' as disease" for q, s in rows)
        (models / f"{name}.sql").write_text(told)
    listed = []
    for number, (linked, ell, _) in enumerate(CASES):
        arguments = {
            "quasi_identifiers": ["age"], "sensitive": "disease", "ell": ell,
            "linked_with": [f"ref('{name}')" for name in linked],
        }  # fmt: skip
        tests = [{"elldelta_dbt.linked_diversity": {"arguments": arguments}}]
        listed.append({"name": f"case_{number}", "data_tests": tests})
    (models / "schema.yml").write_text(yaml.safe_dump({"models": listed}))
    return folder


@pytest.mark.slow
def test_the_test_for_dbt_finds_what_linking_leaves(tmp_path):
    dbt = os.environ.get("ELLDELTA_TEST_DBT")
    if dbt is None:
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        install = [tmp_path / "venv" / "bin" / "pip", "install", "--quiet"]
        subprocess.run([*install, "dbt-core>=1.10.5,<1.11", "dbt-duckdb<1.11"], check=True)
        dbt = str(tmp_path / "venv" / "bin" / "dbt")
    project = dbt_project(tmp_path / "project")
    for step, code in (("deps", 0), ("build", 1)):
        words = [dbt, "--no-send-anonymous-usage-stats", step, "--profiles-dir", project]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=project)
        assert done.returncode == code, done.stdout[-3000:]
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    found = {
        int(re.search(r"case_(\d)", item["unique_id"])[1]): item["status"]
        for item in results
        if item["unique_id"].startswith("test.")
    }
    assert [found[number] for number in range(len(CASES))] == [status for _, _, status in CASES]


@dataclass(frozen=True)
class CheckResult:
    """What the check of an asset answers."""

    passed: bool
    description: str


class StepFailed(Exception):
    """A step that failed, with whether it may be tried again."""

    def __init__(self, description, *, allow_retries=True):
        super().__init__(description)
        self.allow_retries = allow_retries


def plain(*functions, **_):
    """A decorator that leaves functions as they are, with and without arguments."""
    return functions[0] if functions else plain


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """The steps of the example for Dagster, which is not there, beside a plan and a table."""
    monkeypatch.chdir(tmp_path)
    stub = SimpleNamespace(
        asset=plain, asset_check=plain, Failure=StepFailed, AssetCheckResult=CheckResult,
        AssetExecutionContext=object, Definitions=lambda **_: None,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "dagster", stub)
    rng = np.random.default_rng(1)
    table = pa.table({"age": rng.integers(20, 60, 4000), "disease": rng.choice(list("abcdef"), 4000)})
    model = ed.estimate(table, ed.Schema.infer(table, ["age"], "disease"))
    write_plan(ed.plan(model, ell=2, releases=2, records=1000), tmp_path / "plan.json")
    pq.write_table(table.slice(0, 1000), "patients.parquet")
    (tmp_path / "published").mkdir()
    ed.release(table.slice(2000, 1000), "plan.json", to="published/other.parquet")
    text = (ROOT / "docs" / "guide" / "pipelines.md").read_text(encoding="utf-8")
    (script,) = re.findall(r'^```python title="monthly.py"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    names = {}
    exec(compile(script, "monthly.py", "exec"), names)  # noqa: S102 (our own text)
    return names


def test_the_steps_for_dagster_release_and_ask(steps):
    told = {}
    made = steps["release"](SimpleNamespace(add_output_metadata=told.update))
    assert told == {"records": 1000}
    answer = steps["gate"](made)
    assert answer.passed
    assert "2 wanted" in answer.description


def test_a_refused_table_is_not_tried_again(steps):
    pq.write_table(pq.read_table("patients.parquet").slice(0, 3), "patients.parquet")
    with pytest.raises(StepFailed, match="records") as refused:
        steps["release"](None)
    assert not refused.value.allow_retries
    assert not Path("release.parquet").exists()
