"""An owner's names and values in the words of a plan; the engine translates them while it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elldelta.engines import TableColumn, sql
from elldelta.errors import ParameterError
from elldelta.schema.composite import is_composite, with_parts
from elldelta.schema.domains import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.engines import Table
    from elldelta.schema.schema import Schema


def mapped(
    table: Table,
    schema: Schema,
    columns: Mapping[str, str],
    values: Mapping[str, Mapping[str, str]],
) -> Table:
    """A table with the columns and values of a schema; nothing is read or copied for it.

    Args:
        table: The table.
        schema: What the columns are to be.
        columns: The name in the schema of columns that are called differently.
        values: Per column of the schema, the value in its domain for values that are written differently.

    Raises:
        DataError: A column that is to be renamed is missing.
        ParameterError: What is mapped to is not in the schema, or two columns would have one name.
    """
    table.require(columns)
    known = {*schema.columns, *with_parts(schema.sensitive_names)}
    unknown = sorted({*columns.values(), *values} - known)
    if unknown:
        raise ParameterError(
            f"The plan has no column {unknown[0]!r}.",
            found=f"Its columns are {', '.join(map(repr, schema.columns))}.",
            remedy="Map your columns and values to these.",
        )
    if schema.weight is not None and schema.weight.name in values:
        raise ParameterError(
            f"The weights in column {schema.weight.name!r} cannot be mapped.",
            found="They are numbers, not values of a domain.",
            remedy="Correct the table, or map the name of the column only.",
        )
    composite = [name for name in schema.sensitive_names if name in values and is_composite(name)]
    if composite:
        raise ParameterError(
            f"The values of the composite column {composite[0]!r} cannot be mapped.",
            found="Its values are made from those of its parts.",
            remedy="Map the values of its parts.",
        )
    names = [columns.get(name, name) for name in table.names]
    twice = sorted(
        {name for name in names if sum(name.casefold() == other.casefold() for other in names) > 1}
    )
    if twice:
        raise ParameterError(
            f"Two columns would be called {twice[0]!r}.",
            found="One of them is mapped to that name.",
            remedy="Rename or remove the other one.",
        )
    for counted in schema.counted_columns:
        _check_values(schema, counted.name, values.get(counted.name, {}))
    shown, kinds = [], []
    for column, name in zip(table.columns, names, strict=True):
        changed = values.get(name, {})
        if changed and column.kind in {"timestamp", "other"}:
            raise ParameterError(
                f"The values of column {column.name!r} cannot be mapped.",
                found="They are neither numbers, days, texts nor truth values.",
                remedy="Convert the column.",
            )
        expression = sql.identifier(column.name)
        kinds.append(TableColumn(name, "text" if changed else column.kind))
        shown.append((sql.mapped_value(expression, column.kind, changed) if changed else expression, name))
    relation = sql.mapped_rows(table.relation, shown)
    return replace(table, relation=relation, columns=tuple(kinds))


def _check_values(schema: Schema, name: str, values: Mapping[str, str]) -> None:
    import pyarrow as pa

    [column] = [column for column in schema.counted_columns if column.name == name]
    if (column.encode(pa.array(list(values.values()), pa.string())) == UNKNOWN).any():
        raise ParameterError(
            f"Values of column {name!r} are mapped to values that the plan does not have.",
            found=f"The domain of the column is {column.whole if len(column.whole) < 200 else column.size}.",
            remedy="Map them to values of the domain.",
        )
