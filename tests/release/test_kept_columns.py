"""A sorted file with kept columns has the rows of a table in memory, and the same bytes each time."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.release.hospital_tables import people

import elldelta as ed
from elldelta.engines.duckdb import connect

N_ROWS = 3000
DAY = dt.date(2020, 2, 28)
KINDS = {
    "boolean": pa.array([False, True, None] * 1000),
    "whole": pa.array([3, None, -7, 2**40, 0, 5] * 500, pa.int64()),
    "small": pa.array([250, 3] * 1500, pa.uint8()),
    "real": pa.array([0.5, None, float("nan"), -1e300, float("inf"), 2.0] * 500),
    "text": pa.array(["b", "", None, "é", "a,b", "B"] * 500),
    "day": pa.array([DAY, None, DAY + dt.timedelta(2)] * 1000),
    "moment": pa.array([dt.datetime(2020, 1, 1, 5, 6, 7, 89), None] * 1500, pa.timestamp("us")),
    "price": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")] * 1000),
}
"""DuckDB writes the last one by itself."""


@pytest.fixture(scope="module")
def table():
    rows = pa.Table.from_pandas(people(N_ROWS, 1).drop(columns="ward"), preserve_index=False)
    for name, values in KINDS.items():
        rows = rows.append_column(name, values)
    return rows.take(np.random.default_rng(4).permutation(N_ROWS))


@pytest.mark.parametrize(
    "kept", [["boolean", "small"], ["whole"], ["real", "day"], ["text", "moment"], ["price"]]
)
def test_a_file_holds_the_rows_of_a_table_in_memory(table, kept, tmp_path):
    schema = ed.Schema.infer(table, ["age", "zip"], "disease", kept=kept)
    plan = ed.plan(ed.estimate(table, schema), ell=3, releases=1, records=N_ROWS, delta=0.01)
    expected = ed.release(table, plan).table
    files = [tmp_path / f"{threads}.parquet" for threads in (1, 4)]
    for threads, file in zip((1, 4), files, strict=True):
        with connect(threads=threads) as engine:
            ed.release(table, plan, to=file, engine=engine)
    found = pq.read_table(files[0])
    assert str(found.to_pydict()) == str(expected.to_pydict())  # as texts: no number is not itself
    assert [str(kind) for kind in found.schema.types] == [str(kind) for kind in expected.schema.types]
    assert files[0].read_bytes() == files[1].read_bytes()
    ed.verify(files[0], plan)
