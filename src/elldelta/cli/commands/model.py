"""`elldelta model show` and `elldelta model merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command, family

_FAMILY = family("model", "Look at models, and add them up.")


@command("show", example="model show model.parquet --picture model.png", home=_FAMILY)
def _show(
    model: Annotated[Path, typer.Argument(help="A model that 'elldelta estimate' has written.")],
    picture: options.Picture = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Sizes, how the sensitive values are distributed, and p_ell for every ell."""
    from elldelta.model import read_model
    from elldelta.pages.charts import check_picture, write_picture

    check_picture(picture, overwrite=overwrite)
    loaded = read_model(model)
    if picture is not None:
        write_picture(loaded.plot(), picture, overwrite=overwrite)
    shown = loaded.to_dict()
    if json:
        output.print_json(shown)
        return
    sizes, marginal = shown["quasi_identifiers"], shown["marginal"]
    output.print_pairs(
        str(model),
        [
            ("records", f"{shown['records']:,}"),
            ("combinations", f"{shown['combinations']:,} of {shown['combinations_possible']:,} occur"),
            *((name, f"{size:,} positions") for name, size in sizes.items()),
            (shown["sensitive"], f"{len(marginal)} values (sensitive)"),
            ("digest", shown["digest"]),
        ],
    )
    for line in loaded.protection_lines():
        output.print_text(line)
    frequent = sorted(marginal.items(), key=lambda item: -item[1])
    output.print_table(
        "Sensitive values, most frequent first",
        ("ell", "p_ell", "value"),
        [(str(rank), f"{share:.6f}", name) for rank, (name, share) in enumerate(frequent, start=1)],
    )
    output.print_written(picture)


@command("merge", example="model merge year1.parquet year2.parquet -o both.parquet", home=_FAMILY)
def _merge(
    models: Annotated[list[Path], typer.Argument(help="Models with the same schema.")],
    target: options.Output,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Add up models with the same schema: two years, two regions."""
    from elldelta.model import merge_models, write_model

    merged = merge_models(models)
    write_model(merged, target, overwrite=overwrite)
    output.print_result(
        {"model": str(target), "records": merged.n_records, "digest": merged.digest},
        f"Merged {len(models)} models, {merged.n_records:,} records. Wrote {target}",
        as_json=json,
    )
