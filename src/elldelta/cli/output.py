"""How the command line speaks: tables for people, one JSON object for machines, errors of three parts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from elldelta.errors import ElldeltaError


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object and nothing else."""
    sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")


def print_text(*lines: str) -> None:
    """Prints plain lines to standard output, exactly as they are."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_result(result: Mapping[str, Any], *lines: str, as_json: bool) -> None:
    """Prints a result: as one JSON object for machines, or else as lines for people."""
    if as_json:
        print_json(result)
    else:
        print_text(*lines)


def print_note(*lines: str) -> None:
    """Prints remarks that are not part of the result to standard error."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def print_pairs(title: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Prints a titled list of names and values."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, value)
    _console().print(table)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a titled table; columns of numbers are aligned to the right."""
    from rich.table import Table

    body = [list(row) for row in rows]
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(header):
        cells = [row[index] for row in body]
        numeric = all(cell[:1].isdigit() or cell[:1] in "-~" for cell in cells if cell)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in body:
        table.add_row(*row)
    _console().print(table)


def error_as_dict(error: ElldeltaError) -> dict[str, Any]:
    """The one JSON shape of every error."""
    parts = {"problem": error.problem, "found": error.found, "remedy": error.remedy}
    return {"error": {**parts, "exit_code": error.exit_code}}


def print_error(error: ElldeltaError, *, as_json: bool) -> None:
    """Prints an error: what is wrong, what was found, what to do."""
    if as_json:
        print_json(error_as_dict(error))
        return
    print_note(f"Error: {error.problem}")
    for part in (error.found, error.remedy):
        if part:
            print_note(f"       {part}")


def _console() -> Any:  # noqa: ANN401 (rich is imported late)
    from rich.console import Console

    return Console(highlight=False, markup=False)
