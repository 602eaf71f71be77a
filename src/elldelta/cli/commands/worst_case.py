"""`elldelta worst-case`: how far diversity can fall without a plan."""

from __future__ import annotations

from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.errors import ParameterError


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(
        "worst-case",
        help="How few values can be left when releases are linked that were each made diverse alone.",
        epilog="Example: elldelta worst-case --values 50 --ell 30 --releases 2",
    )(_run)


def _run(
    values: Annotated[int, typer.Option("--values", help="Number of sensitive values there are.")],
    ell: Annotated[
        str,
        typer.Option("--ell", help="Diversity of the releases: one number, or one per release: 30,35,40."),
    ],
    releases: Annotated[
        int | None, typer.Option("--releases", help="How many releases are linked; 2 if --ell is one number.")
    ] = None,
    json: options.Json = False,
) -> None:
    from elldelta.core.worst_case import worst_case

    ells = _parse_ells(ell, releases)
    result = worst_case(values, ells)
    if json:
        output.print_json(
            {
                "diversity": result.diversity,
                "values": result.n_values,
                "ell": list(result.ells),
                "releases": len(result.ells),
                "example": [list(shown) for shown in result.example],
            }
        )
        return
    shown = ", ".join(str(number) for number in result.ells)
    output.print_text(
        f"Linking {len(result.ells)} releases that show {shown} of {result.n_values} values per class",
        f"can leave as few as {result.diversity} for somebody who is in all of them.",
    )
    rows = [
        (str(number), str(len(kept)), _describe_missing(kept, result.n_values))
        for number, kept in enumerate(result.example, start=1)
    ]
    output.print_table("An example that attains it", ("release", "values shown", "values missing"), rows)


def _parse_ells(text: str, releases: int | None) -> tuple[int, ...]:
    from elldelta.core.worst_case import repeat_ell

    try:
        ells = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            "--ell must be a whole number, or whole numbers separated by commas.",
            found=f"It is {text!r}.",
            remedy="For example: --ell 30 or --ell 30,35,40.",
        ) from None
    if len(ells) == 1:
        return repeat_ell(ells[0], 2 if releases is None else releases)
    if releases not in (None, len(ells)):
        raise ParameterError(
            "--ell names a diversity for each release, so --releases must agree or be left out.",
            found=f"{len(ells)} diversities and --releases {releases}.",
        )
    return ells


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
