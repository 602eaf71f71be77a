"""`elldelta audit`: link releases and see what an adversary would see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.progress import progress_bar


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(
        "audit",
        help="Link releases: how many values are left for somebody who is in all of them? "
        "Exit code 3 if fewer than ell for anybody.",
        epilog="Example: elldelta audit release_a.parquet release_b.parquet",
    )(_run)


def _run(
    releases: Annotated[list[Path], typer.Argument(help="Releases, with their manifests beside them.")],
    ell: Annotated[
        int | None, typer.Option("--ell", help="Diversity to compare with; by default what was promised.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="Describes the columns of releases without a manifest.")
    ] = None,
    picture: options.Picture = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.app.audit import audit
    from elldelta.app.schema import read_schema
    from elldelta.data.atomic import check_writable

    if picture is not None:
        check_writable(picture, overwrite=overwrite)
    with progress_bar("Linking") as progress:
        result = audit(releases, ell=ell, schema=read_schema(schema) if schema else None, progress=progress)
    if picture is not None:
        from elldelta.report.charts import draw_histogram, write_picture

        write_picture(draw_histogram(result.histogram, result.ell), picture, overwrite=overwrite)
    if json:
        output.print_json(
            {
                "releases": [
                    {
                        "name": item.name,
                        "records": item.records,
                        "classes": item.classes,
                        "diversity": item.diversity,
                        "k": item.k,
                    }
                    for item in result.releases
                ],
                "ell": result.ell,
                "holds": result.holds,
                "diversity_min": result.diversity_min,
                "diversity_min_any": result.diversity_min_any,
                "groups_complete": result.groups_complete,
                "classes_linked": result.classes_linked,
                "classes_without_common_value": result.classes_without_common_value,
                "share_below": result.share_below,
                "share_exposed": result.share_exposed,
                "histogram": [
                    {"diversity": bar.diversity, "classes": bar.classes, "records": bar.records}
                    for bar in result.histogram
                ],
            }
        )
    else:
        _print(result)
    if not result.holds:
        raise typer.Exit(3)


def _print(result: object) -> None:
    from elldelta.app.audit import Audit

    assert isinstance(result, Audit)  # noqa: S101
    output.print_table(
        "Each release by itself",
        ("release", "records", "classes", "fewest values", "fewest records"),
        [
            (item.name, f"{item.records:,}", f"{item.classes:,}", str(item.diversity), str(item.k))
            for item in result.releases
        ],
    )
    output.print_table(
        "Linked",
        ("values left", "classes", "linked records"),
        [(str(bar.diversity), f"{bar.classes:,}", f"{bar.records:,}") for bar in result.histogram],
    )
    if result.diversity_min is None:
        output.print_text("Nobody can be in all of these releases.")
    else:
        output.print_text(
            f"Everybody who is in all releases is left among at least {result.diversity_min} values."
        )
    if not result.groups_complete:
        output.print_text("There are many releases: groups of up to three and all together were linked.")
    if result.holds:
        output.print_text(
            f"Whichever of the releases somebody is in, at least {result.diversity_min_any} values are left "
            f"({result.ell} wanted)."
        )
    else:
        output.print_text(
            f"Not safe: linking some or all of them leaves somebody with {result.diversity_min_any} of "
            f"{result.ell} values. Of the records in all releases, {result.share_below:.1%} are in classes "
            f"below {result.ell}, {result.share_exposed:.1%} in classes with a single value."
        )
