"""Several sensitive columns in audits: releases that show them apart, and rows that tie them together."""

import itertools

import numpy as np
import pandas as pd
import pytest
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.audit.releases import ForeignColumns
from elldelta.core.exposure import fewest_in_any_group
from elldelta.core.linkage import ReleasedCounts
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError
from elldelta.schema.schema import Schema

TIED = ForeignColumns(quasi_identifiers=("class",), sensitive="disease+income")


def test_rows_that_tie_columns_are_linked_as_tuples():
    """Both columns keep two values, and the only row in common leaves one of each."""
    first = pd.DataFrame({"class": "c", "disease": ["flu", "HIV"], "income": ["low", "high"]})
    second = pd.DataFrame({"class": "c", "disease": ["flu", "HIV", "flu"], "income": ["high", "low", "low"]})
    for column in ("disease", "income"):
        apart = ed.audit(
            [first, second], ell=2, foreign=ForeignColumns(quasi_identifiers=("class",), sensitive=column)
        )
        assert apart.diversity_min == 2
    together = ed.audit([first, second], ell=2, foreign=TIED)
    assert together.diversity_min == 1
    assert together.sensitive == "disease+income"
    assert not together.holds


def test_what_is_left_is_counted_in_the_column_with_the_fewest():
    """Three tuples are left, of three diseases and one income."""
    table = pd.DataFrame({"class": "c", "disease": ["flu", "HIV", "gout"], "income": "low"})
    found = ed.audit([table, table.assign(extra=1)], ell=2, foreign=TIED)
    assert found.diversity_min_any == 1


def test_values_with_a_plus_are_not_mistaken_for_tuples():
    """Four blood groups and one drug: somebody who knows the rows knows the drug."""
    table = pd.DataFrame({"class": "c", "disease": ["A", "A +", "B", "B +"] * 5, "income": "y"})
    assert ed.audit([table], ell=2, foreign=TIED).diversity_min_any == 1


def fewest_by_definition(tables, parts):
    """Every group of releases, every tuple that somebody in it may have: values left in each component."""
    best = None
    for size in range(1, len(tables) + 1):
        for group in itertools.combinations(tables, size):
            left = set.intersection(*({value for value, n in enumerate(table) if n} for table in group))
            if left:
                found = min(len({int(part[value]) for value in left}) for part in parts)
                best = found if best is None else min(best, found)
    return best or 0


@pytest.mark.parametrize("seed", range(quick_or_all(15, 30)))
def test_the_fewest_values_of_a_component_in_any_group_equal_the_definition(seed):
    rng = np.random.default_rng(seed)
    parts = (np.arange(12) // 4, np.arange(12) % 4)
    tables = rng.integers(0, 2, (3, 1, 12)) * rng.integers(0, 3, (3, 1, 12))
    releases = [ReleasedCounts(Partition(np.zeros(1, dtype=np.int64)), table) for table in tables]
    [found] = fewest_in_any_group(releases, parts=parts).tolist()
    assert found == fewest_by_definition([table[0] for table in tables], parts)


@pytest.fixture(scope="module")
def sliced():
    rng = np.random.default_rng(7)

    def drawn(n):
        return pd.DataFrame(
            {
                "age": rng.integers(0, 30, n),
                "disease": rng.choice(list("abcdef"), n),
                "income": rng.integers(1, 6, n),
            }
        )

    past = drawn(4000)
    schema = Schema.infer(past, ["age"], ["disease", "income"], widen={"age": "no"})
    ells = {"disease": 3, "income": 2}
    plan = ed.plan(ed.estimate(past, schema), ell=ells, releases=2, records=1500, waiting_risk=0.1)
    return [ed.release(drawn(1500), plan, on_failure="coarsen-suppress") for _ in range(2)]


def test_releases_that_show_columns_apart_are_audited_column_by_column(sliced):
    found = ed.audit(sliced)
    assert [(column.sensitive, column.ell) for column in (found, *found.also)] == [
        ("disease", 3),
        ("income", 2),
    ]
    assert found.holds
    assert "disease: Safe" in found.verdict
    assert "income: Safe" in found.verdict
    assert found.to_dict()["also"][0]["sensitive"] == "income"
    [one] = [ed.audit(sliced, foreign=ForeignColumns(sensitive="income"))]
    assert (one.sensitive, one.also) == ("income", ())
    assert not ed.audit(sliced, ell=7).holds


def test_the_gate_asks_every_column(sliced):
    assert ed.audit_before(sliced[1], [sliced[0]]).holds
    assert not ed.audit_before(sliced[1], [sliced[0]], ell=6).holds


def test_what_is_about_one_column_wants_its_name(sliced):
    with pytest.raises(ParameterError, match="one sensitive column"):
        ed.audit(sliced, closeness=0.5)
    assert ed.audit(sliced, closeness=0.9, foreign=ForeignColumns(sensitive="income")).closeness is not None
