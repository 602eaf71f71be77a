"""DuckDB, the default engine: embedded, out of core, without a network."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from elldelta.engines import sql
from elldelta.engines.sources import (
    Query,
    SourceFile,
    SourceTable,
    TableName,
    columns_apart,
    is_frame,
)
from elldelta.engines.table import (
    Capability,
    Engine,
    Progress,
    Table,
    TableColumn,
    ValueKind,
    require,
    withheld,
)
from elldelta.engines.task import Task, private_folder
from elldelta.errors import DataError, ElldeltaError, FileError
from elldelta.files import CsvFormat, recount, transcode, wrong_encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    Result = TypeVar("Result")

MEMORY_LIMIT = "576MiB"
"""So that a whole command stays below 1 GiB: Python, Arrow and compiled programs take up to 350 MiB more."""
_BATCH_ROWS = 1 << 18
_ABOUT_A_FILE = re.compile(r"""\b[Ff]ile ["'(]|\bParquet\b""")
_KINDS: dict[str, ValueKind] = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "real"),
    **dict.fromkeys(("VARCHAR", "ENUM"), "text"),
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}


def connect(
    *,
    memory_limit: str = MEMORY_LIMIT,
    threads: int | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
) -> DuckDBEngine:
    """Starts DuckDB.

    Args:
        memory_limit: How much memory it may use before it moves intermediate results to disk.
        threads: How many threads it may use; all processors by default.
        temp_directory: Where it may write intermediate results; the system's place by default. A private
            folder is made inside, and removed at the end.
    """
    return DuckDBEngine(memory_limit, threads, temp_directory)


