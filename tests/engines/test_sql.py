import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.engines import sql
from elldelta.errors import DataError, InternalError
from elldelta.model.counting import grouping_key
from elldelta.schema.schema import Bins, Column

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
hostile = st.sampled_from(
    ["'; DROP TABLE x; --", '"; DROP TABLE x; --', "\\", "''", '""', "select", "a\nb", "é"]
)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as connection:
        yield connection


@given(texts | hostile, texts | hostile)
def test_names_and_texts_of_users_stay_names_and_texts(connection, name, value):
    result = connection.execute(f"SELECT {sql.text(value)} AS {sql.identifier(name)}")
    assert result.fetchall() == [(value,)]
    assert [column[0] for column in result.description] == [name]


def test_zero_bytes_never_reach_an_engine():
    for quote in (sql.identifier, sql.text):
        with pytest.raises(InternalError):
            quote("a\0b")


def test_bins_of_what_is_no_number_are_refused():
    with pytest.raises(DataError, match="kind date"):
        grouping_key(Column("x", Bins((0, 1))), "date")


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=9, unique=True),
    st.lists(st.floats(allow_nan=False), max_size=9),
)
def test_the_engine_finds_the_same_bin_as_the_domain(connection, edges, numbers):
    import numpy as np
    import pyarrow as pa

    edges = sorted({edge + 0.0 for edge in edges})
    if len(edges) < 2:
        return
    column = Column("x", Bins(tuple(edges)))
    numbers = [*numbers, *edges, *(float(np.nextafter(edge, np.inf)) for edge in edges)]
    values = ", ".join(f"(CAST('{number!r}' AS DOUBLE))" for number in numbers)
    query = f"SELECT x, {grouping_key(column, 'real')} FROM (VALUES {values}) AS t(x)"  # noqa: S608
    rows = connection.execute(query).fetchall()
    expected = column.encode(pa.array([x for x, _ in rows])).tolist()
    assert [place for _, place in rows] == expected
