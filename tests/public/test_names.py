"""The public names: each can be found, is typed, and does what the command of the same name does."""

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows

import elldelta as ed

VERBS = [name for name in ed.__all__ if inspect.isfunction(inspect.unwrap(getattr(ed, name)))]


@pytest.mark.parametrize("name", VERBS)
def test_every_parameter_has_a_name_and_a_type(name):
    for parameter in inspect.signature(getattr(ed, name)).parameters.values():
        if (name, parameter.kind) == ("connect", inspect.Parameter.VAR_KEYWORD):
            continue  # every engine has settings of its own
        assert parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        assert parameter.annotation is not inspect.Parameter.empty


ROOMS = {"plan": "plan.planner", "release": "release.release", "audit": "audit.audit"}


@pytest.mark.parametrize("first", [*ROOMS.values(), "cli.main"])
def test_verbs_and_rooms_share_a_name_whichever_is_used_first(first):
    lines = [
        f"import elldelta.{first}, elldelta as ed",
        *(f"import elldelta.{home} as module; assert ed.{verb}.{home.split('.')[1]} is module; "
          f"from elldelta import {verb}; assert {verb} is ed.{verb} and callable({verb})"
          for verb, home in ROOMS.items()),
        "from elldelta.release import Manifest",
    ]  # fmt: skip
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


@pytest.mark.parametrize("verb", ROOMS)
def test_a_room_is_called_like_its_verb(verb):
    room = pickle.loads(pickle.dumps(getattr(ed, verb)))  # noqa: S301 (ours)
    assert {"model", "source", "releases"} & set(inspect.signature(room).parameters)
    with pytest.raises(TypeError, match=rf"{verb}\(\) missing"):
        room()


def test_importing_costs_nothing():
    code = "import sys, elldelta; sys.exit(bool({'numpy', 'pyarrow', 'duckdb', 'numba'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_of_the_package_are_reached_from_it():
    assert ed.paper.worst_case(50, 30, 2) is not None
    assert issubclass(ed.RefusedError, ed.errors.ElldeltaError)


def test_the_story_and_everything_beside_it(tmp_path):
    past = pa.Table.from_pylist(make_rows(3000, seed=1))
    schema = ed.Schema.infer(past, quasi_identifiers=QUASI_IDENTIFIERS, sensitive=SENSITIVE)
    ed.write_schema(schema, tmp_path / "schema.toml")
    model = ed.estimate(past, ed.read_schema(tmp_path / "schema.toml"))
    points = ed.frontier(model, ell=3, releases=2, records=[1000, 2500])
    assert [row.records for row in points.rows] == [1000, 2500]
    plan = ed.plan(model, ell=3, releases=2, records=2500, delta=0.01)
    assert points.rows[1].classes["certified"] == plan.n_classes
    assert 0 < plan.loss(model) == points.rows[1].losses["certified"] < 1
    unchecked = ed.plan(model, ell=3, releases=2, records=2500, delta=0.01, kind="probabilistic")
    failures = ed.compose([(unchecked, 2)]).columns[0].profile.failures_upper
    assert failures[2] <= unchecked.failure_upper * (1 + 1e-9)
    first = ed.release(past, plan, name="first")
    second = ed.release(
        pa.Table.from_pylist(make_rows(3000, seed=2)),
        plan,
        to=tmp_path / "second.parquet",
        ledger=ed.Ledger(tmp_path / "releases.ledger", "second"),
    )
    audit = ed.audit([first, second])
    ed.report(audit, tmp_path / "audit.html")
    assert audit.verdict in (tmp_path / "audit.html").read_text(encoding="utf-8")
    people = past.select(list(QUASI_IDENTIFIERS)).slice(0, 5).append_column("who", pa.array(list("abcde")))
    left = ed.targets([first, second], people)
    assert set(left.column("who").to_pylist()) == set("abcde")
    assert min(left.column("values_left").to_pylist()) >= 3
    assert ed.audit_before(second, [first]).holds
    assert ed.check(first.table, QUASI_IDENTIFIERS, SENSITIVE).ell >= 3


def test_no_file_holds_what_a_merge_has_left_behind():
    home = Path(ed.__file__).parents[2]
    files = [path for folder in ("src", "docs", "tests") for path in (home / folder).rglob("*.*")]
    texts = [path for path in files if path.suffix in {".py", ".html", ".md", ".js", ".css", ".toml"}]
    left = [path.name for path in texts if "\n<<<<<<< " in path.read_text(encoding="utf-8", errors="ignore")]
    assert not left
