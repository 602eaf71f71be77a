"""On the way into Spark: types that it lacks, and names and texts that it would read otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from elldelta.engines import sql
from elldelta.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.engines.table import ValueKind

_KINDS: dict[str, ValueKind] = {
    "boolean": "boolean",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "real"),
    **dict.fromkeys(("string", "char", "varchar"), "text"),
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "timestamp"),
}
_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"}
_MOMENTS = {"date", "timestamp_ntz", "timestamp"}
_NESTED = {"array", "map", "struct", "variant", "binary"}
_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def kind_of(spark_type: str) -> ValueKind:
    """What kind of values a column holds, by the simple name of its Spark type."""
    return _KINDS.get(_base(spark_type), "other")


def quoted(name: str) -> str:
    """A column's name for Spark's functions, which read points and marks in it otherwise."""
    return "`" + name.replace("`", "``") + "`"


def to_dialect(query: str) -> str:
    """A query of `elldelta.engines.sql` as Spark reads it: there a backslash would hide the end of a text."""

    def spell(found: re.Match[str]) -> str:
        if found[0].startswith("'"):
            return found[0].replace("\\", "\\\\")
        return quoted(found[0][1:-1].replace('""', '"'))

    return re.sub(sql.QUOTED, spell, query)


def plain_table(table: pa.Table) -> pa.Table:
    """An Arrow table of types that Spark has, with the same values.

    Unsigned numbers become wider signed ones, coded columns are decoded, moments are cut to microseconds.
    """
    return pa.table(
        {name: _plain(table.column(place)) for place, name in enumerate(table.column_names)},
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    while isinstance(kind, pa.ExtensionType) or pa.types.is_dictionary(kind):
        kind = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind.value_type
        column = column.cast(kind)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = pc.floor_temporal(column, unit="microsecond")
    target = _target(kind)
    return column if target == kind else column.cast(target)


def _target(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for the values of another one."""
    types = pa.types
    targets = [
        (kind in _SIGNED, _SIGNED.get(kind)),
        (types.is_uint64(kind), pa.decimal128(20, 0)),
        (types.is_float16(kind), pa.float32()),
        (types.is_null(kind) or types.is_large_string(kind) or types.is_string_view(kind), pa.string()),
        (types.is_large_binary(kind) or types.is_binary_view(kind), pa.binary()),
        (types.is_fixed_size_binary(kind) and not types.is_decimal(kind), pa.binary()),
        (types.is_date64(kind), pa.date32()),
        (types.is_timestamp(kind), pa.timestamp("us", kind.tz) if types.is_timestamp(kind) else None),
        (types.is_time32(kind), pa.int32()),
        (types.is_time64(kind) or types.is_duration(kind), pa.int64()),
    ]
    return next((target for applies, target in targets if applies), kind)


def parquet_column(spark: Any, name: str, spark_type: str, arrow_type: str) -> Any:  # noqa: ANN401 (columns)
    """A column of a Parquet file as DuckDB reads it.

    Args:
        spark: `pyspark.sql.functions`.
        name: The column.
        spark_type: What Spark reads.
        arrow_type: What Arrow finds in the file.
    """
    column = spark.col(quoted(name))
    is_naive = "tz=" not in arrow_type
    if arrow_type.startswith("timestamp[ns") and spark_type == "bigint":
        # Spark has no nanoseconds: whole microseconds are left, rounded down.
        micros = f"({quoted(name)} - pmod({quoted(name)}, 1000L)) div 1000L"
        column = spark.expr(f"timestamp_micros({micros})")
        return column.cast("timestamp_ntz" if is_naive else "timestamp_ltz")
    if arrow_type.startswith("timestamp") and is_naive and spark_type == "timestamp":
        return column.cast("timestamp_ntz")  # the old form of Hive and Spark, without a time zone
    return column


def common_types(parts: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str | None]:
    """For columns (name, type) of parts of a table: the type that a column is cast to, None to leave it.

    Numbers and moments of different widths find a common type by themselves. What else differs becomes text,
    as in DuckDB; Spark would read text as numbers.
    """
    common: dict[str, str | None] = {}
    for columns in zip(*parts, strict=True):
        name = columns[0][0]
        bases = {_base(spark_type) for _, spark_type in columns}
        if len(bases) == 1 or bases <= _NUMBERS or bases <= _MOMENTS:
            common[name] = None
        elif bases & _NESTED:
            raise DataError(
                "The table holds values that cannot be converted.",
                found="Columns of the same name have different types in different files.",
                remedy="Give all parts of a table the same types.",
            )
        else:
            common[name] = "string"
    return common


def _base(spark_type: str) -> str:
    return spark_type.partition("(")[0].partition("<")[0].partition(" ")[0]
