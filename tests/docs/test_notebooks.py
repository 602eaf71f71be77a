"""The notebooks run from the first cell to the last, and hold no outputs of an earlier version."""

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "hooks" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_three():
    assert {path.stem for path in NOTEBOOKS} == {"first-steps", "audit-releases", "paper-to-plan"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_page_has_pictures_and_nothing_from_the_network(hook, path):
    page = hook.as_markdown(path)
    assert "<svg" in page
    assert "<script" not in page
    assert not [line for line in page.splitlines() if "src=" in line and "http" in line]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_a_cell_that_fails_is_noticed(hook, tmp_path):
    cell = {"cell_type": "code", "source": ["1 / 0"]}
    (tmp_path / "bad.ipynb").write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(ZeroDivisionError):
        hook.as_markdown(tmp_path / "bad.ipynb")
