"""What can be read as a table: files, folders and globs; tables in memory; a table or query of a database.

Files are CSV, Parquet, Arrow (Feather) or JSON lines. None of the libraries for tables in memory but Arrow is
needed to run elldelta, so a table is recognised by what it can do (the Arrow PyCapsule interface), not by its
class; the same kind goes out again.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.engines import sql
from elldelta.engines.formats import (
    READABLE,
    STANDARD_INPUT,
    SourceFormat,
    json_keys,
    source_format,
    standard_input,
    suffix_is_gz,
    suffix_of,
    table_head,
)
from elldelta.errors import DataError, FileError, ParameterError, counted
from elldelta.files import CsvFormat, CsvHeader, no_file, read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

_PART = r'(?:[a-z_][a-z0-9_$]*|"(?:[^"\0]|"")+")'
_NAME = re.compile(rf"(?:(?P<schema>{_PART})[.])?(?P<name>{_PART})", re.IGNORECASE)
_MOST_BYTES = 63


@dataclass(frozen=True)
class SourceFile:
    """One file of a table.

    Attributes:
        path: Where it is.
        names: Its columns, in their order.
        signature: Files with equal signatures can be read together: format, names, and types or separator.
        n_rows: The number of records, where the file tells.
        header: What the beginning of a CSV file tells; None for other files.
        types: The Arrow types of the columns of a Parquet or Arrow file, as text.
    """

    path: Path
    names: tuple[str, ...]
    signature: tuple[object, ...]
    n_rows: int | None = None
    header: CsvHeader | None = None
    types: tuple[str, ...] = ()

    @property
    def format(self) -> SourceFormat:
        """How it is written."""
        return source_format(self.path)

    @property
    def is_gzip(self) -> bool:
        """Whether it is compressed as a whole."""
        return suffix_is_gz(self.path) if self.header is None else self.header.is_gzip


@dataclass(frozen=True)
class SourceTable:
    """Files that together are one table.

    Attributes:
        files: The files.
        columns: The columns that all of them have, in the order of the first one.
        partial: Columns that some files have and others lack.
        hidden: Columns whose names engines cannot ask for (`hidden_names`).
    """

    files: tuple[SourceFile, ...]
    columns: tuple[str, ...]
    partial: frozenset[str]
    hidden: frozenset[str]

    @classmethod
    def find(cls, source: Any, csv_format: CsvFormat, folder: Path) -> SourceTable:  # noqa: ANN401 (checked)
        """Finds the files of a source and reads their columns; refuses what is no table.

        Args:
            source: Files, folders, globs, or `-` for standard input.
            csv_format: How CSV files are written.
            folder: A private folder for what comes from standard input.
        """
        files = tuple(inspect_file(path, csv_format) for path in find_files(source, folder))
        names = [set(file.names) for file in files]
        hidden = frozenset(itertools.chain.from_iterable(hidden_names(file.names) for file in files))
        shared = set.intersection(*names) - hidden
        columns = tuple(name for name in files[0].names if name in shared)
        if not columns:
            raise DataError(
                "The files have no column in common.",
                found=f"There are {counted(len(files), 'file')}.",
                remedy="Give files of the same kind; check that each begins with a header.",
            )
        return cls(files, columns, frozenset(set.union(*names) - shared - hidden), hidden)

    @property
    def groups(self) -> tuple[tuple[SourceFile, ...], ...]:
        """The files by what can be read together."""
        groups: dict[tuple[object, ...], list[SourceFile]] = {}
        for file in self.files:
            groups.setdefault(file.signature, []).append(file)
        return tuple(map(tuple, groups.values()))

    @property
    def n_rows(self) -> int | None:
        """The number of records, where all files tell."""
        counted = [file.n_rows for file in self.files]
        return None if None in counted else sum(n for n in counted if n is not None)

    @property
    def origin(self) -> str:
        """Words for the files, for messages."""
        if len(self.files) > 1:
            return f"the {counted(len(self.files), 'file')}"
        path = self.files[0].path
        return STANDARD_INPUT if path.name.startswith(STANDARD_INPUT) else str(path)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where the files are."""
        return tuple(file.path for file in self.files)


