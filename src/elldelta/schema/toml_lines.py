"""On which line of a TOML text each key stands, which the parser of the standard library does not tell."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEXEME = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    + r"'''.*?'{3,5}|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'[^'\n]*'|#[^\n]*|[\[\]{}=\n]|[^\"'#\[\]{}=\n]+",
    re.DOTALL,
)


def statement_lines(text: str) -> dict[tuple[str | int, ...], int]:
    """The line, from 1, of every table header and every key of a text that is known to be valid TOML."""
    lines: dict[tuple[str | int, ...], int] = {}
    counters: dict[tuple[str, ...], int] = {}
    prefix: tuple[str | int, ...] = ()
    for line, statement in _statements(text):
        if statement.startswith("["):
            is_array = statement.startswith("[[")
            name = _key(statement.strip("[]"))
            prefix = name
            if is_array:
                counters[name] = counters.get(name, -1) + 1
                prefix = (*name, counters[name])
                lines.setdefault(name, line)
            lines[prefix] = line
        else:
            key = _key(statement)
            for depth in range(1, len(key) + 1):
                lines.setdefault((*prefix, *key[:depth]), line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement's first line and its text: a header, or a key up to its equals sign."""
    line, depth, start, parts, in_key = 1, 0, 1, list[str](), True
    for match in _LEXEME.finditer(text):
        lexeme = match[0]
        if lexeme == "\n" and depth == 0:
            statement = "".join(parts).strip()
            if statement:
                yield start, statement
            parts, in_key = [], True
        elif not lexeme.startswith("#"):
            if not "".join(parts).strip():
                start = line
            is_header = in_key and (depth > 0 or lexeme in {"[", "]"})
            depth += (lexeme in {"[", "{"}) - (lexeme in {"]", "}"})
            if lexeme == "=" and depth == 0:
                in_key = False
            elif in_key or is_header:
                parts.append(lexeme)
        line += lexeme.count("\n")
    statement = "".join(parts).strip()
    if statement:
        yield start, statement


def _key(text: str) -> tuple[str, ...]:
    """The parts of a dotted key; the parser itself takes it apart, with all its quoting."""
    table: Any = tomllib.loads(f"{text.strip()} = 0")
    parts: list[str] = []
    while isinstance(table, dict):
        part, table = next(iter(table.items()))
        parts.append(part)
    return tuple(parts)
