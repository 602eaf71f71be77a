"""What Spark reads: its own frames and tables, addresses, Parquet files of this machine, tables in memory."""

from __future__ import annotations

import itertools
import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from elldelta.engines.formats import READABLE, source_format, suffix_of
from elldelta.engines.sources import (
    Query,
    SourceFile,
    SourceTable,
    TableName,
    check_distinct,
    columns_apart,
    find_files,
    hidden_names,
    is_frame,
)
from elldelta.engines.spark.types import (
    common_types,
    kind_of,
    parquet_column,
    plain_table,
    quoted,
    to_dialect,
)
from elldelta.engines.table import TableColumn
from elldelta.errors import ElldeltaError, FileError
from elldelta.files import CsvFormat, unwritable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from elldelta.engines.spark.session import Runner, Session

_ROW_GROUP = 1 << 18
_OTHERS = {suffix for suffix, kind in READABLE.items() if kind != "parquet"}
_MOST_IN_MEMORY = 4 << 20
"""Bytes of a table in memory that are sent to Spark without a file between."""


class Opened(NamedTuple):
    """A source as a data frame of Spark.

    Attributes:
        frame: The data frame.
        columns: Its columns.
        more: What else is known of the table, by the names of `elldelta.engines.table.Table`.
    """

    frame: Any
    columns: tuple[TableColumn, ...]
    more: dict[str, Any]