def find_files(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], folder: Path | None = None
) -> tuple[Path, ...]:
    """The files of a source: a file, a folder (searched to its bottom), a glob, or several of them.

    A name that exists is taken as it is, even if it holds characters of a glob. What comes from standard
    input (`-`) becomes a file in the folder that is given.
    """
    parts: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    if not all(isinstance(part, str | os.PathLike) for part in parts):
        raise ParameterError(
            "A table is given as a file, a folder, a glob, several of them, or a table in memory.",
            found=f"It is of type {type(source).__name__}.",
            remedy="Give a path, a list of paths, or a table of pandas, Polars or Arrow.",
        )
    files = [
        file
        for part in parts
        for file in ([standard_input(folder)] if folder and os.fspath(part) == "-" else _expand(part))
    ]
    if not files:
        raise FileError("There is no file to read.", found="The list of files is empty.")
    if len({file.resolve() for file in files}) < len(files):
        raise FileError(
            "A file is named twice.",
            found="Its records would be counted twice.",
            remedy="Name each file once; a folder or a glob may already hold it.",
        )
    return tuple(files)


def inspect_file(path: Path, csv_format: CsvFormat) -> SourceFile:
    """Reads the columns of a file; refuses what is no table."""
    kind = source_format(path)
    if kind == "csv":
        header = read_header(path, csv_format)
        names = _named(header.names)
        check_distinct(str(path), names)
        return SourceFile(
            path, names, (kind, names, header.separator, header.encoding, header.is_gzip), None, header
        )
    if kind == "json":
        names = json_keys(path)
        return SourceFile(path, names, (kind, names, suffix_is_gz(path)))
    schema, n_rows = table_head(path)
    names = tuple(schema.names)
    check_distinct(str(path), names)
    types = tuple(map(str, schema.types))
    return SourceFile(path, names, (kind, names, types), n_rows, None, types)


def hidden_names(names: tuple[str, ...]) -> frozenset[str]:
    """Names that engines cannot ask for: empty, with a zero byte, or like another one but for its case."""
    times = Counter(name.casefold() for name in names)
    return frozenset(name for name in names if not sql.is_name(name) or times[name.casefold()] > 1)


def _expand(part: str | os.PathLike[str]) -> Iterator[Path]:
    text = os.fspath(part)
    path = Path(text)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if _is_table_in(path, file))
        if not found:
            raise FileError(
                f"The folder {text} holds no table.",
                found=f"No file in it ends in one of {', '.join(READABLE)}.",
                remedy="Name the files.",
            )
        yield from found
    elif path.exists():
        yield path
    elif glob.has_magic(text):
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))  # noqa: PTH207
        if not matches:
            raise FileError(
                f"No file matches {text}.", found="The glob is empty.", remedy="Check its spelling."
            )
        for match in matches:
            yield from _expand(match)
    else:
        raise no_file(text)


def _is_table_in(folder: Path, file: Path) -> bool:
    # Names that begin with . or _ are how engines mark what is not data: unfinished files, success marks.
    parts = file.relative_to(folder).parts
    return (
        suffix_of(file) in READABLE
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in parts)
    )


def _named(names: tuple[str, ...]) -> tuple[str, ...]:
    # The index that data frames like to write has no name; it must not be in the way of the rest.
    taken = set(names)
    named = []
    for place, name in enumerate(names, start=1):
        substitute = f"column_{place}"
        while not name and substitute in taken:
            substitute += "_"
        named.append(name or substitute)
    return tuple(named)


def check_distinct(origin: str, names: Iterable[str]) -> None:
    """Refuses a table in which two columns have the same name."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in seen:
            # By their places: in a file without a header the names would be the cells of its first record.
            raise DataError(
                f"Two columns of {origin} have the same name.",
                found=f"They are columns {seen[name]} and {place}.",
                remedy="Give every column its own name.",
            )
        seen[name] = place


def is_frame(source: object) -> bool:
    """Whether something is a table in memory."""
    return hasattr(source, "__arrow_c_stream__") or _library(source) in {"pandas", "polars"}


def to_arrow(frame: Any) -> pa.Table:  # noqa: ANN401 (recognised by what it can do)
    """Any table in memory as an Arrow table; the index of a pandas table is left behind."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    table = None
    try:
        if _library(frame) == "pandas":
            table = pa.Table.from_pandas(frame, preserve_index=False)
        elif hasattr(frame, "__arrow_c_stream__"):
            table = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # Arrow's message quotes cells; the error below is raised outside, so that nothing carries it
    if table is None:
        raise DataError(
            "The table cannot be converted to Arrow.",
            found=f"It is a {type(frame).__name__}; a column may mix values of different types.",
            remedy="Give a table whose columns have one type each (a lazy table must be collected first).",
        )
    return table


