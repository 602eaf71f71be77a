"""The schema on disk: TOML that a person edits, read back strictly and with line numbers."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import pathlib
import re
import tomllib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from elldelta.errors import SchemaError
from elldelta.files import AtomicFiles, MisfitError, dotted, read_text, record_from
from elldelta.schema.domains import Bins, Categories, Dates, Domain, Integers, date_from_text
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.schema import FORMAT_VERSION, Column, NullPolicy, Schema
from elldelta.schema.weight import Weight

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    Path = tuple[str | int, ...]
    Locate = Callable[[Path], str]

Rows = tuple[tuple[str, ...], ...]
"""The rows of a hierarchy, as they stand in a file."""

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

_DOMAINS: dict[str, type[Integers | Dates | Categories | Bins]] = {
    "integers": Integers,
    "dates": Dates,
    "categories": Categories,
    "bins": Bins,
}


@dataclass(frozen=True)
class _Document:
    """The keys of a schema."""

    format: int
    quasi_identifiers: tuple[dict[str, Any], ...]
    sensitive: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]
    dropped: tuple[str, ...] = ()
    weight: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Entry:
    """The keys of a column, besides those of its domain."""

    name: Annotated[str, Meta(min_length=1)]
    kind: Literal["integers", "dates", "categories", "bins"]
    nulls: NullPolicy = "refuse"
    missing: tuple[str, ...] = ()
    changes: bool = False
    hierarchy: Rows = ()
    hierarchy_file: str | None = None


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
    return schema_from_document(*parse_toml(text, source, "schema"), folder)


def parse_toml(text: str, source: str, kind: str) -> tuple[dict[str, Any], Locate]:
    """What a TOML file says, and what turns the path of a key into its file and line for messages."""
    text = text.removeprefix("\ufeff")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:  # also a number of too many digits, or too deep a list
        # The parser's own words may quote the text; its line number does not.
        line = re.search(r"at line (\d+), column (\d+)", str(problem))
        where = f"{source}, line {line[1]}, column {line[2]}" if line else f"{source}, at its end"
        raise SchemaError(
            f"The {kind} is not valid TOML.",
            found=f"Reading stopped at {where}.",
            remedy="Check quotes, brackets and commas there.",
        ) from None
    lines = _statement_lines(text)

    def locate(path: Path) -> str:
        while path and path not in lines:
            path = path[:-1]
        return f"{source}, line {lines[path]}: " if path else f"{source}: "

    return document, locate


def schema_from_document(
    document: Any,  # noqa: ANN401
    locate: Locate = lambda path: f"{dotted(path)}: " if path else "",
    folder: pathlib.Path | None = None,
) -> Schema:
    """Builds a schema from plain values.

    Args:
        document: What `to_dict` wrote, or a person.
        locate: Turns the path of a key into words for messages.
        folder: Where files of hierarchies are looked for. None refuses them: a plan that somebody sent must
            not make us read files.
    """
    return _SchemaReader(locate, folder).schema(document)


@dataclass(frozen=True)
class DocumentReader:
    """Reads descriptions of columns from plain values; every refusal begins with its place."""

    locate: Locate
    folder: pathlib.Path | None

    @contextlib.contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Adds the place to an error that is raised inside."""
        try:
            yield
        except (SchemaError, MisfitError) as problem:
            inner = problem.place if isinstance(problem, MisfitError) else ()
            found = self.locate((*path, *inner)) + problem.found
            raise SchemaError(problem.problem, found=found, remedy=problem.remedy) from None

    def check_keys(self, entry: dict[str, Any], path: Path, kinds: tuple[type[Any], ...]) -> None:
        """Refuses a key that none of the types has."""
        known = [field.name for kind in kinds for field in fields(kind)]
        for key in entry:
            with self.at(*path, key):
                if key not in known:
                    raise SchemaError(
                        f"The key {key!r} is not known here.",
                        found=f"It is none of {', '.join(known)}.",
                        remedy="Correct or remove it.",
                    )

    def hierarchy(
        self, rows: Rows, file: str | None, path: Path, domain: Domain | None = None
    ) -> Hierarchy | None:
        """The hierarchy of a column, from its rows or from the file that holds them."""
        if file is None:
            with self.at(*path, "hierarchy"):
                return HierarchyRows(rows).checked(domain) if rows else None
        with self.at(*path, "hierarchy_file"):
            if rows:
                raise SchemaError("A column has one hierarchy.", found="Two are given.", remedy="Remove one.")
            if self.folder is None:
                raise SchemaError(
                    "A 'hierarchy_file' must be the name of a file, in a schema that is a file itself.",
                    found="It is not.",
                    remedy="Give the rows of the hierarchy instead.",
                )
            from elldelta.schema.hierarchies import read_rows

            return read_rows(self.folder / file).checked(domain)


