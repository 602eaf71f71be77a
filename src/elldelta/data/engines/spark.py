"""Spark: the same SQL on a session, a cluster, or Spark Connect. Only counts come back to this machine.

Parquet is read by Spark itself, wherever it lies. CSV files are first converted on this machine by the same
reader as everywhere else, because Spark's own reader would read some of them differently; whoever has a table
that needs a cluster has it as Parquet. A release is a folder of part files, as Spark writes it.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
import warnings
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from elldelta.data import sql
from elldelta.data.atomic import unwritable
from elldelta.data.csv_format import CsvFormat
from elldelta.data.database_source import Query, TableName
from elldelta.data.engines.spark_errors import translated
from elldelta.data.engines.spark_jobs import Jobs
from elldelta.data.engines.spark_parts import count_parquet, name_parts
from elldelta.data.engines.spark_session import Session, given_session, start_session
from elldelta.data.engines.spark_types import common_types, kind_of, parquet_column, plain_table, quoted
from elldelta.data.engines.task import PATIENCE, Task
from elldelta.data.frames import is_frame, to_arrow
from elldelta.data.sources import SourceTable, check_distinct, hidden_names
from elldelta.data.table import Capability, Table, TableColumn
from elldelta.errors import ElldeltaError, FileError, InternalError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from elldelta.data.engines.duckdb import DuckDBEngine
    from elldelta.data.sources import FileFormat, SourceFile
    from elldelta.data.table import Progress

    Result = TypeVar("Result")

_BATCH_ROWS = 1 << 18
_MOST_AT_ONCE = 1 << 21
"""Rows of a result that are fetched together: the memory of this machine does not grow with the result."""
_MOST_IN_MEMORY = 4 << 20
"""Bytes of a table in memory that are sent to Spark without a file between."""
_MOST_BROADCAST = 256 << 20
_MOST_SENT = 512 << 20
"""Bytes of a converted CSV file that are sent to workers which do not see the disk of this machine."""


def connect(
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    session: Any = None,  # noqa: ANN401 (a session of Spark or of Spark Connect)
    temp_directory: str | os.PathLike[str] | None = None,
) -> SparkEngine:
    """Starts Spark, or uses a session.

    Args:
        master: `local[2]`, `spark://host:port` or `sc://host:port`; this machine by default.
        conf: More settings of Spark.
        session: A session that is already there; it is not stopped at the end.
        temp_directory: Where a private folder is made for intermediate files, and removed at the end. On a
            cluster give one that all workers see, if large CSV files are to be read.
    """
    if session is not None and (master is not None or conf):
        raise ParameterError(
            "A session that is given has its master and its settings.",
            found="master or conf was given too.",
            remedy="Give one or the other.",
        )
    # Spark warns of a pandas that is too new for parts that are not used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    return SparkEngine(master, conf or {}, session, temp_directory)


class SparkEngine:
    """Spark behind the engine contract; see `elldelta.data.table`."""

    name = "spark"
    capabilities: frozenset[Capability] = frozenset({"files", "frames", "tables", "write folder", "order"})

    def __init__(
        self,
        master: str | None,
        conf: Mapping[str, str],
        session: Any,  # noqa: ANN401
        temp_directory: str | os.PathLike[str] | None,
    ) -> None:
        self._numbers = itertools.count()
        self._mark = f"elldelta_{secrets.token_hex(4)}"
        self._stored: dict[str, tuple[Any, int]] = {}
        self._views: set[str] = set()
        self._csv_reader: DuckDBEngine | None = None
        self._is_shared = temp_directory is not None
        try:
            place = Path(temp_directory if temp_directory is not None else tempfile.gettempdir())
            self._folder = (place / f"elldelta-{secrets.token_hex(8)}").absolute()
            # Announced before it exists: an interrupt at any moment after this still removes the folder.
            self._removal = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._folder.mkdir(mode=0o700)
        except OSError as problem:
            raise unwritable(temp_directory or tempfile.gettempdir(), problem) from None
        try:
            self._session: Session = (
                start_session(master, conf, self._folder) if session is None else given_session(session)
            )
        except BaseException:
            self._removal()
            raise
        self._spark = self._session.spark

    def open(self, source: Any, csv_format: CsvFormat | None = None) -> Table:  # noqa: ANN401
        """Opens files, folders, globs, addresses such as s3a://..., tables, queries, or a table in memory."""
        if _is_spark_frame(source):
            return self._table(source, None, "the table")
        if is_frame(source):
            return self._open_frame(source)
        if isinstance(source, TableName):
            return self._open_name(lambda: self._spark.table(source.quoted), f"the table {source}")
        if isinstance(source, Query):
            # Inside of a selection only queries are understood; Spark carries out commands at once.
            text = f"SELECT * FROM (\n{source.text}\n) AS given"  # noqa: S608 (somebody's own query)
            return self._open_name(lambda: self._spark.sql(text), "the query")
        addresses = [source] if isinstance(source, str) else source
        if isinstance(addresses, list | tuple) and any("://" in str(item) for item in addresses):
            return self._open_addresses(list(map(str, addresses)))
        return self._open_files(source, csv_format or CsvFormat())

    def store(self, query: str, progress: Progress | None = None) -> str:
        """Runs a query and keeps its result on the workers; returns the relation that stands for it."""
        from pyspark import StorageLevel

        frame = self._run(lambda: self._spark.sql(query).persist(StorageLevel.MEMORY_AND_DISK))
        try:
            n_rows = self._watched(frame.count, progress)
            relation = self._view(frame)
        except BaseException:
            self._forget(frame)
            raise
        self._stored[relation] = frame, n_rows
        return relation

    def fetch(self, relation: str) -> Iterator[pa.RecordBatch]:
        """Hands out a stored result, a batch at a time."""
        frame, n_rows = self._stored[relation]
        n_fetched = 0
        for piece in self._pieces(frame, n_rows):
            table = self._watched(piece.toArrow)
            n_fetched += table.num_rows
            batches = table.to_batches(max_chunksize=_BATCH_ROWS)
            yield from batches or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        if n_fetched != n_rows:
            raise InternalError(
                "A stored result changed while it was fetched.",
                found=f"It had {n_rows} rows, {n_fetched} came.",
                remedy="Make sure that nothing changes the table meanwhile; otherwise please report this.",
            )

    def put(self, table: pa.Table) -> str:
        """Brings a small table to the workers; returns the relation that stands for it."""
        frame = self._frame(table)
        if table.nbytes <= _MOST_BROADCAST:
            frame = frame.hint("broadcast")  # Spark does not know how small it is, and would sort the records
        relation = self._view(frame)
        self._stored[relation] = frame, table.num_rows
        return relation

    def discard(self, *relations: str) -> None:
        """Forgets stored results."""
        for relation in relations:
            frame, _ = self._stored.pop(relation, (None, 0))
            if frame is not None:
                self._forget(frame)
                self._drop(relation)

    def write(
        self,
        query: str,
        path: Path,
        file_format: FileFormat,
        *,
        ordered: bool,
        progress: Progress | None = None,
    ) -> int:
        """Writes the rows of a query to part files in an empty folder; returns their number."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

        seen = Observation()
        frame = self._run(lambda: self._spark.sql(query).observe(seen, F.count(F.lit(1)).alias("n")))
        # The folder is there already, closed to others if it must be: "append" leaves it as it is.
        writer = frame.write.mode("append").options(**_FORMATS[file_format])
        target = f"file://{path.absolute()}"  # as it is: Spark does not decode what would be coded
        self._watched(lambda: getattr(writer, file_format)(target), progress, path)
        try:
            parts = name_parts(path, file_format)
            n_rows = (
                count_parquet(parts) if file_format == "parquet" else int(self._run(lambda: seen.get["n"]))
            )
        except OSError as problem:
            raise unwritable(path, problem) from None
        return n_rows

    def close(self) -> None:
        """Gives up what is stored, and the session if it was started here."""
        try:
            self.discard(*list(self._stored))
            for relation in list(self._views):
                self._drop(relation)
            if self._csv_reader is not None:
                self._csv_reader.close()
        finally:
            try:
                self._run(self._session.leave)
            finally:
                self._removal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        # What went wrong inside the block is what its owner must hear of, not that Spark is gone as well.
        try:
            self.close()
        except ElldeltaError:
            if problem[0] is None:
                raise

    # Sources

    def _open_frame(self, frame: object) -> Table:
        table = to_arrow(frame)
        check_distinct("the table", table.column_names)
        hidden = hidden_names(tuple(table.column_names))
        table = table.select([name for name in table.column_names if name not in hidden])
        return self._table(self._frame(table), table.num_rows, "the table", hidden=hidden, given=frame)

    def _open_name(self, find: Callable[[], Any], origin: str) -> Table:
        problem: ElldeltaError
        try:
            return self._table(self._run(find), None, origin)
        except ElldeltaError:
            problem = FileError(
                f"Spark cannot read {origin}.",
                found="It does not know the name, or does not understand the query.",
                remedy="Check the spelling, and that the session uses the catalog that holds the table.",
            )
        raise problem

    def _open_addresses(self, addresses: list[str]) -> Table:
        """Opens Parquet files that Spark sees and this machine does not."""
        if any(
            address.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".txt")) for address in addresses
        ):
            raise ParameterError(
                "CSV files are read from this machine only.",
                found="The address of one was given.",
                remedy="Convert the table to Parquet first, or give a file on this machine.",
            )
        problem: ElldeltaError
        try:
            frame = self._run(lambda: self._spark.read.parquet(*addresses))
            names = tuple(frame.columns)
            hidden = hidden_names(names)
            return self._table(
                frame.select(*self._selected(frame, hidden)), None, addresses[0], hidden=hidden
            )
        except FileError:
            problem = FileError(
                f"Spark cannot read {addresses[0]}.",
                found="There is no Parquet table at the address, or Spark may not read it.",
                remedy="Check the address, and that Spark has the library and the keys for it.",
            )
        raise problem

    def _open_files(self, source: Any, csv_format: CsvFormat) -> Table:  # noqa: ANN401
        found = SourceTable.find(source, csv_format)
        opened = [
            self._parquet(group, found.columns)
            if group[0].header is None
            else self._csv(group, found.columns, csv_format)
            for group in found.groups
        ]
        parts = [frame for frame, _ in opened]
        if len(parts) > 1:
            common = common_types([self._types(part) for part in parts])
            parts = [part.select(*_cast(common)) for part in parts]
        frame = parts[0]
        for part in parts[1:]:
            frame = self._run(partial(frame.unionAll, part))
        return self._table(
            frame,
            sum(n_rows for _, n_rows in opened),
            found.origin,
            partial=found.partial,
            hidden=found.hidden,
            files=found.paths,
        )

    def _parquet(self, files: Sequence[SourceFile], columns: Sequence[str]) -> tuple[Any, int]:
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
        frame = self._run(
            lambda: self._spark.read.options(recursiveFileLookup="true", mergeSchema="false").parquet(
                *addresses
            )
        )
        spark_types = dict(self._types(frame))
        arrow_types = dict(zip(files[0].names, files[0].types, strict=True))
        shown = [
            parquet_column(F, name, spark_types[name], arrow_types[name]).alias(name) for name in columns
        ]
        return self._run(lambda: frame.select(*shown)), sum(file.n_rows or 0 for file in files)

    def _csv(
        self, files: Sequence[SourceFile], columns: Sequence[str], csv_format: CsvFormat
    ) -> tuple[Any, int]:
        """Converts CSV files to Parquet here, by the rules that hold everywhere, and brings that to Spark."""
        from elldelta.data.engines.duckdb import connect as connect_duckdb

        if self._csv_reader is None:
            self._csv_reader = connect_duckdb(temp_directory=self._folder)
        reader = self._csv_reader
        table = reader.open([file.path for file in files], csv_format)
        copy = self._folder / f"csv_{next(self._numbers)}.parquet"
        shown = ", ".join(map(sql.identifier, columns))
        query = f"SELECT {shown} FROM {table.relation}"  # noqa: S608 (names are quoted)
        n_rows = reader.write(query, copy, "parquet", ordered=False)
        if self._session.is_local or self._is_shared:
            return self._run(lambda: self._spark.read.parquet(_address(copy))), n_rows
        if copy.stat().st_size > _MOST_SENT:
            raise ParameterError(
                "The CSV files are too large to be sent to the workers of Spark.",
                found="They do not see the files of this machine.",
                remedy="Convert the table to Parquet on storage that the workers share.",
            )
        import pyarrow.parquet as pq

        return self._frame(pq.read_table(copy)), n_rows

    def _frame(self, table: pa.Table) -> Any:  # noqa: ANN401 (a data frame of Spark)
        """A table in memory as a data frame of Spark; by way of a file where Spark sees our files.

        What is sent to Spark directly stands in its memory, and in that of every task, as long as it is used.
        """
        plain = plain_table(table)
        if plain.nbytes <= _MOST_IN_MEMORY or not (self._session.is_local or self._is_shared):
            return self._watched(lambda: self._spark.createDataFrame(plain))
        import pyarrow.parquet as pq

        copy = self._folder / f"frame_{next(self._numbers)}.parquet"
        try:
            pq.write_table(plain, copy, row_group_size=_BATCH_ROWS, store_schema=False)
        except OSError as problem:
            raise unwritable(copy, problem) from None
        return self._run(lambda: self._spark.read.parquet(_address(copy)))

    def _table(self, frame: Any, n_rows: int | None, origin: str, **more: Any) -> Table:  # noqa: ANN401
        types = self._types(frame)
        check_distinct(origin, [name for name, _ in types])
        hidden = hidden_names(tuple(name for name, _ in types))
        if hidden or any(" collate " in kind for _, kind in types):
            frame = frame.select(*self._selected(frame, hidden))
            types = [(name, kind) for name, kind in types if name not in hidden]
            more["hidden"] = more.get("hidden", frozenset()) | hidden
        columns = tuple(TableColumn(name, kind_of(kind)) for name, kind in types)
        return Table(self, self._view(frame), columns, n_rows, origin, **more)

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
        types: list[tuple[str, str]] = self._run(lambda: frame.dtypes)
        return types

    # Results

    def _pieces(self, frame: Any, n_rows: int) -> Iterator[Any]:  # noqa: ANN401
        """A stored result in pieces that fit the memory of this machine: some of its partitions each."""
        from pyspark.sql import functions as F  # noqa: N812

        if n_rows <= _MOST_AT_ONCE:
            yield frame
            return
        place = F.spark_partition_id()
        sizes = self._watched(frame.groupBy(place.alias("place")).count().orderBy("place").toArrow)
        chosen: list[int] = []
        total = 0
        for row in sizes.to_pylist():
            if chosen and total + row["count"] > _MOST_AT_ONCE:
                yield frame.filter(place.isin(chosen))
                chosen, total = [], 0
            chosen.append(row["place"])
            total += row["count"]
        yield frame.filter(place.isin(chosen))

    def _view(self, frame: Any) -> str:  # noqa: ANN401
        name = f"{self._mark}_{next(self._numbers)}"
        self._run(lambda: frame.createOrReplaceTempView(name))
        relation = sql.identifier(name)
        self._views.add(relation)
        return relation

    def _drop(self, relation: str) -> None:
        self._views.discard(relation)
        self._run(lambda: self._spark.catalog.dropTempView(relation.strip('"')))

    def _forget(self, frame: Any) -> None:  # noqa: ANN401
        self._run(frame.unpersist)

    # Running

    def _watched(
        self, action: Callable[[], Result], progress: Progress | None = None, writing: Path | None = None
    ) -> Result:
        """Runs an action that may take long; tells how far it is, and hears Ctrl-C."""
        jobs = Jobs(self._session.spark, is_connect=self._session.is_connect)

        def watch() -> None:
            if progress:
                progress(self._run(jobs.done))

        # Nobody waits long for what only reads; what writes must have stopped before its files are removed.
        patience = None if writing is not None else PATIENCE
        task = Task(lambda: jobs.follow(action))
        result = self._run(lambda: task.run(jobs.cancel, watch=watch, patience=patience), writing)
        if progress:
            progress(1.0)
        return result

    def _run(self, action: Callable[[], Result], writing: Path | None = None) -> Result:
        """Runs an action; what Spark raises is replaced, because its texts quote cells."""
        problem: BaseException
        try:
            return action()
        except ElldeltaError:
            raise
        except Exception as error:  # noqa: BLE001 (Py4J, gRPC, Arrow and Spark have no common class)
            problem = translated(error, writing)
        raise problem  # outside of the handler: nothing of the engine's error hangs on to it


_FORMATS: dict[FileFormat, dict[str, Any]] = {
    "parquet": {"compression": "zstd"},
    "csv": {
        "header": True,
        "quote": '"',
        "escape": '"',
        "nullValue": "",
        "emptyValue": '""',
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
        "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]",
        "encoding": "UTF-8",
        "compression": "none",
    },
}


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


def _is_spark_frame(source: object) -> bool:
    return type(source).__module__.startswith("pyspark.")
