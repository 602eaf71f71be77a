"""Use case: value hierarchies for the columns of a schema or a model, checked before anything long runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from elldelta.data.hierarchy import Hierarchy, HierarchyRows, renamed
from elldelta.data.hierarchy_file import read_rows, write_hierarchy
from elldelta.data.hierarchy_problems import refusal
from elldelta.data.model import reordered
from elldelta.data.text_file import read_text
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from elldelta.data.csv_format import CsvFormat
    from elldelta.data.hierarchy_problems import Problem
    from elldelta.data.model import Model
    from elldelta.data.schema import Column, Schema


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


def with_hierarchies(model: Model, hierarchies: Mapping[str, HierarchyRows | Hierarchy]) -> Model:
    """The model with hierarchies for some quasi-identifiers, in the order that they ask for.

    Raises:
        SchemaError: Lists everything that is wrong with any of the hierarchies.
    """
    if not hierarchies:
        return model
    written = {
        name: HierarchyRows(given.rows) if isinstance(given, Hierarchy) else given
        for name, given in hierarchies.items()
    }
    schema = model.schema
    checked = {name: CheckedHierarchy(rows, c, rows.problems(c.domain))
               for name, rows in written.items() for c in (column_named(schema, name),)}  # fmt: skip
    wrong = {name: each for name, each in checked.items() if each.problems}
    if wrong:
        raise refusal(
            f"{' and '.join(each.rows.source for each in wrong.values())} cannot be used.",
            [f"Column {name!r}: {text}" for name, each in wrong.items() for text in each.sentences],
            can_rename=all(p.kind == "ambiguous" for each in wrong.values() for p in each.problems),
        )
    columns = tuple(
        replace(column, hierarchy=written[column.name].checked(column.domain))
        if column.name in written
        else column
        for column in schema.quasi_identifiers
    )
    return reordered(model, replace(schema, quasi_identifiers=columns))


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
