from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import tables as oracle

from elldelta.engines.repeated_rows import ContinuedRows, RepeatedRows

VALUES = ["a", 'b"', "c,", "", " d", "e\nf", None, "a"]
distinct_rows = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 20)), max_size=8)


def rows_of(cells):
    codes = np.array([[a, b] for a, b, _ in cells], dtype=np.int64).reshape(-1, 2)
    columns = (
        ("na,me", codes[:, 0], pa.array(VALUES, pa.string())),
        ("n", codes[:, 1], pa.array([10, None, 30], pa.int64())),
    )
    return RepeatedRows(columns, np.array([n for _, _, n in cells], dtype=np.int64))


def in_full(cells):
    return [(VALUES[a], [10, None, 30][b]) for a, b, n in cells for _ in range(n)]


@settings(max_examples=40)
@given(distinct_rows, st.sampled_from([7, 1 << 20]))  # some cross the border of a row group
def test_every_row_is_written_as_often_as_it_occurs(tmp_path_factory, cells, rows_at_once):
    folder = tmp_path_factory.mktemp("rows")
    rows = replace(rows_of(cells), rows_at_once=rows_at_once)
    expected = in_full(cells)
    rows.write_parquet(folder / "r.parquet")
    rows.write_csv(folder / "r.csv")
    assert rows.n_rows == len(expected)
    table = pq.read_table(folder / "r.parquet")
    assert table.schema.types == [pa.string(), pa.int64()]
    assert list(zip(*table.to_pydict().values(), strict=True)) == expected
    assert list(zip(*rows.to_table().to_pydict().values(), strict=True)) == expected
    lines = list(oracle.parse_csv((folder / "r.csv").read_bytes().decode()))
    assert lines[0] == ["na,me", "n"]
    assert [tuple(line) for line in lines[1:]] == [(a, None if b is None else str(b)) for a, b in expected]


def test_labels_shared_by_classes_are_stored_as_codes(tmp_path):
    codes = np.arange(1000)
    rows = RepeatedRows((("l", codes, pa.array(["*"] * 1000)),), np.full(1000, 100))
    rows.write_parquet(tmp_path / "r.parquet")
    column = pq.read_metadata(tmp_path / "r.parquet").row_group(0).column(0)
    assert column.total_uncompressed_size < 1000
    assert Counter(pq.read_table(tmp_path / "r.parquet")["l"].to_pylist()) == {"*": 100_000}


def test_progress_reaches_one(tmp_path):
    for write in ("write_parquet", "write_csv"):
        seen = []
        getattr(rows_of([(0, 0, 5), (1, 1, 5)]), write)(tmp_path / "r", seen.append)
        assert seen[-1] == 1.0


@settings(max_examples=40)
@given(distinct_rows, st.sampled_from([7, 1 << 20]), st.lists(st.integers(0, 30), min_size=1), st.data())
def test_rows_are_continued_by_cells_in_batches_of_any_size(
    tmp_path_factory, cells, rows_at_once, sizes, data
):
    path = tmp_path_factory.mktemp("rows") / "r.parquet"
    rows = replace(rows_of(cells), rows_at_once=rows_at_once)
    n_cells = data.draw(st.just(rows.n_rows) | st.integers(0, 60))
    kept = pa.array(range(n_cells), pa.float64())
    ends = [min(end, n_cells) for end in np.cumsum(sizes)] + [n_cells]
    batches = (
        pa.record_batch([kept[start:end]], names=["x"]) for start, end in zip([0, *ends], ends, strict=False)
    )
    continued = ContinuedRows(rows, batches)
    continued.write_parquet(path)
    assert continued.n_found == n_cells or (continued.n_found < n_cells and n_cells != rows.n_rows)
    if n_cells == rows.n_rows:
        expected = [(*row, float(place)) for place, row in enumerate(in_full(cells))]
        assert list(zip(*pq.read_table(path).to_pydict().values(), strict=True)) == expected
    else:
        assert continued.n_found != rows.n_rows