def columns_apart(frame: object) -> tuple[pa.Table, frozenset[str]]:
    """A table in memory without the columns that engines could not tell apart, and the names of these."""
    table = to_arrow(frame)
    check_distinct("the table", table.column_names)
    hidden = hidden_names(tuple(table.column_names))
    return table.select([name for name in table.column_names if name not in hidden]), hidden


def from_arrow(table: pa.Table, like: object) -> Any:  # noqa: ANN401 (the kind of table that was given)
    """An Arrow table as the same kind of table as `like`."""
    library = _library(like)
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        return sys.modules["polars"].from_arrow(table)
    return table


def ordered_texts(frame: object, files: Sequence[Path], name: str) -> tuple[str, ...] | None:
    """The values of an ordered categorical column in their order; None if it is none, or files disagree."""
    import pyarrow as pa

    try:
        parts = [to_arrow(frame).column(name)] if is_frame(frame) else [_first(path, name) for path in files]
        parts = [part for part in parts if part.type.ordered]
        orders = {tuple(chunk.dictionary.to_pylist()) for part in parts for chunk in part.chunks}
    except (KeyError, AttributeError, IndexError, DataError, pa.ArrowException, OSError):
        return None  # no such column, or no dictionary; what is damaged is told where it is read
    order = orders.pop() if len(orders) == 1 else ()
    return order if order and all(isinstance(value, str) for value in order) else None


def _first(path: Path, name: str) -> pa.ChunkedArray:
    """A column of the first part of a file that describes its columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if source_format(path) == "parquet":
        with pq.ParquetFile(path) as file:
            return file.read_row_group(0, columns=[name]).column(name)
    if source_format(path) == "arrow":
        with pa.OSFile(str(path)) as source:
            return pa.Table.from_batches([pa.ipc.open_file(source).get_batch(0)]).column(name)
    return pa.chunked_array([], pa.string())


def _library(frame: object) -> str:
    return type(frame).__module__.partition(".")[0]


@dataclass(frozen=True)
class TableName:
    """The name of a table in a database, with its schema if that was given.

    Attributes:
        name: The table, spelt as the database spells it.
        schema: Its schema; None for the first place where the database finds the name.
    """

    name: str
    schema: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Reads `patients`, `public.patients` or `"Public"."My patients"`.

        As in SQL, a part without quotes is taken in lower case.

        >>> TableName.parse('Public."My patients"')
        TableName(name='My patients', schema='public')
        """
        found = _NAME.fullmatch(text.strip())
        if found is None:
            raise ParameterError(
                f"{text!r} is not the name of a table.",
                found="A name is table or schema.table, of letters, digits and _.",
                remedy='Put quotes around a part with other characters, as in public."My patients".',
            )
        schema = found["schema"]
        return cls(_unquoted(found["name"]), None if schema is None else _unquoted(schema))

    def __post_init__(self) -> None:
        for part in (self.name, self.schema):
            # The database would cut a longer one, and then mean another table.
            if part is not None and len(part.encode()) > _MOST_BYTES:
                raise ParameterError(
                    f"A name in a database has at most {_MOST_BYTES} bytes.",
                    found=f"One of {len(part.encode())} was given.",
                    remedy="Choose a shorter name.",
                )

    def __str__(self) -> str:
        return ".".join(map(_shown, self._parts))

    @property
    def quoted(self) -> str:
        """The name as it enters SQL."""
        return ".".join(map(sql.identifier, self._parts))

    @property
    def _parts(self) -> tuple[str, ...]:
        return (self.name,) if self.schema is None else (self.schema, self.name)


@dataclass(frozen=True)
class Query:
    """A query whose result is read as a table; it must not write anything."""

    text: str

    def __post_init__(self) -> None:
        text = self.text.strip().rstrip("; \t\r\n")
        if not text or "\0" in text:
            raise ParameterError(
                "The query is empty.", found="There is no text.", remedy='Write, for instance, "SELECT ...".'
            )
        object.__setattr__(self, "text", text)


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()


def _shown(part: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", part)
    return part if plain else sql.identifier(part)
