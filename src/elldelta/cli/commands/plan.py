"""`elldelta plan`: from a model to the plan that every owner uses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.app.shapes import ShapeName
from elldelta.cli import options, output
from elldelta.data.plan_file import Bound, Guarantee


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
        float | None,
        typer.Option(
            "--waiting-risk",
            help="Instead of --delta, for finer classes: the chance that a class needs merging, 0.05 to 0.2.",
        ),
    ] = None,
    min_records: Annotated[
        int, typer.Option("--min-records", help="Records with which a witness value counts as present.")
    ] = 1,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.app.plan import make_plan
    from elldelta.app.plan_request import PlanRequest
    from elldelta.data.atomic import check_writable
    from elldelta.data.model import read_model
    from elldelta.data.plan_file import write_plan

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
        waiting_risk=waiting_risk,
        min_records=min_records,
    )
    check_writable(target, overwrite=overwrite)
    planned = make_plan(read_model(model), request)
    write_plan(planned.plan, target, overwrite=overwrite)
    made = planned.plan
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
        "digest": made.digest,
        "promise": made.promise,
        "conditions": list(made.conditions),
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
    output.print_text(f"Wrote {target}  {made.digest}")
