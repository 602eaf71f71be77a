"""The schema on disk: TOML that a person edits, read back strictly and with line numbers."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import re
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from elldelta.choices import DateUnit
from elldelta.errors import SchemaError
from elldelta.files import AtomicFiles, read_text
from elldelta.schema.domains import Bins, Categories, Dates, Domain, Integers, date_from_text
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.schema import FORMAT_VERSION, Column, NullPolicy, Schema

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    Path = tuple[str | int, ...]
    Locate = Callable[[Path], str]

_HEADER = """\
# Schema for elldelta: which columns identify, which one is sensitive, what their values may be.
#
# Edit it before you use it. Columns are compared in the order in which they stand here.
# kind   integers    low, high, and width for ranges of several numbers
#        dates       low, high, unit = "day", "month" or "year"
#        categories  values in their order; ordered = true if that order means something
#        bins        edges: [first, second), ..., the last bin includes its upper edge
# missing            texts that stand for a missing value; a text that is one of the values never does
# nulls  "category"  a missing value is one more value of the column (if sensitive, it counts towards ell)
#        "refuse"    a table with missing values is refused
#        "suppress"  records without a value are left out, and counted
# changes = true     somebody's value may change between releases (an age, an address): plans then also hold
#                    for people who move; a column that stays the same (birth year) costs less
# A column may have a hierarchy: hierarchy_file = "age.csv", a file beside this one with one line
# per value, value;group;...;root, or the same lines here: hierarchy = [["17", "15-19", "*"], ...].
# Of the sensitive column the first groups count as one value each: all cancers are one. Releases show values.
"""

_KEYS = {
    "integers": {"low": True, "high": True, "width": False},
    "dates": {"low": True, "high": True, "unit": True},
    "categories": {"values": True, "ordered": False},
    "bins": {"edges": True},
}
"""Keys of each kind of domain, and whether they are required."""

_OPTIONAL_KEYS = dict.fromkeys(("nulls", "missing", "hierarchy", "hierarchy_file", "changes"), False)

_DOCUMENT_KEYS = {
    "format": True,
    "quasi_identifiers": True,
    "sensitive": True,
    "dropped": False,
}


_LEXEME = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    + r"'''.*?'{3,5}|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'[^'\n]*'|#[^\n]*|[\[\]{}=\n]|[^\"'#\[\]{}=\n]+",
    re.DOTALL,
)


def write_schema(schema: Schema, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes a schema as TOML with comments, whole or not at all."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_text(schema_to_toml(schema), encoding="utf-8")


def read_schema(path: str | os.PathLike[str]) -> Schema:
    """Reads a schema, and the files of hierarchies that it names beside it.

    What cannot be meant is refused with its line.
    """
    text = read_text(path, "schema", remedy="Give a TOML file that 'elldelta schema infer' has written.")
    return schema_from_toml(text, source=str(path), folder=pathlib.Path(path).parent)


def schema_to_toml(schema: Schema) -> str:
    """Writes a schema as TOML with comments."""
    return "\n".join(_lines(schema)) + "\n"


def schema_from_toml(text: str, *, source: str, folder: pathlib.Path | None = None) -> Schema:
    """Reads a schema from TOML; every refusal names the line."""
    text = text.removeprefix("\ufeff")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        # The parser's own words may quote the text; its line number does not.
        line = re.search(r"at line (\d+), column (\d+)", str(problem))
        where = f"{source}, line {line[1]}, column {line[2]}" if line else f"{source}, at its end"
        raise SchemaError(
            "The schema is not valid TOML.",
            found=f"Reading stopped at {where}.",
            remedy="Check quotes, brackets and commas there.",
        ) from None
    lines = _statement_lines(text)

    def locate(path: Path) -> str:
        while path and path not in lines:
            path = path[:-1]
        return f"{source}, line {lines[path]}: " if path else f"{source}: "

    return schema_from_document(document, locate, folder)


def schema_from_document(
    document: Any,  # noqa: ANN401
    locate: Locate = lambda path: _dotted(path),  # noqa: PLW0108
    folder: pathlib.Path | None = None,
) -> Schema:
    """Builds a schema from plain values.

    Args:
        document: What `to_dict` wrote, or a person.
        locate: Turns the path of a key into words for messages.
        folder: Where files of hierarchies are looked for. None refuses them: a plan that somebody sent must
            not make us read files.
    """
    return _Reader(locate, folder).schema(document)


@dataclass(frozen=True)
class _Reader:
    """Builds a schema from plain values; every refusal begins with its place."""

    locate: Locate
    folder: pathlib.Path | None

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Adds the place to a SchemaError that is raised inside."""
        try:
            yield
        except SchemaError as problem:
            found = self.locate(path) + problem.found
            raise SchemaError(problem.problem, found=found, remedy=problem.remedy) from None

    def schema(self, document: Any) -> Schema:  # noqa: ANN401
        self.check_keys(document, (), _DOCUMENT_KEYS)
        with self.at("format"):
            _check_format(document["format"])
        with self.at("quasi_identifiers"):
            entries = _sequence(document["quasi_identifiers"], "quasi_identifiers")
        columns = tuple(self.column(e, ("quasi_identifiers", place)) for place, e in enumerate(entries))
        sensitives = self.sensitives(document["sensitive"])
        dropped = self.dropped(document.get("dropped", ()))
        also = tuple(column for column, _ in sensitives[1:])
        with self.at(*_place_of_clash(columns, sensitives, dropped)):
            return Schema(columns, sensitives[0][0], dropped, also_sensitive=also)

    def sensitives(self, given: Any) -> list[tuple[Column, Path]]:  # noqa: ANN401
        """The sensitive columns and where they stand."""
        with self.at("sensitive"):
            entries = _sequence(given, "sensitive")
            _must(bool(entries), "A schema needs a sensitive column.", "The list is empty.", "Name one.")
        places: list[Path] = [("sensitive", place) for place in range(len(entries))]
        return [(self.column(entry, path), path) for entry, path in zip(entries, places, strict=True)]

    def column(self, entry: Any, path: Path) -> Column:  # noqa: ANN401
        with self.at(*path):
            _must(isinstance(entry, dict), "A column must be a table of keys.")
        kind, nulls = entry.get("kind"), entry.get("nulls", "refuse")
        with self.at(*path, *(("kind",) if "kind" in entry else ())):
            known = isinstance(kind, str) and kind in _KEYS
            remedy = f"Write one of {', '.join(_KEYS)}."
            _must(known, "A column needs a kind.", "The kind is missing or not known.", remedy)
        self.check_keys(entry, path, {"name": True, "kind": True, **_KEYS[kind], **_OPTIONAL_KEYS})
        with self.at(*path, _suspect(kind, entry)):
            domain = _domain(kind, entry)
        hierarchy = self.hierarchy(entry, path, domain)
        with self.at(*path, "name" if nulls in get_args(NullPolicy) else "nulls"):
            column = Column(entry["name"], domain, nulls, hierarchy=hierarchy)
        changes = entry.get("changes", False)
        with self.at(*path, "changes"):
            known = isinstance(changes, bool)
            _must(known, "Whether a column changes is true or false.", "It is neither.", "Write true.")
        with self.at(*path, "missing"):
            return replace(column, missing=entry.get("missing", ()), changes=changes)

    def hierarchy(self, entry: dict[str, Any], path: Path, domain: Domain) -> Hierarchy | None:
        if "hierarchy_file" in entry:
            name = entry["hierarchy_file"]
            with self.at(*path, "hierarchy_file"):
                _must(
                    not entry.get("hierarchy"), "A column has one hierarchy.", "Two are given.", "Remove one."
                )
                if self.folder is None or not isinstance(name, str):
                    raise SchemaError(
                        "A hierarchy_file must be the name of a file, in a schema that is a file itself.",
                        found="It is not.",
                        remedy="Give the rows of the hierarchy instead.",
                    )
                from elldelta.schema.hierarchies import read_rows

                return read_rows(self.folder / name).checked(domain)
        if not entry.get("hierarchy"):
            return None
        with self.at(*path, "hierarchy"):
            rows = _sequence(entry["hierarchy"], "hierarchy")
            return HierarchyRows(tuple(_sequence(row, "A row of a hierarchy") for row in rows)).checked(
                domain
            )

    def dropped(self, value: object) -> tuple[str, ...]:
        with self.at("dropped"):
            names = _sequence(value, "dropped")
            are_texts = all(isinstance(name, str) for name in names)
            _must(are_texts, "dropped must be a list of names.", "Some entries are not texts.")
            return names

    def check_keys(self, entry: Any, path: Path, keys: dict[str, bool]) -> None:  # noqa: ANN401
        with self.at(*path):
            _must(isinstance(entry, dict), "A schema must be a table of keys.")
        for key in entry:
            with self.at(*path, key):
                listed = f"It is none of {', '.join(keys)}."
                _must(key in keys, f"The key {key!r} is not known here.", listed, "Correct or remove it.")
        with self.at(*path):
            for key, required in keys.items():
                is_there = key in entry or not required
                _must(is_there, f"The key {key!r} is missing.", "It is required.", "Add it.")


