"""`elldelta plan`: from a model to the plan that every owner uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elldelta.choices import Bound, CategoryOrder, ClosenessTo, Guarantee, Movers, ShapeName
from elldelta.cli import options, output
from elldelta.cli.app import command
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.plan.waiting_risk import LedgerAdvice


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
            help="How far linking may lead beliefs away from what the plan says, between 0 and 1: 0.2 is 20 "
            "percentage points, for every set of values. With --ell or instead of it. For several sensitive "
            "columns as with --ell.",
        ),
    ] = None
    closeness_to: Annotated[
        ClosenessTo,
        typer.Option(
            help="class: what the plan says is the distribution of a class in the past records, smoothed and "
            "rounded. overall: that of everybody (t-closeness).",
        ),
    ] = "class"
    exact_references: Annotated[
        bool,
        typer.Option(
            "--exact-references",
            help="Let the plan tell the past records of every class as they are, without smoothing and "
            "rounding. Plans are public.",
        ),
    ] = False
    delta: Annotated[
        float | None,
        typer.Option(
            help="Failure probability of one release, between 0 and 1. Without it a certified plan takes the "
            "waiting risk that is expected to lose least; other plans take 0.01.",
        ),
    ] = None
    releases: options.Releases = 1
    records: Annotated[int | None, typer.Option(help="Records that every owner can wait for.")] = None
    p: Annotated[float | None, typer.Option(help="The paper's p; decides the records instead.")] = None
    beta: Annotated[float | None, typer.Option(help="The same as a share of the largest p.")] = None
    classes: Annotated[int | None, typer.Option(help="Classes to reach with as few records as possible.")] = (
        None
    )
    bound: Annotated[
        Bound,
        typer.Option(
            help="sharp: any ell values of a class count. paper: the ell most probable ones must be there.",
        ),
    ] = "sharp"
    eta: options.Eta = 0.0
    shared_records: Annotated[
        int | None,
        typer.Option(
            help="Promise only for releases that are nearly independent. It must be true that at most this "
            "many records of each release are shared with other releases, chosen without looking at their "
            "values, and that all other records are independent. Without it, releases may share people in "
            "any way.",
        ),
    ] = None
    history_confidence: Annotated[
        float | None,
        typer.Option(
            help="With --guarantee probabilistic: how sure the promise must be that the past records, which "
            "are a sample, do not mislead, such as 0.95. Costs classes.",
        ),
    ] = None
    turnover: Annotated[
        float | None,
        typer.Option(
            help="For a table that is published again (release --since): the share of its records that come, "
            "and of those that go, between two releases, such as 0.1. Makes classes so large that they can "
            "change; --waiting-risk is then the chance that one cannot (0.3 by default).",
        ),
    ] = None
    shape: Annotated[
        ShapeName | None,
        typer.Option(
            help="boxes: a range of every quasi-identifier. runs: neighbours in their common order. "
            "Boxes by default if there are two or more quasi-identifiers.",
        ),
    ] = None
    guarantee: Annotated[
        Guarantee,
        typer.Option(
            help="certified: every release is checked before it is published, and the promise is certain. "
            "probabilistic: publish at N records without looking, as the paper does.",
        ),
    ] = "certified"
    waiting_risk: Annotated[
        str | None,
        typer.Option(
            help="Instead of --delta: the chance that a class needs merging, such as 0.1; auto, the default "
            "of certified plans, tries several and takes the one that loses least information.",
        ),
    ] = None
    owners: Annotated[
        int | None,
        typer.Option(
            help="So many owners will publish through one ledger, one after the other (release --ledger "
            "--to-come): choose the waiting risk that loses least for them.",
        ),
    ] = None
    min_records: Annotated[
        int, typer.Option(help="Records with which a witness value counts as present.")
    ] = 1
    fewest_past: Annotated[
        int,
        typer.Option(
            help="Rely only on values that occur at least this often in the past records of a class, "
            "such as 5. A plan names these values, so a rare one would tell about somebody in the past. "
            "Costs classes.",
        ),
    ] = 1
    category_order: Annotated[
        CategoryOrder,
        typer.Option(
            help="given: categories stay in the order of the schema. profile: unordered categories without a "
            "hierarchy are ordered so that similar distributions of the sensitive column are neighbours.",
        ),
    ] = "given"
    movers: Annotated[
        Movers,
        typer.Option(
            help="declared: the promise also holds for people who move among the values of columns that the "
            "schema says change (changes = true). any: also if anything about them changes. Costs classes.",
        ),
    ] = "declared"


@command("plan", example="plan model.parquet --ell 5 --releases 2 --records 30000 -o plan.json")
def _run(
    model: options.ModelFile,
    target: options.Output,
    wishes: Wishes,
    hierarchy: options.Hierarchies = None,
    picture: options.Picture = None,
    picture_columns: Annotated[
        str, typer.Option(help="The two columns to draw, such as age,education.")
    ] = "",
    compare: Annotated[
        bool, typer.Option("--compare", help="Also tell what each bound gives for the same records.")
    ] = False,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Make a plan from a model: classes, records to wait for, and the promise in words."""
    from elldelta.plan.compare import plan_to_file
    from elldelta.plan.wish import Wish, by_column, promised_ell

    ell = by_column(wishes.ell, "--ell", int)
    closeness = by_column(wishes.closeness, "--closeness", float)
    options.said_if_nothing(ell if isinstance(ell, int) else None)
    asked = vars(wishes) | {"ell": promised_ell(ell, closeness), "closeness": closeness}
    wish = Wish(**{**asked, "waiting_risk": _risk(wishes.waiting_risk)})
    groups = options.named_files(hierarchy, "--hierarchy")
    with output.progress_bar("Planning") as progress:
        planned = plan_to_file(
            model,
            wish,
            target,
            hierarchies=groups,
            compare=compare,
            picture=picture,
            picture_columns=options.names(picture_columns) or None,
            overwrite=overwrite,
            progress=progress,
        )
    told = planned.to_dict()
    if json:
        output.print_json(told)
    else:
        _print(told)
        _advise(planned.advice)
        output.print_written(picture)


