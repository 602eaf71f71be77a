"""How the command line speaks: tables for people, one JSON object for machines, errors of three parts."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from elldelta.cli.streams import ReaderGoneError
from elldelta.errors import FileError, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from elldelta.engines import Progress
    from elldelta.errors import ElldeltaError, Note


_OPTIONS: ContextVar[Mapping[str, str]] = ContextVar("options")
"""The options of the command that runs, by the names of their parameters."""

_TYPED: ContextVar[Sequence[str]] = ContextVar("typed")
"""The command that runs, word by word as it was typed."""

_BAR_DELAY_SECONDS = 1.0
"""After how long a bar appears."""


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object and nothing else."""
    print_text(_json_text(result))


def print_text(*lines: str) -> None:
    """Prints plain lines to standard output, exactly as they are."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_result(result: Mapping[str, Any], *lines: str, as_json: bool) -> None:
    """Prints a result: as one JSON object for machines, or else as lines for people."""
    if as_json:
        print_json(result)
    else:
        print_text(*lines)


def print_written(*paths: Path | None) -> None:
    """Says which files were written besides the result."""
    print_text(*(f"Wrote {path}" for path in paths if path is not None))


def print_note(*lines: str) -> None:
    """Prints remarks that are not part of the result to standard error."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def show_values(column: str, values: Sequence[str]) -> None:
    """Shows values of people to the person at the terminal, with nothing in them that moves its cursor."""
    listed = ", ".join(map(ascii, values))
    print_note(f"Not in the domain of {column!r}, for instance: {listed}")


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
    table = Table()
    for index, name in enumerate(header):
        cells = [row[index] for row in body]
        numeric = all(cell[:1].isdigit() or cell[:1] in "-~" for cell in cells if cell)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in body:
        table.add_row(*row)
    console = _console()
    console.print(title, style="italic")  # a title of the table would be as narrow as the table
    console.print(table)


@contextmanager
def progress_bar(doing: str) -> Iterator[Progress | None]:
    """Yields what to tell the progress to, or None where nobody is watching: on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    start = time.monotonic()
    bar: Any = None
    task: Any = None

    def tell(share: float) -> None:
        nonlocal bar, task
        if bar is None and time.monotonic() - start > _BAR_DELAY_SECONDS:
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(doing, total=1.0)
        if bar is not None:
            bar.update(task, completed=min(1.0, max(0.0, share)))

    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()


def use_command(typed: Sequence[str], options: Mapping[str, str]) -> None:
    """Tells which command runs, and which options it has, by the names of their parameters."""
    _TYPED.set(typed)
    _OPTIONS.set(options)


def again(option: Sequence[str], others: Sequence[str] = ()) -> str:
    """The command that runs, to be pasted, with an option, which it may have had, and with others.

    Args:
        option: The name of an option and, if it has one, its value.
        others: Options that it did not have.
    """
    typed = [word for word in _TYPED.get() if not word.startswith(f"{option[0]}=")]
    if option[0] in typed:
        place = typed.index(option[0])
        del typed[place : place + len(option)]
    return shlex.join([*typed, *option, *others])


def options_for(parameters: Iterable[str]) -> list[str]:
    """The options of this command for parameters of the library, where it has some."""
    known = _OPTIONS.get({})
    return list(dict.fromkeys(known[name] for name in parameters if name in known))


def note_text(note: Note) -> str:
    """A remark, with the option that would help."""
    options = named("Option", (f"{name} {note.value}".strip() for name in options_for([note.parameter])))
    return " ".join(part for part in (note.text, note.remedy, options) if part)


def error_as_dict(error: ElldeltaError) -> dict[str, Any]:
    """The one JSON shape of every error."""
    parts = {"problem": error.problem, "found": error.found, "remedy": error.remedy}
    return {"error": {**parts, "options": options_for(error.parameter), "exit_code": error.exit_code}}


def print_error(error: ElldeltaError, *, as_json: bool) -> None:
    """Prints an error: what is wrong, what was found, what to do."""
    if as_json:
        try:
            print_json(error_as_dict(error))
            sys.stdout.flush()
        except (FileError, ReaderGoneError):  # the error may be this one
            print_note(_json_text(error_as_dict(error)))
        return
    others = (error.found, error.remedy, named("Option", options_for(error.parameter)))
    print_note(f"Error: {error.problem}", *(f"       {part}" for part in others if part))


def _json_text(result: Mapping[str, Any]) -> str:
    return json.dumps(result, ensure_ascii=False, allow_nan=False)


def _console() -> Any:  # noqa: ANN401 (rich is imported late)
    from rich.console import Console

    return Console(highlight=False, markup=False)