def _must(holds: bool, problem: str, found: str = "It is not.", remedy: str = "") -> None:
    if not holds:
        raise SchemaError(problem, found=found, remedy=remedy)


def _check_format(version: object) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise SchemaError("The format must be a whole number.", found="It is not.")
    if version != FORMAT_VERSION:
        raise SchemaError(
            "The schema was written by another version of elldelta.",
            found=f"Its format is {version}; the one known here is {FORMAT_VERSION}.",
            remedy="Use the elldelta that has written it, or infer the schema again with this one.",
        )


def _suspect(kind: str, entry: dict[str, Any]) -> str:
    """The key to point at if the domain is refused: the first that is wrong by itself, or the first key."""
    if kind == "dates" and entry["unit"] not in get_args(DateUnit):
        return "unit"
    if kind == "integers":
        for key in ("low", "high", "width"):
            value = entry.get(key, 1)
            if not isinstance(value, int) or isinstance(value, bool) or (key == "width" and value < 1):
                return key
    return next(iter(_KEYS[kind]))


def _domain(kind: str, entry: dict[str, Any]) -> Domain:
    match kind:
        case "integers":
            return Integers(entry["low"], entry["high"], entry.get("width", 1))
        case "dates":
            unit = entry["unit"]
            return Dates(_date(entry["low"], "low", unit), _date(entry["high"], "high", unit), unit)
        case "categories":
            return Categories(_sequence(entry["values"], "values"), entry.get("ordered", False))
        case _:
            return Bins(_sequence(entry["edges"], "edges"))


