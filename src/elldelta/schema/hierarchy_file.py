"""Hierarchies as files: no header, one line per leaf, names separated by semicolons from leaf to root."""

from __future__ import annotations

import codecs
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from elldelta.errors import FileError
from elldelta.files.atomic import AtomicFiles
from elldelta.files.csv_format import CsvFormat, unreadable, wrong_encoding
from elldelta.schema.hierarchy import HierarchyRows

if TYPE_CHECKING:
    import os

    from elldelta.schema.hierarchy import Hierarchy

SEPARATOR = ";"
_OTHERS = (",", "\t")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_rows(path: str | os.PathLike[str], csv_format: CsvFormat | None = None) -> HierarchyRows:
    """Reads the rows of a file, right or wrong; empty lines are passed over.

    Without a separator in `csv_format` it is the semicolon, or the comma or tab if only that fits.
    """
    path, csv_format = Path(path), csv_format or CsvFormat()
    text = _text(path, csv_format)
    if csv_format.separator:
        separators: tuple[str, ...] = (csv_format.separator,)
    else:
        separators = (SEPARATOR, *_OTHERS)
    found = {mark: _split(text, mark, csv_format.quote) for mark in separators}
    rows, lines = found[_separator(path, found)] or ((), ())
    return HierarchyRows(rows, lines, f"The hierarchy {path}")


def write_hierarchy(hierarchy: Hierarchy, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes a hierarchy, whole or not at all."""
    with (
        AtomicFiles(overwrite=overwrite) as files,
        files.stage(path).open("w", encoding="utf-8", newline="") as file,
    ):
        csv.writer(file, delimiter=SEPARATOR, lineterminator="\n").writerows(hierarchy.rows)


_Split = tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]


def _text(path: Path, csv_format: CsvFormat) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileError(
            f"There is no hierarchy {path}.", found="The file does not exist.", remedy="Check its name."
        ) from None
    except OSError as problem:
        raise unreadable(path, f"{type(problem).__name__}.") from None
    encoding = "utf-8-sig" if csv_format.encoding == "utf-8" else csv_format.encoding
    if content.startswith(_UTF16):
        encoding = "utf-16"
    try:
        return content.decode(encoding)
    except UnicodeError:
        pass
    raise wrong_encoding(path, csv_format)


def _split(text: str, separator: str, quote: str) -> _Split | None:
    """The rows and their lines; None where the quotes make no sense with this separator."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quotechar=quote, strict=True)
    rows, lines, line = [], [], 1
    try:
        for row in reader:
            if row:
                rows.append(tuple(row))
                lines.append(line)
            line = reader.line_num + 1
    except csv.Error:
        return None
    return tuple(rows), tuple(lines)


def _separator(path: Path, found: dict[str, _Split | None]) -> str:
    readable = {mark: split for mark, split in found.items() if split is not None}
    if not readable:
        raise FileError(
            f"{path} is not a table of names.",
            found="Its quotes do not match.",
            remedy="Double a quote that is part of a name, and put the name in quotes.",
        )
    fits = [mark for mark, (rows, _) in readable.items() if all(len(row) > 1 for row in rows)]
    if len(found) == 1 or len(fits) == 1:
        return next(iter(fits or found))
    if SEPARATOR in fits:
        return SEPARATOR
    if not fits and SEPARATOR in readable and any(len(row) > 1 for row in readable[SEPARATOR][0]):
        return SEPARATOR  # some lines lack it: they are reported with their lines
    raise FileError(
        f"The separator of {path} cannot be found.",
        found="Comma and tab would both do." if fits else "Not every line has a semicolon, comma or tab.",
        remedy="Write one line per value: value;group;...;root.",
    )
