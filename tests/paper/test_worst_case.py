import json
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import paper

from elldelta.errors import ParameterError
from elldelta.paper import worst_case


@pytest.mark.parametrize("n_values", range(1, 7))
@pytest.mark.parametrize("releases", range(1, 5))
def test_brute_force_agrees_for_every_choice_of_diversities(n_values, releases):
    if n_values == 6 and releases == 4:
        choices = [(ell,) * 4 for ell in range(1, 7)] + [(3, 4, 5, 6), (2, 5, 5, 6), (4, 4, 5, 5)]
    else:
        choices = list(combinations_with_replacement(range(1, n_values + 1), releases))
    for ells in choices:
        assert worst_case(n_values, ells).diversity == paper.worst_case(n_values, ells), ells


@given(st.integers(1, 40), st.data())
def test_the_example_attains_the_bound(n_values, data):
    ells = data.draw(st.lists(st.integers(1, n_values), min_size=1, max_size=6))
    result = worst_case(n_values, ells)
    assert [len(shown) for shown in result.example] == ells
    assert all(set(shown) <= set(range(n_values)) for shown in result.example)
    assert len(set.intersection(*map(set, result.example))) == result.diversity


def test_proposition_1_and_corollary_1_as_printed():
    """For t dividing L = |S| - 1 the generalization is the paper's formula."""
    for n_values in range(3, 20):
        last = n_values - 1
        for releases in (t for t in range(2, last + 1) if last % t == 0):
            for ell in range(1, n_values + 1):
                printed = (
                    1
                    if ell * releases <= last * (releases - 1) + releases
                    else last + 1 - (last - ell + 1) * releases
                )
                assert worst_case(n_values, ell, releases).diversity == printed
                if releases == 2 and 2 * ell > last + 2:
                    assert worst_case(n_values, (ell, ell)).diversity == 2 * ell - last - 1


@given(st.integers(1, 30), st.data())
def test_monotone_in_ell_and_t_and_symmetric(n_values, data):
    ells = data.draw(st.lists(st.integers(1, n_values), min_size=1, max_size=5))
    value = worst_case(n_values, ells).diversity
    assert value == worst_case(n_values, ells[::-1]).diversity
    assert worst_case(n_values, [*ells, data.draw(st.integers(1, n_values))]).diversity <= value
    raised = [min(n_values, ell + 1) for ell in ells]
    assert worst_case(n_values, raised).diversity >= value


@pytest.mark.parametrize(
    ("n_values", "ells", "part"),
    [(50, [51], "1 to 50"), (50, [0], "1 to 50"), (0, [1], "1 or more"), (5, [], "At least one"),
     (5, [2.5], "1 to 5")],
)  # fmt: skip
def test_bad_input_names_the_range(n_values, ells, part):
    with pytest.raises(ParameterError, match=part):
        worst_case(n_values, ells)


def test_one_diversity_for_all_or_one_for_each():
    assert worst_case(9, 7) == worst_case(9, 7, 2) == worst_case(9, [7, 7]) == worst_case(9, (7, 7), 2)
    assert worst_case(9, 7, 1).diversity == 7
    with pytest.raises(ParameterError, match="1 or more"):
        worst_case(9, 3, 0)
    with pytest.raises(ParameterError, match="agree"):
        worst_case(9, [3, 4], 3)
    with pytest.raises(ParameterError, match="whole number"):
        worst_case(9, ["3"])


def test_as_json():
    assert json.loads(json.dumps(worst_case(4, 3).to_dict())) == {
        "diversity": 2, "values": 4, "ell": [3, 3], "releases": 2, "example": [[0, 2, 3], [0, 1, 3]],
    }  # fmt: skip
