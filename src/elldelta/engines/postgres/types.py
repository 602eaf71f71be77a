"""The types of PostgreSQL: what kind of values a column holds, and how it is read.

Each column is read through an expression, so that everything behind it sees few types, and compares texts
byte by byte whatever the collation of the column: a nondeterministic one would count different texts as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from elldelta.engines import sql
from elldelta.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.engines.table import ValueKind

_TEXTS = {"text", "varchar", "bpchar", "name", "char"}
_KINDS: dict[str, ValueKind] = {
    "bool": "boolean",
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8", "numeric"), "real"),
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamptz"), "timestamp"),
}
_STORED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (lambda arrow: arrow in {pa.int8(), pa.int16(), pa.uint8()}, "smallint"),
    (lambda arrow: arrow in {pa.int32(), pa.uint16()}, "integer"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_floating, "double precision"),
    (lambda arrow: pa.types.is_timestamp(arrow) and arrow.tz is not None, "timestamptz"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_date32, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_null, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
)
"""The types of new columns; the first that fits is meant, and is as wide as the driver's bytes for it."""
_MOST_DIGITS = 38


@dataclass(frozen=True)
class ColumnType:
    """The type of a column; that of a domain is the one below it.

    Attributes:
        name: Its name in `pg_type`.
        is_builtin: Whether it is one of the database's own.
        is_enum: Whether it is an enumeration.
        modifier: What was said in parentheses, such as the digits of a numeric; -1 for nothing.
    """

    name: str
    is_builtin: bool
    is_enum: bool
    modifier: int = -1

    @property
    def kind(self) -> ValueKind:
        """What kind of values it holds."""
        if self._is_text:
            return "text"
        return _KINDS.get(self.name, "other") if self.is_builtin else "other"

    def read(self, column: str) -> str:
        """The expression by which a column, given quoted, is read."""
        if self._is_text:
            # Also takes the blanks away with which char(n) is filled up: they mean nothing there.
            return f'CAST({column} AS text) COLLATE "C"'
        if not self.is_builtin:
            return column
        if self.name == "timestamptz":
            return f"({column} AT TIME ZONE 'UTC')"
        if self.name == "numeric":
            digits = decimal_digits(self.modifier)
            return column if digits is None else f"CAST({column} AS numeric({digits[0]}, {digits[1]}))"
        return column

    @property
    def _is_text(self) -> bool:
        named = self.name in _TEXTS or self.name == "uuid" if self.is_builtin else self.name == "citext"
        return self.is_enum or named


def decimal_digits(modifier: int) -> tuple[int, int] | None:
    """Digits and decimals of a numeric that Arrow can hold exactly; None for others."""
    if modifier < 4:
        return None
    digits, decimals = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return (digits, decimals) if digits <= _MOST_DIGITS and decimals <= digits else None


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without the driver's own types.

    An exact number is a decimal if its digits are known, otherwise a float: Arrow has no numbers of any
    length. Where it is not a number, it is missing.
    """
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        metadata = field.metadata or {}
        values = column.storage if isinstance(column, pa.ExtensionArray) else column
        if metadata.get(b"POSTGRESQL:type") == b"numeric":
            digits = decimal_digits(int(metadata.get(b"POSTGRESQL:typmod", b"-1")))
            if digits is None:
                values = values.cast(pa.float64())
            else:
                values = _without_nan(values).cast(pa.decimal128(*digits))
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _without_nan(texts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    is_none = pc.equal(pc.utf8_lower(texts), "nan")
    return pc.if_else(is_none, pa.scalar(None, texts.type), texts)


def storable(table: pa.Table) -> pa.Table:
    """A table in memory, with the few types that the driver lacks replaced by equal ones."""
    for place, field in enumerate(table.schema):
        wanted = None
        if pa.types.is_date64(field.type):
            wanted = pa.date32()
        elif pa.types.is_float16(field.type):
            wanted = pa.float32()
        elif pa.types.is_uint64(field.type):
            wanted = pa.decimal128(20, 0)
        elif pa.types.is_dictionary(field.type):
            wanted = field.type.value_type
        if wanted is not None:
            table = table.set_column(place, field.name, table.column(place).cast(wanted))
    return table


def declared(schema: pa.Schema) -> str:
    """The columns of a new table, as CREATE TABLE lists them."""
    return ", ".join(
        f"{sql.identifier(field.name)} {_stored_type(field.name, field.type)}" for field in schema
    )


def _stored_type(name: str, arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return f"{_stored_type(name, arrow.value_type)}[]"
    if pa.types.is_decimal128(arrow):
        return f"numeric({arrow.precision}, {arrow.scale})"
    stored = next((stored for is_such, stored in _STORED if is_such(arrow)), None)
    if stored is not None:
        return stored
    raise DataError(
        f"Column {name!r} is of a type that a database does not hold.",
        found="It is a structure, or another type of Arrow's own.",
        remedy="Convert the column, leave it out, or count with DuckDB.",
        parameter="engine",
    )


def type_query(relation: str, names: list[str]) -> str:
    """A query for the types of the columns of a relation: one row of numbers, also if it has no row."""
    shown = ", ".join(
        f"CAST(CAST(pg_typeof(given.{sql.identifier(name)}) AS oid) AS bigint) AS c{place}"
        for place, name in enumerate(names)
    )
    return f"SELECT {shown} FROM (VALUES (1)) AS one LEFT JOIN {relation} AS given ON false"  # noqa: S608


def base_type_query(numbers: set[int]) -> str:
    """A query for what stands below types: (number, name, is_builtin, is_enum)."""
    listed = ", ".join(f"({number})" for number in sorted(numbers))
    return (
        "WITH RECURSIVE below(number, type) AS ("  # noqa: S608 (numbers only)
        f"SELECT CAST(given.n AS bigint), CAST(given.n AS oid) FROM (VALUES {listed}) AS given(n) "
        "UNION SELECT below.number, t.typbasetype FROM below "
        "JOIN pg_catalog.pg_type AS t ON t.oid = below.type WHERE t.typtype = 'd') "
        "SELECT below.number, CAST(t.typname AS text) AS name, s.nspname = 'pg_catalog' AS is_builtin, "
        "t.typtype = 'e' AS is_enum FROM below JOIN pg_catalog.pg_type AS t ON t.oid = below.type "
        "JOIN pg_catalog.pg_namespace AS s ON s.oid = t.typnamespace WHERE t.typtype <> 'd'"
    )
