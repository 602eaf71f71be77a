"""The spelling of labels: what a reader sees in a release, and how it is read back without ambiguity.

A label names a set of values of one column::

    *                     every value
    23-41                 whole numbers (-5..3 when the first is negative)
    1990-01..1990-06      dates
    F                     one category, or a group of a hierarchy: Undergraduate, 5600**
    low..high             a run of ordered categories
    {A, B}                a set of unordered categories
    [0, 10)               a bin; the last bin is closed: [90, 100]
    (missing)             no value
    23-41 or (missing)    values, or none

A category or a group that could be mistaken for any of this is written in double quotes, inner quotes
doubled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERYTHING = "*"
MISSING = "(missing)"
_OR_MISSING = f" or {MISSING}"
_RANGE = ".."

_SPECIAL = re.compile(r'[",{}\x00-\x1f]|^\*\Z|\.\.|^\.|\.$|^\s|\s$|\(missing\)', re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"]|"")*)"', re.DOTALL)
_BARE_IN_SET = re.compile(r'[^",{}]+')


def quoted(value: str) -> str:
    """A category as it appears in a label: bare where that is unambiguous, in double quotes otherwise."""
    if value == "" or _SPECIAL.search(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def category_run(first: str, last: str) -> str:
    """The label of a run of ordered categories."""
    return f"{quoted(first)}{_RANGE}{quoted(last)}"


def category_set(values: Sequence[str]) -> str:
    """The label of a set of unordered categories."""
    return "{" + ", ".join(map(quoted, values)) + "}"


def or_missing(label: str) -> str:
    """The label of some values, or none."""
    return label + _OR_MISSING


def split_missing(label: str) -> tuple[str | None, bool]:
    """Takes `(missing)` off a label: what is left (None if nothing is), and whether it was there."""
    if label == MISSING:
        return None, True
    if label.endswith(_OR_MISSING):
        return label.removesuffix(_OR_MISSING), True
    return label, False


def parse_category(label: str) -> str | None:
    """The value of a label that names one category; None if it does not."""
    match = _QUOTED.fullmatch(label)
    if match:
        return match[1].replace('""', '"')
    return None if label == "" or _SPECIAL.search(label) else label


def parse_category_run(label: str) -> tuple[str, str] | None:
    """The ends of a label that names a run of ordered categories; None if it does not."""
    match = _QUOTED.match(label)
    cut = match.end() if match else label.find(_RANGE)
    if cut < 0 or not label.startswith(_RANGE, cut):
        return None
    first, last = parse_category(label[:cut]), parse_category(label[cut + len(_RANGE) :])
    return None if first is None or last is None else (first, last)


def parse_category_set(label: str) -> list[str] | None:
    """The values of a label that names a set of categories; None if it does not."""
    if len(label) < 2 or label[0] != "{" or label[-1] != "}":
        return None
    values: list[str] = []
    at, end = 1, len(label) - 1
    while True:
        match = _QUOTED.match(label, at, end) or _BARE_IN_SET.match(label, at, end)
        value = None if match is None else parse_category(match[0])
        if match is None or value is None:
            return None
        values.append(value)
        at = match.end()
        if at == end:
            return values
        if not label.startswith(", ", at):
            return None
        at += 2
