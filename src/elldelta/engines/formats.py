"""How the files of a table are written: what names and first bytes tell, and what to do about others."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import itertools
import json
import os
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any, Literal

from elldelta.errors import ElldeltaError, FileError
from elldelta.files import unreadable, unwritable

FileFormat = Literal["csv", "parquet"]
SourceFormat = Literal["csv", "parquet", "arrow", "json"]
STANDARD_INPUT = "standard input"

_SUFFIXES: dict[str, FileFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
}
_KNOWN = ", ".join(_SUFFIXES)
READABLE: dict[str, SourceFormat] = {
    **_SUFFIXES,
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
}
_BEGINNINGS: dict[bytes, str] = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"{": ".jsonl"}
"""How files begin whose name does not tell their format, and how such a name would end."""
_CONVERSIONS = {
    "Save the sheet as CSV UTF-8 (in Excel: File, Save As).": (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"),
    "Write it as Parquet, in R with arrow::write_parquet(readRDS(FILE), NEW).": (".rds", ".rda", ".rdata"),
    "Write it as Parquet, in Python with pandas.read_stata, read_spss or read_sas and to_parquet.": (
        *(".dta", ".sav", ".zsav", ".sas7bdat", ".xpt"),
    ),
    "Write one record per line (.jsonl), for instance with: jq -c '.[]' FILE > NEW.jsonl": (".json",),
    "Unpack it first.": (".zip", ".7z", ".xz", ".bz2", ".zst", ".tar"),
    "Write it as CSV, for instance with: sqlite3 -csv -header FILE 'SELECT ...' > NEW.csv": (
        *(".db", ".sqlite", ".sqlite3"),
    ),
}
_DAMAGED = {
    "parquet": (
        "Its end, which describes the table, is missing or damaged.",
        "Check that it is a Parquet file and was copied completely.",
    ),
    "arrow": (
        "It is damaged or not complete, or compressed as a whole.",
        "Write it again as Feather, version 2, or as Parquet.",
    ),
}
_MOST_LINES = 1000
"""Lines of a file of JSON in which its columns are looked for."""


def format_of(path: str | os.PathLike[str]) -> FileFormat:
    """CSV or Parquet, the formats that are written, told by the end of the name (before .gz)."""
    found = _SUFFIXES.get(suffix_of(path))
    if found is None:
        raise FileError(
            f"The format of {os.fspath(path)} is not known.",
            found="The end of its name does not tell.",
            remedy=f"Use a name that ends in one of {_KNOWN}.",
        )
    return found


def source_format(path: str | os.PathLike[str]) -> SourceFormat:
    """The format of a file that is read, told by the end of its name; others are refused with a way out."""
    suffix = suffix_of(path)
    if suffix not in READABLE:
        ways = [way for way, suffixes in _CONVERSIONS.items() if suffix in suffixes]
        raise FileError(
            f"{os.fspath(path)} is not in a format that is read.",
            found=f"Formats that are read end in {', '.join(READABLE)}.",
            remedy=ways[0] if ways else "Convert it to CSV or Parquet.",
        )
    return READABLE[suffix]


def suffix_is_gz(path: Path) -> bool:
    """Whether a name says that the file is compressed as a whole."""
    return path.name.lower().endswith(".gz")


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The end of a name, before .gz."""
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def table_head(path: Path) -> tuple[Any, int | None]:
    """The schema of a Parquet or Arrow file, and the number of its records where it tells."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    problem: ElldeltaError
    kind = source_format(path)
    try:
        if kind == "parquet":
            with pq.ParquetFile(path) as table:
                return table.schema_arrow, table.metadata.num_rows
        with pa.OSFile(str(path)) as file:
            return _checked_schema(pa.ipc.open_file(file)), None
    except PermissionError as denied:
        problem = unreadable(path, "file", denied)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        found, remedy = _DAMAGED[kind]
        problem = FileError(f"{path} is not a whole {kind.capitalize()} file.", found=found, remedy=remedy)
    raise problem


def _checked_schema(file: Any) -> Any:  # noqa: ANN401 (of a reader of Arrow files)
    """The schema of an Arrow file all of whose cells lie inside of the file; engines do not look."""
    for place in range(file.num_record_batches):
        file.get_batch(place).validate(full=True)
    return file.schema


def json_keys(path: Path) -> tuple[str, ...]:
    """The keys of the first records of a file with one JSON object per line."""
    keys: dict[str, None] = {}
    problem = ""
    try:
        with gzip.open(path) if suffix_is_gz(path) else path.open("rb") as file:
            lines = [line for line in itertools.islice(file, _MOST_LINES) if line.strip()]
        for number, line in enumerate(lines, start=1):
            record = json.loads(line.removeprefix(codecs.BOM_UTF8).decode())
            if not isinstance(record, dict) or not all(key and "\0" not in key for key in record):
                problem = f"Record {number} is no JSON object, or a name in it is empty."
                break
            keys.update(dict.fromkeys(record))
    except PermissionError as denied:
        raise unreadable(path, "file", denied) from None
    except (ValueError, RecursionError):
        problem = "One of its first lines is no JSON."
    except (OSError, EOFError, zlib.error):
        problem = "The system or the decompression stopped."
    if problem or not keys:
        raise FileError(
            f"{path} does not hold one JSON object per line.",
            found=problem or "It is empty.",
            remedy='Write one record per line, as in {"age": 41, "disease": "flu"}, or give CSV.',
        )
    return tuple(keys)


def standard_input(folder: Path) -> Path:
    """What comes from standard input, as a file; its first bytes tell the format."""
    there = [*folder.glob(f"{STANDARD_INPUT}.*")]
    if there:
        return there[0]
    stream = sys.stdin.buffer
    if sys.stdin.isatty():
        raise FileError(
            "Nothing comes from standard input.",
            found="It is a terminal.",
            remedy="Let another program write to it (zcat records.csv.gz | elldelta ...), or name a file.",
        )
    head = stream.read(1 << 16)
    packed = ".gz" if head.startswith(b"\x1f\x8b") else ""
    begins = b"" if packed else head
    with contextlib.suppress(zlib.error):  # what is damaged is told when it is read
        begins = begins or zlib.decompressobj(31).decompress(head, 8)
    suffix = next((suffix for mark, suffix in _BEGINNINGS.items() if begins.startswith(mark)), ".csv")
    path = folder / f"{STANDARD_INPUT}{suffix}{packed}"
    try:
        with path.open("xb") as file:
            file.write(head)
            shutil.copyfileobj(stream, file, 1 << 20)
    except OSError as problem:
        raise unwritable(path, problem) from None
    return path
