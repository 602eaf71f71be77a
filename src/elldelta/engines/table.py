"""The engine contract: what an engine must do so that tables of any size can be counted.

The work at the scale of the data is the same on every engine: group by the columns once, bring the distinct
combinations back as Arrow, find their positions in numpy, and send the small result back as a join. The SQL
for it is written once, in `elldelta.engines.sql`. An engine only opens sources, runs queries, hands Arrow in
and out, and translates its errors; a second engine adds one file to `elldelta.engines`. It writes nothing: a
release is made of counts, on this machine.

What every engine promises, and `tests/contracts` checks:

* Rows stay in the engine; only counts, maps and label counts pass through Python.
* Its own error texts, which quote cells, never leave it: not as message, cause or context.
* A failed or interrupted operation leaves no table and no change to a source.
* CSV columns are text; an empty field without quotes is missing; `01234` stays `01234`.
* What it cannot do is not among its `capabilities`, and is refused by `require` before anything happens.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from elldelta.engines import sql
from elldelta.engines.cells import UnreadableTypeError, as_text
from elldelta.errors import DataError, ElldeltaError, InternalError, ParameterError, counted

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from elldelta.engines.workers import Job
    from elldelta.files import CsvFormat

Progress = Callable[[float], None]
"""Is told the share of the work that is done, from 0 to 1."""

Capability = Literal["files", "formats", "tables", "jobs"]
"""What an engine may be able to do besides opening tables in memory.

