"""Rows that tie several sensitive columns together: linked on tuples, as an adversary would.

What is left is then counted in each column: of the tuples that survive, how many different values it has. A
person with one tuple can only be in releases that show it, so the groups to ask are those of
`elldelta.core.exposure.fewest_in_any_group`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.engines import Table, TableColumn, sql
from elldelta.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SEPARATOR = "\x1f"
"""Between the values of a tuple; no value may hold it."""


def tied_names(sensitive: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that a name ties together: `disease+income`, if no column is called so; else none."""
    return () if sensitive in columns or "+" not in sensitive else tuple(sensitive.split("+"))


def with_tuples(table: Table, sensitive: str, missing: Sequence[str]) -> Table:
    """A release with one more column, whose values are the tuples of tied columns; missing if a part is."""
    names = tied_names(sensitive, table.names)
    if not names:
        return table
    table.require(names)
    parts = []
    for name in names:
        kind = table.kind_of(name)
        present = sql.present(sql.identifier(name), kind, missing)
        parts.append(sql.mapped_value(present, kind, {}))
    joined = f" || {sql.text(SEPARATOR)} || ".join(f"({part})" for part in parts)
    shown = [*((sql.identifier(name), name) for name in table.names), (joined, sensitive)]
    columns = (*table.columns, TableColumn(sensitive, "text"))
    return replace(table, relation=sql.mapped_rows(table.relation, shown), columns=columns)


def part_numbers(values: Sequence[str], n_parts: int) -> tuple[NDArray[np.int64], ...]:
    """For every tied column, the number of the value that each tuple has there.

    Raises:
        DataError: A value holds the separator itself.
    """
    tuples = [value.split(SEPARATOR) for value in values]
    if any(len(parts) != n_parts for parts in tuples):
        raise DataError(
            "Tied columns cannot be told apart.",
            found="Some values hold the sign that stands between the values of a tuple.",
            remedy="Remove the separator of units (U+001F) from these values.",
        )
    numbers = []
    for column in zip(*tuples, strict=True):
        place = {value: number for number, value in enumerate(dict.fromkeys(column))}
        numbers.append(np.array([place[value] for value in column], dtype=np.int64))
    return tuple(numbers)
