"""`elldelta frontier`: classes against records, before anything is decided."""

from __future__ import annotations

from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command


@command("frontier", example="frontier model.parquet --ell 5 --releases 2 --picture frontier.png")
def _run(
    model: options.ModelFile,
    ell: options.Ell,
    delta: options.Delta = 0.01,
    releases: options.Releases = 1,
    records: Annotated[str, typer.Option(help="Numbers of records to try, separated by commas.")] = "",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Search for boxes as thoroughly as for a plan, also where that takes long."
        ),
    ] = False,
    *,
    drawn: options.Drawn,
    json: options.Json = False,
) -> None:
    """How many classes how many records buy, by the paper and in certified plans."""
    from elldelta.model import read_model
    from elldelta.plan.frontier import frontier

    numbers = options.whole_numbers(records, "--records", "10000,30000,100000") if records else None
    with output.progress_bar("Planning") as progress:
        result = frontier(
            read_model(model),
            ell=ell,
            delta=delta,
            releases=releases,
            records=numbers,
            exact=exact,
            progress=progress,
        )
    kinds = list(result.rows[0].classes)
    drawn.draw(result.plot)
    if json:
        output.print_json(result.to_dict())
        return
    output.print_table(
        f"Classes for ell = {ell}, {releases} linked releases, failure at most {releases * delta:g}",
        ("records", *kinds),
        [
            (
                f"{row.records:,}",
                *("-" if row.classes[kind] is None else f"{row.classes[kind]:,}" for kind in kinds),
            )
            for row in result.rows
        ],
    )
    if not result.exact:
        output.print_text(
            "Searched quickly: a plan may have about a tenth more or fewer classes. --exact tells its number."
        )
    output.print_written(drawn.picture)
