"""`elldelta release` and `elldelta verify`: an owner publishes; anybody checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elldelta.cli import agency, options, output
from elldelta.cli.app import command
from elldelta.errors import ElldeltaError, ParameterError
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elldelta.ledger import Ledger


@command("release", example="release hospital_a.parquet --plan plan.json -o release_a.parquet")
def _release(
    sources: options.Sources = None,
    *,
    plan: Annotated[Path, Doc("The plan that the agency has sent.")],
    target: Annotated[Path, typer.Option("--output", "-o", help="The release: a .parquet or .csv file.")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="A column or value that is called differently in the plan: ZIP=zip, or sex:female=F. "
            "Repeatable.",
            rich_help_panel="Reading files",
        ),
    ] = None,
    person: options.Person = None,
    outside: Annotated[
        str | None,
        Doc(
            "Instead of refusing records with a value outside its domain: show prints examples, on a "
            "terminal only; a file takes these records, and the others are released. Both are personal "
            "data.",
            panel="Reading files",
            metavar="show|FILE",
        ),
    ] = None,
    leave_out: Annotated[
        bool,
        Doc(
            "Leave out classes that do not pass, instead of refusing the table; for plans with fixed "
            "classes. Whoever misses a class knows why.",
            panel="Expert",
        ),
    ] = False,
    key: Annotated[
        Path | None,
        Doc(
            "For a plan made with --merge-risk: your private key, which decides by chance which classes "
            "move ('elldelta signature key' makes one).",
            panel="Expert",
        ),
    ] = None,
    announced: Annotated[
        str | None,
        Doc(
            "For a plan made with --merge-risk: the name under which this release was announced, such "
            "as '2026, first quarter'. Use it for one table only.",
            panel="Expert",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        Doc(
            "A ledger that must admit the release; it allows many more than the plan's number of "
            "releases. Made if it does not exist.",
            panel="Ledger",
        ),
    ] = None,
    ledger_copy: Annotated[
        Path | None,
        Doc(
            "A copy of the agency's ledger ('elldelta remote ledger'): make a release that fits into "
            "it, to be registered with the agency. The copy is only read.",
            panel="Ledger",
        ),
    ] = None,
    owner: Annotated[str | None, Doc("The name under which the ledger knows you.", panel="Ledger")] = None,
    state: Annotated[
        Path | None,
        Doc(
            "For a table that is published again: who is in it goes into this file, with --ledger and "
            "--person. Personal data: keep it apart from the release.",
            panel="Tables published again",
        ),
    ] = None,
    since: Annotated[
        Path | None,
        Doc(
            "The state of the last release: a class changes only where those who came, went and stayed "
            "may be told apart.",
            panel="Tables published again",
        ),
    ] = None,
    erase: Annotated[
        Path | None,
        Doc(
            "With --since: a .csv or .parquet file whose column of --person says who must go at once. "
            "Classes that need them are withheld.",
            panel="Tables published again",
        ),
    ] = None,
    longest_wait: Annotated[
        int | None,
        Doc(
            "With --state: how many releases somebody may wait before the class is withheld.",
            panel="Tables published again",
        ),
    ] = None,
    agency_key: agency.AgencyKeyFile = None,
    overwrite: options.Overwrite = False,
    tables: options.SourceOptions,
    json: options.Json = False,
) -> None:
    """Apply a plan to your own records and write the release with its manifest."""
    from elldelta.ledger.publish import release
    from elldelta.ledger.updates import UpdatePolicy
    from elldelta.plan.signature import given_plan

    source = tables.source(sources)
    known_before = _size(ledger)
    columns, values = _mapped(names)
    book = _ledger(ledger, ledger_copy, owner)
    updates = None
    if state is not None:
        updates = UpdatePolicy(state, since, erase, longest_wait)
        if state.resolve().parent == target.resolve().parent:
            output.print_note("Note: the state is personal data. Do not publish the folder of this release.")
    elif since is not None or erase is not None:
        raise ParameterError(
            "A release that updates another one writes a new state.",
            found="--since or --erase is given without --state.",
            remedy="Give --state FILE for the state after this release.",
        )
    if tables.engine != "duckdb":
        given_plan(plan, agency_key)  # a plan that cannot be used is told before the engine has started
    with tables.reading("Releasing") as read:
        made = release(
            source,
            plan,
            to=target,
            columns=columns,
            values=values,
            person=person,
            updates=updates,
            quarantine=None if outside in (None, "show") else Path(outside),
            show_values=options.examples_of_values(outside),
            ledger=book,
            leave_out=leave_out,
            key=key,
            announced=announced,
            overwrite=overwrite,
            agency_key=agency_key,
            **read,
        )
    written = [f"Wrote {made.place} and its manifest."]
    if made.manifest.records_quarantined:
        written.append(f"Wrote {made.manifest.records_quarantined:,} records to {outside}: personal data.")
    if state is not None:
        written.append(f"Wrote {state}: personal data.")
    if ledger is not None and _size(ledger) > known_before:
        written.append(f"Wrote a line to {ledger}.")
    elif ledger is not None:
        written.append(f"{ledger} held this release already: no line was added.")
    if ledger_copy is not None:
        told = "" if state is None else ", with --state"
        written.append(
            f"The ledger has room for it. Register it with the agency: elldelta remote register{told}."
        )
    output.print_result(made.to_dict(), *made.manifest.sentences, *written, as_json=json)


def _mapped(texts: list[str] | None) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Columns and values of the plan by the names they have here, from --map."""
    columns: dict[str, str] = {}
    values: dict[str, dict[str, str]] = {}
    for text in texts or ():
        column, _, names = (part.strip() for part in text.rpartition(":"))
        here, _, in_plan = (part.strip() for part in names.partition("="))
        mapped = values.setdefault(column, {}) if column else columns
        if not here or not in_plan or here in mapped:
            raise ParameterError(
                "--map must look like ZIP=zip or sex:female=F, once for each.",
                found=f"It is {text!r}.",
                remedy="Write the name here, an equals sign and the name in the plan.",
            )
        mapped[here] = in_plan
    return columns, values


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.exists() else 0


