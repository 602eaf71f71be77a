"""The application that the commands add themselves to, and how they do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from elldelta.cli import output
from elldelta.cli.options import bundled
from elldelta.errors import ParameterError

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


class _Command(TyperCommand):
    """A command that refuses an option given twice where one value counts: the last would win in silence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (private to typer)
        """Reads the arguments."""
        output.use_options(
            {
                param.name: param.opts[0]
                for param in self.params
                if isinstance(param, TyperOption) and param.name
            }
        )
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option in {*order}:
            if isinstance(option, TyperOption) and not option.multiple and order.count(option) > 1:
                raise ParameterError(
                    f"{option.opts[0]} is given {order.count(option)} times.",
                    found="It takes one value.",
                    remedy="Give it once; where it takes several names, separate them with commas.",
                )
        return super().parse_args(ctx, args)


def _print_version(value: bool) -> None:
    if value:
        from elldelta._version import __version__

        output.print_text(f"elldelta {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


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
        home.command(name, cls=_Command, epilog=f"Example: elldelta {example}")(bundled(function))
        return function

    return add
