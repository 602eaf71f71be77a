"""`elldelta hierarchy`: make files of value hierarchies, and check those that exist."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elldelta.choices import DateUnit
from elldelta.cli import options, output
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.schema.hierarchy import Hierarchy

_RANGE = re.compile(r"(-?\d{1,18})(?:-|\.\.)(-?\d{1,18})", re.ASCII)

ColumnName = Annotated[str, typer.Option("--column", help="The quasi-identifier that the file is for.")]
HierarchyFile = Annotated[Path, typer.Argument(help="One line per value: value;group;...;root, no header.")]


def register(app: typer.Typer) -> None:
    """Adds the family of commands to the application."""
    family = typer.Typer(
        help="Groups of values, groups of groups, up to a root: make and check their files.",
        no_args_is_help=True,
    )
    family.command(
        "make",
        help="Make a hierarchy by a rule: ranges of numbers, months and years of dates, prefixes of codes.",
        epilog="Example: elldelta hierarchy make --integers 17-90 --widths 5,10,20 -o age.csv",
    )(_make)
    family.command(
        "check",
        help="List everything that is wrong with a hierarchy for a column. Exit code 2 if anything is.",
        epilog="Example: elldelta hierarchy check age.csv --schema schema.toml --column age",
    )(options.bundled(_check))
    family.command(
        "rename",
        help="Write a copy in which groups whose name means other values are named by what they hold.",
        epilog="Example: elldelta hierarchy rename age.csv --schema schema.toml --column age -o age2.csv",
    )(options.bundled(_rename))
    app.add_typer(family, name="hierarchy")


def _make(
    target: options.Output,
    integers: Annotated[
        str, typer.Option("--integers", help="The smallest and the largest number, such as 17-90 or -5..40.")
    ] = "",
    widths: Annotated[
        str,
        typer.Option("--widths", help="With --integers: widths of the ranges, each a multiple of the last."),
    ] = "5,10,20",
    start: Annotated[
        int, typer.Option("--start", help="With --integers: a number at which ranges begin.")
    ] = 0,
    dates: Annotated[
        str, typer.Option("--dates", help="The first and the last day, such as 2020-01-01..2022-12-31.")
    ] = "",
    unit: Annotated[
        DateUnit, typer.Option("--unit", help="With --dates: what the leaves are: day, month or year.")
    ] = "day",
    codes: Annotated[Path | None, typer.Option("--codes", help="A text file with one code per line.")] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", help="With --codes: lengths of the prefixes, falling, such as 4,2.")
    ] = "",
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.files.atomic import check_writable
    from elldelta.schema.hierarchy_file import write_hierarchy

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
    if json:
        output.print_json({"hierarchy": str(target), "leaves": len(made.rows), "levels": made.n_levels})
        return
    output.print_text(
        f"The first line: {';'.join(made.rows[0])}",
        f"Wrote {target}: {len(made.rows):,} leaves, {made.n_levels} levels.",
    )


def _check(
    file: HierarchyFile,
    schema: options.SchemaFile,
    column: ColumnName,
    *,
    csv: options.Csv,
    json: options.Json = False,
) -> None:
    from elldelta.schema.hierarchies import check_hierarchy
    from elldelta.schema.reading import read_schema

    csv_format = csv.format
    checked = check_hierarchy(file, read_schema(schema), column, csv_format)
    if json:
        output.print_json(
            {
                "hierarchy": str(file),
                "column": column,
                "leaves": len(checked.rows.rows),
                "usable": not checked.problems,
                "problems": [
                    {
                        "kind": problem.kind,
                        "problem": sentence,
                        "count": problem.count,
                        "lines": list(problem.lines),
                    }
                    for problem, sentence in zip(checked.problems, checked.sentences, strict=True)
                ],
            }
        )
    elif checked.problems:
        output.print_text(f"{file} cannot be used for column {column!r}:")
        output.print_text(*(f"  - {sentence}" for sentence in checked.sentences))
        if all(problem.kind == "ambiguous" for problem in checked.problems):
            output.print_text("'elldelta hierarchy rename' names these groups by what they hold.")
    else:
        n_leaves, n_values = len(checked.rows.rows), checked.column.domain.size
        output.print_text(f"{file} fits column {column!r}: {n_leaves:,} leaves for {n_values:,} values.")
    if checked.problems:
        raise typer.Exit(2)


def _rename(
    file: HierarchyFile,
    schema: options.SchemaFile,
    column: ColumnName,
    target: options.Output,
    overwrite: options.Overwrite = False,
    *,
    csv: options.Csv,
    json: options.Json = False,
) -> None:
    from elldelta.files.atomic import check_writable
    from elldelta.schema.hierarchies import rename_hierarchy
    from elldelta.schema.reading import read_schema

    check_writable(target, overwrite=overwrite)
    n_renamed = rename_hierarchy(
        file,
        read_schema(schema),
        column,
        target,
        csv_format=csv.format,
        overwrite=overwrite,
    )
    if json:
        output.print_json({"hierarchy": str(target), "column": column, "renamed": n_renamed})
        return
    output.print_text(f"Wrote {target}: {n_renamed:,} groups have a new name.")


def _of_integers(text: str, widths: str, start: int) -> Hierarchy:
    from elldelta.schema.hierarchy_make import integer_hierarchy

    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ParameterError(
            "--integers must be two whole numbers.",
            found=f"It is {text!r}.",
            remedy="Write 17-90, or -5..40 if one is negative.",
        )
    return integer_hierarchy(int(match[1]), int(match[2]), _numbers(widths, "--widths"), start=start)


def _of_dates(text: str, unit: DateUnit) -> Hierarchy:
    from elldelta.schema.hierarchy_make import date_hierarchy

    first, _, last = text.strip().partition("..")
    try:
        low, high = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    except ValueError:
        raise ParameterError(
            "--dates must be two days.", found=f"It is {text!r}.", remedy="Write 2020-01-01..2022-12-31."
        ) from None
    return date_hierarchy(low, high, unit)


def _of_codes(path: Path | None, prefix: str) -> Hierarchy:
    from elldelta.schema.hierarchies import read_codes
    from elldelta.schema.hierarchy_make import code_hierarchy

    codes = read_codes(path) if path else ()
    return code_hierarchy(codes, _numbers(prefix, "--prefix") if prefix else None)


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"{option} must be whole numbers, separated by commas.",
            found=f"It is {text!r}.",
            remedy="For example: 4,2.",
        ) from None
