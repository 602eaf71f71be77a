"""The frontier beside the plans that it tells about; `tests/cli` compares an exact one with plans."""

import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

import elldelta as ed
from elldelta.plan import frontier as module

RECORDS = [300, 1000, 2500]


@pytest.fixture(scope="module")
def model():
    past = to_arrow(make_rows(6000, seed=1))
    return ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))


def test_a_quick_frontier_says_so_and_comes_near(model, monkeypatch):
    exact = ed.frontier(model, ell=3, releases=2, records=RECORDS)
    assert exact.exact, "a small model is searched thoroughly"
    monkeypatch.setattr(module, "MOST_CELLS", 0)
    assert ed.frontier(model, ell=3, releases=2, records=RECORDS, exact=True) == exact
    quick = ed.frontier(model, ell=3, releases=2, records=RECORDS)
    assert not quick.exact
    for one, other in zip(quick.rows, exact.rows, strict=True):
        for kind, n_classes in other.classes.items():
            assert one.classes[kind] == pytest.approx(n_classes, rel=0.15, abs=1)
