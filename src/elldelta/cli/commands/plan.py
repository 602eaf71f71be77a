"""`elldelta frontier`, `plan` and `compose`: from a model to the plan of every owner, and to several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.cli.closing import of_plan
from elldelta.errors import ParameterError, counted
from elldelta.parameters import Doc
from elldelta.plan.wish import FrontierWish, Wish


@command("frontier", example="frontier model.parquet --ell 5 --releases 2 --picture frontier.png")
def _frontier(
    model: options.ModelFile, wish: FrontierWish, drawn: options.Drawn, json: options.Json = False
) -> None:
    """How many classes how many records buy, and what is lost, in plans of these terms."""
    from elldelta.plan.frontier import frontier

    if wish.closeness is None:
        options.note_ell_of_one(wish.largest_ell)
    with output.progress_bar("Planning") as progress:
        result = frontier(model, **vars(wish), progress=progress)
    drawn.draw(result.plot)
    if json:
        output.print_json(result.to_dict())
        return
    header, rows = result.listing()
    output.print_table(
        f"Classes and information loss: {result.title}",
        header,
        [[_cell(cell) for cell in row] for row in rows],
    )
    if Path(model).is_dir():
        output.print_text("The paper's plans are not shown: they are not made by region.")
    output.print_written(drawn.picture)


def _cell(number: object) -> str:
    if number is None:
        return "-"
    return f"{number:.4f}" if isinstance(number, float) else f"{number:,}"


@command("plan", example="plan model.parquet --ell 5 --releases 2 --records 30000 -o plan.json")
def _plan(
    model: options.ModelFile,
    *,
    wish: Wish,
    target: options.Output,
    hierarchy: options.Hierarchies = None,
    picture: Annotated[
        Path | None,
        Doc(
            "Also draw the classes over the two columns with most values, into a .png or .svg file.",
            panel="Expert",
        ),
    ] = None,
    workers: options.WorkerOptions,
    overwrite: options.Overwrite = False,
    details: options.Details = False,
    json: options.Json = False,
) -> None:
    """Make a plan from a model: classes, records to wait for, and the promise in words."""
    from elldelta.plan.planner import plan_to_file

    if wish.closeness is None:
        options.note_ell_of_one(wish.largest_ell)
    groups = options.named_files(hierarchy, "--hierarchy")
    with workers.started() as where, output.progress_bar("Planning") as progress:
        made, found = plan_to_file(
            model,
            wish,
            target,
            hierarchies=groups,
            picture=picture,
            overwrite=overwrite,
            progress=progress,
            workers=where,
        )
    if json:
        output.print_json({"plan": str(target), **made.summary(), **found})
        return
    if details:
        output.print_text(*(f"{words}\n" for words in (made.promise, made.past_promise) if words))
        output.print_text("What must be true:", *(f"  - {condition}" for condition in made.conditions), "")
    output.print_text(f"Wrote {target}  {made.digest}")
    output.print_written(picture)
    of_plan(made, found, target).print()


@command("compose", example="compose plan_a.json:2 plan_b.json:1")
def _compose(
    plans: Annotated[
        list[str], typer.Argument(help="Plans, each with the number of its releases: plan.json:2")
    ],
    json: options.Json = False,
) -> None:
    """What linking unchecked releases of one or several plans leaves: for every ell, how likely it fails.

    Where plans promise closeness, also how far all releases together can lead from what each of them says.
    """
    from elldelta.engines.task import computed
    from elldelta.plan.compose import compose

    events = [_event(text) for text in plans]
    with output.progress_bar("Computing") as progress:
        composed = computed(lambda _: compose(events), progress)
    if json:
        output.print_json(composed.to_dict())
        return
    for column in composed.columns:
        output.print_table(
            f"Linking {counted(composed.releases, 'release')} that nobody has checked, {column.column}",
            ("ell", "fewer than ell values left for somebody, probability at most"),
            [
                (str(ell), f"{failure:.3g}" if failure < 1.0 else "no promise")
                for ell, failure in enumerate(column.profile.failures_upper.tolist(), start=1)
            ],
        )
        for item in column.closeness:
            far = item.distance_upper
            output.print_text(
                f"Closeness to what plan {item.plan[:15]} says: "
                + ("no promise" if far is None else f"at most {far:.3g}")
                + f" for these releases; {item.promised:g} is what it promises by itself."
            )
    output.print_text("What must be true:", *(f"  - {condition}" for condition in composed.conditions))


def _event(text: str) -> tuple[Path, int]:
    name, colon, number = text.rpartition(":")
    if not colon:
        name, number = text, "1"
    if not number.isdecimal() or int(number) < 1:
        raise ParameterError(
            "A plan must be followed by a colon and the number of its releases.",
            found=f"It is {text!r}.",
            remedy="For example: plan_a.json:2",
        )
    return Path(name), int(number)
