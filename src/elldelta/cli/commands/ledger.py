"""`elldelta ledger show` and `elldelta ledger verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.agency import require
from elldelta.cli.app import command, family
from elldelta.errors import ParameterError, counted
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from collections.abc import Iterator

LedgerFile = Annotated[Path, typer.Argument(help="The ledger.")]


_NAMED = 20
"""How many lines are listed by their numbers."""

_FAMILY = family("ledger", "Look at the ledger of a plan's releases.")


@command("show", example="ledger show releases.ledger", home=_FAMILY)
def _show(ledger: LedgerFile, json: options.Json = False) -> None:
    """What is promised, which releases were admitted, and how much room is left."""
    from elldelta.ledger import verify_ledger

    shown = verify_ledger(ledger).to_dict()
    if json:
        output.print_json(shown)
        return
    output.print_text(shown["promise"], *shown["conditions"], "")
    names = ("sequence", "owner", "classes_together")
    values = [promise for promise in shown["promises"] if "ell" in promise]
    output.print_table(
        "Releases",
        (
            "number",
            "owner",
            "classes merged",
            *(f"classes that miss a value of {one['column']}" for one in values),
        ),
        [
            tuple(map(str, (*(item[name] for name in names), *item["classes_missing_values_of"].values())))
            for item in shown["releases"]
        ],
    )
    for promise in values:
        full, classes = promise["classes_without_room"], counted(shown["classes"], "class", "classes")
        room = f"every class can lose at least {counted(promise['room_min'], 'more value', 'more values')}"
        if not promise["room_min"]:
            room = (
                f"a release that misses one more value in {full:,} of {classes} is refused, others may come"
            )
        output.print_text(f"{promise['column']}: {room}.")
    if shown["interrupted"]:
        output.print_text("A release was interrupted; the next one completes or undoes it.")


@command("verify", example="ledger verify releases.ledger --plan plan.json", home=_FAMILY)
def _verify(
    ledger: LedgerFile,
    plan: Annotated[Path | None, Doc("The plan it must be about.")] = None,
    releases: Annotated[
        list[Path] | None,
        typer.Option(
            "--release",
            help="A release: the ledger must hold its line, and the line must say what it shows. Repeatable.",
        ),
    ] = None,
    agency_key: Annotated[
        Path | None,
        Doc("The agency's public key: it must have signed the receipt of --release."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check that no line was changed, removed or put in between, and compare lines with their releases."""
    from elldelta.files import trusted
    from elldelta.ledger import check_line, verify_ledger
    from elldelta.plan.signature import given_plan

    if agency_key is not None and not releases:
        raise ParameterError(
            "A key is for the receipt of a release.",
            found="There is --agency-key, but no --release.",
            remedy="Name the release whose receipt is to be checked.",
        )
    keys = None if agency_key is None else trusted(agency_key)
    known = None if plan is None else given_plan(plan, to_use=False)[0]
    chain = verify_ledger(
        ledger, plan_digest=known.digest if known else None, promises=known.promises if known else None
    )
    compared = set()
    for release in releases or ():
        require("The line of a release", "remote")
        from elldelta.agency.receipt import admitted_line
        from elldelta.release import open_published

        line_hash, owner = admitted_line(release, keys)
        published = open_published(release)
        compared.add(check_line(chain, published, line_hash, owner, known, f"The ledger {ledger}").sequence)
    apart = [entry.sequence for entry in chain.active if entry.sequence not in compared]
    output.print_result(
        {
            "intact": True,
            "releases": chain.n_releases,
            "plan_digest": chain.header.plan_digest,
            "key_id": keys.keys[0].id if keys else None,
            "compared": sorted(compared),
            "not_compared": apart,
            "sealed": [line.sequence for line in chain.sealed],
        },
        f"The chain is intact: {counted(chain.n_releases, 'release')} "
        f"of {counted(len(chain.owners), 'owner')}.",
        *_closeness(bool(chain.header.closeness), has_plan=known is not None, has_sealed=bool(chain.sealed)),
        *_sealed([line.sequence for line in chain.sealed]),
        *_compared(sorted(compared), apart, has_plan=known is not None, is_signed=keys is not None),
        as_json=json,
    )


def _closeness(is_promised: bool, *, has_plan: bool, has_sealed: bool) -> Iterator[str]:
    if not is_promised:
        return
    if not has_plan:
        yield "Closeness was not checked: give --plan, which tells what to be close to."
    elif has_sealed:
        yield "All releases that are shown stay within the closeness of the plan; sealed lines do not tell."
    else:
        yield "All releases together stay within the closeness of the plan."


def _sealed(numbers: list[int]) -> Iterator[str]:
    if numbers:
        yield (
            f"Sealed, because they are not published yet: {_numbers(numbers)}. Only the agency knows what "
            "they miss."
        )


def _compared(compared: list[int], apart: list[int], *, has_plan: bool, is_signed: bool) -> Iterator[str]:
    """Which lines were compared with their releases, and what about the others, in words."""
    if compared:
        shown = "content, owner and what is missing" if has_plan else "content and owner"
        signed = " The agency has signed the receipts." if is_signed else ""
        yield f"Compared with their releases ({shown}): {_numbers(compared)}.{signed}"
        if not has_plan:
            yield "Give --plan to compute again what they miss."
    if apart:
        yield f"Not compared, because their releases are not at hand: {_numbers(apart)}."


def _numbers(sequences: list[int]) -> str:
    more = f" and {len(sequences) - _NAMED:,} more" if len(sequences) > _NAMED else ""
    return f"{'line' if len(sequences) == 1 else 'lines'} {', '.join(map(str, sequences[:_NAMED]))}{more}"
