"""The README's tour works as written: every command and every line of Python, on the demo's files."""

import re
import shlex
from pathlib import Path

import pytest

from elldelta.cli.main import execute

README = Path(__file__).parents[2] / "README.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tour") / "demo"
    assert execute(["demo", "--output", str(folder), "--json"]) == 0
    return folder


def test_the_commands_of_the_tour(demo, monkeypatch, capsys):
    monkeypatch.chdir(demo)
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command, comments=True)
        assert words[0] == "elldelta"
        expected = 3 if "exit code 3" in command else 0
        assert execute(words[1:]) == expected, (command, capsys.readouterr().err)


def test_the_python_of_the_tour(demo, monkeypatch, capsys):
    monkeypatch.chdir(demo)
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
