"""`elldelta model`: show, merge, split and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command, family
from elldelta.errors import counted
from elldelta.parameters import Doc

_FAMILY = family("model", "Look at models, compare, split and add them up.")


@command("show", example="model show model.parquet --picture model.png", home=_FAMILY)
def _show(
    model: options.ModelFile,
    *,
    drawn: options.Drawn,
    json: options.Json = False,
) -> None:
    """Sizes, how the sensitive values are distributed, and p_ell for every ell."""
    from elldelta.model import read_past

    loaded = read_past(model)
    drawn.draw(loaded.plot)
    shown = loaded.to_dict()
    if json:
        output.print_json(shown)
        return
    sizes = shown["quasi_identifiers"]
    columns = [(column["sensitive"], column["marginal"]) for column in (shown, *shown.get("also", ()))]
    output.print_pairs(
        str(model),
        [
            ("records", f"{shown['records']:,}"),
            ("combinations", f"{shown['combinations']:,} of {shown['combinations_possible']:,} occur"),
            *((name, f"{size:,} positions") for name, size in sizes.items()),
            *([("regions", f"{shown['regions']:,}, by {shown['by']}")] if "by" in shown else []),
            *((name, f"{counted(len(marginal), 'value')} (sensitive)") for name, marginal in columns),
            ("digest", shown["digest"]),
        ],
    )
    for line in loaded.protection_lines():
        output.print_text(line)
    for name, marginal in columns:
        frequent = sorted(marginal.items(), key=lambda item: -item[1])
        output.print_table(
            f"Values of {name}, most frequent first"
            if len(columns) > 1
            else "Sensitive values, most frequent first",
            ("ell", "p_ell", "value"),
            [(str(rank), f"{share:.6f}", value) for rank, (value, share) in enumerate(frequent, start=1)],
        )
    output.print_written(drawn.picture)


@command("merge", example="model merge year1.parquet year2.parquet -o both.parquet", home=_FAMILY)
def _merge(
    models: Annotated[
        list[Path], typer.Argument(help="Models with the same schema; of a folder all its regions.")
    ],
    target: options.Output,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Add up models with the same schema: two years, two countries, or the regions of a folder."""
    from elldelta.model import merge_models, write_model

    merged = merge_models(models)
    write_model(merged, target, overwrite=overwrite)
    output.print_result(
        {"model": str(target), "records": merged.n_records, "digest": merged.digest},
        f"Merged {counted(len(models), 'model')}, {counted(merged.n_records, 'record')}. Wrote {target}",
        as_json=json,
    )


@command("split", example="model split model.parquet --by state -o model/", home=_FAMILY)
def _split(
    model: Annotated[Path, typer.Argument(help="A model in one file.")],
    *,
    by: Annotated[str, Doc("The quasi-identifier whose values are the regions.", metavar="COLUMN")],
    target: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write; it must not be there.")
    ],
    json: options.Json = False,
) -> None:
    """Split a model into a folder of regions, so that plans are made by region."""
    from elldelta.model import split_model

    split = split_model(model, by, target)
    output.print_result(
        {"model": str(target), "regions": len(split.regions), "digest": split.digest},
        f"Split {counted(split.n_records, 'record')} into {counted(len(split.regions), 'region')}. "
        f"Wrote {target}",
        as_json=json,
    )


@command("compare", example="model compare past.parquet newer.parquet --plan plan.json", home=_FAMILY)
def _compare(
    past: Annotated[Path, typer.Argument(help="The model that plans were made from.")],
    newer: Annotated[Path, typer.Argument(help="A model of newer records, with the same schema.")],
    plan: Annotated[
        Path | None,
        Doc("A plan: how many of its classes would not pass now."),
    ] = None,
    *,
    drawn: options.Drawn,
    json: options.Json = False,
) -> None:
    """Is a model still good: what has changed by more than chance, and what that means for a plan."""
    from elldelta.plan.drift import drift

    found = drift(past, newer, plan)
    drawn.draw(found.plot)
    if json:
        output.print_json({**found.to_dict(), "words": found.words})
        return
    output.print_table(
        "Distance from the past, each column with the sensitive one",
        ("column", "distance", "by chance up to", ""),
        [
            (
                each.name,
                f"{each.distance:.4f}",
                f"{each.by_chance:.4f}",
                "changed" if each.has_changed else "",
            )
            for each in found.columns
        ],
    )
    if found.plan is not None:
        output.print_pairs(
            f"{counted(found.plan.classes, 'class', 'classes')} of the plan",
            [
                ("that do not pass, by the past", f"{found.plan.failing_before:,.1f}"),
                ("by the newer records, rather too many", f"{found.plan.failing_now:,.1f}"),
                ("chance that all pass", f"{found.plan.passing_now:.3g}"),
            ],
        )
        output.print_table(
            "Classes least likely to pass now",
            ("class", "expected", "now"),
            [(name, f"{before:.3f}", f"{now:.3f}") for name, before, now in found.plan.worst],
        )
    output.print_text(found.words)
    output.print_written(drawn.picture)
