"""Wishes: checked once, whoever makes them; kept as JSON; wrong types are told like wrong numbers."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest

from elldelta.errors import ParameterError
from elldelta.plan import planner
from elldelta.plan.wish import Wish

SMALL = {"ell": 3, "releases": 1, "records": 2000}


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("ell", 4.0, "4.0, a float"),
        ("ell", "4", "'4', a str"),
        ("ell", True, "True, a bool"),
        ("ell", None, "Neither"),
        ("ell", 0, "0"),
        ("ell", np.array([4, 5]), "ndarray"),
        ("ell", np.zeros(1000), "of the type ndarray"),
        ("releases", 2.5, "2.5"),
        ("releases", -1, "-1"),
        ("records", "2000", "'2000'"),
        ("records", 10**12 + 1, "1000000000001"),
        ("releases", 10**400, "more than 30 digits"),
        ("closeness", 10**400, "more than 30 digits"),
        ("delta", "0.01", "'0.01'"),
        ("delta", float("nan"), "nan"),
        ("delta", 0, "0"),
        ("merge_risk", "often", "'often'"),
        ("merge_risk", 1.5, "1.5"),
        ("kind", "exact", "'exact'"),
        ("kind", ["paper"], "['paper']"),
        ("kind", None, "None"),
        ("min_records", 0, "0"),
        ("k", 0, "0"),
        ("k", 2.5, "2.5"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_in_three_parts(name, value, found):
    with pytest.raises(ParameterError) as caught:
        Wish(**{**SMALL, name: value})
    assert caught.value.problem
    assert found in caught.value.found
    assert caught.value.remedy


@pytest.mark.parametrize("ways", [{}, {"records": 10, "p": 0.1}, {"p": 0.1, "beta": 0.5}], ids=str)
def test_one_way_to_say_how_many_records(ways):
    with pytest.raises(ParameterError, match="exactly one"):
        Wish(ell=3, releases=1, **ways)


def test_numbers_of_numpy_become_plain_ones():
    wish = Wish(ell=np.int64(3), records=np.int32(2000), delta=np.float64(0.02), releases=np.uint8(2))
    assert wish == Wish(ell=3, records=2000, delta=0.02, releases=2)
    assert [type(getattr(wish, name)) for name in ("ell", "records", "delta")] == [int, int, float]
    assert hash(wish) == hash(Wish(ell=3, records=2000, delta=0.02, releases=2))


@pytest.mark.parametrize(
    "wish",
    [
        Wish(**SMALL),
        Wish(ell=2, releases=1, beta=0.1, kind="paper"),
        Wish(ell=2, p=0.001, releases=3, kind="paper"),
        Wish(**SMALL, kind="probabilistic"),
        Wish(**SMALL, merge_risk=0.1, min_records=2, k=20),
    ],
)
def test_a_wish_survives_being_stored(wish):
    document = json.loads(json.dumps(wish.to_dict()))
    assert Wish.from_dict(document) == wish
    assert set(document) == {field.name for field in fields(Wish)}


@pytest.mark.parametrize(
    ("document", "parameter"),
    [
        ({}, ("ell", "closeness")),
        ({"ell": 3, "records": 5}, ("releases", "owners")),
        ({"ell": 3, "releases": 1}, ("records",)),
        ({"ell": 3, "releases": 0, "records": 5}, ("releases",)),
        ({"ell": 3, "releases": 1, "records": 5, "kind": "circles"}, ("kind",)),
    ],
    ids=str,
)
def test_an_error_names_the_fields_it_is_about(document, parameter):
    with pytest.raises(ParameterError) as caught:
        Wish.from_dict(document)
    assert caught.value.parameter == parameter
    assert caught.value.found
    assert caught.value.remedy


def test_a_document_with_other_names_is_no_wish():
    with pytest.raises(ParameterError, match="A wish says nothing") as caught:
        Wish.from_dict({"ell": 3, "releases": 1, "records": 5, "l": 4})
    assert "min_records" in caught.value.remedy


def test_what_is_said_in_python_is_what_is_wished(monkeypatch):
    """Every field of a wish is a parameter of `plan` with the same default, and comes to its place."""
    parameters = dict(inspect.signature(planner.plan).parameters)
    assert set(parameters) == {field.name for field in fields(Wish)} | {
        *("model", "hierarchies", "processes", "engine", "progress")
    }
    for field in fields(Wish):
        assert parameters[field.name].default == field.default
    monkeypatch.setattr(planner, "loaded", lambda *_: None)
    monkeypatch.setattr(planner, "make_plan", lambda _model, wish, *_: wish)
    given = {"ell": 7, "delta": 0.03, "releases": 4, "kind": "paper"}
    for way in ({"records": 900}, {"p": 0.125}, {"beta": 0.25}):
        assert planner.plan(None, **given, **way) == Wish(**given, **way)
    certified = {"ell": 2, "releases": 1, "records": 900, "merge_risk": 0.25, "min_records": 3, "k": 12}
    assert planner.plan(None, **certified) == Wish(**certified)


@pytest.mark.parametrize(
    "wish",
    [
        {"records": 10, "releases": 1},
        {"records": 10, "owners": 3},
        {"records": 10, "releases": 1, "merge_risk": 0.2},
        {"records": 10, "closeness": 0.2, "releases": 1},
        {"records": 10, "releases": 1, "kind": "probabilistic"},
        {"p": 0.1, "releases": 1, "kind": "paper"},
    ],
    ids=str,
)
def test_classes_are_fixed_and_delta_is_one_percent_where_nothing_was_asked_for(wish):
    made = Wish(ell=2, **wish)
    assert (made.delta, made.merge_risk) == (0.01, wish.get("merge_risk"))
    assert Wish.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("wish", "k"),
    [
        ({"ell": 4}, 4),
        ({"ell": 4, "min_records": 3}, 12),
        ({"ell": 4, "k": 20}, 20),
        ({"ell": 4, "k": 2}, 4),
        ({"ell": 4, "min_records": 3, "k": 11}, 12),
        ({"closeness": 0.2}, 10),
        ({"closeness": 0.2, "k": 3}, 3),
        ({"closeness": 0.2, "ell": 4}, 10),
        ({"closeness": 0.2, "ell": 4, "min_records": 3}, 12),
        ({"ell": {"disease": 2, "income": 6}}, 6),
        ({"ell": 4, "kind": "probabilistic"}, 1),
    ],
    ids=str,
)
def test_the_fewest_records_of_a_class(wish, k):
    assert Wish(records=10, releases=1, **wish).least_records == k


@pytest.mark.parametrize(
    ("more", "budget"), [({"releases": 4}, 0.08), ({"owners": 5}, 0.1), ({"releases": 1}, 0.02)]
)
def test_what_all_releases_together_may_fail_with(more, budget):
    assert Wish(ell=2, records=10, delta=0.02, **more).budget == pytest.approx(budget)


@pytest.mark.parametrize(
    "wish",
    [
        {"p": 0.1},
        {"beta": 0.1, "kind": "probabilistic"},
        {"records": 10, "merge_risk": 0.1, "kind": "probabilistic"},
        {"records": 10, "merge_risk": 0.1, "kind": "paper"},
        {"records": 10, "k": 5, "kind": "probabilistic"},
        {"records": 10, "ell": 1, "closeness": 0.2, "min_records": 2},
        {"records": 10, "releases": 100},
        {"records": 10, "owners": 100},
        {"records": 10, "owners": 2, "kind": "paper"},
        {"records": 10, "owners": 2, "releases": 2},
        {"records": 10, "min_records": 2, "kind": "probabilistic"},
        {"records": 10, "closeness_to": "overall"},
        {"records": 10, "closeness": 0.2, "kind": "probabilistic"},
        {"records": 10, "closeness": 0.2, "kind": "paper"},
        {"records": 10, "closeness": 0.2, "owners": 2},
    ],
    ids=str,
)
def test_what_does_not_go_together_is_told_in_three_parts(wish):
    with pytest.raises(ParameterError) as caught:
        Wish(**{"ell": 2} | ({} if "owners" in wish else {"releases": 1}) | wish)
    assert all((caught.value.problem, caught.value.found, caught.value.remedy))
