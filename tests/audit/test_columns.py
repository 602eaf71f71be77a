"""Descriptions of other people's columns: every key means what the same words mean in Python."""

import pytest

import elldelta as ed
from elldelta.audit.columns import ForeignColumns, columns_of, read_columns
from elldelta.errors import SchemaError
from elldelta.schema.hierarchy import HierarchyRows
from elldelta.schema.label_columns import ColumnRules
from elldelta.schema.labels import MISSING_TOKENS
from elldelta.schema.schema import Categories, Column, Integers, Schema

ROWS = (("nurse", "health", "*"), ("clerk", "office", "*"))
WHOLE = """\
quasi_identifiers = [
  "sex",
  { name = "age", kind = "number", nulls = "unknown", missing = ["99"] },
  { name = "land", kind = "text", separators = "values", values = ["NA"] },
  { name = "job", hierarchy = [["nurse", "health", "*"], ["clerk", "office", "*"]] },
]

[[sensitive]]
name = "disease"
nulls = "category"
missing = ["unknown"]
values = ["None"]

[names."b.csv"]
age = "alter"
job = ""

[names."*"]
disease = "Diagnose"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="columns.toml"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_a_file_says_what_python_says(write):
    usual = tuple(text for text in MISSING_TOKENS if text != "None")
    assert read_columns(write(WHOLE)) == ForeignColumns(
        ("sex", "age", "land", "job"),
        "disease",
        names={"b.csv": {"age": "alter", "job": ""}, "*": {"disease": "Diagnose"}},
        rules={
            "age": ColumnRules(kind="number", nulls="unknown", missing=("99",)),
            "land": ColumnRules(kind="text", separators="values", values=("NA",)),
            "job": ColumnRules(hierarchy=HierarchyRows(ROWS).checked()),
        },
        sensitive_nulls="category",
        sensitive_missing=(*usual, "unknown"),
    )


def test_names_alone_are_enough_and_nothing_is_fine_too(write):
    short = write('quasi_identifiers = ["age"]\nsensitive = ["disease"]')
    assert read_columns(short) == columns_of(short) == ForeignColumns(("age",), "disease")
    assert read_columns(write("")) == columns_of(None) == ForeignColumns()


def test_a_hierarchy_may_stand_beside_the_file(write):
    write("nurse;health;*\nclerk;office;*\n", "job.csv")
    text = 'quasi_identifiers = [{ name = "job", hierarchy_file = "job.csv" }]\nsensitive = ["disease"]'
    assert read_columns(write(text)).rules["job"].hierarchy == HierarchyRows(ROWS).checked()


def test_a_schema_describes_columns_alone_or_with_names_of_releases(write):
    schema = Schema((Column("age", Integers(0, 99)),), Column("disease", Categories(("flu", "gout"))))
    assert columns_of(schema) == ForeignColumns(schema=schema)
    file = write(schema.to_toml(), "schema.toml")
    assert read_columns(file).schema == schema
    named = read_columns(write('schema = "schema.toml"\n[names."b.csv"]\nage = "alter"'))
    assert (named.schema, named.names) == (schema, {"b.csv": {"age": "alter"}})
    first, second = (
        write("age,disease\n1,flu\n1,gout\n", "a.csv"),
        write("alter,disease\n1,flu\n1,gout\n", "b.csv"),
    )
    found = ed.audit([first, second], ell=2, columns=named)
    assert (found.holds, found.diversity_min) == (True, 2)


def test_what_a_release_calls_its_columns():
    columns = ForeignColumns(
        ("age", "sex"), "disease", names={"b": {"age": "alter", "sex": ""}, "*": {"disease": "krankheit"}}
    )
    assert columns.names_in("a", ["age", "sex", "disease"]) == ["age", "sex", "disease"]
    assert columns.names_in("a", ["age", "sex", "krankheit"]) == ["age", "sex", "krankheit"]
    assert columns.names_in("b", ["alter", "krankheit"]) == ["alter", None, "krankheit"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({"c": {"age": "alter"}}, "a release that is not there"),
        ({"b": {"age": "x", "sex": "x"}}, "two of the columns"),
        ({"b": {"height": "x"}}, "not linked"),
        ({"b": {"disease": ""}}, "not linked"),
        ({"b": {"age": "", "sex": ""}}, "no column to link by"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(names, problem):
    columns = ForeignColumns(("age", "sex"), "disease", names=names)

    def asked():
        columns.check(["a", "b"])
        columns.names_in("b", ["age", "sex", "disease"])

    with pytest.raises(ed.ParameterError, match=problem):
        asked()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "nonsense\n"),
        (1, 'sensitve = ["disease"]'),
        (2, 'sensitive = ["disease"]\nquasi_identifiers = "age"'),
        (1, 'sensitive = ["disease", "income"]'),
        (3, '[[quasi_identifiers]]\nname = "age"\nkind = "colour"'),
        (3, '[[quasi_identifiers]]\nname = "age"\nlabels = "number"'),
        (3, '[[quasi_identifiers]]\nname = "age"\nnulls = "suppress"'),
        (1, '[[quasi_identifiers]]\nkind = "text"'),
        (4, '[[quasi_identifiers]]\nname = "age"\n[[quasi_identifiers]]\nname = "age"'),
        (3, '[[sensitive]]\nname = "disease"\nnulls = "unknown"'),
        (2, '[names."b.csv"]\nage = 3'),
        (3, '[[quasi_identifiers]]\nname = "age"\nhierarchy = [["a", "b"], ["c"]]'),
    ],
)
def test_a_refusal_names_the_file_and_the_line(write, line, text):
    with pytest.raises(SchemaError) as refused:
        read_columns(write(text))
    assert f"columns.toml, line {line}" in refused.value.found


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ed.FileError):
        columns_of(tmp_path / "no.toml")
