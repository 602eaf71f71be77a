"""What is shipped beside the package: pins, hashes, and the files that SECURITY.md and the guide name."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower().replace("_", "-")


def test_everything_that_is_required_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [item for items in project["optional-dependencies"].values() for item in items]
    pinned = [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in pinned)
    needed = {name_of(item) for item in (*project["dependencies"], *extras)} - {"elldelta"}
    assert needed <= {name_of(line) for line in pinned}


def report(*items):
    return {"install": list(items)}


def item(name, digest, **more):
    info = {"archive_info": {"hashes": {"sha256": digest}}} if digest else {"dir_info": {}}
    info["url"] = "https://files.example/secret-path"
    return {"metadata": {"name": name, "version": "1.0"}, "download_info": info, **more}


def hashed(tmp_path, document):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    command = [sys.executable, ROOT / "deploy" / "hashed_requirements.py", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_requirements_have_hashes_and_no_addresses(tmp_path):
    done = hashed(tmp_path, report(item("b", "22"), item("A", "11"), item("elldelta", "", is_direct=True)))
    assert done.stdout.splitlines() == ["A==1.0 --hash=sha256:11", "b==1.0 --hash=sha256:22"]
    failed = hashed(tmp_path, report(item("b", "")))
    assert failed.returncode != 0
    assert "b has no hash" in failed.stderr


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/guide/running-an-agency.md"])
def test_files_that_are_named_are_there(page):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:deploy|docs)/[a-z./-]+)`", text))
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_commands_of_make_that_are_named_are_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert set(re.findall(r"`make ([a-z]+)", (ROOT / page).read_text())) <= targets
