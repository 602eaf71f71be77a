"""One command, or one family of commands, per module; loading it adds the commands to the application."""

from __future__ import annotations

from importlib import import_module

_STORY = (
    "demo", "schema", "hierarchy", "estimate", "model", "plan", "release", "ledger",
    "audit", "evidence", "check", "serve", "remote", "signature", "paper",
)  # fmt: skip
"""In the order in which the help lists them."""


def load_commands() -> None:
    """Adds every command to the application."""
    for name in _STORY:
        import_module(f"elldelta.cli.commands.{name}")
