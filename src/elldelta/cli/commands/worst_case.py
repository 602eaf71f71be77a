"""`elldelta worst-case`: how far diversity can fall without a plan."""

from __future__ import annotations

from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command


@command("worst-case", example="worst-case --values 50 --ell 30 --releases 2")
def _run(
    values: Annotated[int, typer.Option(help="Number of sensitive values there are.")],
    ell: Annotated[
        str,
        typer.Option(help="Diversity of the releases: one number, or one per release: 30,35,40."),
    ],
    releases: Annotated[
        int | None, typer.Option(help="How many releases are linked; 2 if --ell is one number.")
    ] = None,
    json: options.Json = False,
) -> None:
    """How few values can be left when releases are linked that were each made diverse alone."""
    from elldelta.paper import worst_case

    ells = options.whole_numbers(ell, "--ell", "30 or --ell 30,35,40")
    result = worst_case(values, ells[0] if len(ells) == 1 else ells, releases)
    if json:
        output.print_json(result.to_dict())
        return
    shown = ", ".join(str(number) for number in result.ell)
    output.print_text(
        f"Linking {result.releases} releases that show {shown} of {result.values} values per class",
        f"can leave as few as {result.diversity} for somebody who is in all of them.",
    )
    rows = [
        (str(number), str(len(kept)), _describe_missing(kept, result.values))
        for number, kept in enumerate(result.example, start=1)
    ]
    output.print_table("An example that attains it", ("release", "values shown", "values missing"), rows)


def _describe_missing(shown: tuple[int, ...], n_values: int) -> str:
    """The missing values as ranges: they are at most two runs by construction."""
    missing = sorted(set(range(n_values)) - set(shown))
    runs: list[list[int]] = []
    for value in missing:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in runs) or "none"
