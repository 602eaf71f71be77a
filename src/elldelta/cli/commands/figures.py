"""`elldelta figures`: the paper's plots, from its formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.cli.progress import progress_bar


@command("figures", example="figures -o figures/")
def _run(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to; made if missing.")],
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """The paper's four figures as SVG and PNG, each with a CSV of its numbers."""
    from elldelta.paper import write_figures

    with progress_bar("Drawing") as progress:
        files = write_figures(folder, overwrite=overwrite, progress=progress)
    lines = (f"Wrote {len(files)} files to {folder}:", *(f"  {file.name}" for file in files))
    output.print_result({"files": [str(file) for file in files]}, *lines, as_json=json)