def _ledger(ledger: Path | None, copy: Path | None, owner: str | None) -> Ledger | None:
    path = ledger or copy
    if path is None and owner is None:
        return None
    if path is None or owner is None or (ledger is not None and copy is not None):
        raise ParameterError(
            "A ledger needs the name of the owner, and an owner's name needs one ledger.",
            found="Both a ledger and a copy are given." if ledger and copy else "One of the two is missing.",
            remedy="Give --ledger FILE, or --ledger-copy FILE, and --owner NAME together.",
        )
    from elldelta.ledger import Ledger

    return Ledger(path, owner, is_copy=ledger is None)


@command("verify", example="verify release_a.parquet --plan plan.json")
def _verify(
    releases: Annotated[
        list[Path],
        typer.Argument(help="Releases, with their manifests beside them, or globs."),
    ],
    plan: Annotated[Path | None, Doc("The plan it claims to follow.")] = None,
    *,
    tables: options.EngineOptions,
    json: options.Json = False,
) -> None:
    """Check releases from their files: columns, content, order, manifest, diversity, plan."""
    from elldelta.plan.signature import given_plan
    from elldelta.release import each_once, verify

    known = None if plan is None else given_plan(plan, to_use=False)[0]
    files = each_once(releases)
    told: list[dict[str, Any]] = []
    failures: list[ElldeltaError] = []
    with tables.reading("Reading") as read:
        for file in files:
            try:
                found = verify(file, known, **read)
            except ElldeltaError as failure:
                failures.append(failure)
                told.append({"release": str(file), **output.error_as_dict(failure)})
            else:
                told.append({**found.to_dict(), "release": str(file)})
    if len(files) == 1 and failures:
        raise failures[0]
    if json:
        output.print_json(told[0] if len(files) == 1 else {"releases": told})
    else:
        output.print_text(*(line for checked in told for line in _checked(checked, plan)))
    raise typer.Exit(max((failure.exit_code for failure in failures), default=0))


def _checked(told: dict[str, Any], plan: Path | None) -> Iterator[str]:
    """What was found about one release, in words."""
    if "error" in told:
        yield f"{told['release']} FAILS: {told['error']['problem']} {told['error']['found']}".rstrip()
        return
    yield (
        f"{told['release']} is what its manifest says: {told['records']:,} records in "
        f"{told['classes']:,} classes."
    )
    promised = f" ({told['ell']} promised)" if told["ell"] > 1 or not told["closeness"] else ""
    yield f"Every class shows at least {told['diversity']} values{promised} and {told['k']} records."
    if told["closeness"]:
        yield (
            f"No class is further than {told['closeness']['distance']:.3f} from what the plan says of its "
            f"values ({told['closeness']['allowed']:g} allowed)."
        )
    if plan is not None:
        yield "It follows the plan you gave."
    if told["certified"]:
        yield "Its certificate holds."
    yield from told["sentences"]
