"""Lines of a ledger against the releases they are about: what `ledger verify` must not be talked round."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.coins import COINS

import elldelta as ed
from elldelta.cli.main import execute
from elldelta.errors import ParameterError
from elldelta.files import as_bytes, seal
from elldelta.ledger import line_bytes
from elldelta.ledger.lines import (
    LedgerHeader,
    PromisedCloseness,
    PromisedValues,
    listed_misses,
    missed_table,
)
from elldelta.release import manifest_path

VALUES = np.array(["flu", "hiv", "cold", "gout", "acne", "mumps"])


def people(n_people, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 40, n_people),
            "disease": VALUES[rng.choice(6, n_people, p=[0.35, 0.05, 0.2, 0.2, 0.15, 0.05])],
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plan, a ledger with releases of three owners, and a release that was never admitted."""
    folder = tmp_path_factory.mktemp("ledger")
    past = people(4000, 0)
    model = ed.estimate(past, ed.Schema.infer(past, ["age"], "disease"))
    plan = ed.plan(model, ell=2, releases=2, records=300, merge_risk=0.3)
    ed.write_plan(plan, folder / "plan.json")
    for seed, name in enumerate(("a", "b", "c"), start=1):
        ledger = ed.Ledger(folder / "plan.ledger", f"hospital {name}")
        ed.release(people(300, seed), plan, to=folder / f"{name}.csv", ledger=ledger, **COINS)
    ed.release(people(300, 9), plan, to=folder / "never.csv", **COINS)
    lines = [json.loads(line) for line in (folder / "plan.ledger").read_text().splitlines()]
    assert lines[2]["misses"]
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verify(capsys, *releases, code=0, plan=True):
    named = [word for path in releases for word in ("--release", path)]
    options = ["--plan", "plan.json"] if plan else []
    capsys.readouterr()
    assert execute(["ledger", "verify", "plan.ledger", *options, *named, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def named_line(path, line):
    """Lets a manifest name a line, and seals it again, as an attacker can."""
    document = json.loads(manifest_path(path).read_text())
    content = {key: value for key, value in document.items() if key not in ("kind", "format", "digest")}
    content["ledger"] = {"sequence": line["sequence"], "hash": line["hash"], "owner": line["owner"]}
    manifest_path(path).write_bytes(as_bytes(seal("manifest", document["format"], content)))


def lines_of(folder):
    return [json.loads(line) for line in (folder / "plan.ledger").read_text().splitlines()]


def chained_again(folder, lines):
    """Writes lines with hashes of their own, as whoever keeps the ledger can."""
    previous, written = None, []
    for line in lines:
        content = {key: value for key, value in line.items() if key not in ("hash", "previous")}
        content, previous = line_bytes(content, previous)
        written.append(content)
    (folder / "plan.ledger").write_bytes(b"".join(written))


def test_lines_are_compared_with_the_releases_at_hand(folder, capsys):
    assert verify(capsys)["not_compared"] == [1, 2, 3]
    found = verify(capsys, "a.csv", "c.csv")
    assert (found["compared"], found["not_compared"]) == ([1, 3], [2])
    assert execute(["ledger", "verify", "plan.ledger", "--plan", "plan.json", "--release", "b.csv"]) == 0
    said = capsys.readouterr().out
    assert "Compared with their releases (content, owner and what is missing): line 2." in said
    assert "Not compared, because their releases are not at hand: lines 1, 3." in said


@pytest.mark.parametrize("with_plan", [True, False])
def test_a_release_that_was_never_admitted_and_names_the_line_of_another(folder, capsys, with_plan):
    named_line(folder / "never.csv", lines_of(folder)[1])
    found = verify(capsys, "never.csv", code=2, plan=with_plan)["error"]
    assert "has not admitted" in found["problem"]
    assert "its content" in found["found"]


def test_a_release_of_one_owner_under_the_name_of_another(folder, capsys):
    line = lines_of(folder)[1]
    named_line(folder / "a.csv", {**line, "owner": "hospital b"})
    assert "its owner" in verify(capsys, "a.csv", code=2)["error"]["found"]


@pytest.mark.parametrize("change", [{"misses": []}, {"merged": [[0, 1]]}, {"certified": False}], ids=str)
def test_a_line_that_does_not_say_what_its_release_shows(folder, capsys, change):
    lines = lines_of(folder)
    lines[2].update(change)
    chained_again(folder, lines)
    named_line(folder / "b.csv", lines_of(folder)[2])
    assert verify(capsys)["intact"]  # the chain alone cannot tell
    found = verify(capsys, "b.csv", code=2)["error"]
    assert "is wrong about the release b.csv" in found["problem"]
    assert next(iter(change)) in found["found"]


@pytest.mark.parametrize("number", [1, 3])
def test_misses_of_no_class_are_a_damaged_line(folder, capsys, number):
    lines = lines_of(folder)
    lines[number]["misses"] = [[]]
    chained_again(folder, lines)
    assert "changed or damaged" in verify(capsys, code=2)["error"]["problem"]


def test_a_line_that_left_out_more_than_the_release(folder, capsys):
    lines = lines_of(folder)
    lines[1]["suppressed"] = [0]
    chained_again(folder, lines)
    named_line(folder / "a.csv", lines_of(folder)[1])
    assert "suppressed" in verify(capsys, "a.csv", code=2)["error"]["found"]


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_what_is_missed_is_listed_and_read_again(density):
    rng = np.random.default_rng(5)
    missed = rng.random((7, 70)) < density
    missed[3] = False  # a class that misses nothing has no list
    listed = listed_misses(missed)
    assert listed == tuple(
        (base, *[value for value in range(70) if missed[base, value]])
        for base in range(7)
        if missed[base].any()
    )
    values = PromisedValues("disease", (0, 70), 2, 1, (70,) * 7)
    header = LedgerHeader("sha256:" + "0" * 64, 1, 7, (values,))
    assert (missed_table(listed, header) == missed).all()


ON_VALUES = PromisedValues("disease", (0, 4), 2, 1, (3, 3))
ON_SHARES = PromisedCloseness("disease", (0, 4), "1/5")


@pytest.mark.parametrize(
    ("n_classes", "values", "closeness"),
    [
        (2, (ON_VALUES, ON_VALUES), ()),
        (2, (ON_VALUES,), (ON_SHARES, ON_SHARES)),
        (2, (ON_VALUES,), (replace(ON_SHARES, values=(0, 3)),)),
        (2, (ON_VALUES,), (replace(ON_SHARES, column="income"),)),
        (2, (ON_VALUES, replace(ON_VALUES, column="income", values=(3, 7))), ()),
        (2, (ON_VALUES, replace(ON_VALUES, column="income", values=(5, 9))), ()),
        (1 << 24, (), (ON_SHARES,)),
    ],
)
def test_a_header_that_no_plan_has_is_refused(n_classes, values, closeness):
    assert LedgerHeader("sha256:" + "0" * 64, 1, 2, (ON_VALUES,), (ON_SHARES,))
    with pytest.raises(ParameterError):
        LedgerHeader("sha256:" + "0" * 64, 1, n_classes, values, closeness)
