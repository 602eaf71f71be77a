"""`elldelta demo`: the whole story on generated hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import counted


@command("demo", example="demo")
def _run(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files and the page.")] = Path(
        "elldelta-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated people.")] = 1,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """The whole story on generated hospitals: what goes wrong, the plan, and what does not."""
    from elldelta.cli.demo import run_demo

    with output.progress_bar("Telling the story") as progress:
        found = run_demo(folder, seed=seed, overwrite=overwrite, progress=progress)
    page, ell, without, with_plan = (found[key] for key in ("page", "ell", "without", "with_plan"))
    if json:
        output.print_json(
            {
                "page": str(page.resolve()),
                "ell": ell,
                "hospitals": found["n_hospitals"],
                "records": found["n_records"],
                "patients_in_all": found["n_common"],
                "alone": {"one_disease": without["n_exposed"], "below_ell": without["n_below"]},
                "plan": {"one_disease": with_plan["n_exposed"], "below_ell": with_plan["n_below"]},
                "verdict": found["verdict"],
                "classes": found["classes"],
                "loss": found["loss"],
            }
        )
        return
    each, linked, together = found["table_2"]
    output.print_text(
        f"The paper's example: two releases, each showing {each} diseases per class. Linked, they leave",
        f"{linked} for the woman in 560010. With the same classes for both, {together} are left.",
        "",
        f"Now {found['n_hospitals']} generated hospitals, {counted(found['n_records'], 'record')} each; "
        f"{found['n_common']:,} patients are in all of them.",
        f"Each hospital by itself: every class shows {min(without['diversity_each'])} diseases. Linked:",
        f"  {without['n_exposed']:,} patients are left with one disease, "
        f"{without['n_below']:,} with fewer than {ell}.",
        f"One plan for all: {counted(found['classes']['certified'], 'class', 'classes')}, information loss "
        f"{found['loss']['certified']:.4f} (the paper's bound: {found['classes']['paper']}, "
        f"{found['loss']['paper']:.4f}). Linked:",
        f"  {with_plan['n_exposed']:,} patients are left with one disease, "
        f"{with_plan['n_below']:,} with fewer than {ell}.",
        f"The audit of their releases says: {found['verdict']}",
        "",
        f"Open {page.resolve().as_uri()}",
    )