def _print(told: dict[str, Any]) -> None:
    output.print_text(told["promise"], "")
    if "past_promise" in told:
        output.print_text(told["past_promise"], "")
    output.print_text("What must be true:", *(f"  - {condition}" for condition in told["conditions"]))
    if told["movers"] is None and told["releases"] > 1:  # other plans say it in their conditions
        output.print_text(f"  - {told['about_changes']}")
    output.print_text("")
    if told["notes"]:
        output.print_text(*told["notes"], "")
    if "bounds" in told:
        output.print_table(
            f"The bounds side by side, at {told['records']:,} records",
            ("bound", "classes", "failure after linkage, at most", ""),
            [
                (
                    row["bound"],
                    "none" if row["classes"] is None else f"{row['classes']:,}",
                    _failure(row, is_checked=told["waiting_risk"] is not None),
                    "this plan" if row["bound"] == told["bound"] else "",
                )
                for row in told["bounds"]
            ],
        )
    output.print_text(
        f"{told['classes']:,} classes. Expected records per class: {told['smallest_class']:,.0f} to "
        f"{told['largest_class']:,.0f}. Information loss (NCP, 0 to 1): {told['ncp']:.4f}",
        f"Wrote {told['plan']}  {told['digest']}",
    )


def _advise(advice: LedgerAdvice | None) -> None:
    """Recommends a ledger where owners are expected to lose less with it."""
    if advice is not None and advice.helps:
        output.print_text(
            f"Owners are expected to lose {advice.certificates:.4f} with certificates alone, and "
            f"{advice.ledger:.4f} if {advice.owners} of them publish through one ledger: make the plan with "
            f"--owners {advice.owners} instead of --releases, and release with --ledger."
        )


def _failure(row: dict[str, Any], *, is_checked: bool) -> str:
    """What can fail after linkage; a plan with a waiting risk leaves that to the check of every release."""
    if row["failure_upper"] is None:
        return ""
    return "nothing" if is_checked and row["bound"] == "sharp" else f"{row['failure_upper']:.3g}"


def _risk(text: str | None) -> float | Literal["auto"] | None:
    if text is None or text == "auto":
        return None if text is None else "auto"
    try:
        return float(text)
    except ValueError:
        raise ParameterError(
            "--waiting-risk must be a number between 0 and 1, or auto.", found=f"It is {text!r}."
        ) from None
