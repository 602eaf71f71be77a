"""One command, or one family of commands, per module; each has a function `register(app)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.cli.commands import (
    audit,
    check,
    compare,
    compose,
    demo,
    estimate,
    figures,
    frontier,
    hierarchy,
    ledger,
    model,
    plan,
    release,
    remote,
    sample_size,
    schema,
    serve,
    signature,
    worst_case,
)

if TYPE_CHECKING:
    import typer


def register_all(app: typer.Typer) -> None:
    """Adds every command to the application, in the order in which the help lists them."""
    story = (
        schema,
        hierarchy,
        estimate,
        model,
        frontier,
        plan,
        compare,
        release,
        ledger,
        audit,
        check,
        compose,
    )
    for module in (demo, *story, serve, remote, signature, worst_case, sample_size, figures):
        module.register(app)
