"""Rows of releases with one sensitive column; those of several are in `test_sliced`."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import tables as oracle

from elldelta.engines import format_of
from elldelta.files import AtomicFiles
from elldelta.model.counting import count
from elldelta.release.publishable import Publishable
from elldelta.release.rows import ReleaseRows, write_release
from elldelta.schema.schema import Categories, Column, Integers, Schema

LABELS = ["a", 'b"', "c,", "", " d", "e\nf", "a"]
SCHEMA = Schema((Column("na,me", Integers(0, 6)),), Column("n", Integers(10, 11), "category"))
tables = st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=7, max_size=7)


def rows_of(counts):
    return ReleaseRows(SCHEMA, [(label,) for label in LABELS], np.array(counts, dtype=np.int64))


def in_full(counts):
    return [
        (label, value)
        for label, own in zip(LABELS, counts, strict=True)
        for value, n in zip([10, 11, None], own, strict=True)
        for _ in range(n)
    ]


def write(rows, path, progress=None):
    with path.open("wb") as file:
        rows.write(format_of(path), file, progress)


@settings(max_examples=40)
@given(tables, st.sampled_from([7, 1 << 20]))  # some cross the border of a row group
def test_every_row_is_written_as_often_as_it_occurs(tmp_path_factory, counts, rows_at_once):
    folder = tmp_path_factory.mktemp("rows")
    rows = replace(rows_of(counts), rows_at_once=rows_at_once)
    expected = in_full(counts)
    write(rows, folder / "r.parquet")
    write(rows, folder / "r.csv")
    assert rows.n_rows == len(expected)
    table = pq.read_table(folder / "r.parquet")
    assert table.schema.types == [pa.string(), pa.int64()]
    assert list(zip(*table.to_pydict().values(), strict=True)) == expected
    assert list(zip(*rows.to_table().to_pydict().values(), strict=True)) == expected
    lines = list(oracle.parse_csv((folder / "r.csv").read_bytes().decode()))
    assert lines[0] == ["na,me", "n"]
    assert [tuple(line) for line in lines[1:]] == [(a, None if b is None else str(b)) for a, b in expected]


def test_labels_shared_by_classes_are_stored_as_codes(tmp_path):
    schema = Schema((Column("l", Integers(0, 999)),), Column("n", Integers(0, 1)))
    rows = ReleaseRows(schema, [("*",)] * 1000, np.full((1000, 2), 50))
    write(rows, tmp_path / "r.parquet")
    column = pq.read_metadata(tmp_path / "r.parquet").row_group(0).column(0)
    assert column.total_uncompressed_size < 1000
    assert Counter(pq.read_table(tmp_path / "r.parquet")["l"].to_pylist()) == {"*": 100_000}


def test_progress_reaches_one(tmp_path):
    for name in ("r.parquet", "r.csv"):
        seen = []
        write(rows_of([[5, 0, 5]] * 7), tmp_path / name, seen.append)
        assert seen[-1] == 1.0


def test_a_file_holds_nothing_of_records_that_are_left_out(tmp_path):
    # Not even in the dictionary of a column, which readers of tables do not see.
    from elldelta.engines.duckdb import connect

    schema = Schema((Column("a", Integers(0, 9)),), Column("s", Categories(("x", "secret"))))
    table = pa.table({"a": ["1"] * 9 + ["7"] * 9, "s": ["x"] * 9 + ["secret"] * 9})
    with connect() as engine, AtomicFiles() as files:
        counts = count(engine.open(table), schema).counts
        shown = counts.by_class(np.array([0, -1]), 2)
        content = Publishable(schema, None, (("0-4",), ("5-9",)), shown, counts.accounting)
        write_release(content, tmp_path / "r.parquet", files)
    read = pq.read_table(tmp_path / "r.parquet", read_dictionary=["a", "s"])
    held = [chunk.dictionary.to_pylist() for column in read.itercolumns() for chunk in column.chunks]
    assert held == [["0-4"], ["x"]]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_release_is_the_same_bytes_whatever_the_order_of_the_input(tmp_path, suffix):
    from elldelta.engines.duckdb import connect

    rng, n = np.random.default_rng(7), 300_000
    table = pa.table({"a": rng.integers(0, 40, n), "s": rng.integers(0, 5, n)})
    schema = Schema((Column("a", Integers(0, 39)),), Column("s", Integers(0, 4)))
    contents = set()
    for turn in range(3):
        path = tmp_path / f"r{turn}.{suffix}"
        with connect() as engine, AtomicFiles() as files:
            counts = count(engine.open(table.take(pa.array(rng.permutation(n)))), schema).counts
            halves = counts.positions[:, 0] // 20
            shown = counts.by_class(halves, 2)
            content = Publishable(schema, None, [("0-19",), ("20-39",)], shown, counts.accounting)
            write_release(content, path, files)
        contents.add(path.read_bytes())
    assert len(contents) == 1
