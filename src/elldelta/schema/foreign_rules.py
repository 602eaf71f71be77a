"""What somebody says about a column of a foreign release, where its labels leave a doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from elldelta.errors import ParameterError
from elldelta.schema.domains import Categories, Dates

if TYPE_CHECKING:
    from elldelta.schema.hierarchy import Hierarchy
    from elldelta.schema.schema import Column

ColumnKind = Literal["auto", "number", "date", "text"]
ForeignNulls = Literal["refuse", "category", "unknown"]
Separators = Literal["auto", "sets", "values"]


@dataclass(frozen=True)
class ColumnRules:
    """What somebody says about a column, where its labels leave a doubt.

    Attributes:
        kind: What the column holds; found from its labels by default.
        nulls: What an empty cell means: "refuse" it, "category": a value of its own, "unknown": it could be
            anything.
        separators: Whether `a,b`, `a;b` and `a|b` in a text column are sets or values; by default they are
            sets if every part occurs as a value elsewhere, and refused otherwise.
        hierarchy: Names of groups of values.
        values: Values that exist, whether or not a label shows them: of a schema, or of people to look for.
        is_ordered: Whether `values` have an order, so that `low..high` is a run of them.
        is_closed: Whether no other values than `values` exist.
    """

    kind: ColumnKind = "auto"
    nulls: ForeignNulls = "refuse"
    separators: Separators = "auto"
    hierarchy: Hierarchy | None = None
    values: tuple[str, ...] = ()
    is_ordered: bool = False
    is_closed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        for name, known in (
            ("kind", ("auto", "number", "date", "text")),
            ("nulls", ("refuse", "category", "unknown")),
            ("separators", ("auto", "sets", "values")),
        ):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"The {name} of a column must be one of {', '.join(known)}.",
                    found="It is something else.",
                )


def rules_of(column: Column) -> ColumnRules:
    """What a schema says about a column, for releases that mix its labels with those of others."""
    nulls: ForeignNulls = "category" if column.has_missing else "refuse"
    match column.domain:
        case Categories(values, is_ordered):
            return ColumnRules(
                kind="text",
                nulls=nulls,
                separators="values",
                hierarchy=column.hierarchy,
                values=values,
                is_ordered=is_ordered,
                is_closed=True,
            )
        case Dates():
            return ColumnRules(kind="date", nulls=nulls, hierarchy=column.hierarchy)
        case _:
            return ColumnRules(kind="number", nulls=nulls, hierarchy=column.hierarchy)
