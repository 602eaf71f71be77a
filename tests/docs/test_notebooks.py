"""The notebooks run from the first cell to the last, and hold no outputs of an earlier version."""

import importlib.util
import json
import subprocess
import sys
import textwrap
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


def output_of(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_a_kernel_without_widgets_has_no_progress_bar_and_works():
    """DuckDB looks for a kernel when it is imported, and refuses to tell its progress in one without them."""
    cell = """
        import sys
        from types import SimpleNamespace

        kernel = SimpleNamespace(config={"IPKernelApp": {}})
        sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: kernel)
        sys.modules["ipywidgets"] = None
        import duckdb
        import pyarrow as pa

        try:
            duckdb.connect().execute("SET enable_progress_bar = true")
        except duckdb.Error as problem:
            print("ipywidgets" in str(problem))
        import elldelta as ed

        print(ed.check(pa.table({"age": [30, 30], "ill": ["flu", "gout"]}), ["age"], "ill").ell)
    """
    assert output_of(sys.executable, "-c", textwrap.dedent(cell)) == "True\n2\n"


@pytest.mark.slow
def test_the_notebooks_run_in_a_real_kernel_without_widgets(tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    output_of(sys.executable, "-m", "venv", tmp_path / "venv")
    needed = ("ipykernel", "nbclient", DOCS.parent, "-c", DOCS.parent / "constraints.txt")
    output_of(python, "-m", "pip", "install", "--quiet", *needed)
    runner = """
        import importlib.util
        import sys

        import nbformat
        from nbclient import NotebookClient

        assert importlib.util.find_spec("ipywidgets") is None
        for path in sys.argv[1:]:
            NotebookClient(nbformat.read(path, as_version=4), kernel_name="python3", timeout=600).execute()
        print("done")
    """
    assert output_of(python, "-c", textwrap.dedent(runner), *NOTEBOOKS) == "done\n"
