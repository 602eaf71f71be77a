"""Options that are made from parameters of the library."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner

from elldelta.cli.options import bundled
from elldelta.parameters import Doc, parameters_of


def read_lengths(text):
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split(","))}


@dataclass(frozen=True)
class Settings:
    """Some parameters of a library, and one field that nobody shows."""

    size: Annotated[int, Doc("How large it is.")]
    shape: Annotated[
        Literal["round", "long"], Doc("What it looks like.", choices={"round": "a ball", "long": "a stick"})
    ] = "round"
    lengths: Annotated[int | dict[str, int] | None, Doc("How long.", "Expert", parse=read_lengths)] = None
    is_red: Annotated[bool, Doc("Whether it is red.", "Expert")] = False


def test_parameters_are_read_in_their_order():
    size, shape, length, is_red = parameters_of(Settings)
    assert (size.name, size.kind, size.is_required) == ("size", int, True)
    assert (shape.default, shape.is_required) == ("round", False)
    assert shape.types == (Literal["round", "long"],)
    assert length.types == (int, dict[str, int])
    assert is_red.doc.panel == "Expert"


@pytest.fixture
def run():
    app = typer.Typer()
    seen = []

    def draw(settings: Settings) -> None:
        seen.append(settings)

    draw.__annotations__["settings"] = Settings
    app.command()(bundled(draw))

    def call(*arguments):
        result = CliRunner().invoke(app, arguments)
        return result, seen

    return call


def test_a_class_of_parameters_becomes_options(run):
    _, seen = run("--size", "3", "--lengths", "a=1,b=2", "--is-red")
    assert seen == [Settings(3, lengths={"a": 1, "b": 2}, is_red=True)]


def test_a_required_parameter_is_required(run):
    result, seen = run()
    assert result.exit_code == 2
    assert not seen


def test_help_shows_texts_choices_and_panels(run):
    result, _ = run("--help")
    words = " ".join(result.output.replace("│", " ").split())
    for text in ("How large it is.", "round: a ball. long: a stick.", "Expert", "--is-red"):
        assert text in words
    assert "--no-is-red" not in words
