"""The demo, and the README's tour as it is written: every command and every line of Python, on its files."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from elldelta.cli.main import execute

README = Path(__file__).parents[2] / "README.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tour") / "demo"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert execute(["demo", "--output", str(folder), "--json"]) == 0
    return folder, json.loads(out.getvalue())


def test_the_demonstration(demo, capsys):
    folder, result = demo

    def run(*words, code):
        capsys.readouterr()
        assert execute([*map(str, words), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    assert result["plan"] == {"one_disease": 0, "below_ell": 0}
    assert result["verdict"].startswith("Safe")  # though the hospitals share patients
    assert result["alone"]["below_ell"] >= result["alone"]["one_disease"] > 0
    assert result["patients_in_all"] >= result["alone"]["below_ell"]
    page = Path(result["page"])
    assert page.parent == folder
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]*\bsrc\b", text)
    assert not re.search(r"""(?:\bsrc|(?<!:)\bhref|url\()\s*=?\s*["'(]?\s*(?:https?:)?//""", text)
    for number in (result["alone"]["one_disease"], result["patients_in_all"]):
        assert f"{number:,}" in text
    # the numbers are those of the files: link the releases by hand and look up nobody below ell
    releases = sorted(folder.glob("release_*.parquet"))
    assert len(releases) == result["hospitals"] == 3
    assert run("audit", *releases, code=0)["diversity_min"] >= result["ell"]
    alone = (*sorted(folder.glob("alone_*.parquet")), "--columns", folder / "schema.toml")
    assert run("audit", *alone, "--ell", result["ell"], code=3)["diversity_min"] == 1
    records = [pq.read_metadata(path).num_rows for path in folder.glob("hospital_*.parquet")]
    assert min(records) == result["records"]
    assert "--overwrite" in run("demo", "--output", folder, code=2)["error"]["options"]


def test_the_commands_of_the_tour(demo, monkeypatch, capsys):
    monkeypatch.chdir(demo[0])
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command, comments=True)
        assert words[0] == "elldelta"
        expected = 3 if "exit code 3" in command else 0
        assert execute(words[1:]) == expected, (command, capsys.readouterr().err)


def test_the_python_of_the_tour(demo, monkeypatch, capsys):
    monkeypatch.chdir(demo[0])
    (script,) = blocks("python")
    exec(compile(script, "README.md", "exec"), {})  # noqa: S102 (our own text)
    assert "for certain" in capsys.readouterr().out


def test_the_two_commands_and_the_picture_exist():
    text = README.read_text(encoding="utf-8")
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (README.parent / link).exists(), link