def _date(value: object, name: str, unit: DateUnit) -> dt.date:
    if isinstance(value, dt.date):
        return value
    if isinstance(value, str) and unit in get_args(DateUnit):
        try:
            return date_from_text(value, unit)
        except ValueError:
            pass
    raise SchemaError(
        f"The {name} of a domain of dates must be a date.",
        found="It is not, or the unit is not known.",
        remedy="Write it as YYYY-MM-DD in quotes, or as far as the unit needs: day, month or year.",
    )


def _sequence(value: object, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise SchemaError(f"{name} must be a list.", found=f"It is of type {type(value).__name__}.")
    return tuple(value)


def _place_of_clash(
    columns: tuple[Column, ...], sensitives: list[tuple[Column, Path]], dropped: tuple[str, ...]
) -> Path:
    """Where the second use of a name stands; the top of the document if every name is used once."""
    used: list[tuple[str, Path]] = [
        *((column.name, ("quasi_identifiers", place, "name")) for place, column in enumerate(columns)),
        *((column.name, (*path, "name")) for column, path in sensitives),
        *((name, ("dropped",)) for name in dropped),
    ]
    seen: set[str] = set()
    for name, path in used:
        if name.casefold() in seen:
            return path
        seen.add(name.casefold())
    dates = [(*path, "kind") for column, path in sensitives if isinstance(column.domain, Dates)]
    return dates[0] if dates else ()


def _dotted(path: Path) -> str:
    if not path:
        return ""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{text.removeprefix('.')}: "


def _lines(schema: Schema) -> Iterator[str]:
    yield _HEADER + f"format = {FORMAT_VERSION}"
    yield ""
    yield "# Columns that were found and are never used."
    yield f"dropped = {_toml(list(schema.dropped))}"
    for column in schema.quasi_identifiers:
        yield ""
        yield "[[quasi_identifiers]]"
        yield from _column_lines(column)
    for column in schema.sensitives:
        yield ""
        yield "[[sensitive]]"
        yield from _column_lines(column)


def _column_lines(column: Column) -> Iterator[str]:
    for remark in column.note.splitlines():
        yield "# " + "".join(sign if sign.isprintable() else " " for sign in remark)
    yield f"name = {_toml(column.name)}"
    yield f"nulls = {_toml(column.nulls)}"
    if column.missing:
        yield f"missing = [{', '.join(map(_toml, column.missing))}]"
    if column.changes:
        yield "changes = true"
    for key, value in column.domain.to_dict().items():
        yield f"{key} = {_toml(value)}"
    if column.hierarchy is not None:
        yield f"hierarchy = {_toml([list(row) for row in column.hierarchy.rows])}"


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case list():
            # One entry per line where the list is long, so that a person can move and remove entries.
            entries = [_toml(entry) for entry in value]
            line = "[" + ", ".join(entries) + "]"
            return line if len(line) <= 90 else "[\n" + "".join(f"  {entry},\n" for entry in entries) + "]"
        case _:
            # JSON's escapes are a subset of TOML's, except that TOML also wants DEL escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _statement_lines(text: str) -> dict[tuple[str | int, ...], int]:
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
