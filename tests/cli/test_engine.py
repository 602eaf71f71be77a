"""The engine that a command runs on: how it is chosen, and what is refused."""

import importlib.util
import json
import os

import pytest
from tests.spark import needs_java

from elldelta.engines import connect
from elldelta.errors import ParameterError

RELEASE = ("release", "owner_a.parquet", "--plan", "plan.json", "-o", "release.parquet")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--engine", "local[some]"), "not understood"),
        (("--engine", "http://there"), "not understood"),
        (("--engine", "spark://127.0.0.1:1"), "cannot be reached"),
        (("--engine", "postgres"), "There is no address of a database"),
        (("--engine", "oracle"), "oracle"),
        (("--csv", "latin-1"), "--csv must look like"),
        (("--csv", "separator=;", "--csv", "separator=|"), "--csv must look like"),
    ],
)
def test_options_that_do_not_go_together_are_refused(elldelta, story, monkeypatch, options, found):
    monkeypatch.chdir(story.folder)
    monkeypatch.delenv("ELLDELTA_DATABASE", raising=False)
    finished = elldelta(*RELEASE, *options, code=2)
    assert found in finished.err
    assert not (story.folder / "release.parquet").exists()


@pytest.mark.parametrize("name", ["spark", "postgres"])
def test_an_engine_that_is_not_installed_says_how_to_install_it(monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ParameterError) as refusal:
        connect(name)
    assert refusal.value.remedy == f"pip install 'elldelta[{name}]'"


@needs_java
@pytest.mark.slow
def test_spark_releases_and_verifies_without_a_word_too_many(in_process, elldelta, story, tmp_path):
    room, target = tmp_path / "room", tmp_path / "release.parquet"
    room.mkdir()
    spark = ("--engine", "local[2]")
    environment = {**os.environ, "TMPDIR": str(room)}
    with in_process(
        *("release", story.owner_a, "--plan", story.plan, "-o", target, "--json", *spark), env=environment
    ) as run:
        said, remarks = run.communicate()
    assert (run.returncode, remarks) == (0, ""), said
    manifest = json.loads(said)
    assert list(room.iterdir()) == []
    assert elldelta("verify", target, "--plan", story.plan, "--json").json["records"] == 3000
    elldelta("release", story.owner_a, "--plan", story.plan, "-o", tmp_path / "duckdb.parquet")
    same = json.loads((tmp_path / "duckdb.parquet.manifest.json").read_text())
    assert manifest["content_digest"] == same["content_digest"]
