"""A year of birth in the place of an age: it does not change from one release to the next."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

from elldelta.engines import TableColumn, sql
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.engines import Table

NAME = "birth_year"
"""The column that takes the place of the age."""


def with_birth_year(table: Table, ages: Mapping[str, str] | None) -> Table:
    """A table with a column `birth_year` in the place of an age; nothing is read or copied for it.

    Somebody of 40 on 31 December 2025 was born in 1985, and so was somebody of 40 on 1 January 2026, except
    on that very day. On other dates an age leaves two years open, and the year found would change.

    Args:
        table: The table.
        ages: The column that holds ages, and the day on which people were so old, such as
            {"age": "2026-01-01"}; None leaves the table as it is. What is no number counts as missing.

    Raises:
        DataError: There is no such column.
        ParameterError: It holds no numbers, or the day is neither the first nor the last of a year.
    """
    if not ages:
        return table
    if len(ages) > 1:
        raise ParameterError("A year of birth follows from one age.", found=f"{len(ages)} columns are named.")
    [(name, day)] = ages.items()
    table.require([name])
    try:
        on = dt.date.fromisoformat(day)
    except (TypeError, ValueError):
        on = dt.date.min.replace(day=2)
    if (on.month, on.day) not in {(1, 1), (12, 31)}:
        raise ParameterError(
            "A year of birth follows from ages on the first or the last day of a year.",
            found="The day given is no date as YYYY-MM-DD, or another one; it leaves two years open.",
            remedy='Give `birth_year={"age": "2026-01-01"}` and ages on that day, or declare that the age '
            "changes (`changes = true` in the schema).",
        )
    kind = table.kind_of(name)
    if kind not in {"integer", "real", "text"} or (NAME in table.names and name != NAME):
        raise ParameterError(
            f"No year of birth can be made of column {name!r}.",
            found=f"There is a column {NAME!r} already." if NAME in table.names else "It holds no numbers.",
            remedy="Convert the column, or use the one that is there.",
        )
    last = on.year if on.month == 12 else on.year - 1  # the year in which somebody of 0 was born
    shown = [
        (f"CAST({last} - FLOOR({sql.real(sql.identifier(own.name), kind)}) AS BIGINT)", NAME)
        if own.name == name
        else (sql.identifier(own.name), own.name)
        for own in table.columns
    ]
    columns = tuple(TableColumn(NAME, "integer") if own.name == name else own for own in table.columns)
    return replace(table, relation=sql.mapped_rows(table.relation, shown), columns=columns)