* "files": open Parquet files, folders and globs that this machine sees.
* "formats": the same of CSV, Arrow and JSON.
* "tables": open a table or a query by its name, where the records already are.
* "jobs": run jobs of ours on its workers.
"""

_WORDS: dict[Capability, tuple[str, str]] = {
    "files": ("open Parquet files", "Use DuckDB or Spark."),
    "formats": (
        "open CSV, Arrow and JSON files",
        "Convert the table to Parquet, or count it on this machine with DuckDB.",
    ),
    "tables": (
        "open tables of a database",
        "Use PostgreSQL with the address of the database, or give files.",
    ),
    "jobs": ("plan regions on its workers", "Use Spark, or processes of this machine."),
}

MOST_LISTED = 30
"""How many columns a message lists."""

ValueKind = Literal["boolean", "integer", "real", "text", "date", "timestamp", "other"]


@dataclass(frozen=True)
class TableColumn:
    """A column of an opened table: its name and what kind of values it holds."""

    name: str
    kind: ValueKind


@dataclass(frozen=True)
class Table:
    """A table that an engine has opened; no record has been read yet.

    Attributes:
        engine: The engine that holds it.
        relation: What stands for the table in the SQL of its engine, already quoted.
        columns: The columns that every part of the table has.
        n_rows: The number of records, where the source tells without reading them; or what counts them in
            another way, once so many were read.
        origin: Words for the source, for messages.
        partial: Columns that some files have and others lack.
        hidden: Columns that cannot be asked for: their names are empty, hold a zero byte, or differ from
            another one only in upper and lower case.
        given: The table in memory from which it was opened, or None.
        files: The files on this machine from which it was opened.
    """

    engine: Engine
    relation: str
    columns: tuple[TableColumn, ...]
    n_rows: int | Callable[[int], int] | None
    origin: str
    partial: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    given: Any = None
    files: tuple[Path, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def kind_of(self, name: str) -> ValueKind:
        """The kind of values of a column."""
        return next(column.kind for column in self.columns if column.name == name)

    def require(self, names: Iterable[str]) -> None:
        """Refuses unless the table has all the columns, spelt exactly so."""
        wanted = tuple(names)
        for name in wanted:
            if name in self.names:
                continue
            if not sql.is_name(name):
                found = "A column needs a name, and no zero byte in it."
                remedy = "Give the column a name in the table."
            elif name in self.hidden:
                found = "It has two columns of that name that differ only in upper and lower case."
                remedy = "Rename one of them."
            elif name in self.partial:
                found = "Some of its files have the column, others lack it."
                remedy = "Give files that all have the column."
            elif name.casefold() in {other.casefold() for other in self.names}:
                found = "It has a column that differs only in upper and lower case."
                remedy = "Spell the column in the schema as in the table."
            else:
                found, remedy = self._what_is_there(name, wanted)
            raise DataError(f"Column {name!r} is missing from {self.origin}.", found=found, remedy=remedy)

    def _what_is_there(self, name: str, wanted: Iterable[str]) -> tuple[str, str]:
        """The columns instead of the one that is missing, and what to do about it."""
        known = {other.casefold() for other in self.names}
        if any(path.suffix not in {".parquet", ".pq"} for path in self.files) and not any(
            other.casefold() in known for other in wanted
        ):
            # Not listed: in a file without a header the names are the cells of its first record.
            found = (
                f"None of its {counted(len(self.columns), 'column')} has this name, or another "
                "one that is needed."
            )
            return found, "Check the names, the separator, and that the first line is a header."
        listed = ", ".join(map(repr, self.names[:MOST_LISTED]))
        more = len(self.names) - MOST_LISTED
        found = f"Its columns are {listed}{f' and {more} more' if more > 0 else ''}."
        folded = {other.casefold(): other for other in self.names}
        nearest = difflib.get_close_matches(name.casefold(), folded, n=1)
        if not nearest:
            return found, "Check the name; rename the column if it is there under another one."
        return found, f"The nearest name is {folded[nearest[0]]!r}: if that is meant, rename the column."

    def check_read(self, n_read: int) -> None:
        """Refuses a number of records that is not the one that the source tells."""
        n_rows = self.n_rows(n_read) if callable(self.n_rows) else self.n_rows
        if n_rows is not None and n_read != n_rows:
            raise DataError(
                "Records were lost or invented while reading.",
                found=f"{self.origin} holds {counted(n_rows, 'record')}, {n_read} were read.",
                remedy="Look for records of more than a million characters, as a quote makes them that is "
                "never closed, and make sure that nothing changes the table meanwhile.",
            )

    def check_all_read(self) -> None:
        """Checks the number of records of a table whose rows are not counted one by one."""
        if self.n_rows is not None:
            stored = self.engine.store(sql.n_rows(self.relation))
            with self.engine.discarding([stored]):
                [n] = [n for batch in self.engine.fetch(stored) for n in batch.column(0).to_pylist()]
            self.check_read(n)

    def count_texts(self, names: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """The distinct combinations of columns as text, spelt by us, not by the engine; and their numbers."""
        self.require(names)
        keys = [sql.identifier(name) for name in names]
        grouped = self.engine.store(sql.count_by_keys(self.relation, keys), progress)
        with self.engine.discarding([grouped]):
            for batch in self.engine.fetch(grouped):
                yield _as_texts(batch, names)


class Engine(Protocol):
    """Runs SQL on tables. Use it in a `with` block: temporary tables and files go when it ends."""

    name: str
    capabilities: frozenset[Capability]

    def open(self, source: Any, csv_format: CsvFormat | None = None) -> Table:  # noqa: ANN401
        """Opens a source of a kind that is among the capabilities; others are refused."""

    def store(self, query: str, progress: Progress | None = None) -> str:
        """Runs a query and keeps its result inside the engine; returns the relation that stands for it."""

    def fetch(self, relation: str) -> Generator[pa.RecordBatch]:
        """Hands out a stored result, a batch at a time: at least one, which may be empty."""

    def put(self, table: pa.Table) -> str:
        """Brings a small table into the engine; returns the relation that stands for it."""

    def discard(self, *relations: str) -> None:
        """Forgets stored results."""

    @contextlib.contextmanager
    def discarding(self, relations: Sequence[str]) -> Generator[None]:
        """A block after which stored results are forgotten: those in the list by then, last first."""
        try:
            yield
        except BaseException:
            # What ended the block is to be told, an interrupt above all, not what goes wrong after it.
            with contextlib.suppress(ElldeltaError):
                self.discard(*reversed(relations))
            raise
        self.discard(*reversed(relations))

    def run_each(self, job: Job, n_jobs: int, progress: Progress | None = None) -> Iterable[Any]:
        """The results of jobs 0, 1, 2, ... on its workers, in their order."""
        require(self, "jobs", "plan regions")
        raise NotImplementedError

    def close(self) -> None:
        """Gives up everything the engine holds."""

    def __enter__(self) -> Self:
        """Enters the block in which the engine is used."""
        return self

    def __exit__(self, *problem: object) -> None:
        """Closes the engine."""
        # What went wrong inside the block is what its owner must hear of, not that the engine is gone too.
        try:
            self.close()
        except ElldeltaError:
            if problem[0] is None:
                raise


def require(engine: Engine, capability: Capability, doing: str) -> None:
    """Refuses what an engine cannot do, with the engine that can.

    Args:
        engine: The engine.
        capability: What it would have to be able to do.
        doing: Words for what was asked for, such as "read past.csv".
    """
    if capability in engine.capabilities:
        return
    able = [words for name, (words, _) in _WORDS.items() if name in engine.capabilities]
    raise ParameterError(
        f"The engine {engine.name} cannot {doing}.",
        found=f"What it can do: {'; '.join(able)}.",
        remedy=_WORDS[capability][1],
        parameter="engine",
    )


def withheld(error: BaseException) -> InternalError:
    """The error for what nobody has foreseen an engine to say."""
    return InternalError(
        "The engine refused a query.",
        found=f"It raised {type(error).__name__}; its message is withheld, because it may quote records.",
        remedy="Please report what you did, without the data.",
    )


def _as_texts(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = []
    for place, name in enumerate(names):
        try:
            columns.append(as_text(batch.column(place)))
        except UnreadableTypeError:
            raise DataError(
                f"Column {name!r} does not hold values that can be written as text.",
                found="Its type is a list, a structure or a kind of its own.",
                remedy="Convert the column, or leave it out.",
            ) from None
    return pa.RecordBatch.from_arrays([*columns, batch.column(len(names))], names=[*batch.schema.names])
