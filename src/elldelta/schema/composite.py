"""A composite column, such as `disease+stage`: one sensitive column whose values are tuples.

It is named by its parts, and made from them while a table is read that has them. Its values are texts with a
plus between the parts (`flu + early`), missing where a part is. Releases show them in one column. Groups of
like values by the first part make ell count diseases.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from elldelta.engines import Table, TableColumn, sql
from elldelta.errors import DataError, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SEPARATOR = " + "
"""Between the parts of a value."""


def is_composite(name: str) -> bool:
    """Whether a name is made of several."""
    return all(parts_of(name)) and len(parts_of(name)) > 1


def parts_of(name: str) -> list[str]:
    """The names of which a name is made; mostly itself."""
    return name.split("+")


def with_parts(names: Iterable[str]) -> list[str]:
    """Names, each composite one followed by those of its parts."""
    return [each for name in names for each in (name, *(parts_of(name) if is_composite(name) else ()))]


def with_composites(table: Table, missing: Mapping[str, Sequence[str]]) -> Table:
    """A table with the composite columns that it has the parts of, after its other columns.

    Args:
        table: The table.
        missing: For every sensitive column the texts that stand for a missing value, in each of its parts.

    Raises:
        DataError: The table lacks a part, or a part has no spelling that is the same everywhere.
    """
    made = {}
    for name, tokens in missing.items():
        if is_composite(name) and (name not in table.names or {*parts_of(name)} <= {*table.names}):
            made[name] = _joined(table, name, tokens)
    if not made:
        return table
    plain = [column for column in table.columns if column.name not in made]
    shown = [*((sql.identifier(column.name), column.name) for column in plain)]
    shown += [(expression, name) for name, expression in made.items()]
    columns = (*plain, *(TableColumn(name, "text") for name in made))
    return replace(table, relation=sql.mapped_rows(table.relation, shown), columns=columns)


def _joined(table: Table, name: str, missing: Sequence[str]) -> str:
    """The SQL expression of a composite column; NULL if a part is missing."""
    table.require(parts_of(name))
    parts = []
    for part in parts_of(name):
        kind = table.kind_of(part)
        if kind not in {"text", "integer", "date", "boolean"}:
            raise DataError(
                f"Column {part!r} cannot be part of the composite column {name!r}.",
                found=f"Its values are of kind {kind}, which every engine writes differently.",
                remedy="Turn it into whole numbers or texts, such as the bin of an amount.",
            )
        bare = sql.trimmed(sql.identifier(part)) if kind == "text" else sql.identifier(part)
        parts.append(f"({sql.mapped_value(sql.present(bare, kind, missing), kind, {})})")
    return f" || {sql.text(SEPARATOR)} || ".join(parts)


def first_parts(name: str, values: Iterable[str]) -> list[str]:
    """The first part of every value of a composite column.

    Raises:
        DataError: A part holds the separator itself, so that other parts give the same value.
    """
    found = list(values)
    n_separators = len(parts_of(name)) - 1
    n_wrong = sum(len(re.findall(r"(?= \+ )", value)) != n_separators for value in found)
    if n_wrong:
        raise DataError(
            f"The parts of {name!r} cannot be told apart.",
            found=f"{n_wrong} of {counted(len(found), 'value')} hold a plus between spaces that "
            "does not stand between "
            "parts, or too few of them.",
            remedy="Write the plus in the parts differently, or rename the column if it has no parts.",
        )
    return [value.split(SEPARATOR)[0] for value in found]
