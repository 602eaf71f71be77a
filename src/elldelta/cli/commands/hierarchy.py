"""`elldelta hierarchy`: make files of value hierarchies, and check those that exist."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command, family
from elldelta.errors import ParameterError, counted
from elldelta.parameters import DateUnit, Doc

if TYPE_CHECKING:
    from elldelta.schema.hierarchy import Hierarchy

_RANGE = re.compile(r"(-?\d{1,18})(?:-|\.\.)(-?\d{1,18})", re.ASCII)

ColumnName = Annotated[str, typer.Option("--column", help="The quasi-identifier that the file is for.")]
HierarchyFile = Annotated[Path, typer.Argument(help="One line per value: value;group;...;root, no header.")]


_FAMILY = family("hierarchy", "Groups of values, groups of groups, up to a root: make and check their files.")


@command("make", example="hierarchy make --integers 17-90 --widths 5,10,20 -o age.csv", home=_FAMILY)
def _make(
    target: options.Output,
    integers: Annotated[str, Doc("The smallest and the largest number, such as 17-90 or -5..40.")] = "",
    widths: Annotated[
        str,
        Doc("With --integers: widths of the ranges, each a multiple of the last."),
    ] = "5,10,20",
    start: Annotated[int, Doc("With --integers: a number at which ranges begin.", panel="Expert")] = 0,
    dates: Annotated[str, Doc("The first and the last day, such as 2020-01-01..2022-12-31.")] = "",
    unit: Annotated[
        DateUnit, Doc("With --dates: what the leaves are: day, month or year.", panel="Expert")
    ] = "day",
    codes: Annotated[Path | None, Doc("A text file with one code per line.")] = None,
    prefix: Annotated[str, Doc("With --codes: lengths of the prefixes, falling, such as 4,2.")] = "",
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Make a hierarchy by a rule: ranges of numbers, months and years of dates, prefixes of codes."""
    from elldelta.files import check_writable
    from elldelta.schema.hierarchies import write_hierarchy

    if sum((bool(integers), bool(dates), codes is not None)) != 1:
        raise ParameterError(
            "Give exactly one of --integers, --dates and --codes.",
            remedy="For example: --integers 17-90 --widths 5,10,20.",
        )
    check_writable(target, overwrite=overwrite)
    if integers:
        made = _of_integers(integers, widths, start)
    elif dates:
        made = _of_dates(dates, unit)
    else:
        made = _of_codes(codes, prefix)
    write_hierarchy(made, target, overwrite=overwrite)
    output.print_result(
        {"hierarchy": str(target), "leaves": len(made.rows), "levels": made.n_levels},
        f"The first line: {';'.join(made.rows[0])}",
        f"Wrote {target}: {counted(len(made.rows), 'leaf', 'leaves')}, {counted(made.n_levels, 'level')}.",
        as_json=json,
    )


@command("check", example="hierarchy check age.csv --schema schema.toml --column age", home=_FAMILY)
def _check(
    file: HierarchyFile,
    schema: options.SchemaFile,
    column: ColumnName,
    *,
    csv: options.Csv,
    json: options.Json = False,
) -> None:
    """List everything that is wrong with a hierarchy for a column. Exit code 2 if anything is."""
    from elldelta.schema.hierarchies import read_rows
    from elldelta.schema.schema_file import read_schema

    domain = read_schema(schema).quasi_identifier(column).domain
    rows = read_rows(file, csv.format)
    problems = rows.problems(domain)
    listed = [problem.to_dict(rows.unit) for problem in problems]
    if json:
        found = {"leaves": len(rows.rows), "usable": not problems, "problems": listed}
        output.print_json({"hierarchy": str(file), "column": column, **found})
    elif problems:
        output.print_text(f"{file} cannot be used for column {column!r}:")
        output.print_text(*(f"  - {each['problem']}" for each in listed))
    else:
        leaves = counted(len(rows.rows), "leaf", "leaves")
        output.print_text(f"{file} fits column {column!r}: {leaves} for {counted(domain.size, 'value')}.")
    if problems:
        raise typer.Exit(2)


def _of_integers(text: str, widths: str, start: int) -> Hierarchy:
    from elldelta.schema.hierarchies import integer_hierarchy

    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ParameterError(
            "--integers must be two whole numbers.",
            found=f"It is {text!r}.",
            remedy="Write 17-90, or -5..40 if one is negative.",
        )
    steps = options.whole_numbers(widths, "--widths", "5,10,20")
    return integer_hierarchy(int(match[1]), int(match[2]), steps, start=start)


def _of_dates(text: str, unit: DateUnit) -> Hierarchy:
    from elldelta.schema.hierarchies import date_hierarchy

    first, _, last = text.strip().partition("..")
    try:
        low, high = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    except ValueError:
        raise ParameterError(
            "--dates must be two days.", found=f"It is {text!r}.", remedy="Write 2020-01-01..2022-12-31."
        ) from None
    return date_hierarchy(low, high, unit)


def _of_codes(path: Path | None, prefix: str) -> Hierarchy:
    from elldelta.schema.hierarchies import code_hierarchy, read_codes

    codes = read_codes(path) if path else ()
    return code_hierarchy(codes, options.whole_numbers(prefix, "--prefix", "4,2") if prefix else None)
