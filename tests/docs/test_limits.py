"""The numbers on the page of known limits, each from its definition."""

from fractions import Fraction
from itertools import combinations, product
from math import comb
from pathlib import Path

import numpy as np
import pytest

from elldelta.core.closeness import linked_excess

LIMITS = Path(__file__).parents[2] / "docs" / "theory" / "limits.md"
PAGE = " ".join(LIMITS.read_text(encoding="utf-8").split())
TENTH, FIFTH = Fraction(1, 10), Fraction(1, 5)


def both_share_the_value(chance_without_reason):
    """The chance that ward B's two records are the equal ones, given how often wards merge that need not."""
    values = [0, 0, *range(1, 11)]
    weights = {
        pair: Fraction(1) if values[pair[0]] == values[pair[1]] else chance_without_reason
        for pair in combinations(range(12), 2)
    }
    return weights[0, 1] / sum(weights.values())


def test_the_wards():
    assert both_share_the_value(Fraction(1)) == Fraction(1, 66)  # nothing is known about the rule
    assert both_share_the_value(Fraction(0)) == 1  # merged only where B fails
    chances = [both_share_the_value(1 - (1 - rho) ** 2) for rho in (Fraction(1, 20), TENTH)]  # or by a decoy
    assert [f"{float(chance):.2g}" for chance in chances] == ["0.14", "0.075"]
    assert "1 in 66" in PAGE
    assert "becomes 0.14, with ρ = 0.05, or 0.075, with ρ = 0.1" in PAGE


def test_the_factors_of_moving_classes():
    rho, q = Fraction(1, 20), TENTH
    inner = [1 / (rho * (1 - q) * q ** (steps - 1)) for steps in (1, 2, 3)]
    assert [round(factor) for factor in inner] == [22, 222, 2222]
    assert [1 / (rho * q ** (steps - 1)) for steps in (1, 2, 3)] == [20, 200, 2000]
    assert "22, 222 and 2,222 for one, two and three steps up (20, 200 and 2,000" in PAGE


def left_out(n_people, positive, allowed):
    """The numbers of positives with which a class is left out, and the expected share of positives then."""
    failing = [n for n in range(n_people + 1) if abs(Fraction(n, n_people) - positive) > allowed]
    chances = {n: comb(n_people, n) * positive**n * (1 - positive) ** (n_people - n) for n in failing}
    expected = sum(n * chance for n, chance in chances.items()) / sum(chances.values())
    return failing, expected / n_people


def test_leaving_out():
    assert left_out(1, TENTH, FIFTH) == ([1], 1)
    failing, share = left_out(10, TENTH, FIFTH)
    assert min(failing) == 4
    assert f"{float(share):.0%}" == "41%"
    assert "at least four are positive, and the expected share rises from 10 % to 41 %" in PAGE


def test_nested_populations():
    register = np.full((6, 10), 2)
    missing = np.eye(6, 10, dtype=int)  # six people, each in another class, each with another value
    for one_class in range(6):
        tables = np.stack([register[one_class], register[one_class] - missing[one_class]])
        assert (tables.min(axis=0) > 0).sum() == 10  # what crossing out leaves
        assert (tables[0] - tables[1] == missing[one_class]).all()
    assert "**the values of all six, exactly.**" in PAGE


def possible(shown, n_together):
    """The values that so many people of a class may all have."""
    return {value for value, n in enumerate(shown) if n >= n_together}


def test_households():
    assert possible((2, 1, 1, 1, 1), 2) == {0}
    assert "2, 1, 1, 1 and 1 times" in PAGE
    for shown in product(range(2, 4), repeat=5):  # at least two records of each value
        assert len(possible(shown, 2)) == 5


def fewest_left(shown, n_members):
    """The fewest values that are left for the others, whichever records are the members'."""
    records = [value for value, n in enumerate(shown) for _ in range(n)]
    return min(
        len(set(np.delete(records, list(members))))
        for members in combinations(range(len(records)), n_members)
    )


@pytest.mark.parametrize("r", [1, 2, 3])
def test_members_who_pool_what_they_know(r):
    for n_members in range(5):
        assert fewest_left((r,) * 5, n_members) == 5 - n_members // r
    assert "Two members leave **three** values for everybody else, four members leave one." in PAGE
    assert "with r = 2 two members leave four values" in PAGE


def test_closeness_and_bayes():
    positive = Fraction(1, 100)
    reference, shown = [positive, 1 - positive], [2, 8]
    assert linked_excess([1, 99], [shown]) <= FIFTH  # so each of them is allowed
    assert positive + 2 * FIFTH == Fraction(41, 100)
    assert Fraction(shown[0], sum(shown)) == FIFTH  # linking two equal tables leaves them

    def chance(is_positive):  # that two of ten are positive, nine of them different people in each release
        others = 2 - is_positive
        return comb(9, others) * positive**others * (1 - positive) ** (9 - others)

    evidence = [reference[0] * chance(1) ** 2, reference[1] * chance(0) ** 2]
    assert f"{float(evidence[0] / sum(evidence)):.0%}" == "86%"
    assert "= 41 %, and 20 % of the linked records" in PAGE
    assert "positive with **86 %**" in PAGE


def fits_exactly_one(n_records, share):
    return n_records * share * (1 - share) ** (n_records - 1)


def test_singling_out():
    assert f"{fits_exactly_one(1000, 1e-6):.1%}" == "0.1%"
    assert f"{fits_exactly_one(10, 0.1):.0%}" == "39%"
    assert "with a chance of 0.1 %" in PAGE
    assert "with a chance of 39 %" in PAGE
