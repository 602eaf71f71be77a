"""Several sensitive columns in audits: releases that show them apart, and rows that tie them together."""

import numpy as np
import pandas as pd
import pytest

import elldelta as ed
from elldelta.audit.columns import ForeignColumns
from elldelta.errors import DataError, ParameterError
from elldelta.schema.schema import Schema

COMPOSITE = ForeignColumns(quasi_identifiers=("class",), sensitive="disease+income")


def test_rows_that_tie_columns_are_linked_as_tuples():
    """Both columns keep two values, and the only row in common leaves one of each."""
    first = pd.DataFrame({"class": "c", "disease": ["flu", "HIV"], "income": ["low", "high"]})
    second = pd.DataFrame({"class": "c", "disease": ["flu", "HIV", "flu"], "income": ["high", "low", "low"]})
    for column in ("disease", "income"):
        apart = ed.audit(
            [first, second], ell=2, columns=ForeignColumns(quasi_identifiers=("class",), sensitive=column)
        )
        assert apart.diversity_min == 2
    together = ed.audit([first, second], ell=2, columns=COMPOSITE)
    assert together.diversity_min == 1
    assert together.sensitive == "disease+income"
    assert not together.holds


def test_tuples_that_are_left_count_by_their_first_part():
    """Four tuples are left, of two diseases; the column may be made already, as in our releases."""
    table = pd.DataFrame({"class": "c", "disease": ["flu", "HIV", "flu", "HIV"], "income": list("1234")})
    joined = pd.DataFrame({"class": "c", "disease+income": table["disease"] + " + " + table["income"]})
    for tables in ([table, table.assign(extra=1)], [table, joined], [joined]):
        found = ed.audit(tables, ell=3, columns=COMPOSITE)
        assert (found.diversity_min, found.diversity_min_any) == (2, 2)


def test_tuples_without_a_value_in_a_part_are_left_out():
    table = pd.DataFrame({"class": "c", "disease": ["flu", "HIV", "gout"], "income": ["low", "NA", None]})
    foreign = ForeignColumns(
        quasi_identifiers=("class",), sensitive="disease+income", sensitive_missing=("NA",)
    )
    assert ed.audit([table], ell=2, columns=foreign).diversity_min_any == 1


def test_parts_that_cannot_be_told_apart_are_refused():
    """("A", "+ y") and ("A +", "y") would be one value."""
    table = pd.DataFrame({"class": "c", "disease": ["A", "A +"], "income": ["+ y", "y"]})
    with pytest.raises(DataError, match="cannot be told apart"):
        ed.audit([table], ell=2, columns=COMPOSITE)


def test_a_name_with_a_plus_need_not_be_composite():
    table = pd.DataFrame({"class": "c", "A+B": ["x", "y"]})
    foreign = ForeignColumns(quasi_identifiers=("class",), sensitive="A+B")
    assert ed.audit([table], ell=2, columns=foreign).diversity_min_any == 2


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
    plan = ed.plan(ed.estimate(past, schema), ell=ells, releases=2, records=1500)
    return [ed.release(drawn(1500), plan, leave_out=True) for _ in range(2)]


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
    [one] = [ed.audit(sliced, columns=ForeignColumns(sensitive="income"))]
    assert (one.sensitive, one.also) == ("income", ())
    assert not ed.audit(sliced, ell=7).holds


def test_the_gate_asks_every_column(sliced):
    assert ed.audit_before(sliced[1], [sliced[0]]).holds
    assert not ed.audit_before(sliced[1], [sliced[0]], ell=6).holds


def test_what_is_about_one_column_wants_its_name(sliced):
    with pytest.raises(ParameterError, match="one sensitive column"):
        ed.audit(sliced, closeness=0.5)
    assert ed.audit(sliced, closeness=0.9, columns=ForeignColumns(sensitive="income")).closeness is not None
