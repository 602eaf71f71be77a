"""Value hierarchies in files, one line per leaf from leaf to root; and those that are made by a rule."""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.errors import FileError, ParameterError, counted
from elldelta.files import (
    MOST_TEXT,
    AtomicFiles,
    CsvFormat,
    read_bytes,
    read_text,
    wrong_encoding,
)
from elldelta.schema.domains import Dates, Integers
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from elldelta.parameters import DateUnit

SEPARATOR = ";"
_OTHERS = (",", "\t")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ROOT = "*"
MOST_LEAVES = 1_000_000


def read_hierarchies(
    files: Mapping[str, str | os.PathLike[str]], csv_format: CsvFormat | None = None
) -> dict[str, HierarchyRows]:
    """The rows of a file per column, right or wrong."""
    return {name: read_rows(path, csv_format) for name, path in files.items()}


def given_rows(hierarchies: Any) -> dict[str, Hierarchy | HierarchyRows]:  # noqa: ANN401 (checked)
    """Hierarchies as somebody gives them, per column: read where a file is named."""
    rows: dict[str, Hierarchy | HierarchyRows] = {}
    for name, given in hierarchies.items() if isinstance(hierarchies, Mapping) else [("", hierarchies)]:
        if not isinstance(given, str | os.PathLike | Hierarchy | HierarchyRows) or not name:
            raise ParameterError(
                "Hierarchies are given per column, each as a file or as a Hierarchy.",
                found=f"One is of type {type(given).__name__}.",
                remedy="Give the name of each column with its file.",
                parameter="hierarchies",
            )
        rows[name] = read_rows(given) if isinstance(given, str | os.PathLike) else given
    return rows


def read_codes(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The codes of a text file, one per line, each once; empty lines are passed over."""
    text = read_text(path, "file", remedy="Give a file in UTF-8 with one code per line.")
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


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


def integer_hierarchy(low: int, high: int, widths: Sequence[int], *, start: int = 0) -> Hierarchy:
    """Ranges of whole numbers, from narrow to wide.

    Args:
        low: The smallest number.
        high: The largest number.
        widths: The widths of the ranges, each a multiple of the one before.
        start: A number at which ranges of every width begin; those at the ends are cut off at low and high.

    >>> integer_hierarchy(17, 90, [5, 10]).rows[3]
    ('20', '20-24', '20-29', '*')
    """
    domain = Integers(low, high)
    _check_leaves(domain.size)
    if (
        not widths
        or widths[0] < 2
        or any(wide % narrow or wide == narrow for narrow, wide in pairwise(widths))
    ):
        raise ParameterError(
            "Widths must grow, each a multiple of the one before, from 2 on.",
            found=f"They are {', '.join(map(str, widths)) or 'missing'}.",
            remedy="Use for example 5,10,20.",
        )
    rows = []
    for number in range(low, high + 1):
        names = [str(number)]
        for width in widths:
            first = start + (number - start) // width * width
            ends = max(first, low), min(first + width - 1, high)
            names.append(domain.label(ends[0] - low, ends[1] - low))
        rows.append((*names, ROOT))
    return Hierarchy(tuple(rows))


def date_hierarchy(low: dt.date, high: dt.date, unit: DateUnit = "day") -> Hierarchy:
    """Days in months, months in years, years in decades, beginning with the unit.

    >>> import datetime as dt
    >>> date_hierarchy(dt.date(2020, 1, 31), dt.date(2020, 2, 1)).rows[0]
    ('2020-01-31', '2020-01', '2020', '2020s', '*')
    """
    domain = Dates(low, high, unit)
    _check_leaves(domain.size)
    rows = []
    for place in range(domain.size):
        leaf = domain.label(place, place)
        above = [leaf[:length] for length in (7, 4) if length < len(leaf)]
        rows.append((leaf, *above, f"{leaf[:3]}0s", ROOT))
    return Hierarchy(tuple(rows))


def code_hierarchy(codes: Sequence[str], lengths: Sequence[int] | None = None) -> Hierarchy:
    """Prefixes of codes: postal codes, diagnoses, occupations.

    Codes of one length are filled up with stars, so that a reader sees how much is hidden; others end in one
    star. A code that is no longer than a prefix is a group of its own.

    Args:
        codes: The codes, each once.
        lengths: The lengths of the prefixes, falling; every length below the longest code if None.

    >>> code_hierarchy(["560012", "560034"], [4, 2]).rows[0]
    ('560012', '5600**', '56****', '*')
    """
    _check_leaves(len(codes))
    if not codes or not all(codes):
        raise ParameterError(
            "Codes must be texts that are not empty.",
            found="There is no code." if not codes else "Some codes are empty.",
        )
    longest = max(map(len, codes))
    lengths = list(range(longest - 1, 0, -1)) if lengths is None else list(lengths)
    if any(short >= long for long, short in pairwise(lengths)) or not all(0 < n < longest for n in lengths):
        raise ParameterError(
            f"Lengths of prefixes must fall, from {longest - 1} or less to 1 or more.",
            found=f"They are {', '.join(map(str, lengths))}, and the longest code has "
            f"{counted(longest, 'character')}.",
            remedy=f"Use for example {', '.join(map(str, range(longest - 1, 0, -2)))}.",
        )
    is_even = min(map(len, codes)) == longest
    rows = []
    for code in codes:
        groups = [
            code[:length] + "*" * (longest - length if is_even else 1) if len(code) > length else code
            for length in lengths
        ]
        rows.append((code, *groups, ROOT))
    return Hierarchy(tuple(rows))


_Split = tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]


def _text(path: Path, csv_format: CsvFormat) -> str:
    content = read_bytes(path, "hierarchy", MOST_TEXT)
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


def _check_leaves(n_leaves: int) -> None:
    if n_leaves > MOST_LEAVES:
        raise ParameterError(
            f"A hierarchy may have at most {MOST_LEAVES:,} leaves.",
            found=f"It would have {n_leaves:,}.",
            remedy="Use wider ranges or coarser dates as leaves.",
        )
