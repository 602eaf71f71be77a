"""`elldelta remote`: an owner works with the agency's server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elldelta.cli import agency, options, output
from elldelta.cli.app import command, family
from elldelta.cli.closing import do_next
from elldelta.errors import counted
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from elldelta.agency.receipt import Receipt

ReleaseFile = Annotated[Path, typer.Argument(help="The release, with its manifest beside it.")]

COMPARE_KEY = "Compare its name with the agency by another way, for instance on the telephone."


_FAMILY = family("remote", "Work with the agency's server.")


@command("key", example="remote key -o agency.pem", home=_FAMILY)
def _key(
    connection: agency.Connection,
    target: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the keys in this file.")] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Show the agency's public key and its former ones, and keep them in a file."""
    from elldelta.agency.remote import fetch_keys
    from elldelta.files import ALGORITHM, write_key

    keys = fetch_keys(connection.open(needs_token=False))
    if target is not None:
        write_key(keys, target, overwrite=overwrite)
    ids = [key.id for key in keys.keys]
    result = {"id": ids[0], "algorithm": ALGORITHM, "public_keys": keys.to_pem().decode("ascii")}
    output.print_result(
        {**result, "file": str(target) if target else None},
        *ids,
        *([f"Wrote {target}."] if target else []),
        as_json=json,
    )
    if not json:
        output.print_note(COMPARE_KEY)


@command("plans", example="remote plans --population region", home=_FAMILY)
def _plans(
    connection: agency.Connection,
    population: Annotated[str | None, Doc("Only plans for this population.")] = None,
    json: options.Json = False,
) -> None:
    """List the plans that the agency has issued."""
    from elldelta.agency.remote import list_plans

    plans = list_plans(connection.open(), population)
    # No table: a digest must stay in one piece, or it cannot be copied.
    lines = [
        f"{plan.digest}\n    {plan.population}, {plan.status}: ell {plan.ell}"
        f"{'' if plan.closeness is None else f', closeness {plan.closeness:g}'} "
        f"for {counted(plan.releases, 'release')} of at least {counted(plan.records, 'record')}, "
        f"{counted(plan.classes, 'class', 'classes')}, {plan.kind}"
        for plan in plans
    ]
    output.print_result({"plans": [plan.model_dump(mode="json") for plan in plans]}, *lines, as_json=json)
    if not plans and not json:
        output.print_note("There is no plan yet.")


