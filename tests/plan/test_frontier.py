"""The frontier beside the plans that it tells about."""

import pytest
from tests.release.hospital_tables import QUASI_IDENTIFIERS, SENSITIVE, make_rows, to_arrow

import elldelta as ed

RECORDS = (40, 1000, 2500)


@pytest.fixture(scope="module")
def model():
    past = to_arrow(make_rows(3000, seed=1))
    return ed.estimate(past, ed.Schema.infer(past, QUASI_IDENTIFIERS, SENSITIVE))


@pytest.mark.parametrize(
    "terms",
    [
        {"ell": 3, "releases": 2},
        {"ell": 3, "owners": 3, "min_records": 2},
        {"ell": 3, "releases": 2, "merge_risk": 0.1},
        {"closeness": 0.3, "releases": 2},
        {"ell": 2, "releases": 1, "kind": "probabilistic", "delta": 0.05},
    ],
    ids=lambda terms: " ".join(map(str, terms.values())),
)
def test_classes_and_loss_are_those_of_the_plans(model, terms):
    """Of the same terms, whatever they are; nothing is promised where the plan is refused."""
    found = ed.frontier(model, **terms, records=RECORDS)
    kind = terms.get("kind", "certified")
    for row in found.rows:
        try:
            made = ed.plan(model, **terms, records=row.records)
        except ed.RefusedError:
            assert row.classes[kind] is row.losses[kind] is None
        else:
            assert (row.classes[kind], row.losses[kind]) == (made.n_classes, made.loss(model))
    assert found.rows[-1].classes[kind] > 1
    assert ("paper" in found.rows[0].classes) == (terms.keys() <= {"ell", "releases", "kind", "delta"})


def test_without_numbers_of_records_it_begins_with_the_fewest_that_promise_anything(model):
    for terms in ({"ell": 3, "releases": 2}, {"ell": 3, "releases": 1, "min_records": 3}):
        first, last = ed.frontier(model, **terms, n_points=2).rows
        assert first.classes["certified"] == 1
        assert first.losses["certified"] == 1.0
        assert ed.frontier(model, **terms, records=[first.records // 2]).rows[0].classes["certified"] is None
        assert last.records == 10 * model.n_records
