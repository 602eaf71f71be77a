import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from elldelta.engines import connect, from_arrow, is_frame, to_arrow
from elldelta.engines.formats import format_of
from elldelta.engines.sources import find_files, inspect_file
from elldelta.errors import DataError, FileError, ParameterError
from elldelta.files import CsvFormat, read_header


def test_formats_are_told_by_the_name():
    assert format_of("a/b.PARQUET") == "parquet"
    assert format_of("b.csv.gz") == "csv"
    assert format_of("b.tsv") == "csv"
    for name in ("b", "b.gz", "b.xlsx"):
        with pytest.raises(FileError, match="not known"):
            format_of(name)


def test_a_name_that_exists_is_not_a_glob(tmp_path):
    for name in ("a[1].csv", "a1.csv"):
        (tmp_path / name).write_text("x\n")
    assert [path.name for path in find_files(tmp_path / "a[1].csv")] == ["a[1].csv"]
    assert [path.name for path in find_files(str(tmp_path / "a[12].csv"))] == ["a1.csv"]
    with pytest.raises(FileError, match="twice"):
        find_files([tmp_path, tmp_path / "a1.csv"])


@pytest.mark.parametrize(
    ("text", "names", "separator"),
    [
        ("a,b\n", ("a", "b"), ","),
        ("a;b,c;d\n", ("a", "b,c", "d"), ";"),
        ("a\tb\n", ("a", "b"), "\t"),
        ('"a|b"|c\n', ("a|b", "c"), "|"),
        ("alone\n", ("alone",), ","),
        ('"two\nlines",b\n', ("two\nlines", "b"), ","),
        ('"say ""hi""",b', ('say "hi"', "b"), ","),
    ],
)
def test_headers_are_read_and_separators_found(tmp_path, text, names, separator):
    plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        header = read_header(path, CsvFormat())
        assert (header.names, header.separator, header.is_gzip) == (names, separator, path == packed)
    assert read_header(plain, CsvFormat(separator="~")).separator == "~"


def test_files_tell_their_columns_and_rows(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), tmp_path / "t.parquet")
    file = inspect_file(tmp_path / "t.parquet", CsvFormat())
    assert (file.names, file.n_rows) == (("a", "b"), 2)
    (tmp_path / "t.csv").write_text(",a,column_1,\n")
    assert inspect_file(tmp_path / "t.csv", CsvFormat()).names == ("column_1_", "a", "column_1", "column_4")


def test_what_is_a_table_in_memory():
    table = pa.table({"a": [1]})
    assert is_frame(table)
    assert to_arrow(table) is table
    assert from_arrow(table, table) is table
    for other in ("a.csv", 7, [1, 2], {"a": [1]}):
        assert not is_frame(other)


def test_a_lazy_table_must_be_collected():
    import polars as pl

    with connect() as engine, pytest.raises(DataError, match="collected"):
        engine.open(pl.LazyFrame({"a": [1]}))


def test_an_unknown_engine_is_refused():
    with pytest.raises(ParameterError, match="duckdb"):
        connect("abacus")
    with pytest.raises(FileError, match="cannot be started"):
        connect(memory_limit="plenty")


def test_the_engine_stays_offline_and_within_its_limits():
    with connect(memory_limit="300MiB", threads=1) as engine:
        stored = engine.store("SELECT name, value FROM duckdb_settings()")
        settings = {row["name"]: row["value"] for part in engine.fetch(stored) for row in part.to_pylist()}
        assert settings["autoinstall_known_extensions"] == "false"
        assert settings["autoload_known_extensions"] == "false"
        assert settings["preserve_insertion_order"] == "false"
        assert settings["memory_limit"] == "300.0 MiB"
        assert settings["max_temp_directory_size"].endswith("iB")
        assert "elldelta-" in settings["temp_directory"]
        with pytest.raises(FileError, match="https"):
            engine.open("https://example.org/a.parquet")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t.xlsx", "CSV UTF-8"),
        ("t.sav", "read_spss"),
        ("t.RData", "write_parquet"),
        ("t.json", "jsonl"),
        ("t.zip", "Unpack"),
        ("t", "Convert"),
    ],
)
def test_other_formats_are_refused_with_a_way_to_convert_them(tmp_path, name, words):
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(FileError, match="not in a format that is read") as refused:
        inspect_file(tmp_path / name, CsvFormat())
    assert words in refused.value.remedy


@pytest.mark.parametrize(
    "text", ["", "[1]\n", '"abc"\n', '{"": 1}\n', "{canary\n", '{"a": 1}\ncanary\n', "\xff"]
)
def test_what_is_no_record_per_line_is_refused(tmp_path, text):
    path = tmp_path / "t.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match="one JSON object per line") as refused:
        inspect_file(path, CsvFormat())
    assert "canary" not in str(refused.value)
    path.with_suffix(".feather").write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match="whole Arrow file"):
        inspect_file(path.with_suffix(".feather"), CsvFormat())


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".feather"])
def test_standard_input_is_read_as_what_it_is(tmp_path, monkeypatch, suffix):
    table = pa.table({"a": ["1", "2"], "b": ["x", "y"]})
    path = tmp_path / f"t{suffix}"
    written = {".csv": b"a,b\n1,x\n2,y\n", ".jsonl": b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n'}
    if suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".feather":
        feather.write_feather(table, path)
    else:
        content = written[suffix.removesuffix(".gz")]
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    with path.open() as file, connect() as engine:
        monkeypatch.setattr("sys.stdin", file)
        opened = engine.open("-")
        assert (opened.origin, opened.names) == ("standard input", ("a", "b"))
        assert sorted(row["k1"] for batch in opened.count_texts(["a", "b"]) for row in batch.to_pylist()) == [
            "x",
            "y",
        ]
        with pytest.raises(FileError, match="twice"):
            engine.open(["-", "-"])


def test_nothing_is_waited_for_at_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda _: True, "buffer": None})())
    with connect() as engine, pytest.raises(FileError, match="Nothing comes"):
        engine.open("-")
