"""Texts that people read: numbers before nouns are told by `counted`, so that nobody reads "1 records"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import elldelta
from elldelta.errors import counted

_NOUNS = (
    "records|classes|values|releases|columns|persons|people|owners|groups|files|rows|cells|combinations|names"
    "|lines|bytes|days|bins|texts|plans|tables|witnesses|registrations|jobs|requests|pairs|places|labels|parts"
)
_PLURAL = re.compile(
    rf" (?:(?:more|other|base|past|linked|published|planned|different|sensitive) )?({_NOUNS})\b"
)
_ABOVE_ONE = re.compile(r"_?[A-Z][A-Z_]+|t|of_each")
"""Constants, and numbers that are written out only where they are above one."""


def _numbers_before_nouns(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for number, text in zip(node.values, node.values[1:], strict=False):
            if not isinstance(number, ast.FormattedValue) or number.conversion != -1:
                continue
            if not isinstance(text, ast.Constant) or not _PLURAL.match(str(text.value)):
                continue
            value = number.value
            is_text = isinstance(value, ast.Call | ast.IfExp) or ast.unparse(value).endswith("name")
            is_length = isinstance(value, ast.Call) and ast.unparse(value.func) in (
                "len",
                "int",
                "min",
                "max",
            )
            if (not is_text or is_length) and not _ABOVE_ONE.fullmatch(ast.unparse(value).split(".")[-1]):
                yield text.lineno, f"{{{ast.unparse(value)}}}{text.value}"


@pytest.mark.parametrize(
    ("source", "n_found"),
    [
        ('f"{n} records"', 1),
        ('f"{len(rows):,} base classes fail"', 1),
        ('f"{counted(n, \'record\')} of {name} values"', 0),
        ('f"{_MOST} records"', 0),
        ('f"{name!r} values"', 0),
    ],
)  # fmt: skip
def test_the_scan_finds_such_texts(source: str, n_found: int) -> None:
    assert len(list(_numbers_before_nouns(source))) == n_found


def test_no_text_says_one_records() -> None:
    folder = Path(elldelta.__file__).parent
    found = [
        f"{path.relative_to(folder)}:{line}: {text}"
        for path in sorted(folder.rglob("*.py"))
        for line, text in _numbers_before_nouns(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_numbers_have_separators_and_nouns_agree() -> None:
    assert [counted(n, "class is", "classes are") for n in (0, 1, 8000)] == [
        "0 classes are",
        "1 class is",
        "8,000 classes are",
    ]
