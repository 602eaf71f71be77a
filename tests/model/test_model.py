import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elldelta.core.distribution import sparse_rows
from elldelta.errors import DataError, FileError, InputError, InternalError, SchemaError
from elldelta.model import counting
from elldelta.model.counts import Accounting, Counts, merge_counts
from elldelta.model.merging import merge_models
from elldelta.model.model import Model, read_model, write_model
from elldelta.schema.domains import NULL, UNKNOWN
from elldelta.schema.schema import Categories, Column, Integers, Schema

SCHEMA = Schema(
    (Column("g", Categories(("F", "M"))), Column("age", Integers(0, 4))), Column("s", Integers(0, 2))
)

cells = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(1, 5)), max_size=30)


def counts_of(rows, **losses):
    n_counted = sum(n for _, _, n in rows)
    accounting = Accounting(n_counted + sum(losses.values()), n_counted, **losses)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return Counts.from_cells(SCHEMA, *columns, accounting)


@given(cells)
def test_cells_are_added_up(rows):
    counts = counts_of(rows)
    table = np.zeros((10, 3), dtype=int)
    for rank, value, n in rows:
        table[rank, value] += n
    occupied = np.flatnonzero(table.sum(axis=1))
    assert counts.ranks.tolist() == occupied.tolist()
    assert counts.dense().tolist() == table[occupied].tolist()
    assert counts.combination_totals.tolist() == table[occupied].sum(axis=1).tolist()
    assert counts.positions.tolist() == [[rank // 5, rank % 5] for rank in occupied]
    if rows:
        assert counts.distribution.mass.tolist() == counts.dense().tolist()


@given(cells, cells)
def test_merging_is_counting_together(first, second):
    merged = merge_counts([counts_of(first, n_suppressed=2), counts_of(second, n_quarantined=1)])
    together = counts_of(first + second, n_suppressed=2, n_quarantined=1)
    assert Model(merged).digest == Model(together).digest


def test_arrays_cannot_be_changed():
    counts = counts_of([(1, 1, 1)])
    for array in (counts.ranks, counts.rows, counts.values, counts.n, counts.positions):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_contradictions_are_refused():
    fine = {"ranks": [1, 5], "offsets": [0, 2, 3], "values": [0, 1, 0], "n": [1, 1, 1]}

    def make(ranks, offsets, values, n):
        table = sparse_rows(np.array(offsets), np.array(values), np.array(n), SCHEMA.n_values)
        return Counts(SCHEMA, ranks, table, Accounting(3, 3))

    make(**fine)
    for change in (
        {"ranks": [5, 1]},
        {"ranks": [1, 10]},
        {"ranks": [-1, 5]},
        {"ranks": [1, 5, 6]},
        {"offsets": [0, 3]},
        {"offsets": [0, 3, 3]},
        {"offsets": [0, 2, 4]},
        {"values": [1, 0, 0]},
        {"values": [0, 3, 0]},
        {"n": [0, 2, 1]},
        {"n": [1, 1, 2]},
        {"n": [1, 1]},
    ):
        with pytest.raises(InputError):
            make(**{**fine, **change})


def test_records_cannot_vanish_from_the_account():
    with pytest.raises(InternalError):
        Accounting(10, 8, 1, 0)
    assert Accounting(10, 8, 1, 1).to_dict()["n_read"] == 10


def test_an_empty_model_is_no_distribution():
    with pytest.raises(DataError, match="no record"):
        counts_of([]).distribution  # noqa: B018


def test_a_model_is_read_as_it_was_written(tmp_path):
    model = Model(counts_of([(1, 1, 3), (7, 0, 2)], n_suppressed=4))
    write_model(model, tmp_path / "m.parquet")
    read = read_model(tmp_path / "m.parquet")
    assert read == model
    assert read.schema == model.schema
    assert read.accounting == model.accounting
    assert read.to_distribution().mass.tolist() == [[0, 3, 0], [2, 0, 0]]
    assert [path.name for path in tmp_path.iterdir()] == ["m.parquet"]
    first = (tmp_path / "m.parquet").read_bytes()
    write_model(model, tmp_path / "m.parquet", overwrite=True)
    assert (tmp_path / "m.parquet").read_bytes() == first


def test_an_existing_model_is_not_overwritten(tmp_path):
    path = tmp_path / "m.parquet"
    path.write_text("precious")
    with pytest.raises(FileError, match="exists"):
        write_model(Model(counts_of([(1, 1, 3)])), path)
    assert path.read_text() == "precious"


def test_models_of_different_schemas_do_not_merge():
    other = Schema(SCHEMA.quasi_identifiers, Column("s", Integers(0, 3)))
    models = [Model(counts_of([(1, 1, 1)])), Model(Counts.from_cells(other, [1], [1], [1], Accounting(1, 1)))]
    with pytest.raises(SchemaError, match="Number 2"):
        merge_models(models)


def change(path, **changes):
    """Writes the model again with another description or other cells."""
    import json

    table = pq.read_table(path)
    head = json.loads(table.schema.metadata[b"elldelta.model"])
    columns = {name: changes.pop(name, table.column(name).to_pylist()) for name in table.column_names}
    head.update(changes)
    table = pa.table(columns).replace_schema_metadata({"elldelta.model": json.dumps(head)})
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 99}, "another version"),
        ({"format": 2}, "another version"),
        ({"n": [3, 3]}, "changed or damaged"),
        ({"rank": [1, 8]}, "changed or damaged"),
        ({"rank": [1, 1]}, "changed or damaged"),
        ({"digest": "sha256:0"}, "changed or damaged"),
        ({"schema": {}}, "changed or damaged"),
        ({"accounting": {"n_read": 6, "n_counted": 5}}, "changed or damaged"),
        ({"n": ["3", "2"]}, "changed or damaged"),
    ],
)
def test_a_changed_model_is_refused(tmp_path, changes, words):
    path = tmp_path / "m.parquet"
    write_model(Model(counts_of([(1, 1, 3), (7, 0, 2)])), path)
    change(path, **changes)
    with pytest.raises(FileError, match=words):
        read_model(path)


def test_other_files_are_no_models(tmp_path):
    with pytest.raises(FileError, match="There is no model"):
        read_model(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("not Parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    write_model(Model(counts_of([(1, 1, 3)])), tmp_path / "m.parquet")
    whole = (tmp_path / "m.parquet").read_bytes()
    (tmp_path / "short.parquet").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "other", "short"):
        with pytest.raises(FileError, match="is not a model"):
            read_model(tmp_path / f"{name}.parquet")


def test_repeated_cells_of_a_column_are_not_remembered_again_and_again(monkeypatch):
    monkeypatch.setattr(counting, "MOST_REPEATED", 100)
    encoder = counting._Encoder(Column("a", Integers(0, 9)))
    for first in range(1000):
        positions = encoder.encode(pa.array([first % 10, None, first % 7, 77]))
        assert positions.tolist() == [first % 10, NULL, first % 7, UNKNOWN]
        assert sum(map(len, encoder._seen)) < 150
    encoding = encoder.encoding()
    assert sorted(encoding.cells.drop_null().to_pylist()) == [*range(10), 77]
    assert encoding.unknown_texts() == ["77"]
