"""What a schema is made of when a table proposes it."""

import datetime as dt
import warnings

import pyarrow as pa
import pytest

import elldelta as ed
from elldelta.errors import ParameterError
from elldelta.schema.hierarchy import HierarchyRows
from elldelta.schema.infer import propose
from elldelta.schema.schema import Bins, Categories, Column, Dates, Integers, Schema


def test_tokens_are_read_as_what_the_column_holds():
    age = Column("age", Integers(0, 120), missing=("99", "NA"))
    assert age.encode(pa.array(["99", "99.0", " NA ", "98", "x"])).tolist() == [-2, -2, -2, 98, -1]
    assert age.encode(pa.array([99.0, 98.0])).tolist() == [-2, 98]
    assert age.encode(pa.array([99, 98])).tolist() == [-2, 98]
    again = Schema.from_toml(Schema((age,), Column("s", Integers(0, 1))).to_toml())
    assert again.quasi_identifiers[0].missing == ("99", "NA")
    for wrong in (["NA", "NA"], "NA", [1]):
        with pytest.raises(ed.SchemaError, match="list of texts"):
            Column("age", Integers(0, 1), missing=wrong)


def proposed(table, sensitive="s", **options):
    with ed.connect() as engine, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [name for name in table if name != sensitive and name != "patient_id"]
        return propose(engine.open(pa.table(table)), names, sensitive, **options)


def test_what_looks_wrong_is_said():
    n = 40
    found = proposed(
        {
            "number": [10_000 + i for i in range(n)],
            "age": [20 + i % 30 for i in range(n - 1)] + [999],
            "born": [f"{i % 28 + 1:02}/01/19{50 + i % 7}" for i in range(n)],
            "zero": [0.0] * (n - 1) + [0.5],
            "place": ["Bonn", "bonn"] * (n // 2),
            "s": [3 * (i % 10) for i in range(n)],
            "patient_id": [i // 2 for i in range(n)],
        }
    )
    said = "\n".join(map(str, found.warnings))
    for words in (
        "s: 10 different numbers occur, the domain has 28",
        "number: every record has its own value",
        "age: 999 may stand for",
        "born looks like dates",
        "zero: all its values are taken as one",
        "place: 1 value differs in spelling only",
        "patient_id: 40 records have 20 different",
    ):
        assert words in said
    assert found.warnings[0].text.startswith("s:")
    values = proposed({"q": ["a", "b"] * 20, "s": [3 * (i % 4) for i in range(n)]}, bins={"s": "values"})
    assert values.schema.sensitive.domain == Categories(("0", "3", "6", "9"), ordered=True)
    assert values.warnings == ()


def test_domains_have_room_for_other_owners():
    table = {
        "age": list(range(17, 91)),
        "hours": list(range(1, 75)),
        "zip": list(range(10_000, 10_074)),
        "size": [1.5 * i for i in range(74)],
        "born": [dt.date(1990, 1, 1) + dt.timedelta(days=i) for i in range(74)],
        "few": [i % 4 for i in range(74)],
        "s": [i % 30 for i in range(74)],
    }
    schema = proposed(table).schema
    domains = {column.name: column.domain for column in schema.counted_columns}
    assert domains["age"] == Integers(0, 120)
    assert domains["hours"] == Integers(0, 100)
    assert domains["zip"] == Integers(10_000, 10_073)
    assert domains["few"] == Integers(0, 3)
    assert isinstance(domains["s"], Bins)
    assert (domains["size"].edges[0], domains["size"].edges[-1], domains["size"].size) == (0, 300, 10)
    seen = proposed(table, widen=dict.fromkeys(("age", "hours", "size"), "no")).schema
    assert seen.quasi_identifiers[0].domain == Integers(17, 90)
    assert isinstance(seen.quasi_identifiers[3].domain, Bins)
    told = proposed(
        table, widen={"age": "10..99", "born": "1980-01-01..2000-12-31", "size": "-5..500"}
    ).schema
    assert told.quasi_identifiers[0].domain == Integers(10, 99)
    assert told.quasi_identifiers[4].domain == Dates(dt.date(1980, 1, 1), dt.date(2000, 12, 31))
    assert told.quasi_identifiers[3].domain.edges[-1] == 500
    for wrong in ("wide", "1..x", "9", "2020-01-01..x"):
        with pytest.raises(ParameterError, match="cannot be understood"):
            proposed(table, widen={"age": wrong})


def test_a_hierarchy_says_how_far_numbers_go():
    table = {"age": [20, 25, 30], "s": ["a", "b", "c"]}
    groups = HierarchyRows(tuple((str(age), "young" if age < 25 else "old", "*") for age in range(18, 41)))
    found = proposed(table, hierarchies={"age": groups}).schema.quasi_identifiers[0]
    assert (found.domain, found.label(0, 6)) == (Integers(18, 40), "young")
    gaps = HierarchyRows(tuple(row for row in groups.rows if row[0] != "39"))
    assert proposed(table, hierarchies={"age": gaps}).schema.quasi_identifiers[0].domain == Integers(20, 30)


def test_amounts_that_are_sensitive_count_in_bins_and_are_shown_so():
    incomes = pa.table(
        {"age": [20 + n % 7 for n in range(100)], "income": [30_000 + 17 * n for n in range(100)]}
    )
    column = Schema.infer(incomes, ["age"], "income").sensitive
    assert isinstance(column.domain, Bins)
    assert column.size == 10
    assert "releases show the bin" in column.note
    assert all("[" in label for label in column.released_values().to_pylist())
    few = pa.table({"age": [20 + n % 7 for n in range(100)], "income": [n % 5 for n in range(100)]})
    assert Schema.infer(few, ["age"], "income").sensitive.domain == Integers(0, 4)
    by_width = Schema.infer(incomes, ["age"], "income", bins={"income": "width:500"}).sensitive
    assert by_width.domain.edges[1] - by_width.domain.edges[0] == 500
