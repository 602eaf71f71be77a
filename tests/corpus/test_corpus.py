"""The corpus: what a few hundred random cases gave when they were written down is what they give now.

To write down what comes out now, after a change that is meant to change it, and to see in the diff which
cases it has changed: ``ELLDELTA_CORPUS_WRITE=1 ELLDELTA_TEST_ALL=1 pytest -n 0 tests/corpus``.
"""

import json
import os
from pathlib import Path

import pytest
from tests.corpus.cases import CASES, run
from tests.corpus.facts import differences
from tests.switch import quick_or_all

import elldelta as ed

RECORD = Path(__file__).with_name("expected.json")
STEP = quick_or_all(10, 1)


@pytest.fixture(scope="module")
def engine():
    with ed.connect() as running:
        yield running


@pytest.fixture(scope="module")
def expected():
    record = json.loads(RECORD.read_text())
    yield record
    if os.environ.get("ELLDELTA_CORPUS_WRITE"):
        lines = (f"{json.dumps(case)}:{_compact(found)}" for case, found in sorted(record.items()))
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _compact(found):
    return json.dumps(found, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(("story", "seed"), [case for case in CASES if case[1] % STEP == 0])
def test_what_came_out_comes_out_again(story, seed, tmp_path, engine, expected):
    case = f"{story} {seed}"
    found = run(story, seed, tmp_path, engine)
    if os.environ.get("ELLDELTA_CORPUS_WRITE"):
        expected[case] = found
    changed = list(differences(expected[case], found))
    assert not changed, f"{case}: {changed[0]} ({len(changed)} facts differ)"


def test_the_record_has_every_case_and_no_other(expected):
    assert expected.keys() == {f"{story} {seed}" for story, seed in CASES}


def test_a_difference_is_named_and_rounding_is_none():
    before = {"plan": {"classes": 3, "p": 0.25}, "holds": True, "left": [1, 2.0]}
    assert not list(
        differences(before, {"plan": {"classes": 3, "p": 0.25 + 1e-12}, "holds": True, "left": [1, 2]})
    )
    now = {"plan": {"classes": 4, "p": 0.251}, "holds": 1, "left": [1]}
    assert [each.split(":")[0] for each in differences(before, now)] == [
        "holds", "left", "plan > classes", "plan > p",
    ]  # fmt: skip
