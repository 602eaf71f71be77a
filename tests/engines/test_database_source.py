import pytest

from elldelta.engines import Query, TableName
from elldelta.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "name", "schema", "shown"),
    [
        ("patients", "patients", None, "patients"),
        (" Public.Patients ", "patients", "public", "public.patients"),
        ('"Public"."My ""own"" patients"', 'My "own" patients', "Public", '"Public"."My ""own"" patients"'),
        ('"a.b"', "a.b", None, '"a.b"'),
        ("_x.y$1", "y$1", "_x", "_x.y$1"),
        ('s."; DROP TABLE t"', "; DROP TABLE t", "s", 's."; DROP TABLE t"'),
    ],
)
def test_names_are_read_as_sql_reads_them(text, name, schema, shown):
    found = TableName.parse(text)
    assert found == TableName(name, schema)
    assert str(found) == shown
    assert TableName.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a.b.c",
        "a b",
        "a;b",
        "a--",
        '"a',
        'a"b"',
        '""',
        "1a",
        "a,b",
        "pa(1)",
        "a.b\n;",
        "é",
    ],
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(ParameterError, match="not the name of a table"):
        TableName.parse(text)


def test_a_name_that_the_database_would_cut_is_refused():
    assert TableName.parse("a" * 63).name == "a" * 63
    for text in ("a" * 64, '"' + "é" * 32 + '"'):
        with pytest.raises(ParameterError, match="at most 63 bytes"):
            TableName.parse(text)


def test_names_enter_sql_quoted():
    assert TableName('a"b', "s").quoted == '"s"."a""b"'


def test_queries_lose_what_ends_a_statement():
    assert Query(" SELECT 1 ;\n; ").text == "SELECT 1"
    for empty in ("", " ; "):
        with pytest.raises(ParameterError, match="empty"):
            Query(empty)