@command("plan", example="remote plan sha256:... -o plan.json --agency-key agency.pem", home=_FAMILY)
def _plan(
    digest: agency.PlanDigest,
    target: Annotated[Path, typer.Option("--output", "-o", help="The plan; its signature lies beside it.")],
    connection: agency.Connection,
    agency_key: agency.AgencyKeyFile = None,
    trust_first_key: Annotated[
        Path | None,
        Doc(
            "If this file is not there: believe the server's key this once and keep it here. "
            "If it is there: the same as --agency-key.",
            panel="Expert",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Fetch a plan with its signature, and check it."""
    from elldelta.agency.remote import ending, fetch_plan

    got = fetch_plan(
        connection.open(),
        digest,
        target,
        agency_key=agency_key,
        trust_first_key=trust_first_key,
        overwrite=overwrite,
    )
    plan, signature, view = got.plan, got.signature, got.view
    first = f"This key was believed because it is the first one; it is kept in {trust_first_key}."
    output.print_result(
        {
            "plan": str(target),
            "digest": plan.digest,
            "population": view.population,
            "status": view.status,
            "key_id": signature.key_id,
            "key_is_new": got.is_first_key,
            "expires": signature.expires and signature.expires.isoformat(),
            "records": plan.records,
            "promise": plan.promise,
        },
        plan.promise,
        f"Signed with the key {signature.key_id}.",
        *([f"Use it until {signature.expires:%Y-%m-%d}, then fetch it again."] if signature.expires else []),
        *([first, COMPARE_KEY] if got.is_first_key else []),
        f"Wrote {target} and its signature.",
        as_json=json,
    )
    if ending(view):
        output.print_note(ending(view))


@command("status", example="remote status sha256:...", home=_FAMILY)
def _status(
    digest: agency.PlanDigest,
    connection: agency.Connection,
    json: options.Json = False,
) -> None:
    """What the agency says about a plan now."""
    from elldelta.agency.remote import plan_status

    status = plan_status(connection.open(), digest)
    if json:
        document = {name: getattr(status, name).model_dump(mode="json") for name in ("plan", "progress")}
        output.print_json({**document, "registered": status.registered})
        return
    plan, progress = status.plan, status.progress
    output.print_text(plan.promise, "")
    output.print_pairs(
        "The agency says",
        [
            ("population", plan.population),
            ("status", f"{plan.status}: {plan.reason}" if plan.reason else plan.status),
            ("records needed", f"{progress.needed:,}"),
            (
                "reported by you",
                "nothing yet" if progress.own_records is None else f"{progress.own_records:,}",
            ),
            ("owners with enough", str(progress.owners_reached)),
            ("published releases, and yours", str(status.registered)),
        ],
    )


@command("progress", example="remote progress sha256:... --records 6400", home=_FAMILY)
def _progress(
    digest: agency.PlanDigest,
    records: Annotated[int, Doc("How many records you have that can be used.")],
    connection: agency.Connection,
    json: options.Json = False,
) -> None:
    """Tell the agency how many records you have."""
    from elldelta.agency.remote import report_progress

    progress = report_progress(connection.open(), digest, records)
    missing = max(0, progress.needed - records)
    output.print_result(
        progress.model_dump(mode="json"),
        f"Reported: {records:,} of {counted(progress.needed, 'record')}."
        + (f" {missing:,} are missing." if missing else " That is enough."),
        f"{counted(progress.owners_reached, 'owner has', 'owners have')} enough.",
        as_json=json,
    )


@command("register", example="remote register release_a.parquet --plan plan.json", home=_FAMILY)
def _register(
    release: ReleaseFile,
    plan: Annotated[Path, Doc("The plan, as it was fetched.")],
    connection: agency.Connection,
    state: Annotated[
        Path | None,
        Doc(
            "Of a table that is published again: the state that was written with the release. It stays "
            "here; the agency is told how many records came and went.",
            panel="Tables published again",
        ),
    ] = None,
    agency_key: Annotated[
        Path | None, agency.agency_key("plan and receipt must then carry its signature")
    ] = None,
    only_write: Annotated[
        Path | None,
        Doc(
            "Write the registration into this file and send nothing. It can be uploaded on the "
            "agency's pages.",
            panel="Expert",
        ),
    ] = None,
    receipt: Annotated[
        bool,
        typer.Option(
            "--receipt/--no-receipt",
            help="Keep the agency's answer beside the release.",
            rich_help_panel="Expert",
        ),
    ] = True,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Register a release; the agency checks it and admits or refuses it."""
    from elldelta.agency.remote import register_release, write_registration

    with output.progress_bar("Reading") as progress:
        given: dict[str, Any] = {
            "state": state, "agency_key": agency_key, "overwrite": overwrite, "progress": progress,
        }  # fmt: skip
        if only_write is not None:
            written = write_registration(release, plan, only_write, **given)
            result = {"release": str(release), "registration": str(only_write), "digest": written.digest}
            output.print_result(result, f"Wrote {only_write}. Nothing was sent.", as_json=json)
            return
        done, is_new = register_release(connection.open(), release, plan, keep_receipt=receipt, **given)
    when = "Before you hand it out" if is_new else "Unless you have done so: before you hand it out"
    step = do_next(f"{when}, tell the agency", "remote", "publish", str(release), *connection.options())
    _print_admitted(
        release,
        done,
        step,
        is_new=is_new,
        has_receipt=receipt,
        is_signed=agency_key is not None,
        as_json=json,
    )


def _print_admitted(
    release: Path,
    done: Receipt,
    step: str,
    *,
    is_new: bool,
    has_receipt: bool,
    is_signed: bool,
    as_json: bool,
) -> None:
    from elldelta.agency.receipt import receipt_path

    kept = str(receipt_path(release)) if has_receipt else None
    output.print_result(
        {"release": str(release), "is_new": is_new, "receipt": kept, **asdict(done)},
        f"{'Admitted' if is_new else 'It was admitted before'}: release {done.sequence} in the ledger of the "
        "plan.",
        f"Its line has the hash {done.hash}.",
        *(["The agency has signed it."] if is_signed else []),
        *([f"The receipt is {kept}."] if kept else []),
        step,
        as_json=as_json,
    )


@command("receipt", example="remote receipt release_a.parquet --agency-key agency.pem", home=_FAMILY)
def _receipt(
    release: ReleaseFile,
    connection: agency.Connection,
    agency_key: Annotated[Path | None, agency.agency_key("the receipt must carry its signature")] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Fetch the receipt of a release that you have registered once more."""
    from elldelta.agency.receipt import receipt_path
    from elldelta.agency.remote import fetch_receipt

    found = fetch_receipt(connection.open(), release, agency_key=agency_key, overwrite=overwrite)
    kept = str(receipt_path(release))
    output.print_result(
        {"release": str(release), "receipt": kept, **asdict(found)},
        f"Release {found.sequence} in the ledger of the plan; its line has the hash {found.hash}.",
        *(["The agency has signed it."] if agency_key is not None else []),
        f"The receipt is {kept}.",
        as_json=json,
    )


@command("publish", example="remote publish release_a.parquet", home=_FAMILY)
def _publish(
    release: ReleaseFile,
    connection: agency.Connection,
    json: options.Json = False,
) -> None:
    """Tell the agency that you publish a release now, before you hand it out; others then see it."""
    _report_state(connection, release, "published", "Noted as published.", as_json=json)


@command("void", example="remote void release_a.parquet", home=_FAMILY)
def _void(
    release: ReleaseFile,
    connection: agency.Connection,
    json: options.Json = False,
) -> None:
    """Take back a release that you have never published, and never will."""
    rest = "The ledger says that this rests on your word: delete the release, and give it to nobody."
    _report_state(connection, release, "voided", f"Taken back. {rest}", as_json=json)


def _report_state(
    connection: agency.Connection,
    release: Path,
    state: Literal["published", "voided"],
    words: str,
    *,
    as_json: bool,
) -> None:
    from elldelta.agency.remote import report_state

    found = report_state(connection.open(), release, state)
    document: dict[str, object] = {"release": str(release), "state": found.state}
    lines = [words]
    if found.subtraction is not None:
        document["subtraction"] = found.subtraction.model_dump()
        lines.append(found.subtraction.words)
    output.print_result(document, *lines, as_json=as_json)


@command("ledger", example="remote ledger sha256:... -o releases.ledger", home=_FAMILY)
def _ledger(
    digest: agency.PlanDigest,
    target: options.Output,
    connection: agency.Connection,
    plan: Annotated[Path | None, Doc("The plan; then its terms are compared too.")] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Fetch the ledger of a plan, and check its chain."""
    from elldelta.agency.remote import fetch_ledger

    chain = fetch_ledger(connection.open(), digest, target, plan=plan, overwrite=overwrite)
    output.print_result(
        {
            "ledger": str(target),
            "releases": chain.n_releases,
            "sealed": len(chain.sealed),
            "conditions": list(chain.conditions),
            "head": chain.head,
            "intact": True,
        },
        f"The chain is intact: {counted(chain.n_releases, 'release')}, "
        f"the last line has the hash {chain.head}.",
        *chain.conditions,
        f"Wrote {target}.",
        as_json=json,
    )
