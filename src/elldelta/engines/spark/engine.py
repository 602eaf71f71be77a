"""Spark: the same SQL on a session, a cluster, or Spark Connect. Only counts come back to this machine.

Parquet is read by Spark itself, wherever it lies. It reads no CSV, for its own reader would read some files
differently; whoever has a table that needs a cluster has it as Parquet.
"""

from __future__ import annotations

import itertools
import pickle
import secrets
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from elldelta.engines import sql
from elldelta.engines.spark.session import Runner, Session, given_session, start_session
from elldelta.engines.spark.sources import Sources, not_parquet
from elldelta.engines.spark.types import to_dialect
from elldelta.engines.table import Capability, Engine, Progress, Table, require
from elldelta.engines.task import private_folder
from elldelta.engines.workers import single_threaded
from elldelta.errors import ElldeltaError, InternalError, ParameterError, counted

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping

    from elldelta.engines.workers import Job
    from elldelta.files import CsvFormat

    Result = TypeVar("Result")

_BATCH_ROWS = 1 << 18
_MOST_BROADCAST = 256 << 20


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
            cluster give one that all workers see, if large tables in memory are to be read.
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


class SparkEngine(Engine):
    """Spark behind the engine contract; see `elldelta.engines.table`."""

    name = "spark"
    rows_at_once = 1 << 21
    """Rows of a result that are fetched together: this machine's memory does not grow with the result."""
    capabilities: frozenset[Capability] = frozenset({"files", "tables", "jobs"})

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
        self._folder, self._removal = private_folder(self, temp_directory)
        try:
            self._session: Session = (
                start_session(master, conf, self._folder) if session is None else given_session(session)
            )
        except BaseException:
            self._removal()
            raise
        self._spark = self._session.spark
        self._runner = Runner(self._session)
        self._sources = Sources(
            self._session, self._runner, self._folder, is_shared=temp_directory is not None
        )

    def open(self, source: Any, csv_format: CsvFormat | None = None) -> Table:  # noqa: ANN401
        """Opens Parquet files, folders, globs, addresses (s3a://...), tables, queries, tables in memory."""
        other = not_parquet(source)
        if other is not None:
            require(self, "formats", f"read {other}")
        opened = self._sources.open(source)
        return Table(self, self._view(opened.frame), opened.columns, **opened.more)

    def store(self, query: str, progress: Progress | None = None) -> str:
        """Runs a query and keeps its result on the workers; returns the relation that stands for it."""
        from pyspark import StorageLevel

        frame = self._runner.run(
            lambda: self._spark.sql(to_dialect(query)).persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            n_rows = self._runner.watched(frame.count, progress)
            relation = self._view(frame)
        except BaseException:
            self._forget(frame)
            raise
        self._stored[relation] = frame, n_rows
        return relation

    def fetch(self, relation: str) -> Generator[pa.RecordBatch]:
        """Hands out a stored result, a batch at a time."""
        frame, n_rows = self._stored[relation]
        n_fetched = 0
        for piece in self._pieces(frame, n_rows):
            table = self._runner.watched(piece.toArrow)
            n_fetched += table.num_rows
            batches = table.to_batches(max_chunksize=_BATCH_ROWS)
            yield from batches or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        if n_fetched != n_rows:
            raise InternalError(
                "A stored result changed while it was fetched.",
                found=f"It had {counted(n_rows, 'row')}, {n_fetched} came.",
                remedy="Make sure that nothing changes the table meanwhile; otherwise please report this.",
            )

    def put(self, table: pa.Table) -> str:
        """Brings a small table to the workers; returns the relation that stands for it."""
        frame = self._sources.frame(table)
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

    def run_each(self, job: Job, n_jobs: int, progress: Progress | None = None) -> Iterator[Any]:
        """The results of jobs 0, 1, 2, ..., each a task of Spark; the workers need this package, too."""

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            single_threaded()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    found: Any
                    try:
                        found = job(number)
                    except ElldeltaError as problem:  # Spark would quote it; the driver raises it
                        found = problem
                    yield pa.RecordBatch.from_pydict({"number": [number], "found": [pickle.dumps(found)]})

        frame = self._runner.run(
            lambda: self._spark.range(0, n_jobs, 1, n_jobs).mapInArrow(work, "number long, found binary")
        )
        table = self._runner.watched(frame.toArrow, progress).sort_by("number")
        for found in table.column("found"):
            result = pickle.loads(found.as_buffer())  # noqa: S301 (of our own workers)
            if isinstance(result, ElldeltaError):
                raise result
            yield result

    def close(self) -> None:
        """Gives up what is stored, and the session if it was started here."""
        try:
            self.discard(*list(self._stored))
            for relation in list(self._views):
                self._drop(relation)
        finally:
            try:
                self._runner.run(self._session.leave)
            finally:
                self._removal()

    def _pieces(self, frame: Any, n_rows: int) -> Iterator[Any]:  # noqa: ANN401
        """A stored result in pieces that fit the memory of this machine: some of its partitions each."""
        from pyspark.sql import functions as F  # noqa: N812

        if n_rows <= self.rows_at_once:
            yield frame
            return
        place = F.spark_partition_id()
        sizes = self._runner.watched(frame.groupBy(place.alias("place")).count().orderBy("place").toArrow)
        chosen: list[int] = []
        total = 0
        for row in sizes.to_pylist():
            if chosen and total + row["count"] > self.rows_at_once:
                yield frame.filter(place.isin(chosen))
                chosen, total = [], 0
            chosen.append(row["place"])
            total += row["count"]
        yield frame.filter(place.isin(chosen))

    def _view(self, frame: Any) -> str:  # noqa: ANN401
        name = f"{self._mark}_{next(self._numbers)}"
        self._runner.run(lambda: frame.createOrReplaceTempView(name))
        relation = sql.identifier(name)
        self._views.add(relation)
        return relation

    def _drop(self, relation: str) -> None:
        self._views.discard(relation)
        self._runner.run(lambda: self._spark.catalog.dropTempView(relation.strip('"')))

    def _forget(self, frame: Any) -> None:  # noqa: ANN401
        self._runner.run(frame.unpersist)
