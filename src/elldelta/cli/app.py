"""The application that the commands add themselves to, and how they do it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from elldelta.cli import output
from elldelta.cli.options import bundled
from elldelta.errors import ParameterError
from elldelta.parameters import Panel

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
    epilog="Exit codes: 0 done; 2 bad input, or nowhere to write; 3 refused, the guarantee would not hold; "
    "4 a bug of ours; 130 interrupted.",
)


_PANELS = (None, *get_args(Panel))
"""The panels of a command's help in their order; arguments, which have none, come first."""

_OTHER_NAMES = {
    "columns": "--map", "csv_format": "--csv", "hierarchies": "--hierarchy", "quarantine": "--outside",
    "show_values": "--outside", "to": "--output", "url": "--server", "values": "--map",
}  # fmt: skip
"""Options of which the library calls the parameter otherwise."""

_PLACEHOLDERS = {bool: "", Path: "FILE", int: "NUMBER", float: "NUMBER", str: "TEXT"}
"""What stands for a value in the help of a command."""


def _describe(option: TyperOption) -> None:
    """Puts an option into its panel, and says what its value is without a name of Python."""
    option.rich_help_panel = option.rich_help_panel or "Essential"
    if option.metavar is None:
        kind: Any = option.type_descriptor.annotation
        kind = get_args(kind)[0] if get_origin(kind) is list else kind
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        option.metavar = "|".join(map(str, choices)) if choices else _PLACEHOLDERS[kind]


class _Command(TyperCommand):
    """A command whose options stand in panels, and which refuses one given twice where one value counts."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 (as typer calls it)
        super().__init__(*arguments, **named)
        for param in self.params:
            if isinstance(param, TyperOption):
                _describe(param)
            elif isinstance(param, TyperArgument):  # its name tells what it is
                param.display_type = lambda ctx: ""  # type: ignore[method-assign]
        self.params.sort(key=lambda param: _PANELS.index(getattr(param, "rich_help_panel", None)))

    def get_help_option(self, ctx: Any) -> TyperOption | None:  # noqa: ANN401 (private to typer)
        """The option that shows this help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel, option.metavar = _PANELS[-1], ""
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (private to typer)
        """Reads the arguments."""
        options = {
            param.name: param.opts[0]
            for param in self.params
            if isinstance(param, TyperOption) and param.name
        }
        output.use_command(
            [*ctx.command_path.split(), *args],
            {name: option for name, option in _OTHER_NAMES.items() if option in options.values()} | options,
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
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        words = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        example_line = f"Example: elldelta {example}"
        home.command(name, cls=_Command, help=words, epilog=example_line)(bundled(function))
        return function

    return add