class DuckDBEngine(Engine):
    """DuckDB behind the engine contract; see `elldelta.engines.table`."""

    name = "duckdb"
    capabilities: frozenset[Capability] = frozenset({"files", "formats"})

    def __init__(
        self, memory_limit: str, threads: int | None, temp_directory: str | os.PathLike[str] | None
    ) -> None:
        self._numbers = itertools.count()
        self._copies: dict[Path, Path] = {}
        self._formats: dict[Path, str] = {}
        self._lost = self._has_failed = False
        self._interrupt: Callable[[], object] = lambda: None
        self._folder, self._removal = private_folder(self, temp_directory)
        # Nine tenths of what is free: a query that needs more must fail, not fill the disk for everyone.
        room = shutil.disk_usage(self._folder).free * 9 // 10
        self._config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": memory_limit,
            "temp_directory": str(self._folder / "spill"),
            "max_temp_directory_size": f"{room // 1024 + 1}KiB",
            "preserve_insertion_order": "false",
            "enable_external_file_cache": "false",
            # With threads for files, DuckDB 2.0 can wait for itself for ever when a COPY is interrupted.
            "async_threads": "0",
        }
        if threads is not None:
            self._config["threads"] = str(threads)
        try:
            self._start()
        except BaseException:
            self._removal()
            raise

    def open(self, source: Any, csv_format: CsvFormat | None = None) -> Table:  # noqa: ANN401
        """Opens files, folders, globs, or a table in memory."""
        self._start_again()
        if is_frame(source):
            return self._open_frame(source)
        if isinstance(source, Query | TableName):
            require(self, "tables", "read a database")
        csv_format = csv_format or CsvFormat()
        found = SourceTable.find(source, csv_format, self._folder)
        self._formats.update((file.path, file.format) for file in found.files)
        parts = [self._scan(group, found.columns, csv_format) for group in found.groups]
        view = self._view(" UNION ALL ".join(parts))
        return Table(
            engine=self,
            relation=view,
            columns=self._columns(view),
            n_rows=self._recount(found, csv_format) if found.n_rows is None else found.n_rows,
            origin=found.origin,
            partial=found.partial,
            hidden=found.hidden,
            files=found.paths,
        )

    def store(self, query: str, progress: Progress | None = None) -> str:
        """Runs a query and keeps its result; returns the relation that stands for it."""
        # Stored first and fetched then, not streamed: the stream would not hear Ctrl-C.
        relation = self._name()
        self._execute(f"CREATE TEMP TABLE {relation} AS {query}", progress)
        return relation

    def fetch(self, relation: str) -> Generator[pa.RecordBatch]:
        """Hands out a stored result, a batch at a time."""
        query = f"SELECT * FROM {relation}"  # noqa: S608 (a name made here)
        # In a list, not returned: an interrupt may come when the reader is open, and nobody has it yet.
        readers: list[pa.RecordBatchReader] = []
        n_batches = 0
        try:
            self._run(
                lambda: readers.append(self._connection.sql(query).to_arrow_reader(_BATCH_ROWS)), "read"
            )
            [reader] = readers
            while (batch := self._run(lambda: next(reader, None), "read")) is not None:
                n_batches += 1
                yield _decoded(batch)
        finally:
            if not self._lost:
                for reader in readers:
                    reader.close()  # an open reader holds the connection
        if n_batches == 0:
            yield _decoded(
                pa.RecordBatch.from_arrays(
                    [pa.array([], field.type) for field in reader.schema], schema=reader.schema
                )
            )

    def put(self, table: pa.Table) -> str:
        """Brings a small table in; returns the relation that stands for it."""
        view = f"given_{next(self._numbers)}"
        self._run(lambda: self._connection.register(view, table), "read")
        try:
            return self.store(f"SELECT * FROM {view}")  # noqa: S608 (a name made here)
        finally:
            self._run(lambda: self._connection.unregister(view), "read")

    def discard(self, *relations: str) -> None:
        """Forgets stored results."""
        for relation in relations:
            self._execute(f"DROP TABLE IF EXISTS {relation}")

    def close(self) -> None:
        """Gives up the connection and everything on disk."""
        if not self._lost:
            self._connection.close()
        self._removal()

    def _start(self) -> None:
        self._connection = self._run(lambda: duckdb.connect(":memory:", config=self._config), "start")
        self._interrupt = self._connection.interrupt
        # Names in SQL are names of tables here, never variables of some caller.
        self._execute("SET python_enable_replacements = false")
        self._execute("SET TimeZone = 'UTC'")
        # In a notebook without ipywidgets DuckDB cannot tell how far it is; it works all the same.
        with contextlib.suppress(duckdb.Error):
            self._connection.execute("SET enable_progress_bar_print = false")
            self._connection.execute("SET enable_progress_bar = true")
        self._execute("CREATE TEMP MACRO regexp_like(words, form) AS regexp_matches(words, form)")

    def _start_again(self) -> None:
        """Replaces a database that has failed: it would answer nothing more, not even about other tables."""
        if self._has_failed and not self._lost:
            self._connection.close()
            self._formats.clear()  # nothing of what was read before is there any more
            self._start()
            self._has_failed = False

    def _open_frame(self, frame: object) -> Table:
        table, hidden = columns_apart(frame)
        view = self._name()
        # Under a name of its own: DuckDB would otherwise look for variables of the caller.
        self._run(lambda: self._connection.register(view.strip('"'), table), "read")
        return Table(self, view, self._columns(view), table.num_rows, "the table", hidden=hidden, given=frame)

    def _scan(self, files: Sequence[SourceFile], columns: Iterable[str], csv_format: CsvFormat) -> str:
        """A query for the columns of files that can be read together."""
        header = files[0].header
        if header is None:
            shown = ", ".join(map(sql.identifier, columns))
            return f"SELECT {shown} FROM {self._scanned(files, columns)}"  # noqa: S608
        paths = [file.path for file in files]
        is_gzip = header.is_gzip
        if header.encoding not in {"utf-8", "ascii"}:
            detected = replace(csv_format, encoding=header.encoding)
            paths, is_gzip = [self._transcoded(path, detected) for path in paths], False
        # Columns are read by their places: what they are called cannot disturb the reader.
        places = {name: f"c{place}" for place, name in enumerate(files[0].names)}
        options = [
            "[" + ", ".join(map(self._path, paths)) + "]",
            "auto_detect = false",
            "header = true",
            "columns = {" + ", ".join(f"{place}: 'VARCHAR'" for place in places.values()) + "}",
            f"delim = {sql.text(header.separator)}",
            f"quote = {sql.text(csv_format.quote)}",
            f"escape = {sql.text(csv_format.quote)}",
            "nullstr = ''",
            "allow_quoted_nulls = false",
            "hive_partitioning = false",
            f"compression = {sql.text('gzip' if is_gzip else 'none')}",
        ]
        shown = ", ".join(f"{places[name]} AS {sql.identifier(name)}" for name in columns)
        return f"SELECT {shown} FROM read_csv({', '.join(options)})"  # noqa: S608

    def _scanned(self, files: Sequence[SourceFile], columns: Iterable[str]) -> str:
        """What reads files that know their columns."""
        listed = ", ".join(self._path(file.path) for file in files)
        if files[0].format == "parquet":
            return f"read_parquet([{listed}], hive_partitioning = false)"
        if files[0].format == "json":  # as text, like CSV: 01234 stays, and numbers are read by the schema
            types = ", ".join(f"{sql.text(name)}: 'VARCHAR'" for name in columns)
            packed = sql.text("gzip" if files[0].is_gzip else "none")
            form = "format = 'newline_delimited', records = 'true', hive_partitioning = false"
            return f"read_json([{listed}], {form}, compression = {packed}, columns = {{{types}}})"
        from pyarrow import dataset

        view = self._name()
        table = dataset.dataset([os.fspath(file.path) for file in files], format="ipc")
        self._run(lambda: self._connection.register(view.strip('"'), table), "read")
        return view

    def _recount(self, found: SourceTable, csv_format: CsvFormat) -> Callable[[int], int] | None:
        """What counts the records of CSV files once more: DuckDB drops a last one that is very long."""
        copies = {path: copy for copy, path in self._copies.items()}
        separators, n_known = {}, 0
        for file in found.files:
            if file.header is not None:
                separators[copies.get(file.path, file.path)] = file.header.separator
            elif file.n_rows is not None:
                n_known += file.n_rows
            else:
                return None
        return lambda n_read: n_known + recount(separators, csv_format.quote, n_read - n_known)

    def _transcoded(self, path: Path, csv_format: CsvFormat) -> Path:
        copy = self._folder / f"utf8_{next(self._numbers)}.csv"
        transcode(path, csv_format, copy)
        self._copies[copy] = path
        return copy

    def _path(self, path: Path) -> str:
        return sql.text(glob.escape(os.fspath(path.absolute())))

    def _view(self, query: str) -> str:
        view = self._name()
        self._execute(f"CREATE TEMP VIEW {view} AS {query}")
        return view

    def _columns(self, relation: str) -> tuple[TableColumn, ...]:
        query = f"SELECT * FROM {relation} LIMIT 0"  # noqa: S608 (a name made here)
        result = self._run(lambda: self._connection.sql(query), "read")
        kinds = [_KINDS.get(str(kind).partition("(")[0], "other") for kind in result.types]
        return tuple(TableColumn(name, kind) for name, kind in zip(result.columns, kinds, strict=True))

    def _name(self) -> str:
        return sql.identifier(f"elldelta_{next(self._numbers)}")

    def _execute(self, statement: str, progress: Progress | None = None) -> duckdb.DuckDBPyConnection:
        """Executes a statement; tells how far it is."""
        connection = self._connection

        def watch() -> None:
            percent = connection.query_progress() if progress else -1.0
            if progress and percent >= 0:
                progress(min(percent / 100.0, 1.0))

        result = self._run(lambda: connection.execute(statement), "read", watch)
        if progress:
            progress(1.0)
        return result

    def _run(
        self,
        action: Callable[[], Result],
        doing: str,
        watch: Callable[[], object] = lambda: None,
    ) -> Result:
        """Runs an action and hears Ctrl-C; what DuckDB raises is replaced, because its texts quote cells."""
        if self._lost:
            raise KeyboardInterrupt  # nothing can be asked any more; whoever asks is on the way out
        task = Task(action)
        problem: BaseException
        try:
            return task.run(self._interrupt, watch=watch)
        except duckdb.InterruptException:
            problem = KeyboardInterrupt()
        except (duckdb.Error, pa.ArrowException, OSError, UnicodeError) as error:
            self._has_failed |= isinstance(error, duckdb.InternalException | duckdb.FatalException)
            problem = _translated(error, doing, self._copies, self._formats)
        except RuntimeError as error:
            problem = withheld(error)
        finally:
            self._lost = task.is_running
        raise problem  # outside of the handler: nothing of the engine's error hangs on to it


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose texts are texts, also where they were stored coded."""
    columns = [
        column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _translated(
    error: Exception, doing: str, copies: Mapping[Path, Path], formats: Mapping[Path, str]
) -> BaseException:
    """One of our errors for one of DuckDB's; its text is looked at, never passed on.

    Args:
        error: What DuckDB raised.
        doing: What it was doing.
        copies: The files of which copies were made for it, by the copy.
        formats: The formats of the files that were opened, by the file.
    """
    words = str(error)
    if isinstance(error, duckdb.OutOfMemoryException) or "No space left" in words:
        return FileError(
            "There is not enough memory or temporary space for this table.",
            found="The engine reached its limits.",
            remedy="Make room on the disk of the temporary folder, or allow the engine more memory.",
        )
    path = re.search(r"^  file = (.*)$", words, re.MULTILINE)
    name = copies.get(Path(path[1]), Path(path[1])) if path and Path(path[1]).exists() else None
    if "not utf-8 encoded" in words or "Invalid unicode" in words:
        return wrong_encoding(name or Path("The file"), CsvFormat())
    line = re.match(r"Invalid Input Error: CSV Error on Line: (\d+)\n", words)
    if line or "CSV" in words[:80]:
        place, found = f"Line {line[1]}" if line else "A line", "does not have the form of the others"
        fields = re.search(r"^Expected Number of Columns: (\d+) Found: (\d+)$", words, re.MULTILINE)
        if fields:
            found = f"has {fields[2]} fields, the header has {fields[1]}"
        elif re.search(r"^Maximum line size of \d+ bytes exceeded", words, re.MULTILINE):
            found = "is longer than two million characters"
        return FileError(
            f"The CSV file {name} cannot be read." if name else "A CSV file cannot be read.",
            found=f"{place} {found}.",
            remedy="Check separator, quotes and the number of fields there.",
        )
    return _by_class(error, doing, formats)


def _by_class(error: Exception, doing: str, formats: Mapping[Path, str]) -> ElldeltaError:
    if doing == "start":
        return FileError(
            "DuckDB cannot be started.",
            found="It does not accept its settings.",
            remedy="Check memory limit, threads and temporary folder.",
        )
    if _is_damage(error, formats):
        return FileError(
            "A file of the table cannot be read.",
            found="It is damaged, incomplete, or was changed meanwhile.",
            remedy="Check that the files are whole, and try again.",
        )
    if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException | pa.ArrowException):
        return DataError(
            "The table holds values that cannot be converted.",
            found="Columns of the same name may have different types in different files.",
            remedy="Give all parts of a table the same types.",
        )
    return withheld(error)


def _is_damage(error: Exception, formats: Mapping[Path, str]) -> bool:
    """Whether an error is about what stands in a file; one that is not known is not."""
    words = str(error)
    return (
        isinstance(error, duckdb.IOException | duckdb.SerializationException | OSError)
        or (isinstance(error, duckdb.InvalidInputException) and bool(_ABOUT_A_FILE.search(words)))
        # What is found in damaged pages of Parquet comes without a class of its own.
        or ("parquet" in formats.values() and type(error) is duckdb.Error)
        or ("arrow" in formats.values() and "reading the stream" in words)
        # An error of DuckDB's own, which impossible numbers in a file can lead to: another reader judges.
        or (
            isinstance(error, duckdb.InternalException)
            and any(_arrow_refuses(path) for path, kind in formats.items() if kind == "parquet")
        )
    )


def _arrow_refuses(path: Path) -> bool:
    """Whether Arrow finds a Parquet file damaged, too; it is read to its end."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches():
                pass
    except (pa.ArrowInvalid, OSError):
        return True
    except pa.ArrowException:  # it cannot read everything
        return False
    return False
