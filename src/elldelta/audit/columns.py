"""What somebody says about the columns of releases that nothing else describes, in Python or in a file.

The file is a schema, or a shorter one in the same grammar that says only what is needed to read releases of
other people: which columns describe people, which one is sensitive, and what their labels leave in doubt.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec import Meta

from elldelta.errors import ParameterError, SchemaError
from elldelta.files import loaded, read_text, record_from
from elldelta.schema.label_columns import ColumnKind, ColumnRules, ForeignNulls, Separators
from elldelta.schema.labels import MISSING_TOKENS, missing_tokens
from elldelta.schema.schema import Schema
from elldelta.schema.schema_file import (
    DocumentReader,
    Rows,
    parse_toml,
    read_schema,
    schema_from_document,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping

Keys = TypeVar("Keys")
SensitiveNulls = Literal["suppress", "refuse", "category"]

EVERY_RELEASE = "*"
"""Stands for all releases that have a column of the name."""


@dataclass(frozen=True)
class ForeignColumns:
    """What somebody says about the columns of releases that nothing else describes.

    Attributes:
        quasi_identifiers: The label columns, by the names they are linked under.
        sensitive: The sensitive column.
        names: Per release, what it calls columns differently, such as `{"b.csv": {"age": "alter"}}`; an empty
            text says that it has no such column. The release `*` stands for all that have such a column.
        rules: What the labels of a column mean, where they leave a doubt.
        sensitive_nulls: What a missing sensitive value means: "suppress": such records are left out, and
            count for nothing; "category": it counts as a value; or "refuse" it.
        sensitive_missing: Texts that stand for a missing sensitive value.
        schema: What the columns of releases without a manifest mean, if a schema says so.
    """

    quasi_identifiers: tuple[str, ...] = ()
    sensitive: str = ""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rules: Mapping[str, ColumnRules] = field(default_factory=dict)
    sensitive_nulls: SensitiveNulls = "suppress"
    sensitive_missing: tuple[str, ...] = MISSING_TOKENS
    schema: Schema | None = None

    def check(self, releases: Collection[str]) -> None:
        """Refuses what is said about a release that is not there."""
        unknown = {*self.names} - {*releases, EVERY_RELEASE}
        if unknown:
            raise ParameterError(
                "Columns are named for a release that is not there.",
                found=f"It is called {sorted(unknown)[0]!r}.",
                remedy="Name releases as their files are called.",
                parameter="columns",
            )

    def names_in(self, release: str, columns: Collection[str]) -> list[str | None]:
        """What a release calls each quasi-identifier and the sensitive column; None for an absent one."""
        everywhere = self.names.get(EVERY_RELEASE, {})
        names = {common: name for common, name in everywhere.items() if name in columns}
        names |= self.names.get(release, {})
        linked = (*self.quasi_identifiers, self.sensitive)
        present = [name for name in names.values() if name]
        if len({*present}) < len(present):
            raise ParameterError(
                f"A column of {release} is named for two of the columns that are linked.",
                remedy="Name every column once.",
                parameter="columns",
            )
        unknown = [common for common in names if common not in linked]
        if unknown or not names.get(self.sensitive, self.sensitive):
            raise ParameterError(
                f"The columns of {release} are named for columns that are not linked.",
                found=f"Not linked: {', '.join(map(repr, unknown)) or repr(self.sensitive)}.",
                remedy="Say what the quasi-identifiers and the sensitive column are called.",
                parameter="columns",
            )
        found = [names.get(common, common) or None for common in linked]
        if not any(found[:-1]):
            raise ParameterError(f"The release {release} has no column to link by.", found="All are absent.")
        return found


def columns_of(given: ForeignColumns | Schema | str | os.PathLike[str] | None) -> ForeignColumns:
    """What a caller says about columns, or what the file at a path says."""
    if isinstance(given, Schema):
        return ForeignColumns(schema=given)
    return ForeignColumns() if given is None else loaded(given, ForeignColumns, read_columns)


def read_columns(path: str | os.PathLike[str]) -> ForeignColumns:
    """Reads a description of columns: a schema, or a shorter file.

    Raises:
        SchemaError: The file says something else; the message names its line.
    """
    kind = "description of columns"
    text = read_text(path, kind, remedy="Give a schema, or a TOML file that names the columns.")
    document, locate = parse_toml(text, str(path), kind)
    folder = pathlib.Path(path).parent
    if "format" in document:
        return ForeignColumns(schema=schema_from_document(document, locate, folder))
    return _Reader(locate, folder).columns(document)


@dataclass(frozen=True)
class _Document:
    """The keys of the file."""

    quasi_identifiers: tuple[str | dict[str, Any], ...] = ()
    sensitive: Annotated[tuple[str | dict[str, Any], ...], Meta(max_length=1)] = ()
    names: dict[str, dict[str, Any]] = field(default_factory=dict)
    schema: str | None = None


@dataclass(frozen=True)
class _QuasiIdentifier:
    """The keys of a quasi-identifier."""

    name: Annotated[str, Meta(min_length=1)]
    kind: ColumnKind = "auto"
    nulls: ForeignNulls = "refuse"
    separators: Separators = "auto"
    missing: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    hierarchy: Rows = ()
    hierarchy_file: str | None = None


@dataclass(frozen=True)
class _Sensitive:
    """The keys of the sensitive column."""

    name: Annotated[str, Meta(min_length=1)]
    nulls: SensitiveNulls = "suppress"
    missing: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class _Reader(DocumentReader):
    """Builds a description of columns from plain values."""

    def columns(self, document: dict[str, Any]) -> ForeignColumns:
        self.check_keys(document, (), (_Document,))
        with self.at():
            top = record_from(_Document, document)
        rules: dict[str, ColumnRules] = {}
        for place, entry in enumerate(top.quasi_identifiers):
            path = ("quasi_identifiers", place)
            keys = self.column(entry, path, _QuasiIdentifier)
            with self.at(*path, "name"):
                if keys.name in rules:
                    raise SchemaError(
                        "Every column is named once.",
                        found=f"{keys.name!r} is named twice.",
                        remedy="Remove one of them.",
                    )
            rules[keys.name] = ColumnRules(
                keys.kind,
                keys.nulls,
                keys.separators,
                keys.missing,
                self.hierarchy(keys.hierarchy, keys.hierarchy_file, path),
                keys.values,
            )
        for release, names in top.names.items():
            for column, name in names.items():
                with self.at("names", release, column):
                    record_from(str, name)
        sensitive = _Sensitive("")
        for entry in top.sensitive:
            sensitive = self.column(entry, ("sensitive", 0), _Sensitive)
        return ForeignColumns(
            quasi_identifiers=tuple(rules),
            sensitive=sensitive.name,
            names=top.names,
            rules={name: rule for name, rule in rules.items() if rule != ColumnRules()},
            sensitive_nulls=sensitive.nulls,
            sensitive_missing=missing_tokens(sensitive.missing, sensitive.values),
            schema=None if top.schema is None else read_schema((self.folder or pathlib.Path()) / top.schema),
        )

    def column(self, entry: str | dict[str, Any], path: tuple[str | int, ...], kind: type[Keys]) -> Keys:
        """The keys of a column, of which the name alone may stand there."""
        keys = {"name": entry} if isinstance(entry, str) else entry
        self.check_keys(keys, path, (kind,))
        with self.at(*path):
            return record_from(kind, keys)
