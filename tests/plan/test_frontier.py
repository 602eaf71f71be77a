"""The frontier beside the plans that it tells about."""

import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

import elldelta as ed

RECORDS = [300, 1000, 2500]


@pytest.fixture(scope="module")
def model():
    past = to_arrow(make_rows(6000, seed=1))
    return ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))


def test_an_exact_frontier_tells_the_classes_of_plans(model):
    found = ed.frontier(model, ell=3, releases=2, records=RECORDS, exact=True)
    assert found.exact
    for row in found.rows:
        made = ed.plan(model, ell=3, releases=2, records=row.records)
        assert row.classes["sharp"] == made.n_classes
        assert row.failures_upper["sharp"] == made.failure_upper


def test_a_quick_frontier_says_so_and_comes_near(model):
    quick = ed.frontier(model, ell=3, releases=2, records=RECORDS)
    exact = ed.frontier(model, ell=3, releases=2, records=RECORDS, exact=True)
    assert not quick.exact
    for one, other in zip(quick.rows, exact.rows, strict=True):
        for bound, n_classes in other.classes.items():
            assert one.classes[bound] == pytest.approx(n_classes, rel=0.15, abs=1)


def test_runs_are_always_exact(model):
    assert ed.frontier(model, ell=3, records=RECORDS[:1], shape="runs").exact
