"""`elldelta frontier`, `plan` and `compose`: from a model to the plan of every owner, and to several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import ParameterError, counted
from elldelta.parameters import ClosenessTo, Movers, PlanKind


@command("frontier", example="frontier model.parquet --ell 5 --releases 2 --picture frontier.png")
def _frontier(
    model: options.ModelFile,
    ell: options.Ell,
    delta: options.Delta = 0.01,
    releases: options.Releases = 1,
    records: Annotated[str, typer.Option(help="Numbers of records to try, separated by commas.")] = "",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Search for boxes as thoroughly as for a plan, also where that takes long."
        ),
    ] = False,
    *,
    drawn: options.Drawn,
    json: options.Json = False,
) -> None:
    """How many classes how many records buy, by the paper and in certified plans."""
    from elldelta.model import read_model
    from elldelta.plan.frontier import frontier

    numbers = options.whole_numbers(records, "--records", "10000,30000,100000") if records else None
    with output.progress_bar("Planning") as progress:
        result = frontier(
            read_model(model),
            ell=ell,
            delta=delta,
            releases=releases,
            records=numbers,
            exact=exact,
            progress=progress,
        )
    kinds = list(result.rows[0].classes)
    drawn.draw(result.plot)
    if json:
        output.print_json(result.to_dict())
        return
    output.print_table(
        f"Classes for ell = {ell}, {releases} linked releases, failure at most {releases * delta:g}",
        ("records", *kinds),
        [
            (
                f"{row.records:,}",
                *("-" if row.classes[kind] is None else f"{row.classes[kind]:,}" for kind in kinds),
            )
            for row in result.rows
        ],
    )
    if not result.exact:
        output.print_text(
            "Searched quickly: a plan may have about a tenth more or fewer classes. --exact tells its number."
        )
    output.print_written(drawn.picture)


@dataclass(frozen=True)
class Wishes:
    """What is asked for."""

    ell: Annotated[
        str | None,
        typer.Option(
            help="Sensitive values that must be left for everybody. Required without --closeness. For "
            "several sensitive columns one number for all, or one for each: disease=5,income=3.",
        ),
    ] = None
    closeness: Annotated[
        str | None,
        typer.Option(
            help="How far shares of linked records may be from what the plan says, between 0 and 1: 0.2 is "
            "20 percentage points, for every set of values. With --ell or instead of it. For several "
            "sensitive columns as with --ell.",
        ),
    ] = None
    closeness_to: Annotated[
        ClosenessTo,
        typer.Option(
            help="class: what the plan says is the distribution of a class in the past records, smoothed and "
            "rounded. overall: that of everybody (t-closeness).",
        ),
    ] = "class"
    delta: Annotated[
        float,
        typer.Option(
            help="Failure probability of one release, between 0 and 1: of a certified plan, that a table "
            "with so many records is refused.",
        ),
    ] = 0.01
    releases: options.Releases = 1
    records: Annotated[int | None, typer.Option(help="Records that every owner can wait for.")] = None
    p: Annotated[
        float | None, typer.Option(help="Of a plan of the kind paper: its p, which decides the records.")
    ] = None
    beta: Annotated[float | None, typer.Option(help="The same as a share of the largest p.")] = None
    kind: Annotated[
        PlanKind,
        typer.Option(
            help="certified: every release is checked before it is published, and the promise is certain. "
            "probabilistic: the same classes, published at N records without looking. paper: the paper as it "
            "stands, with runs, its bound and its N.",
        ),
    ] = "certified"
    merge_risk: Annotated[
        float | None,
        typer.Option(
            help="Instead of fixed classes: the chance that a class does not pass by itself, such as 0.1. "
            "Classes then move up the plan's tree, some of them by chance. For owners who do not share "
            "people, and small ones.",
        ),
    ] = None
    owners: Annotated[
        int | None,
        typer.Option(help="So many owners will publish through one ledger, one after the other."),
    ] = None
    min_records: Annotated[
        int, typer.Option(help="Records with which a witness value counts as present.")
    ] = 1
    k: Annotated[
        int | None,
        typer.Option(help="No published class holds fewer records. With --closeness 10 is usual."),
    ] = None
    fewest_past: Annotated[
        int,
        typer.Option(
            help="Rely only on values that occur at least this often in the past records of a class, "
            "such as 5. A plan names these values, so a rare one would tell about somebody in the past. "
            "Costs classes. Their counts are rounded down in any case, to 0 below 5.",
        ),
    ] = 1
    movers: Annotated[
        Movers,
        typer.Option(
            help="declared: the promise also holds for people who move among the values of columns that the "
            "schema says change (changes = true). any: also if anything about them changes. Costs classes.",
        ),
    ] = "declared"


@command("plan", example="plan model.parquet --ell 5 --releases 2 --records 30000 -o plan.json")
def _plan(
    model: options.ModelFile,
    target: options.Output,
    wishes: Wishes,
    hierarchy: options.Hierarchies = None,
    picture: options.Picture = None,
    picture_columns: Annotated[
        str, typer.Option(help="The two columns to draw, such as age,education.")
    ] = "",
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Make a plan from a model: classes, records to wait for, and the promise in words."""
    from elldelta.plan.planner import plan_to_file
    from elldelta.plan.wish import Wish, by_column, promised_ell

    ell = by_column(wishes.ell, "--ell", int)
    closeness = by_column(wishes.closeness, "--closeness", float)
    options.note_ell_of_one(ell if isinstance(ell, int) else None)
    wish = Wish(**{**vars(wishes), "ell": promised_ell(ell, closeness), "closeness": closeness})
    groups = options.named_files(hierarchy, "--hierarchy")
    with output.progress_bar("Planning") as progress:
        made, utility = plan_to_file(
            model,
            wish,
            target,
            hierarchies=groups,
            picture=picture,
            picture_columns=options.names(picture_columns) or None,
            overwrite=overwrite,
            progress=progress,
        )
    told = {"plan": str(target), **made.summary(), **utility.to_dict(made.schema.names)}
    if json:
        output.print_json(told)
    else:
        _print(told)
        output.print_written(picture)


def _print(told: dict[str, Any]) -> None:
    output.print_text(told["promise"], "")
    if "past_promise" in told:
        output.print_text(told["past_promise"], "")
    output.print_text("What must be true:", *(f"  - {condition}" for condition in told["conditions"]))
    output.print_text("")
    output.print_text(
        f"{told['classes']:,} classes. Expected records per class: {told['smallest_class']:,.0f} to "
        f"{told['largest_class']:,.0f}. Information loss (NCP, 0 to 1): {told['ncp']:.4f}",
        f"Wrote {told['plan']}  {told['digest']}",
    )


@command("compose", example="compose plan_a.json:2 plan_b.json:1")
def _compose(
    plans: Annotated[
        list[str], typer.Argument(help="Plans, each with the number of its releases: plan.json:2")
    ],
    json: options.Json = False,
) -> None:
    """What linking releases of one or several plans leaves: for every ell, how likely it fails.

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
    for column in (composed, *composed.also):
        about = f", {column.column}" if column.column else ""
        output.print_table(
            f"Linking {counted(column.profile.releases, 'release')}{about}",
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
