"""Rows that are counted by where they change, against a counter of rows, and what is left to the engine."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elldelta.engines.duckdb import connect
from elldelta.errors import DataError, FileError
from elldelta.release import runs
from elldelta.release.content import different_rows
from elldelta.release.runs import count_runs

NAMES = ("a", "a.b")
TEXTS = st.sampled_from([None, "", "x", "y", "ß"])


@pytest.fixture(scope="module")
def engine():
    with connect() as engine:
        yield engine


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "table.parquet"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=30), st.integers(1, 40), st.booleans())
def test_runs_add_up_to_the_rows_whatever_their_order(path, engine, rows, group, in_order):
    rows = sorted(rows, key=repr) if in_order else rows
    columns = {name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(NAMES)}
    pq.write_table(pa.table({**columns, "c": [0.5] * len(rows)}), path, row_group_size=group)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "ROWS_AT_ONCE", 7)
        found = count_runs(engine.open(path), NAMES[::-1], told.append)
    total = Counter()
    for second, first, n in zip(*(column.to_pylist() for column in found.columns), strict=True):
        total[first, second] += n
    assert total == Counter(rows)
    assert told[-1] == 1.0


def _other(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_what_is_unusual_is_left_to_the_engine(tmp_path, engine, monkeypatch):
    texts = pa.array(["x", "y", "x", "x"])
    usual = _other(tmp_path / "usual.parquet", a=texts, b=texts)
    (tmp_path / "table.csv").write_text("a,b\nx,x\n")
    unusual = [
        usual.with_name("table.csv"),
        [usual, _other(tmp_path / "second.parquet", a=texts, b=texts)],
        _other(tmp_path / "numbers.parquet", a=texts, b=[1, 2, 3, 4]),
        _other(tmp_path / "bytes.parquet", a=texts, b=texts.cast(pa.binary())),
        _other(tmp_path / "nothing.parquet", a=texts[:0], b=texts[:0]),
        _other(tmp_path / "lists.parquet", a=[[each] for each in "abab"], b=texts),
    ]
    assert count_runs(engine.open(usual), ("a", "b")).num_rows == 3
    for source in unusual:
        assert count_runs(engine.open(source), ("a", "b")) is None
    for limit, most in ("MOST_RUNS", 2), ("MOST_BYTES", 5):  # three runs, of one letter in each column
        with monkeypatch.context() as patch:
            patch.setattr(runs, limit, most)
            assert count_runs(engine.open(usual), ("a", "b")) is None
            counts = different_rows(engine.open(usual), ("a",), ("b",), None)[3]
            assert sorted(counts.tolist()) == [1, 3]


def test_a_few_bytes_that_stand_for_very_long_texts_take_no_memory(tmp_path, engine):
    """Two texts that alternate: every row is a run of its own, and would have a copy of its text."""
    long = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 3000, pa.int32()), ["x" * 50_000, "y" * 50_000])
    path = _other(tmp_path / "long.parquet", a=long, b=["x"] * 6000)
    assert path.stat().st_size < 50_000
    before = pa.total_allocated_bytes()
    pa.default_memory_pool().release_unused()
    assert count_runs(engine.open(path), ("a", "b")) is None
    assert pa.total_allocated_bytes() - before < 2**20
    assert different_rows(engine.open(path), ("a",), ("b",), None)[3].tolist() == [3000, 3000]


@pytest.mark.parametrize("told", [b"\x80\x80\x00", b"\x82\x80\x00"], ids=["none", "one"])
def test_a_wrong_number_of_rows_is_refused(tmp_path, engine, told):
    """The file says that it has none, or one, and has more: whether anybody is told the progress or not."""
    n_rows, as_written = 12_345, b"\x16\xf2\xc0\x01"
    path = _other(tmp_path / "wrong.parquet", a=["x"] * n_rows, b=["y"] * n_rows)
    content = path.read_bytes()
    place = content.index(as_written)
    path.write_bytes(content[: place + 1] + told + content[place + 4 :])
    assert pq.read_metadata(path).num_rows < 2
    shares = []
    for progress in (None, shares.append):
        with pytest.raises(DataError, match="lost or invented"):
            different_rows(engine.open(path), ("a",), ("b",), progress)
    assert max(shares, default=0.0) <= 1.0


def test_what_cannot_be_read_is_refused_in_the_words_of_the_engine(tmp_path, engine):
    damaged = _other(tmp_path / "damaged.parquet", a=[f"secret {n}" for n in range(5000)], b=["x"] * 5000)
    content = bytearray(damaged.read_bytes())
    content[40:4000] = b"\xff" * 3960
    damaged.write_bytes(content)
    wrong = pa.array([b"secret \xff"]).cast(pa.binary())
    not_text = pa.StringArray.from_buffers(1, *wrong.buffers()[1:], wrong.buffers()[0])
    of_no_row = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int32()), pa.concat_arrays([pa.array(["x"]), not_text])
    )
    others = {
        name: _other(tmp_path / f"{name}.parquet", a=texts, b=["x"])
        for name, texts in {"not_text": not_text, "of_no_row": of_no_row}.items()
    }
    for path in (damaged, *others.values()):
        table = engine.open(path)
        assert count_runs(table, ("a", "b")) is None
        with pytest.raises(FileError) as caught:
            different_rows(table, ("a",), ("b",), None)
        assert "secret" not in str(caught.value)
