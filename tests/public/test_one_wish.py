"""A wish is spelt once: whatever `Wish` has, every surface shows."""

import inspect
import re
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from pydantic import create_model
from tests.docs.reference_page import PAGE, section
from typer.testing import CliRunner

from elldelta.agency.server.routes.rendering import _environment
from elldelta.agency.server.routes.requests import body_of, client_parameters
from elldelta.cli.app import command as add_command
from elldelta.cli.options import bundled
from elldelta.parameters import Doc, parameters_of, with_keywords
from elldelta.plan.frontier import frontier
from elldelta.plan.planner import plan
from elldelta.plan.wish import FrontierWish, Wish


@dataclass(frozen=True, kw_only=True)
class WiderWish(Wish):
    """A wish with one field more."""

    patience: Annotated[
        int, Doc("How many days everybody can wait.", "Expert", label="Days of patience", least=1, most=99)
    ] = 7


def command_help(kind):
    """What the command line shows for a wish."""

    def ask(wish) -> None:
        pass

    ask.__annotations__["wish"] = kind
    app = typer.Typer()
    app.command()(bundled(ask))
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    return " ".join(shown.replace("│", " ").split())


def form(kind):
    """What a form shows for a wish."""
    parts = _environment().get_template("parts.html").module
    fields = [parts.wish_field(item, {}, [{"name": "disease"}], None) for item in client_parameters(kind)]
    return " ".join("".join(fields).split())


def reference(kind):
    """What the reference page says of a wish."""

    def ask(wish) -> None:
        pass

    ask.__annotations__["wish"] = kind
    app = typer.Typer()
    add_command("ask", example="ask", home=app)(ask)
    return section("ask", typer.main.get_command(app))


def schema(kind):
    """What the service says of a wish."""
    return create_model("NewRequest", __base__=body_of(kind)).model_json_schema()["properties"]


def test_a_new_field_is_found_on_every_surface():
    words = "How many days everybody can wait."
    assert "--patience" in command_help(WiderWish)
    assert words in command_help(WiderWish)
    assert "[default: 7]" in command_help(WiderWish)
    assert 'Days of patience</label> <input id="patience" name="patience" type="number" min="1"' in form(
        WiderWish
    )
    assert words in form(WiderWish)
    found = schema(WiderWish)["patience"]
    assert (found["minimum"], found["maximum"], found["default"]) == (1, 99, 7)
    assert found["description"] == words
    assert f"|`--patience`|{words} Default: `7`.|" in reference(WiderWish)
    called = with_keywords(WiderWish, lambda model, wish: (model, wish.patience))
    assert called(None, ell=2, releases=1, records=5, patience=9) == (None, 9)
    for shown in (command_help(Wish), form(Wish), str(schema(Wish)), reference(Wish)):
        assert "patience" not in shown


@pytest.mark.parametrize("kind", [Wish, FrontierWish], ids=lambda kind: kind.__name__)
def test_every_field_is_explained_everywhere(kind):
    shown = command_help(kind)
    for parameter in parameters_of(kind):
        assert f"--{parameter.name.replace('_', '-')}" in shown
        assert parameter.doc.help
    names = [parameter.name for parameter in parameters_of(kind)]
    function = plan if kind is Wish else frontier
    assert set(names) < set(inspect.signature(function).parameters)


def test_clients_decide_all_but_what_is_the_agencys():
    everything = {parameter.name for parameter in parameters_of(Wish)}
    assert set(schema(Wish)) == everything - {"p", "beta"}
    assert set(re.findall(r'name="(\w+)"', form(Wish))) == set(schema(Wish))


@pytest.mark.parametrize(("command", "kind"), [("plan", Wish), ("frontier", FrontierWish)])
def test_the_reference_page_is_made_from_the_fields(command, kind):
    text = PAGE.read_text(encoding="utf-8")
    shown = re.split(
        r"^## ", text.partition(f"## `elldelta {command}`\n")[2], maxsplit=1, flags=re.MULTILINE
    )[0]
    rows = re.findall(r"^[|]`--.*$", reference(kind), re.MULTILINE)
    assert len(rows) == len(parameters_of(kind))
    if kind is FrontierWish:  # what plans explain in the same words is only named
        rows, all_rows = [row for row in rows if row not in reference(Wish)], rows
        assert all(f"`{row.split('`')[1]}`" in shown for row in all_rows)
        assert [row.split("`")[1] for row in rows] == ["--records"]
    assert set(rows) <= set(shown.splitlines())
