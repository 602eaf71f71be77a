"""Finding the files of a table: files, folders and globs; CSV or Parquet."""

from __future__ import annotations

import glob
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elldelta.errors import DataError, ElldeltaError, FileError, ParameterError
from elldelta.files import CsvFormat, CsvHeader, damaged_csv, read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FileFormat = Literal["csv", "parquet"]

_SUFFIXES: dict[str, FileFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
}
_KNOWN = ", ".join(_SUFFIXES)


@dataclass(frozen=True)
class SourceFile:
    """One file of a table.

    Attributes:
        path: Where it is.
        names: Its columns, in their order.
        signature: Files with equal signatures can be read together: format, names, and types or separator.
        n_rows: The number of records, where the file tells.
        header: What the beginning of a CSV file tells; None for Parquet.
        types: The Arrow types of the columns of a Parquet file, as text.
    """

    path: Path
    names: tuple[str, ...]
    signature: tuple[object, ...]
    n_rows: int | None
    header: CsvHeader | None
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceTable:
    """Files that together are one table.

    Attributes:
        files: The files.
        columns: The columns that all of them have, in the order of the first one.
        partial: Columns that some files have and others lack.
        hidden: Columns whose names differ from another one only in upper and lower case.
    """

    files: tuple[SourceFile, ...]
    columns: tuple[str, ...]
    partial: frozenset[str]
    hidden: frozenset[str]

    @classmethod
    def find(cls, source: Any, csv_format: CsvFormat) -> SourceTable:  # noqa: ANN401 (checked by find_files)
        """Finds the files of a source and reads their columns; refuses what is no table."""
        files = tuple(inspect_file(path, csv_format) for path in find_files(source))
        names = [set(file.names) for file in files]
        hidden = frozenset(itertools.chain.from_iterable(hidden_names(file.names) for file in files))
        shared = set.intersection(*names) - hidden
        columns = tuple(name for name in files[0].names if name in shared)
        if not columns:
            raise DataError(
                "The files have no column in common.",
                found=f"There are {len(files)} files.",
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
        return str(self.files[0].path) if len(self.files) == 1 else f"the {len(self.files)} files"

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where the files are."""
        return tuple(file.path for file in self.files)


def format_of(path: str | os.PathLike[str]) -> FileFormat:
    """CSV or Parquet, told by the end of the name (before .gz)."""
    name = Path(path).name.lower().removesuffix(".gz")
    try:
        return _SUFFIXES[Path(name).suffix]
    except KeyError:
        raise FileError(
            f"The format of {os.fspath(path)} is not known.",
            found="The end of its name does not tell.",
            remedy=f"Use a name that ends in one of {_KNOWN}.",
        ) from None


def find_files(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """The files of a source: a file, a folder (searched to its bottom), a glob, or several of them.

    A name that exists is taken as it is, even if it holds characters of a glob.
    """
    parts: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    if not all(isinstance(part, str | os.PathLike) for part in parts):
        raise ParameterError(
            "A table is given as a file, a folder, a glob, several of them, or a table in memory.",
            found=f"It is of type {type(source).__name__}.",
            remedy="Give a path, a list of paths, or a table of pandas, Polars or Arrow.",
        )
    files = [file for part in parts for file in _expand(part)]
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
    if format_of(path) == "csv":
        header = read_header(path, csv_format)
        names = _named(header.names)
        check_distinct(str(path), names)
        return SourceFile(path, names, ("csv", names, header.separator, header.is_gzip), None, header)
    schema, n_rows = _parquet_head(path)
    names = tuple(schema.names)
    check_distinct(str(path), names)
    types = tuple(map(str, schema.types))
    return SourceFile(path, names, ("parquet", names, types), n_rows, None, types)


def hidden_names(names: tuple[str, ...]) -> frozenset[str]:
    """Names that differ from another one only in upper and lower case, which engines cannot tell apart."""
    folded = [name.casefold() for name in names]
    return frozenset(name for name in names if folded.count(name.casefold()) > 1)


def _expand(part: str | os.PathLike[str]) -> Iterator[Path]:
    text = os.fspath(part)
    path = Path(text)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if _is_table_in(path, file))
        if not found:
            raise FileError(
                f"The folder {text} holds no table.",
                found=f"No file in it ends in one of {_KNOWN}.",
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
        raise FileError(f"There is no file {text}.", found="It does not exist.", remedy="Check its name.")


def _is_table_in(folder: Path, file: Path) -> bool:
    # Names that begin with . or _ are how engines mark what is not data: unfinished files, success marks.
    parts = file.relative_to(folder).parts
    known = Path(file.name.lower().removesuffix(".gz")).suffix in _SUFFIXES
    return known and file.is_file() and not any(part.startswith((".", "_")) for part in parts)


def _parquet_head(path: Path) -> tuple[Any, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    problem: ElldeltaError
    try:
        with pq.ParquetFile(path) as file:
            return file.schema_arrow, file.metadata.num_rows
    except PermissionError:
        problem = damaged_csv(path, "Reading it is not permitted.")
    except (pa.ArrowException, OSError):
        problem = FileError(
            f"{path} is not a whole Parquet file.",
            found="Its end, which describes the table, is missing or damaged.",
            remedy="Check that it is a Parquet file and was copied completely.",
        )
    raise problem


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
