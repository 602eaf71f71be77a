"""The schema on disk: TOML that a person edits, read back strictly and with line numbers."""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any, get_args

from elldelta.choices import DateUnit
from elldelta.errors import SchemaError
from elldelta.schema.domains import Bins, Categories, Dates, Domain, Integers, date_from_text
from elldelta.schema.hierarchy import Hierarchy, HierarchyRows
from elldelta.schema.schema import FORMAT_VERSION, Column, NullPolicy, Schema
from elldelta.schema.toml_lines import statement_lines

if TYPE_CHECKING:
    import pathlib
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
# nulls  "category"  a missing value is one more value of the column
#        "refuse"    a table with missing values is refused
#        "suppress"  records without a value are left out, and counted
# A quasi-identifier may have a hierarchy: hierarchy_file = "age.csv", a file beside this one with one line
# per value, value;group;...;root, or the same lines here: hierarchy = [["17", "15-19", "*"], ...].
"""

_KEYS = {
    "integers": {"low": True, "high": True, "width": False},
    "dates": {"low": True, "high": True, "unit": True},
    "categories": {"values": True, "ordered": False},
    "bins": {"edges": True},
}
"""Keys of each kind of domain, and whether they are required."""

_OPTIONAL_KEYS = {"nulls": False, "hierarchy": False, "hierarchy_file": False}

_DOCUMENT_KEYS = {
    "format": True,
    "quasi_identifiers": True,
    "sensitive": True,
    "kept": False,
    "dropped": False,
}


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
    lines = statement_lines(text)

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
    _check_keys(document, (), _DOCUMENT_KEYS, locate)
    version = document["format"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise _refuse(locate, ("format",), "The format must be a whole number.", "It is not.")
    if version > FORMAT_VERSION:
        raise _refuse(
            locate,
            ("format",),
            "The schema was written by a newer elldelta.",
            f"Its format is {version}, the newest known here is {FORMAT_VERSION}.",
            "Update elldelta.",
        )
    entries = document["quasi_identifiers"]
    if not isinstance(entries, list | tuple):
        raise _refuse(locate, ("quasi_identifiers",), "quasi_identifiers must be a list.", "It is not.")
    columns = tuple(
        _column(e, ("quasi_identifiers", place), locate, folder) for place, e in enumerate(entries)
    )
    sensitive = _column(document["sensitive"], ("sensitive",), locate, folder)
    names = {key: _names(document.get(key, ()), (key,), locate) for key in ("kept", "dropped")}
    with _Located(locate, _place_of_clash(columns, sensitive, names)):
        return Schema(columns, sensitive, **names)


def _column(entry: Any, path: Path, locate: Locate, folder: pathlib.Path | None) -> Column:  # noqa: ANN401
    if not isinstance(entry, dict):
        raise _refuse(locate, path, "A column must be a table of keys.", "It is not.")
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        where = (*path, "kind") if "kind" in entry else path
        raise _refuse(
            locate,
            where,
            "A column needs a kind.",
            "The kind is missing or not known.",
            f"Write one of {', '.join(_KEYS)}.",
        )
    _check_keys(entry, path, {"name": True, "kind": True, **_KEYS[kind], **_OPTIONAL_KEYS}, locate)
    if entry.get("nulls", "refuse") not in get_args(NullPolicy):
        raise _refuse(
            locate,
            (*path, "nulls"),
            "The null policy is not known.",
            "It is none of category, refuse and suppress.",
            "Write one of them.",
        )
    if kind == "dates" and entry["unit"] not in get_args(DateUnit):
        raise _refuse(
            locate,
            (*path, "unit"),
            "The unit of dates is not known.",
            "It is none of day, month and year.",
            "Write one of them.",
        )
    with _Located(locate, (*path, _first_wrong_key(kind, entry))):
        domain = _domain(kind, entry)
    hierarchy = _hierarchy(entry, path, locate, domain, folder)
    with _Located(locate, (*path, "name")):
        return Column(entry["name"], domain, entry.get("nulls", "refuse"), hierarchy=hierarchy)


def _hierarchy(
    entry: dict[str, Any], path: Path, locate: Locate, domain: Domain, folder: pathlib.Path | None
) -> Hierarchy | None:
    if "hierarchy_file" in entry:
        where = (*path, "hierarchy_file")
        name = entry["hierarchy_file"]
        if "hierarchy" in entry:
            raise _refuse(locate, where, "A column has one hierarchy.", "Two are given.", "Remove one.")
        if folder is None or not isinstance(name, str):
            raise _refuse(
                locate,
                where,
                "A hierarchy_file must be the name of a file, in a schema that is a file itself.",
                "It is not.",
                "Give the rows of the hierarchy instead.",
            )
        from elldelta.schema.hierarchy_file import read_rows

        rows = read_rows(folder / name)
        with _Located(locate, where):
            return rows.checked(domain)
    if "hierarchy" not in entry:
        return None
    with _Located(locate, (*path, "hierarchy")):
        listed = tuple(
            _sequence(row, "A row of a hierarchy") for row in _sequence(entry["hierarchy"], "hierarchy")
        )
        return HierarchyRows(listed).checked(domain)


def _first_wrong_key(kind: str, entry: dict[str, Any]) -> str:
    """The key to point at if the domain is refused: the first number that is none, or the first key."""
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
    if isinstance(value, str):
        try:
            return date_from_text(value, unit)
        except ValueError:
            pass
    raise SchemaError(
        f"The {name} of a domain of dates must be a date.",
        found="It is not.",
        remedy="Write it as YYYY-MM-DD in quotes, or as far as the unit needs.",
    )


def _sequence(value: object, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise SchemaError(f"{name} must be a list.", found=f"It is of type {type(value).__name__}.")
    return tuple(value)


def _names(value: object, path: Path, locate: Locate) -> tuple[str, ...]:
    with _Located(locate, path):
        names = _sequence(value, str(path[0]))
        if not all(isinstance(name, str) for name in names):
            raise SchemaError(f"{path[0]} must be a list of names.", found="Some entries are not texts.")
        return names


def _check_keys(entry: Any, path: Path, keys: dict[str, bool], locate: Locate) -> None:  # noqa: ANN401
    if not isinstance(entry, dict):
        raise _refuse(locate, path, "A schema must be a table of keys.", "It is not.")
    for key in entry:
        if key not in keys:
            raise _refuse(
                locate,
                (*path, key),
                f"The key {key!r} is not known here.",
                "It is none of " + ", ".join(keys) + ".",
                "Correct its spelling or remove it.",
            )
    for key, required in keys.items():
        if required and key not in entry:
            raise _refuse(locate, path, f"The key {key!r} is missing.", "It is required.", "Add it.")


def _place_of_clash(
    columns: tuple[Column, ...], sensitive: Column, names: dict[str, tuple[str, ...]]
) -> Path:
    """Where the second use of a name stands; the top of the document if every name is used once."""
    used: list[tuple[str, Path]] = [
        *((column.name, ("quasi_identifiers", place, "name")) for place, column in enumerate(columns)),
        (sensitive.name, ("sensitive", "name")),
        *((name, (key,)) for key, listed in names.items() for name in listed),
    ]
    seen: set[str] = set()
    for name, path in used:
        if name.casefold() in seen:
            return path
        seen.add(name.casefold())
    return ("sensitive", "kind") if isinstance(sensitive.domain, Dates) else ()


class _Located:
    """Adds the place to a SchemaError that is raised inside."""

    def __init__(self, locate: Locate, path: Path) -> None:
        self._locate = locate
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, SchemaError):
            found = self._locate(self._path) + problem.found
            raise SchemaError(problem.problem, found=found, remedy=problem.remedy) from None


def _refuse(locate: Locate, path: Path, problem: str, found: str, remedy: str = "") -> SchemaError:
    return SchemaError(problem, found=locate(path) + found, remedy=remedy)


def _dotted(path: Path) -> str:
    if not path:
        return ""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"{text.removeprefix('.')}: "


def _lines(schema: Schema) -> Iterator[str]:
    yield _HEADER + f"format = {FORMAT_VERSION}"
    yield ""
    yield "# Columns that a release shows unchanged. Each can identify people: name none without a reason."
    yield f"kept = {_toml(list(schema.kept))}"
    yield "# Columns that were found and are never used."
    yield f"dropped = {_toml(list(schema.dropped))}"
    for column in schema.quasi_identifiers:
        yield ""
        yield "[[quasi_identifiers]]"
        yield from _column_lines(column)
    yield ""
    yield "[sensitive]"
    yield from _column_lines(schema.sensitive)


def _column_lines(column: Column) -> Iterator[str]:
    for remark in column.note.splitlines():
        yield "# " + "".join(sign if sign.isprintable() else " " for sign in remark)
    yield f"name = {_toml(column.name)}"
    yield f"nulls = {_toml(column.nulls)}"
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
