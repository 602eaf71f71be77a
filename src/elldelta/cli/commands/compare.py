"""`elldelta compare`: how much information plans keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command


@command("compare", example="compare plan1.json plan2.json --model model.parquet --picture compare.png")
def _run(
    plans: Annotated[list[Path], typer.Argument(help="Plans with the schema of the model.")],
    model: Annotated[Path, typer.Option(help="The model to measure them on.")],
    queries: Annotated[int, typer.Option(min=1, help="How many random range queries.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random queries.")] = 0,
    *,
    drawn: options.Drawn,
    json: options.Json = False,
) -> None:
    """How much information plans keep: classes and their sizes, widths of ranges, errors of range queries."""
    from elldelta.engines.task import computed
    from elldelta.pages.charts import draw_comparison
    from elldelta.plan.compare import compare

    with output.progress_bar("Measuring") as progress:
        measured = computed(lambda _: compare(plans, model, seed=seed, n_queries=queries), progress)
    names = [path.name for path in plans]
    bars = [(item.utility.ncp, item.queries.median) for item in measured]
    drawn.draw(lambda: draw_comparison(names, bars))
    if json:
        output.print_json(
            {"plans": [{"plan": name, **item.to_dict()} for name, item in zip(names, measured, strict=True)]}
        )
        return
    output.print_table(
        f"Measured on {model}",
        ("plan", "shape", "bound", "classes", "records per class", "NCP", "query error", "discernibility"),
        [
            (
                name,
                item.plan.classes.shape,
                item.plan.bound,
                f"{item.utility.n_classes:,}",
                f"{item.utility.smallest_class:,.0f} to {item.utility.largest_class:,.0f}",
                f"{item.utility.ncp:.4f}",
                f"{item.queries.median:.1%}",
                f"{item.utility.discernibility:,.0f}",
            )
            for name, item in zip(names, measured, strict=True)
        ],
    )
    output.print_table(
        "NCP per column",
        ("plan", *measured[0].plan.schema.names),
        [
            (name, *(f"{loss:.4f}" for loss in item.utility.ncp_by_attribute))
            for name, item in zip(names, measured, strict=True)
        ],
    )
    output.print_text(
        "NCP: how much of a column's range the class of a random record spans; 0 is exact, 1 tells nothing.",
        f"Query error: median relative error of {queries:,} random range counts answered from the classes.",
    )
    output.print_written(drawn.picture)