class Sources:
    """Turns sources into data frames of Spark.

    Args:
        session: The session that reads them.
        runner: Runs what has to be asked of it.
        folder: A private folder on this machine.
        is_shared: Whether the workers see that folder, too.
    """

    def __init__(self, session: Session, runner: Runner, folder: Path, *, is_shared: bool) -> None:
        self._numbers = itertools.count()
        self._spark = session.spark
        self._runner = runner
        self._folder = folder
        self._sees_folder = session.is_local or is_shared

    def open(self, source: Any) -> Opened:  # noqa: ANN401
        """Opens files, folders, globs, addresses such as s3a://..., tables, queries, or a table in memory."""
        if _is_spark_frame(source):
            return self._opened(source, None, "the table")
        if is_frame(source):
            return self._open_frame(source)
        if isinstance(source, TableName):
            return self._open_name(
                lambda: self._spark.table(to_dialect(source.quoted)), f"the table {source}"
            )
        if isinstance(source, Query):
            # Inside of a selection only queries are understood; Spark carries out commands at once.
            text = f"SELECT * FROM (\n{source.text}\n) AS given"  # noqa: S608 (somebody's own query)
            return self._open_name(lambda: self._spark.sql(text), "the query")
        addresses = _addresses(source)
        return self._open_addresses(addresses) if addresses else self._open_files(source)

    def _open_frame(self, frame: object) -> Opened:
        table, hidden = columns_apart(frame)
        return self._opened(self.frame(table), table.num_rows, "the table", hidden=hidden, given=frame)

    def _open_name(self, find: Callable[[], Any], origin: str) -> Opened:
        problem: ElldeltaError
        try:
            return self._opened(self._runner.run(find), None, origin)
        except ElldeltaError:
            problem = FileError(
                f"Spark cannot read {origin}.",
                found="It does not know the name, or does not understand the query.",
                remedy="Check the spelling, and that the session uses the catalog that holds the table.",
            )
        raise problem

    def _open_addresses(self, addresses: list[str]) -> Opened:
        """Opens Parquet files that Spark sees and this machine does not."""
        problem: ElldeltaError
        try:
            frame = self._runner.run(lambda: self._spark.read.parquet(*addresses))
            names = tuple(frame.columns)
            hidden = hidden_names(names)
            return self._opened(
                frame.select(*self._selected(frame, hidden)), None, addresses[0], hidden=hidden
            )
        except ElldeltaError:
            problem = FileError(
                f"Spark cannot read {addresses[0]}.",
                found="There is no Parquet table at the address, or Spark may not read it.",
                remedy="Check the address, and that Spark has its library (s3a: hadoop-aws) and the keys.",
            )
        raise problem

    def _open_files(self, source: Any) -> Opened:  # noqa: ANN401
        found = SourceTable.find(source, CsvFormat(), self._folder)
        parts = [self._parquet(group, found.columns) for group in found.groups]
        if len(parts) > 1:
            common = common_types([self._types(part) for part in parts])
            parts = [part.select(*_cast(common)) for part in parts]
        frame = parts[0]
        for part in parts[1:]:
            frame = self._runner.run(partial(frame.unionAll, part))
        return self._opened(
            frame,
            found.n_rows,
            found.origin,
            partial=found.partial,
            hidden=found.hidden,
            files=found.paths,
        )

    def _parquet(self, files: Sequence[SourceFile], columns: Sequence[str]) -> Any:  # noqa: ANN401
        from pyspark.sql import functions as F  # noqa: N812

        for file in files:
            if file.path.name.startswith((".", "_")):
                raise FileError(
                    f"Spark does not read {file.path}.",
                    found="It takes names that begin with a point or a line for unfinished files.",
                    remedy="Rename the file.",
                )
        addresses = [_address(file.path) for file in files]
        # Folders that are called a=1 are not columns, and every file is named.
        frame = self._runner.run(
            lambda: self._spark.read.options(recursiveFileLookup="true", mergeSchema="false").parquet(
                *addresses
            )
        )
        spark_types = dict(self._types(frame))
        arrow_types = dict(zip(files[0].names, files[0].types, strict=True))
        shown = [
            parquet_column(F, name, spark_types[name], arrow_types[name]).alias(name) for name in columns
        ]
        return self._runner.run(lambda: frame.select(*shown))

    def frame(self, table: pa.Table) -> Any:  # noqa: ANN401 (a data frame of Spark)
        """A table in memory as a data frame of Spark; by way of a file where Spark sees our files.

        What is sent to Spark directly stands in its memory, and in that of every task, as long as it is used.
        """
        plain = plain_table(table)
        if plain.nbytes <= _MOST_IN_MEMORY or not self._sees_folder:
            return self._runner.watched(lambda: self._spark.createDataFrame(plain))
        import pyarrow.parquet as pq

        copy = self._folder / f"frame_{next(self._numbers)}.parquet"
        try:
            pq.write_table(plain, copy, row_group_size=_ROW_GROUP, store_schema=False)
        except OSError as problem:
            raise unwritable(copy, problem) from None
        return self._runner.run(lambda: self._spark.read.parquet(_address(copy)))

    def _opened(self, frame: Any, n_rows: int | None, origin: str, **more: Any) -> Opened:  # noqa: ANN401
        types = self._types(frame)
        check_distinct(origin, [name for name, _ in types])
        hidden = hidden_names(tuple(name for name, _ in types))
        if hidden or any(" collate " in kind for _, kind in types):
            frame = frame.select(*self._selected(frame, hidden))
            types = [(name, kind) for name, kind in types if name not in hidden]
            more["hidden"] = more.get("hidden", frozenset()) | hidden
        columns = tuple(TableColumn(name, kind_of(kind)) for name, kind in types)
        return Opened(frame, columns, {"n_rows": n_rows, "origin": origin, **more})

    def _selected(self, frame: Any, hidden: frozenset[str]) -> list[Any]:  # noqa: ANN401
        """The columns that can be told apart, texts compared byte by byte."""
        from pyspark.sql import functions as F  # noqa: N812

        return [
            (
                F.collate(F.col(quoted(name)), "UTF8_BINARY") if " collate " in kind else F.col(quoted(name))
            ).alias(name)
            for name, kind in self._types(frame)
            if name not in hidden
        ]

    def _types(self, frame: Any) -> list[tuple[str, str]]:  # noqa: ANN401
        types: list[tuple[str, str]] = self._runner.run(lambda: frame.dtypes)
        return types


def _cast(common: Mapping[str, str | None]) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    return [
        (F.col(quoted(name)) if kind is None else F.col(quoted(name)).cast(kind)).alias(name)
        for name, kind in common.items()
    ]


def _address(path: Path) -> str:
    """The address of a file, with marks before everything that Spark would take for a pattern."""
    return "file://" + "".join(
        "\\" + mark if mark in "*?[]{}\\^," else mark for mark in os.fspath(path.absolute())
    )


def not_parquet(source: Any) -> str | None:  # noqa: ANN401
    """The first file or address of a source that is not in Parquet by its name, or None."""
    if is_frame(source) or _is_spark_frame(source) or isinstance(source, TableName | Query):
        return None
    addresses = _addresses(source)
    if addresses:
        return next((name for name in addresses if suffix_of(name) in _OTHERS), None)
    return next((str(path) for path in find_files(source) if source_format(path) != "parquet"), None)


def _addresses(source: Any) -> list[str]:  # noqa: ANN401
    """The names of a source, if Spark is to find them."""
    named = [source] if isinstance(source, str) else source
    is_address = isinstance(named, list | tuple) and any("://" in str(item) for item in named)
    return list(map(str, named)) if is_address else []


def _is_spark_frame(source: object) -> bool:
    return type(source).__module__.startswith("pyspark.")
