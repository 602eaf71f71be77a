"""`elldelta evidence`: the folder that somebody signs before a release is published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elldelta.cli import options, output
from elldelta.cli.agency import AgencyKeyFile
from elldelta.cli.app import command
from elldelta.cli.closing import evidence_next, of_evidence
from elldelta.errors import ParameterError
from elldelta.parameters import Doc


@command("evidence", example="evidence release.parquet --plan plan.json --about about.toml -o evidence")
def _run(
    releases: Annotated[
        list[Path] | None, typer.Argument(help="Releases that are to be published, with their manifests.")
    ] = None,
    *,
    plan: Annotated[Path, Doc("The plan that they follow.")],
    about: Annotated[Path | None, Doc("What only people know: a TOML file, see --form.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder to write; it must not be there.")
    ] = None,
    form: Annotated[
        Path | None,
        Doc("Write a form for --about with the plan's columns, and end."),
    ] = None,
    ledger: Annotated[Path | None, Doc("The ledger that admitted them.", panel="Ledger")] = None,
    published: Annotated[
        list[Path] | None,
        Doc("A release that is already published. Repeatable."),
    ] = None,
    agency_key: AgencyKeyFile = None,
    key: Annotated[
        Path | None,
        Doc("A private key, a file of mode 600: sign the evidence with it.", panel="Expert"),
    ] = None,
    details: options.Details = False,
    tables: options.EngineOptions,
    json: options.Json = False,
) -> None:
    """Check releases once more and write what somebody signs: a page, a PDF, the record and all digests.

    Exit code 3 if releases, alone or linked, break the plan's promise, or if somebody is found more easily
    than the form accepts: the page then says what is wrong, and is not signed.
    """
    from elldelta.audit.evidence import evidence
    from elldelta.audit.evidence_form import write_form
    from elldelta.files import read_private_key

    if form is not None:
        write_form(plan, form)
        output.print_result(
            {"form": str(form)},
            f"Wrote {form}. Fill it in, then:",
            f"elldelta evidence RELEASE --plan {plan} --about {form} -o evidence",
            as_json=json,
        )
        return
    if not releases or about is None or folder is None:
        raise ParameterError(
            "Evidence needs releases, what only people know about them, and a folder.",
            found="A release, --about or -o is missing.",
            remedy="Write a form first: elldelta evidence --plan PLAN --form about.toml",
        )
    with tables.reading("Checking") as read:
        record = evidence(
            releases,
            plan,
            about=about,
            to=folder,
            ledger=ledger,
            published=published or (),
            agency_key=agency_key,
            key=None if key is None else read_private_key(key),
            **read,
        )
    is_signed = key is not None and record["holds"]
    if json:
        output.print_json(
            {
                "evidence": str(folder),
                "digest": record["digest"],
                "holds": record["holds"],
                "risk_highest": max(item["risk_highest"] for item in record["releases"]),
                "threshold": record["about"]["threshold"],
                "signed": is_signed,
            }
        )
    else:
        output.print_text(
            *((record["linked"]["surest"], *record["limits"]) if details else ()),
            f"Wrote {folder}: evidence.html, evidence.pdf, evidence.json, ro-crate-metadata.json"
            + (", evidence.json.sig." if is_signed else "."),
        )
        do_next = evidence_next(
            record, folder, plan=plan, releases=releases, published=published or (), csv=tables.csv or ()
        )
        of_evidence(record, do_next, is_signed=is_signed).print()
    if not record["holds"]:
        raise typer.Exit(3)