class _SchemaReader(DocumentReader):
    """Builds a schema from plain values."""

    def schema(self, document: Any) -> Schema:  # noqa: ANN401
        with self.at():
            record_from(dict[str, Any], document)
        self.check_keys(document, (), (_Document,))
        with self.at():
            top = record_from(_Document, document)
        with self.at("format"):
            _check_format(top.format)
        columns = tuple(self.column(e, ("quasi_identifiers", n)) for n, e in enumerate(top.quasi_identifiers))
        places: list[Path] = [("sensitive", number) for number in range(len(top.sensitive))]
        sensitives = [(self.column(e, path), path) for e, path in zip(top.sensitive, places, strict=True)]
        also = tuple(column for column, _ in sensitives[1:])
        weight = None if top.weight is None else self.weight(top.weight)
        with self.at(*_place_of_clash(columns, sensitives, top.dropped, weight)):
            return Schema(columns, sensitives[0][0], top.dropped, also_sensitive=also, weight=weight)

    def weight(self, entry: dict[str, Any]) -> Weight:
        self.check_keys(entry, ("weight",), (Weight,))
        with self.at("weight"):
            return record_from(Weight, entry)

    def column(self, entry: dict[str, Any], path: Path) -> Column:
        with self.at(*path):
            keys = record_from(_Entry, entry)
        kind = _DOMAINS[keys.kind]
        self.check_keys(entry, path, (_Entry, kind))
        with self.at(*path):
            domain = self.domain(kind, entry)
        hierarchy = self.hierarchy(keys.hierarchy, keys.hierarchy_file, path, domain)
        with self.at(*path, "name" if "\0" in keys.name else "missing"):
            return Column(
                keys.name, domain, keys.nulls, hierarchy=hierarchy, missing=keys.missing, changes=keys.changes
            )

    def domain(self, kind: type[Integers | Dates | Categories | Bins], entry: dict[str, Any]) -> Domain:
        try:
            return record_from(kind, _with_dates(entry) if kind is Dates else entry)
        except MisfitError as problem:
            if problem.place or problem.__cause__ is None:
                raise
            place = (fields(kind)[0].name,)  # what contradicts itself is shown by its first key
            raise MisfitError(
                problem.problem, found=problem.found, remedy=problem.remedy, place=place
            ) from None


def _check_format(version: int) -> None:
    if version != FORMAT_VERSION:
        raise SchemaError(
            "The schema was written by another version of elldelta.",
            found=f"Its format is {version}; the one known here is {FORMAT_VERSION}.",
            remedy="Use the elldelta that has written it, or infer the schema again with this one.",
        )


def _with_dates(entry: dict[str, Any]) -> dict[str, Any]:
    """The keys of a column of dates, whose ends may be written as far as the unit needs."""
    if "unit" not in entry:
        raise MisfitError("The key 'unit' is missing.", found="It is required.", remedy="Add it.")
    dates = {"unit": entry["unit"]}  # first, so that it is judged first
    for name in ("low", "high"):
        value = entry.get(name)
        if isinstance(value, dt.datetime):
            dates[name] = value.date()
        elif isinstance(value, str):
            with contextlib.suppress(LookupError, TypeError, ValueError):  # judged with its place
                dates[name] = date_from_text(value, entry["unit"])
    return {**dates, **entry, **dates}


def _place_of_clash(
    columns: tuple[Column, ...],
    sensitives: list[tuple[Column, Path]],
    dropped: tuple[str, ...],
    weight: Weight | None,
) -> Path:
    """Where the second use of a name stands; the top of the document if every name is used once."""
    used: list[tuple[str, Path]] = [
        *((column.name, ("quasi_identifiers", place, "name")) for place, column in enumerate(columns)),
        *((column.name, (*path, "name")) for column, path in sensitives),
        *([] if weight is None else [(weight.name, ("weight", "name"))]),
        *((name, ("dropped",)) for name in dropped),
    ]
    seen: set[str] = set()
    for name, path in used:
        if name.casefold() in seen:
            return path
        seen.add(name.casefold())
    dates = [(*path, "kind") for column, path in sensitives if isinstance(column.domain, Dates)]
    return dates[0] if dates else ()


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
    if schema.weight is not None:
        yield ""
        yield "# A survey's weights, of which releases show means. No record weighs more than the largest;"
        yield "# total weights are rounded to multiples of it. At least the fewest records share a mean."
        yield "[weight]"
        for key, value in schema.weight.to_dict().items():
            yield f"{key} = {_toml(value)}"


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
