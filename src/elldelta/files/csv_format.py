"""How a CSV file is written: encoding, separator, quotes, compression; and its header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import shutil
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from elldelta.errors import FileError, ParameterError
from elldelta.files.atomic import unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CANDIDATES = (",", ";", "\t", "|")
_GZIP = b"\x1f\x8b"
_PIECE_BYTES = 1 << 22
_LONGEST_FIELD = 1 << 22


@dataclass(frozen=True)
class CsvFormat:
    """The conventions of a CSV file. Every column is read as text; an empty field without quotes is missing.

    Attributes:
        encoding: The name of the encoding; a byte order mark is skipped.
        separator: One character, or None to find it from the header among comma, semicolon, tab and bar.
        quote: One character; inside a quoted field it is doubled.
    """

    encoding: str = "utf-8"
    separator: str | None = None
    quote: str = '"'

    def __post_init__(self) -> None:
        try:
            name = codecs.lookup(self.encoding).name
        except LookupError:
            raise ParameterError(
                "The encoding is not known.",
                found=f"It is {self.encoding!r}.",
                remedy="Usual encodings are utf-8, latin-1, cp1252 and utf-16.",
            ) from None
        object.__setattr__(self, "encoding", "utf-8" if name == "utf-8-sig" else name)
        for role, mark in (("separator", self.separator), ("quote", self.quote)):
            if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in "\r\n\0"):
                raise ParameterError(f"The {role} must be one ASCII character.", found=f"It is {mark!r}.")
        if self.separator == self.quote:
            raise ParameterError("Separator and quote must differ.", found=f"Both are {self.quote!r}.")


@dataclass(frozen=True)
class CsvHeader:
    """What the beginning of a CSV file tells."""

    names: tuple[str, ...]
    separator: str
    is_gzip: bool
    encoding: str


def read_header(path: Path, csv_format: CsvFormat) -> CsvHeader:
    """Reads the header of a CSV file; finds the separator where none was given."""
    is_gzip, encoding = False, csv_format.encoding
    separators = (csv_format.separator,) if csv_format.separator else _CANDIDATES
    found: tuple[list[str], str] | None = None
    problem: str | None = None
    try:
        is_gzip = _is_gzip(path)
        encoding = _marked_encoding(path, csv_format.encoding, is_gzip=is_gzip)
        for separator in separators:
            with _open_text(path, encoding, is_gzip=is_gzip) as file:
                names = next(csv.reader(file, delimiter=separator, quotechar=csv_format.quote), [])
            if any("\0" in name for name in names):
                raise UnicodeError
            if found is None or len(names) > len(found[0]):
                found = names, separator
    except UnicodeError:
        problem = "encoding"
    except csv.Error:
        problem = "header"
    except PermissionError as denied:
        raise unreadable(path, "file", denied) from None
    except (OSError, EOFError, zlib.error):
        problem = "unreadable"
    # Raised out here: what is caught above may quote the file, and would hang on to the error.
    if problem == "encoding":
        raise wrong_encoding(path, csv_format)
    if problem == "unreadable":
        raise damaged_csv(path, "The system or the decompression stopped.")
    if problem == "header" or found is None:
        raise damaged_csv(path, "Its first line is not a header.")
    if not found[0]:
        raise FileError(
            f"{path} is empty.", found="It has no header.", remedy="Give a file with a line of column names."
        )
    return CsvHeader(tuple(found[0]), found[1], is_gzip, encoding)


def transcode(path: Path, csv_format: CsvFormat, target: Path) -> None:
    """Writes a copy of a file in UTF-8, uncompressed, piece by piece; without its byte order mark."""
    problem: FileError | None = None
    try:
        with (
            _open_text(path, csv_format.encoding, is_gzip=_is_gzip(path)) as source,
            target.open("w", encoding="utf-8", newline="") as copy,
        ):
            shutil.copyfileobj(source, copy, 1 << 20)
    except UnicodeError:
        problem = wrong_encoding(path, csv_format)
    except (OSError, EOFError, zlib.error):
        problem = damaged_csv(path, "The file could not be read, or there was no room for a copy in UTF-8.")
    if problem:
        raise problem


def recount(files: Mapping[Path, str], quote: str, n_read: int) -> int:
    """The number of records of CSV files in UTF-8, without the help of whoever has read so many of them.

    Lines are counted first, which costs next to nothing: no file has more records than lines, so that nothing
    is lost if so many were read. Otherwise quotes and blank lines are looked at, and last every field.

    Args:
        files: The files, and what separates their fields.
        quote: What stands around fields.
        n_read: How many records were read.
    """
    n_records = sum(_n_lines(path) - 1 for path in files)
    if n_records != n_read:
        n_records = sum(_n_lines(path, ord(quote)) - 1 for path in files)
    if n_records != n_read:
        n_records = sum(_n_records(path, separator, quote) - 1 for path, separator in files.items())
    return n_records


def _n_lines(path: Path, quote: int | None = None) -> int:
    """The number of lines; with a quote, of those that are not blank and do not end between two quotes."""
    import numpy as np  # not needed by --help

    n, n_bytes, last_end, inside, last = 0, 0, -1, False, b"\n"
    with _open_bytes(path) as file:
        while piece := file.read(_PIECE_BYTES):
            signs = np.frombuffer(piece, np.uint8)
            is_end = signs == ord("\n")
            if quote is None:
                n += int(np.count_nonzero(is_end))
            else:
                between = np.logical_xor.accumulate(signs == quote) ^ inside
                inside = bool(between[-1])
                ends = np.flatnonzero(is_end & ~between)
                lengths = np.diff(ends + n_bytes, prepend=last_end)
                is_blank = (lengths == 1) | ((lengths == 2) & (signs[ends - 1] == ord("\r")))
                n += int(np.count_nonzero(~is_blank))
                last_end = int(ends[-1]) + n_bytes if ends.size else last_end
            n_bytes, last = n_bytes + len(piece), piece[-1:]
    return n + (last != b"\n")


def _n_records(path: Path, separator: str, quote: str) -> int:
    """The number of records, by the reader of the standard library; up to one that is out of proportion."""
    n, limit = 0, csv.field_size_limit(_LONGEST_FIELD)
    try:
        with _open_text(
            path, "latin-1", is_gzip=_is_gzip(path)
        ) as file:  # what the bytes mean is all the same
            for row in csv.reader(file, delimiter=separator, quotechar=quote, skipinitialspace=True):
                n += bool(row)
    except csv.Error:
        n += 1
    finally:
        csv.field_size_limit(limit)
    return n


def wrong_encoding(path: Path, csv_format: CsvFormat) -> FileError:
    """The error for a file that is not in its declared encoding."""
    return FileError(
        f"{path} cannot be read as {csv_format.encoding}.",
        found="It holds bytes that mean nothing in this encoding.",
        remedy="Give its encoding, for example latin-1, cp1252 or utf-16.",
        parameter="csv_format",
    )


def damaged_csv(path: Path, found: str) -> FileError:
    """The error for a file that cannot be read."""
    return FileError(f"{path} cannot be read.", found=found, remedy="Check that the file is whole.")


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == _GZIP


def _marked_encoding(path: Path, encoding: str, *, is_gzip: bool) -> str:
    """UTF-16 where a file begins with its mark and nothing else was said, as Excel writes "Unicode text"."""
    with _open_bytes(path) as file:
        is_marked = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return "utf-16" if is_marked and encoding == "utf-8" else encoding


def _open_bytes(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if _is_gzip(path) else path.open("rb")


def _open_text(path: Path, encoding: str, *, is_gzip: bool) -> IO[str]:
    # utf-8-sig skips a byte order mark where there is one and is plain UTF-8 where there is none.
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    if is_gzip:
        return gzip.open(path, "rt", encoding=name, newline="")
    return path.open(encoding=name, newline="")
