"""`elldelta release` and `elldelta verify`: an owner publishes; anybody checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elldelta.choices import OnFailure
from elldelta.cli import agency, options, output
from elldelta.cli.progress import progress_bar
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.engines import TableName
    from elldelta.ledger import Ledger
    from elldelta.release.release import Release

PlanFile = Annotated[Path, typer.Option("--plan", help="The plan that the agency has sent.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command(
        "release",
        help="Apply a plan to your own records and write the release with its manifest.",
        epilog="Example: elldelta release hospital_a.parquet --plan plan.json -o release_a.parquet",
    )(options.bundled(_release))
    app.command(
        "verify",
        help="Check a release from its file: content, manifest, diversity, and the plan if you give it.",
        epilog="Example: elldelta verify release_a.parquet --plan plan.json",
    )(options.bundled(_verify))


def _release(
    sources: options.Sources = None,
    *,
    plan: PlanFile,
    target: Annotated[
        Path | None, typer.Option("--output", "-o", help="The release: a .parquet or .csv file.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--output-table",
            help="With --engine postgres: the release becomes this table, its manifest another whose name "
            "ends in _manifest, in one transaction.",
        ),
    ] = None,
    order: Annotated[
        Literal["sorted", "any"],
        typer.Option("--order", help="sorted hides the order of the input; any is faster with kept columns."),
    ] = "sorted",
    quarantine: Annotated[
        Path | None,
        typer.Option(
            "--quarantine",
            help="Put records with a value outside its domain into this file instead of refusing. "
            "It holds personal data.",
        ),
    ] = None,
    on_failure: Annotated[
        OnFailure | None,
        typer.Option(
            "--on-failure",
            help="What to do with classes that do not pass the certificate: refuse; coarsen (merge them with "
            "others, also with fewer records than planned); suppress (leave their records out); "
            "coarsen-suppress. By default refuse, or coarsen for a plan made with --waiting-risk.",
        ),
    ] = None,
    max_suppressed: Annotated[
        float | None,
        typer.Option("--max-suppressed", help="The largest share of records that may be left out for it."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="A ledger that must admit the release; it allows many more than the plan's number of "
            "releases. Made if it does not exist.",
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="The name under which the ledger knows you.")
    ] = None,
    agency_key: agency.AgencyKeyFile = None,
    overwrite: options.Overwrite = False,
    csv: options.Csv,
    where: options.WhereFrom,
    json: options.Json = False,
) -> None:
    from elldelta.release.release import release

    source = where.source(sources)
    place = _target(target, table, where.engine)
    book = _ledger(ledger, owner)
    with (
        where.start() as active,
        progress_bar("Releasing") as progress,
    ):
        made = release(
            source,
            plan,
            to=place,
            quarantine=quarantine,
            ledger=book,
            on_failure=on_failure,
            most_suppressed=max_suppressed,
            order=order,
            overwrite=overwrite,
            agency_key=agency_key,
            csv_format=csv.format,
            engine=active,
            progress=progress,
        )
    _print_release(made, json=json)


def _ledger(path: Path | None, owner: str | None) -> Ledger | None:
    from elldelta.ledger import Ledger

    if (path is None) != (owner is None):
        raise ParameterError(
            "A ledger needs the name of the owner, and an owner's name needs a ledger.",
            found="Only one of the two was given.",
            remedy="Give --ledger FILE and --owner NAME together.",
        )
    return Ledger(path, owner) if path is not None and owner is not None else None


def _target(path: Path | None, table: str | None, engine_name: str) -> Path | TableName:
    """Where the release goes: to a file or to a table."""
    from elldelta.engines import TableName

    if path is not None and table is None:
        return path
    if path is not None or table is None:
        raise ParameterError(
            "A release goes to one place.",
            found="Neither -o nor --output-table is given." if table is None else "Both are given.",
            remedy="Give -o FILE, or with --engine postgres --output-table NAME.",
        )
    if engine_name != "postgres":
        raise ParameterError(
            "--output-table goes with --engine postgres.",
            found=f"The engine is {engine_name}.",
            remedy="Add --engine postgres, or give -o FILE.",
        )
    return TableName.parse(table)


def _print_release(made: Release, *, json: bool) -> None:
    manifest = made.manifest
    names = (
        "records_read", "records_released", "records_suppressed", "records_quarantined", "records_left_out",
        "classes_published", "guarantee", "coarsening", "ledger", "ell", "diversity", "order", "plan_digest",
        "content_digest",
    )  # fmt: skip
    if json:
        places = {"release": str(made.place), "manifest": str(made.manifest_place)}
        output.print_json({**places, **{name: getattr(manifest, name) for name in names}})
        return
    lost = manifest.records_suppressed + manifest.records_quarantined
    output.print_text(
        f"Released {manifest.records_released:,} of {manifest.records_read:,} records "
        f"in {manifest.classes_published:,} classes.",
        f"Every class shows at least {manifest.diversity} values; {manifest.ell} were promised."
        if manifest.diversity is not None
        else "No class has a record.",
    )
    cost = manifest.coarsening
    if cost is not None and cost["base_classes_failing"]:
        output.print_text(
            f"{cost['base_classes_failing']} of {cost['base_classes']} planned classes did not pass: "
            f"{cost['base_classes_merged']} were merged, {manifest.records_left_out:,} records left out; "
            f"information loss {cost['ncp_before']:.4f} -> {cost['ncp_after']:.4f}.",
        )
    if cost is not None:
        output.print_text(
            "Certified: it may be linked with others of its kind, as the plan says."
            if manifest.ledger is None
            else f"Certified, and admitted by the ledger as release {manifest.ledger['sequence']}."
        )
    if lost:
        output.print_text(
            f"Left out: {manifest.records_suppressed:,} with a missing value, "
            f"{manifest.records_quarantined:,} with a value outside its domain."
        )
    output.print_text(f"Wrote {made.place} and its manifest.")


def _verify(
    release: Annotated[
        Path,
        typer.Argument(
            help="The release, with its manifest beside it; with --engine postgres the name of its table."
        ),
    ],
    plan: Annotated[Path | None, typer.Option("--plan", help="The plan it claims to follow.")] = None,
    *,
    csv: options.Csv,
    where: options.Where,
    json: options.Json = False,
) -> None:
    from elldelta.audit.audit import verify
    from elldelta.plan.plan import read_plan

    known = read_plan(plan) if plan else None
    with where.start() as active, progress_bar("Reading") as progress:
        checked = verify(release, known, csv_format=csv.format, engine=active, progress=progress)
    if json:
        output.print_json({**checked.to_dict(), "release": str(release)})
        return
    output.print_text(
        f"{release} is what its manifest says: {checked.records:,} records in {checked.classes:,} classes.",
        f"Every class shows at least {checked.diversity} values ({checked.ell} promised) "
        f"and {checked.k} records.",
    )
    if plan is not None:
        output.print_text("It follows the plan you gave.")
    if checked.is_certified:
        output.print_text("Its certificate holds.")
