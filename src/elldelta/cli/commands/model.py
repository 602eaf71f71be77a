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
    from elldelta.model.model import read_model

    loaded = read_model(model)
    schema = loaded.schema
    distribution = loaded.to_distribution()
    names = schema.sensitive.value_labels
    marginal = distribution.value_marginal.tolist()
    if picture is not None:
        from elldelta.pages.charts import draw_marginal, write_picture

        figure = draw_marginal(names, marginal, f"{schema.sensitive.name}: {loaded.n_records:,} records")
        write_picture(figure, picture, overwrite=overwrite)
    if json:
        output.print_json(
            {
                "records": loaded.n_records,
                "combinations": loaded.counts.n_combinations,
                "combinations_possible": schema.n_combinations,
                "quasi_identifiers": dict(zip(schema.names, schema.sizes, strict=True)),
                "sensitive": schema.sensitive.name,
                "marginal": dict(zip(names, marginal, strict=True)),
                "p_ell": distribution.ranked_marginal.tolist(),
                "digest": loaded.digest,
            }
        )
        return
    output.print_pairs(
        str(model),
        [
            ("records", f"{loaded.n_records:,}"),
            ("combinations", f"{loaded.counts.n_combinations:,} of {schema.n_combinations:,} occur"),
            *((name, f"{size:,} positions") for name, size in zip(schema.names, schema.sizes, strict=True)),
            (schema.sensitive.name, f"{schema.n_values} values (sensitive)"),
            ("digest", loaded.digest),
        ],
    )
    order = sorted(range(len(names)), key=lambda index: -marginal[index])
    output.print_table(
        "Sensitive values, most frequent first",
        ("ell", "p_ell", "value"),
        [(str(rank), f"{marginal[index]:.6f}", names[index]) for rank, index in enumerate(order, start=1)],
    )


@command("merge", example="model merge year1.parquet year2.parquet -o both.parquet", home=_FAMILY)
def _merge(
    models: Annotated[list[Path], typer.Argument(help="Models with the same schema.")],
    target: options.Output,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Add up models with the same schema: two years, two regions."""
    from elldelta.model.model import merge_models, read_model, write_model

    merged = merge_models(read_model(path) for path in models)
    write_model(merged, target, overwrite=overwrite)
    if json:
        output.print_json({"model": str(target), "records": merged.n_records, "digest": merged.digest})
        return
    output.print_text(f"Merged {len(models)} models, {merged.n_records:,} records. Wrote {target}")
