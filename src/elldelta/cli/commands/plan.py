"""`elldelta plan`: from a model to the plan that every owner uses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from elldelta.choices import Bound, CategoryOrder, Guarantee, ShapeName
from elldelta.cli import options, output
from elldelta.errors import ParameterError


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(
        "plan",
        help="Make a plan from a model: classes, records to wait for, and the promise in words.",
        epilog="Example: elldelta plan model.parquet --ell 5 --releases 2 --records 30000 -o plan.json",
    )(_run)


def _run(
    model: Annotated[Path, typer.Argument(help="A model that 'elldelta estimate' has written.")],
    ell: options.Ell,
    target: options.Output,
    delta: options.Delta = 0.01,
    releases: options.Releases = 1,
    records: Annotated[
        int | None, typer.Option("--records", help="Records that every owner can wait for.")
    ] = None,
    p: Annotated[
        float | None, typer.Option("--p", help="The paper's p; decides the records instead.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option("--beta", help="The same as a share of the largest p.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option("--classes", help="Classes to reach with as few records as possible.")
    ] = None,
    bound: Annotated[
        Bound,
        typer.Option(
            "--bound",
            help="sharp: any ell values of a class count. paper: the ell most probable ones must be there. "
            "union: the paper's, without its roundings.",
        ),
    ] = "sharp",
    eta: options.Eta = 0.0,
    shared_records: Annotated[
        int | None,
        typer.Option(
            "--shared-records",
            help="Promise only for releases that are nearly independent. It must be true that at most this "
            "many records of each release are shared with other releases, whatever their values, and that "
            "all other records are independent. Without it, releases may share people in any way.",
        ),
    ] = None,
    shape: Annotated[
        ShapeName | None,
        typer.Option(
            "--shape",
            help="boxes: a range of every quasi-identifier. runs: neighbours in their common order. "
            "Boxes by default if there are two or more quasi-identifiers.",
        ),
    ] = None,
    guarantee: Annotated[
        Guarantee,
        typer.Option(
            "--guarantee",
            help="certified: every release is checked before it is published, and the promise is certain. "
            "probabilistic: publish at N records without looking, as the paper does.",
        ),
    ] = "certified",
    waiting_risk: Annotated[
        str | None,
        typer.Option(
            "--waiting-risk",
            help="Instead of --delta, for finer classes: the chance that a class needs merging, such as 0.1; "
            "auto tries several and takes the one that loses least information.",
        ),
    ] = None,
    min_records: Annotated[
        int, typer.Option("--min-records", help="Records with which a witness value counts as present.")
    ] = 1,
    fewest_past: Annotated[
        int,
        typer.Option(
            "--fewest-past",
            help="Rely only on values that occur at least this often in the past records of a class, "
            "such as 5. A plan names these values, so a rare one would tell about somebody in the past. "
            "Costs classes.",
        ),
    ] = 1,
    hierarchy: options.Hierarchies = None,
    category_order: Annotated[
        CategoryOrder,
        typer.Option(
            "--category-order",
            help="given: categories stay in the order of the schema. profile: unordered categories without a "
            "hierarchy are ordered so that similar distributions of the sensitive column are neighbours.",
        ),
    ] = "given",
    picture: options.Picture = None,
    picture_columns: Annotated[
        str, typer.Option("--picture-columns", help="The two columns to draw, such as age,education.")
    ] = "",
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.files.atomic import check_writable
    from elldelta.model.model import read_model
    from elldelta.model.rearrange import order_categories, order_note, with_hierarchies
    from elldelta.plan.compare import classes_utility
    from elldelta.plan.plan import write_plan
    from elldelta.plan.planner import make_plan
    from elldelta.plan.wish import PlanRequest
    from elldelta.schema.hierarchies import read_hierarchies

    request = PlanRequest(
        ell=ell,
        delta=delta,
        releases=releases,
        bound=bound,
        records=records,
        p=p,
        beta=beta,
        classes=classes,
        eta=eta,
        shared_records=shared_records,
        shape=shape,
        guarantee=guarantee,
        waiting_risk=_risk(waiting_risk),
        min_records=min_records,
        fewest_past=fewest_past,
    )
    for path in (target, *([picture] if picture else [])):
        check_writable(path, overwrite=overwrite)
    files = options.named_files(hierarchy, "--hierarchy")
    loaded = with_hierarchies(read_model(model), read_hierarchies(files))
    if category_order == "profile":
        loaded, changed = order_categories(loaded)
        notes = tuple(order_note(name, loaded.schema.sensitive.name) for name in changed)
        request = replace(request, notes=notes)
    if waiting_risk == "auto":
        from elldelta.plan.waiting_risk import choose_waiting_risk

        request = replace(request, waiting_risk=choose_waiting_risk(loaded, request)[0])
    planned = make_plan(loaded, request)
    made = planned.plan
    utility = classes_utility(loaded.counts, made.classes, made.ell, made.records)
    if picture is not None:
        from elldelta.pages.charts import write_picture
        from elldelta.plan.picture import picture_of_classes

        columns = [name.strip() for name in picture_columns.split(",")] if picture_columns else None
        write_picture(picture_of_classes(made, loaded, columns), picture, overwrite=overwrite)
    write_plan(made, target, overwrite=overwrite)
    result = {
        "plan": str(target),
        "classes": made.n_classes,
        "records": made.records,
        "ell": made.ell,
        "delta": made.delta,
        "releases": made.releases,
        "failure_upper": made.failure_upper,
        "bound": made.bound,
        "shape": made.classes.shape,
        "guarantee": made.guarantee,
        "waiting_risk": made.waiting_risk,
        "p": made.p,
        "eta": made.eta,
        "ncp": utility.ncp,
        "ncp_by_column": dict(zip(made.schema.names, utility.ncp_by_attribute, strict=True)),
        "smallest_class": utility.smallest_class,
        "median_class": utility.median_class,
        "largest_class": utility.largest_class,
        "digest": made.digest,
        "promise": made.promise,
        "conditions": list(made.conditions),
        "notes": list(made.notes),
        "bounds": [
            {
                "bound": other.bound,
                "classes": other.classes,
                "records": other.records,
                "failure_upper": other.failure_upper,
            }
            for other in planned.alternatives
        ],
    }
    if json:
        output.print_json(result)
        return
    output.print_text(made.promise, "", "What must be true:")
    output.print_text(*(f"  - {condition}" for condition in made.conditions), "")
    if made.notes:
        output.print_text(*made.notes, "")
    output.print_table(
        f"The bounds side by side, at {made.records:,} records",
        ("bound", "classes", "failure after linkage, at most", ""),
        [
            (
                other.bound,
                "none" if other.classes is None else f"{other.classes:,}",
                "" if other.failure_upper is None else f"{other.failure_upper:.3g}",
                "this plan" if other.bound == made.bound else "",
            )
            for other in planned.alternatives
        ],
    )
    output.print_text(
        f"Expected records per class: {utility.smallest_class:,.0f} to {utility.largest_class:,.0f}. "
        f"Information loss (NCP, 0 to 1): {utility.ncp:.4f}",
        f"Wrote {target}  {made.digest}",
    )


def _risk(text: str | None) -> float | None:
    """The waiting risk; a placeholder for `auto`, which is decided once the model is there."""
    if text is None:
        return None
    if text == "auto":
        return 0.1
    try:
        return float(text)
    except ValueError:
        raise ParameterError(
            "--waiting-risk must be a number between 0 and 1, or auto.", found=f"It is {text!r}."
        ) from None
