"""A release that a ledger admits: every step is done once, and nothing is entered that nobody asked for."""

import json
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
import elldelta.release.release as release_module
from elldelta.cli.main import execute
from elldelta.core import ledger_state, promises
from elldelta.errors import FileError
from elldelta.files import as_bytes, seal
from elldelta.ledger import admission, sealed_lines
from elldelta.ledger.chain import LedgerChain
from elldelta.model import Counts
from elldelta.plan.classes import Boxes
from elldelta.release import publishable
from elldelta.release.manifest import FORMAT_VERSION, KIND, manifest_path


def table(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": [f"p{place}" for place in range(n)],
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["F", "M"], n),
            "disease": rng.choice(list("abcdefgh"), n),
        }
    )


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory):
    past = table(10_000, 1)
    schema = ed.Schema.infer(past, ["age", "sex"], "disease")
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    ed.write_plan(ed.plan(ed.estimate(past, schema), ell=3, releases=2, records=4000), path)
    return path


@pytest.fixture
def calls(monkeypatch):
    """How often every step is done."""
    found = Counter()

    def count(owner, name, label):
        honest = getattr(owner, name)

        def counted(*arguments, **options):
            found[label(*arguments) if callable(label) else label] += 1
            return honest(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    def asked(asked_of, _):
        return (
            "certificate of the plan"
            if any(isinstance(one, promises.Values) for one in asked_of)
            else "admission"
        )

    for module in (publishable, admission, ledger_state):
        count(module, "certify", asked)
    count(LedgerChain, "state", "state")
    count(Boxes, "hulls", "hulls")
    count(Boxes, "class_of", "class of every combination")
    count(Counts, "by_class", "counts by class")
    return found


ONCE = {"certificate of the plan": 1, "hulls": 1, "class of every combination": 1, "counts by class": 1}


def test_a_plain_release_does_every_step_once(plan_file, tmp_path, calls):
    ed.release(table(4000, 2), plan_file, to=tmp_path / "r.parquet")
    assert calls == ONCE


def test_a_ledger_is_asked_once(plan_file, tmp_path, calls):
    for seed, owner in enumerate("ab", start=2):
        calls.clear()
        ed.release(
            table(4000, seed), plan_file, to=tmp_path / f"{owner}.parquet",
            ledger=ed.Ledger(tmp_path / "ledger", owner),
        )  # fmt: skip
        assert calls == {**ONCE, "state": 1, "admission": 1}


def test_an_update_makes_the_state_once(plan_file, tmp_path, calls):
    people = table(4000, 2)
    for period, now in enumerate((people, pd.concat([people[:3000], table(6000, 3)[4500:]]))):
        calls.clear()
        ed.release(
            now, plan_file, to=tmp_path / f"{period}.parquet", person="who",
            ledger=ed.Ledger(tmp_path / "ledger", "a"),
            updates=ed.UpdatePolicy(
                tmp_path / f"state{period}.parquet",
                since=tmp_path / "state0.parquet" if period else None,
            ),
        )  # fmt: skip
        assert calls["state"] == 1
        assert calls["certificate of the plan"] == 1
        assert calls["hulls"] == 1


def test_a_plain_release_enters_nothing_that_nobody_asked_for(plan_file, tmp_path, monkeypatch):
    monkeypatch.setattr(release_module, "computed", lambda action, _: action(None))  # in this thread
    records, entered = table(4000, 2), set()
    ed.release(records, plan_file)  # everything is loaded

    def hook(frame, event, _):
        if event == "call":
            entered.add(frame.f_globals.get("__name__"))

    sys.setprofile(hook)
    try:
        ed.release(records, plan_file, to=tmp_path / "r.parquet")
    finally:
        sys.setprofile(None)
    assert {"elldelta.release.release", "elldelta.core.promises"} <= entered
    unasked = ("release.mapping", "release.quarantine", "ledger.ledger", "ledger.chain", "ledger.updates",
               "model.persons", "core.moving", "core.ledger_state", "core.updates")  # fmt: skip
    assert not entered & {f"elldelta.{name}" for name in unasked}


@pytest.fixture(scope="module")
def alone_file(tmp_path_factory):
    past = table(10_000, 1)
    model = ed.estimate(past, ed.Schema.infer(past, ["age", "sex"], "disease"))
    path = tmp_path_factory.mktemp("alone") / "plan.json"
    ed.write_plan(ed.plan(model, ell=3, owners=3, records=4000), path)
    return path


class TestWhatMayBeLinked:
    """A release by itself and one that a ledger admitted are told apart, and a claimed line is looked for."""

    @pytest.fixture
    def admitted(self, alone_file, tmp_path):
        ed.release(table(4000, 3), alone_file, to=tmp_path / "a.csv", ledger=ed.Ledger(tmp_path / "l", "A"))
        return tmp_path / "a.csv"

    def test_without_a_ledger_it_is_safe_by_itself_only(self, alone_file, plan_file, tmp_path):
        alone = ed.release(table(4000, 3), alone_file, to=tmp_path / "alone.csv")
        assert (
            "Certified: safe to publish by itself, and beside others of this plan only where one ledger has "
            "admitted all of them."
        ) in alone.manifest.sentences
        assert ed.verify(tmp_path / "alone.csv", alone_file).beside == alone.manifest.beside
        assert ed.verify(tmp_path / "alone.csv").beside == ""  # without the plan nobody has certified it
        two = ed.release(table(4000, 3), plan_file)
        assert "Certified: safe to publish beside 1 other release of this plan." in two.manifest.sentences
        with pytest.raises(FileError, match="was not admitted by a ledger"):
            ed.verify(tmp_path / "alone.csv", alone_file, ledger=tmp_path / "l")

    def test_a_line_is_checked_where_the_ledger_is_given(self, admitted, alone_file, tmp_path):
        found = ed.verify(admitted, alone_file, ledger=tmp_path / "l")
        assert "It is line 1 of a ledger, of 'A', which was compared with it." in found.sentences
        said = (
            "The manifest says that it is line 1 of a ledger, of 'A'. That was not checked: the ledger would "
            "show it."
        )
        assert said in ed.verify(admitted, alone_file).sentences
        assert said in ed.verify(admitted).sentences

    def test_a_copy_that_seals_the_line_is_not_said_to_lack_it(self, admitted, alone_file, tmp_path):
        first, *lines = (tmp_path / "l").read_bytes().splitlines(keepends=True)
        (tmp_path / "copy").write_bytes(b"".join((first, *sealed_lines(lines, {1}))))
        with pytest.raises(FileError, match="It is sealed"):
            ed.verify(admitted, alone_file, ledger=tmp_path / "copy")

    @pytest.mark.parametrize(
        "changes",
        [{"hash": "sha256:" + "0" * 64}, {"owner": "B"}, {"sequence": 7}],
        ids=lambda changes: next(iter(changes)),
    )
    def test_a_line_that_is_none_is_no_admission(self, admitted, alone_file, tmp_path, changes, capsys):
        document = json.loads(manifest_path(admitted).read_text())
        content = {key: document[key] for key in document.keys() - {"kind", "format", "digest"}}
        content["ledger"] = {**content["ledger"], **changes}
        manifest_path(admitted).write_bytes(as_bytes(seal(KIND, FORMAT_VERSION, content)))
        with pytest.raises(FileError):
            ed.verify(admitted, alone_file, ledger=tmp_path / "l")
        asked = ["verify", str(admitted), "--plan", str(alone_file)]
        assert execute([*asked, "--ledger", str(tmp_path / "l")]) == 2
        capsys.readouterr()
        assert execute(asked) == 0  # the release keeps its plan; of the ledger nothing is claimed
        shown = capsys.readouterr().out
        assert "That was not checked" in shown
        assert "by itself, and beside others of this plan only where one ledger" in shown
