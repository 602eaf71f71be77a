"""`elldelta remote`: an owner works with the agency's server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import agency, options, output
from elldelta.cli.progress import progress_bar

PlanFile = Annotated[Path, typer.Option("--plan", help="The plan, as it was fetched.")]


def register(app: typer.Typer) -> None:
    """Adds the family of commands to the application."""
    family = typer.Typer(help="Work with the agency's server.", no_args_is_help=True)
    for name, command, words, example in (
        ("key", _key, "Show the agency's public key, and keep it in a file.", "-o agency.pem"),
        ("plans", _plans, "List the plans that the agency has issued.", "--population region"),
        (
            "plan",
            _plan,
            "Fetch a plan with its signature, and check it.",
            "sha256:... -o plan.json --agency-key agency.pem",
        ),
        ("status", _status, "What the agency says about a plan now.", "sha256:..."),
        ("progress", _progress, "Tell the agency how many records you have.", "sha256:... --records 6400"),
        (
            "register",
            _register,
            "Register a release; the agency checks it and admits or refuses it.",
            "release_a.parquet --plan plan.json",
        ),
        (
            "ledger",
            _ledger,
            "Fetch the ledger of a plan, and check its chain.",
            "sha256:... -o releases.ledger",
        ),
    ):
        family.command(name, help=words, epilog=f"Example: elldelta remote {name} {example}")(
            options.bundled(command)
        )
    app.add_typer(family, name="remote")


def _key(
    connection: agency.Connection,
    target: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the key in this file.")] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import fetch_key
    from elldelta.files import ALGORITHM, write_key

    key = fetch_key(connection.open(needs_token=False))
    if target is not None:
        write_key(key, target, overwrite=overwrite)
    if json:
        result = {"id": key.id, "algorithm": ALGORITHM, "public_key": key.to_pem().decode("ascii")}
        output.print_json({**result, "file": str(target) if target else None})
        return
    output.print_text(key.id)
    output.print_note("Compare this name with the agency by another way, for instance on the telephone.")
    if target is not None:
        output.print_text(f"Wrote {target}.")


def _plans(
    connection: agency.Connection,
    population: Annotated[
        str | None, typer.Option("--population", help="Only plans for this population.")
    ] = None,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import list_plans

    plans = list_plans(connection.open(), population)
    if json:
        output.print_json({"plans": [asdict(plan) for plan in plans]})
        return
    # No table: a digest must stay in one piece, or it cannot be copied.
    for plan in plans:
        output.print_text(
            plan.digest,
            f"    {plan.population}, {plan.status}: ell {plan.ell} for {plan.releases} releases of at least "
            f"{plan.records:,} records, {plan.classes:,} classes, {plan.guarantee}",
        )
    if not plans:
        output.print_note("There is no plan yet.")


def _plan(
    digest: agency.PlanDigest,
    target: Annotated[Path, typer.Option("--output", "-o", help="The plan; its signature lies beside it.")],
    connection: agency.Connection,
    agency_key: agency.AgencyKeyFile = None,
    trust_first_key: Annotated[
        Path | None,
        typer.Option(
            "--trust-first-key",
            help="If this file is not there: believe the server's key this once and keep it here. "
            "If it is there: the same as --agency-key.",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import fetch_plan

    at = connection.open()
    fetched = fetch_plan(
        at, digest, target, agency_key=agency_key, trust_first_key=trust_first_key, overwrite=overwrite
    )
    plan = fetched.plan
    if json:
        output.print_json(
            {
                "plan": str(target),
                "digest": plan.digest,
                "key_id": fetched.key.id,
                "key_is_new": fetched.is_first,
                "records": plan.records,
                "promise": plan.promise,
            }
        )
        return
    output.print_text(plan.promise, f"Signed with the key {fetched.key.id}.")
    if fetched.is_first:
        output.print_text(
            f"This key was believed because it is the first one; it is kept in {trust_first_key}.",
            "Compare its name with the agency by another way, for instance on the telephone.",
        )
    output.print_text(f"Wrote {target} and its signature.")


def _status(
    digest: agency.PlanDigest,
    connection: agency.Connection,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import plan_status

    status = plan_status(connection.open(), digest)
    if json:
        output.print_json(asdict(status))
        return
    plan, progress = status.plan, status.progress
    output.print_text(plan.promise, "")
    output.print_pairs(
        "The agency says",
        [
            ("population", plan.population),
            ("status", plan.status),
            ("records needed", f"{progress.needed:,}"),
            ("reported by you", "nothing yet" if progress.own is None else f"{progress.own:,}"),
            ("owners with enough", str(progress.owners_reached)),
            ("registered releases", str(status.registered)),
        ],
    )


def _progress(
    digest: agency.PlanDigest,
    records: Annotated[int, typer.Option("--records", help="How many records you have that can be used.")],
    connection: agency.Connection,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import report_progress

    progress = report_progress(connection.open(), digest, records)
    if json:
        output.print_json(asdict(progress))
        return
    missing = max(0, progress.needed - records)
    output.print_text(
        f"Reported: {records:,} of {progress.needed:,} records."
        + (f" {missing:,} are missing." if missing else " That is enough."),
        f"{progress.owners_reached} owners have enough.",
    )


def _register(
    release: Annotated[Path, typer.Argument(help="The release, with its manifest beside it.")],
    plan: PlanFile,
    connection: agency.Connection,
    agency_key: Annotated[
        Path | None,
        typer.Option(
            "--agency-key",
            help="The agency's public key, a .pem file: plan and receipt must then carry its signature.",
        ),
    ] = None,
    only_write: Annotated[
        Path | None,
        typer.Option(
            "--only-write",
            help="Write the registration into this file and send nothing. It can be uploaded on the agency's "
            "pages.",
        ),
    ] = None,
    receipt: Annotated[
        bool, typer.Option("--receipt/--no-receipt", help="Keep the agency's answer beside the release.")
    ] = True,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import register_release, write_registration
    from elldelta.files import read_public_key
    from elldelta.plan.signature import given_plan

    if only_write is not None:
        known, _ = given_plan(plan, agency_key)
        with progress_bar("Reading") as progress:
            written = write_registration(release, known, only_write, overwrite=overwrite, progress=progress)
        if json:
            output.print_json(
                {"release": str(release), "registration": str(only_write), "digest": written.digest}
            )
            return
        output.print_text(f"Wrote {only_write}. Nothing was sent.")
        return
    at = connection.open()
    known, _ = given_plan(plan, agency_key)
    with progress_bar("Reading") as progress:
        done = register_release(
            at,
            release,
            known,
            agency_key=None if agency_key is None else read_public_key(agency_key),
            keep_receipt=receipt,
            overwrite=overwrite,
            progress=progress,
        )
    if json:
        output.print_json(
            {
                "release": str(release),
                "accepted": True,
                "is_new": done.is_new,
                "receipt": str(done.path) if done.path else None,
                **asdict(done.receipt),
            }
        )
        return
    output.print_text(
        f"Admitted: release {done.receipt.sequence} in the ledger of the plan."
        if done.is_new
        else f"It was admitted before: release {done.receipt.sequence} in the ledger of the plan.",
        f"Its line has the hash {done.receipt.hash}.",
        *(["The agency has signed it."] if agency_key is not None else []),
    )
    if done.path is not None:
        output.print_text(f"The receipt is {done.path}.")


def _ledger(
    digest: agency.PlanDigest,
    target: options.Output,
    connection: agency.Connection,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="The plan; then its terms are compared too.")
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    from elldelta.agency.remote import fetch_ledger
    from elldelta.plan.plan import read_plan

    at = connection.open()
    known = read_plan(plan) if plan is not None else None
    chain = fetch_ledger(at, digest, target, plan=known, overwrite=overwrite)
    if json:
        output.print_json(
            {"ledger": str(target), "releases": len(chain.active), "head": chain.head, "intact": True}
        )
        return
    output.print_text(
        f"The chain is intact: {len(chain.active)} releases, the last line has the hash {chain.head}.",
        f"Wrote {target}.",
    )
