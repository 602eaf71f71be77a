"""Records of CSV files that are counted once more, without the engine that has read them."""

import csv
import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elldelta.engines import connect
from elldelta.errors import DataError, FileError
from elldelta.files import recount
from elldelta.files.csv_format import _n_lines, _n_records

CELL = st.text(alphabet='xé,;"\n ', max_size=4)


@settings(max_examples=60)
@given(st.lists(st.tuples(CELL, CELL), max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_every_way_of_counting_says_how_many_were_written(tmp_path_factory, rows, end, is_gzip):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    content = (text.getvalue() + end).encode()  # a blank line at the end is no record
    path.write_bytes(gzip.compress(content) if is_gzip else content)
    assert _n_lines(path, ord('"')) == _n_records(path, ",", '"') == len(rows) + 1 <= _n_lines(path)
    assert recount({path: ","}, '"', len(rows)) == len(rows)
    assert recount({path: ","}, '"', len(rows) - 1) == len(rows)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("a,b\n1,x\n\n2,y\n\n", 2),
        ("a,b\r\n1,x\r\n\r\n2,y", 2),
        ("a,b\r1,x\r2,y\r", 2),
        ("a,b\n,\n1,x\n", 2),
        ('a,b\n1,5\'2"\n2,"x\ny"\n', 2),
        ('a,b\n1, "x\ny"\n2,"a ""b""\n"\n', 2),
    ],
)
def test_files_are_read_whole(tmp_path, text, n):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    with connect() as engine:
        table = engine.open(path)
        table.check_all_read()
        with pytest.raises(DataError, match=f"holds {n} records, 9 were read"):
            table.check_read(9)


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_last_record_that_the_engine_drops_is_noticed(tmp_path, quote):
    path = tmp_path / "t.csv"
    path.write_text("a,s\n" + "1,x\n" * 9 + f"2,{quote}{'canary ' * 5_000_000}{quote}\n")
    with connect() as engine, pytest.raises((DataError, FileError)) as caught:
        engine.open(path).check_all_read()
    assert "canary" not in str(caught.value)
    path.write_text("a,s\n" + f"2,{'x' * 3_000_000}\n")
    with connect() as engine, pytest.raises(FileError, match="Line 2 is longer than two million"):
        list(engine.open(path).count_texts(["a", "s"]))
