"""The application that the commands add themselves to, and how they do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elldelta.cli.options import bundled

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    name="elldelta",
    help="Publish tables about people so that several releases, linked together, still do not give "
    "anyone away.\n\nStart with: elldelta demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 2 bad input; 3 refused, the guarantee would not hold; 4 a bug of ours.",
)


def family(name: str, words: str) -> typer.Typer:
    """A family of commands, such as `elldelta ledger show` and `elldelta ledger verify`."""
    made = typer.Typer(help=words, no_args_is_help=True)
    app.add_typer(made, name=name)
    return made


def command(
    name: str, *, example: str, home: typer.Typer = app
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command; its docstring is the help, and its bundles of options are spread out."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        home.command(name, epilog=f"Example: elldelta {example}")(bundled(function))
        return function

    return add
