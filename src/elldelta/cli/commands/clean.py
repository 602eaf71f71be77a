"""`elldelta clean`: remove what killed processes have left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command


@command("clean", example="clean releases/")
def _run(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders to look in; the current one by default.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Remove hidden files that killed processes have left behind; they may hold records.

    Nothing of a running process is touched, and nothing that has another name than ours.
    """
    from elldelta.files import clean

    removed, used = clean(folders or [Path()])
    output.print_result(
        {"removed": list(map(str, removed)), "in_use": list(map(str, used))},
        *(f"Removed {path}" for path in removed),
        f"{len(removed)} left by killed processes removed, {len(used)} in use.",
        as_json=json,
    )
