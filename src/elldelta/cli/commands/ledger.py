"""`elldelta ledger show` and `elldelta ledger verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.agency import require
from elldelta.cli.app import command, family
from elldelta.errors import ParameterError

LedgerFile = Annotated[Path, typer.Argument(help="The ledger.")]


_FAMILY = family("ledger", "Look at the ledger of a plan's releases.")


@command("show", example="ledger show releases.ledger", home=_FAMILY)
def _show(ledger: LedgerFile, json: options.Json = False) -> None:
    """What is promised, which releases were admitted, and how much room is left."""
    from elldelta.ledger import verify_ledger

    shown = verify_ledger(ledger).to_dict()
    if json:
        output.print_json(shown)
        return
    output.print_text(shown["promise"], "")
    names = ("sequence", "owner", "merged_classes", "classes_missing_values")
    output.print_table(
        "Releases",
        ("number", "owner", "classes merged", "classes that miss values"),
        [tuple(str(item[name]) for name in names) for item in shown["releases"]],
    )
    output.print_text(
        f"Room: the fullest class can lose {shown['room_min']} more values; "
        f"{shown['classes_without_room']} of {shown['classes']} classes can lose none.",
    )
    if shown["interrupted"]:
        output.print_text("A release was interrupted; the next one completes or undoes it.")


@command("verify", example="ledger verify releases.ledger --plan plan.json", home=_FAMILY)
def _verify(
    ledger: LedgerFile,
    plan: Annotated[Path | None, typer.Option("--plan", help="The plan it must be about.")] = None,
    release: Annotated[
        Path | None, typer.Option("--release", help="A release whose line the ledger must hold.")
    ] = None,
    agency_key: Annotated[
        Path | None,
        typer.Option(
            "--agency-key", help="The agency's public key: it must have signed the receipt of --release."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check that no line was changed, removed or put in between."""
    from elldelta.files import trusted
    from elldelta.ledger import verify_ledger
    from elldelta.plan.signature import given_plan

    if agency_key is not None and release is None:
        raise ParameterError(
            "A key is for the receipt of a release.",
            found="There is --agency-key, but no --release.",
            remedy="Name the release whose receipt is to be checked.",
        )
    keys = None if agency_key is None else trusted(agency_key)
    known = given_plan(plan, to_use=False)[0] if plan is not None else None
    head = None
    if release is not None:
        require("The line of a release", "remote")
        from elldelta.agency.receipt import admitted_hash

        head = admitted_hash(release, keys)
    chain = verify_ledger(
        ledger,
        plan_digest=known.digest if known else None,
        terms=known.terms if known else None,
        head=head,
    )
    told = "It holds the line of the release, and the agency has signed its receipt."
    output.print_result(
        {
            "intact": True,
            "releases": chain.n_releases,
            "plan_digest": chain.header.plan_digest,
            "key_id": keys.pinned.id if keys else None,
        },
        f"The chain is intact: {chain.n_releases} releases of {len(chain.owners)} owners.",
        *([told] if keys else []),
        as_json=json,
    )
