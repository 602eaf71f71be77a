"""Use case: value hierarchies for the columns of a schema or a model, checked before anything long runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.errors import ParameterError
from elldelta.files.text_file import read_text
from elldelta.schema.hierarchy import HierarchyRows, renamed
from elldelta.schema.hierarchy_file import read_rows, write_hierarchy

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from elldelta.files.csv_format import CsvFormat
    from elldelta.schema.hierarchy_problems import Problem
    from elldelta.schema.schema import Column, Schema


@dataclass(frozen=True)
class CheckedHierarchy:
    """What is in a file, and everything that is wrong with it for a column."""

    rows: HierarchyRows
    column: Column
    problems: tuple[Problem, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The problems in words."""
        return tuple(problem.sentence(self.rows.unit) for problem in self.problems)


def read_hierarchies(
    files: Mapping[str, str | os.PathLike[str]], csv_format: CsvFormat | None = None
) -> dict[str, HierarchyRows]:
    """The rows of a file per column, right or wrong."""
    return {name: read_rows(path, csv_format) for name, path in files.items()}


def check_hierarchy(
    path: str | os.PathLike[str], schema: Schema, column: str, csv_format: CsvFormat | None = None
) -> CheckedHierarchy:
    """Lists everything that is wrong with a file for a column of a schema."""
    found = column_named(schema, column)
    rows = read_rows(path, csv_format)
    return CheckedHierarchy(rows, found, rows.problems(found.domain))


def rename_hierarchy(
    path: str | os.PathLike[str],
    schema: Schema,
    column: str,
    target: str | os.PathLike[str],
    *,
    csv_format: CsvFormat | None = None,
    overwrite: bool = False,
) -> int:
    """Writes a hierarchy whose misleading groups are named by what they hold; says how many there were."""
    rows = read_rows(path, csv_format)
    hierarchy, n_renamed = renamed(rows, column_named(schema, column).domain)
    write_hierarchy(hierarchy, target, overwrite=overwrite)
    return n_renamed


def read_codes(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The codes of a text file, one per line, each once; empty lines are passed over."""
    text = read_text(path, "file", remedy="Give a file in UTF-8 with one code per line.")
    return tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def column_named(schema: Schema, name: str) -> Column:
    """The quasi-identifier with this name."""
    for column in schema.quasi_identifiers:
        if column.name == name:
            return column
    raise ParameterError(
        "Only quasi-identifiers have hierarchies.",
        found=f"There is no quasi-identifier {name!r}.",
        remedy=f"Choose from: {', '.join(schema.names)}.",
    )
