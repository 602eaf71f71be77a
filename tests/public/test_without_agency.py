"""The agency can be left out: everything else works, and its own commands say what is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import elldelta

COMMAND = (sys.executable, "-c", "from elldelta.cli.main import run; run()")


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """Runs a command of a copy of the package that has no agency."""
    folder = tmp_path_factory.mktemp("without")
    source = Path(elldelta.__file__).parent
    shutil.copytree(source, folder / "elldelta", ignore=shutil.ignore_patterns("agency", "__pycache__"))
    shutil.copy(source / "cli" / "agency.py", folder / "elldelta" / "cli")
    assert not (folder / "elldelta" / "agency").exists()

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        return subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=600, env=environment
        )

    return run


def test_help_and_everything_that_is_about_files_works(without):
    told = without("--help")
    assert told.returncode == 0, told.stderr
    assert "serve" in told.stdout
    worst = without("worst-case", "--values", "50", "--ell", "30", "--releases", "2")
    assert worst.returncode == 0, worst.stderr
    assert "10" in worst.stdout
    story = without("demo", "--help")
    assert story.returncode == 0, story.stderr


@pytest.mark.parametrize(
    "arguments",
    [("serve",), ("remote", "plans", "--server", "https://agency.example"), ("remote", "key")],
    ids=" ".join,
)
def test_commands_of_the_agency_say_in_a_line_what_is_missing(without, arguments):
    done = without(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")
    assert "Missing: elldelta.agency" in done.stderr
    assert "pip install 'elldelta[" in done.stderr
