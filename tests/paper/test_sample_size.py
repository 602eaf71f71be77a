"""What `elldelta.paper` adds to Algorithm 1 of the core: one answer in both directions."""

import json

import pytest

from elldelta import paper
from elldelta.errors import ParameterError, RefusedError

UNIFORM = paper.uniform_marginal(50)


def test_records_and_delta_are_each_other_s_inverse():
    forth = paper.sample_size(UNIFORM, 3000, 10, beta=0.01, delta=0.001)
    back = paper.sample_size(UNIFORM, 3000, 10, p=forth.p, records=forth.records)
    assert (back.p, back.p_ell, back.m, back.classes) == (forth.p, forth.p_ell, forth.m, forth.classes)
    assert 0.999 * 0.001 < back.delta <= 0.001
    assert paper.sample_size(UNIFORM, 3000, 10, p=forth.p, records=forth.records - 1).delta > 0.001
    assert json.loads(json.dumps(forth.to_dict()))["records"] == forth.records == 77118


def test_an_error_of_the_distribution_costs_records():
    exact = paper.sample_size(UNIFORM, 3000, 10, p=0.0002)
    careful = paper.sample_size(UNIFORM, 3000, 10, p=0.0002, eta=0.0001)
    assert careful.m == exact.m
    assert careful.records == pytest.approx(2 * exact.records, rel=1e-3)  # every cell may have half of p
    with pytest.raises(ParameterError, match="eta"):
        paper.sample_size(UNIFORM, 3000, 10, p=0.0002, eta=1.0)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"beta": 0.1, "p": 0.01}, "either p or beta"),
        ({}, "either p or beta"),
        ({"beta": 0.1, "delta": 0.1, "records": 10}, "not both"),
        ({"beta": "0.1"}, r"\(0, 1\]"),
        ({"beta": 0.1, "delta": 1}, "between 0 and 1"),
        ({"beta": 0.1, "records": 2.5}, "whole number"),
    ],
)
def test_what_contradicts_itself_is_refused(given, match):
    with pytest.raises(ParameterError, match=match):
        paper.sample_size(UNIFORM, 3000, 10, **given)


def test_a_promise_of_nothing_says_how_many_would_do():
    with pytest.raises(RefusedError, match="promise nothing") as caught:
        paper.sample_size(UNIFORM, 3000, 10, beta=0.01, records=10)
    assert "65,606" in caught.value.remedy


def test_every_name_is_there_and_documented():
    for name in paper.__all__:
        assert getattr(paper, name).__doc__
