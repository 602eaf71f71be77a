"""`elldelta release` and `elldelta verify`: an owner publishes; anybody checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elldelta.cli import agency, options, output
from elldelta.cli.app import command
from elldelta.cli.closing import do_next, of_release
from elldelta.errors import ElldeltaError, ParameterError, counted
from elldelta.parameters import Doc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elldelta.ledger import Ledger
    from elldelta.ledger.updates import UpdatePolicy


@dataclass(frozen=True)
class RecordOptions:
    """How an owner's records fit the plan."""

    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="A column or value that is called differently in the plan: ZIP=zip, or sex:female=F. "
            "Repeatable.",
            rich_help_panel="Reading files",
        ),
    ] = None
    person: options.Person = None
    outside: Annotated[
        str | None,
        Doc(
            "Instead of refusing records with a value outside its domain: show prints examples, on a "
            "terminal only; a file takes these records, and the others are released. Both are personal "
            "data.",
            panel="Reading files",
            metavar="show|FILE",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What a release takes."""
        columns, values = _mapped(self.names)
        return {
            "columns": columns,
            "values": values,
            "person": self.person,
            "quarantine": None if self.outside in (None, "show") else Path(self.outside),
            "show_values": options.examples_of_values(self.outside),
        }


@dataclass(frozen=True)
class ClassOptions:
    """What happens to classes that do not pass."""

    leave_out: Annotated[
        bool,
        Doc(
            "Leave out classes that do not pass, instead of refusing the table; for plans with fixed "
            "classes. A missing class tells that it did not pass.",
            panel="Expert",
        ),
    ] = False
    key: Annotated[
        Path | None,
        Doc(
            "For a plan made with --merge-risk: your private key, which decides by chance which classes "
            "move ('elldelta signature key' makes one).",
            panel="Expert",
        ),
    ] = None
    announced: Annotated[
        str | None,
        Doc(
            "For a plan made with --merge-risk: the name under which this release was announced, such "
            "as '2026, first quarter'. Use it for one table only.",
            panel="Expert",
        ),
    ] = None


@dataclass(frozen=True)
class LedgerOptions:
    """The ledger that must admit a release."""

    ledger: Annotated[
        Path | None,
        Doc(
            "A ledger that must admit the release; it allows many more than the plan's number of "
            "releases. Made if it does not exist.",
            panel="Ledger",
        ),
    ] = None
    ledger_copy: Annotated[
        Path | None,
        Doc(
            "A copy of the agency's ledger ('elldelta remote ledger'): make a release that fits into "
            "it, to be registered with the agency. The copy is only read.",
            panel="Ledger",
        ),
    ] = None
    owner: Annotated[str | None, Doc("The name under which the ledger knows you.", panel="Ledger")] = None

    @property
    def size(self) -> int:
        """The size of the ledger's file; a line makes it larger."""
        return self.ledger.stat().st_size if self.ledger is not None and self.ledger.exists() else 0

    def open(self) -> Ledger | None:
        """The ledger, if one is named."""
        path = self.ledger or self.ledger_copy
        if path is None and self.owner is None:
            return None
        has_both = self.ledger is not None and self.ledger_copy is not None
        if path is None or self.owner is None or has_both:
            raise ParameterError(
                "A ledger needs the name of the owner, and an owner's name needs one ledger.",
                found="Both a ledger and a copy are given." if has_both else "One of the two is missing.",
                remedy="Give --ledger FILE, or --ledger-copy FILE, and --owner NAME together.",
            )
        from elldelta.ledger import Ledger

        return Ledger(path, self.owner, is_copy=self.ledger is None)


@dataclass(frozen=True)
class UpdateOptions:
    """A table that is published again."""

    state: Annotated[
        Path | None,
        Doc(
            "For a table that is published again: who is in it goes into this file, with --ledger and "
            "--person. Personal data: keep it apart from the release.",
            panel="Tables published again",
        ),
    ] = None
    since: Annotated[
        Path | None,
        Doc(
            "The state of the last release: a class changes only where those who came, went and stayed "
            "may be told apart.",
            panel="Tables published again",
        ),
    ] = None
    erase: Annotated[
        Path | None,
        Doc(
            "With --since: a .csv or .parquet file whose column of --person says who must go at once. "
            "Classes that need them are withheld.",
            panel="Tables published again",
        ),
    ] = None
    longest_wait: Annotated[
        int | None,
        Doc(
            "With --state: how many releases somebody may wait before the class is withheld.",
            panel="Tables published again",
        ),
    ] = None

    def policy(self, target: Path) -> UpdatePolicy | None:
        """What the owner wants of updates, if the table is published again."""
        if self.state is None:
            if self.since is not None or self.erase is not None:
                raise ParameterError(
                    "A release that updates another one writes a new state.",
                    found="--since or --erase is given without --state.",
                    remedy="Give --state FILE for the state after this release.",
                )
            return None
        from elldelta.ledger.updates import UpdatePolicy

        if self.state.resolve().parent == target.resolve().parent:
            output.print_note("Note: the state is personal data. Do not publish the folder of this release.")
        return UpdatePolicy(self.state, self.since, self.erase, self.longest_wait)


@command("release", example="release hospital_a.parquet --plan plan.json -o release_a.parquet")
def _release(
    sources: options.Sources = None,
    *,
    plan: Annotated[Path, Doc("The plan that the agency has sent.")],
    target: Annotated[Path, typer.Option("--output", "-o", help="The release: a .parquet or .csv file.")],
    agency_key: agency.AgencyKeyFile = None,
    into: LedgerOptions,
    updates: UpdateOptions,
    records: RecordOptions,
    passing: ClassOptions,
    overwrite: options.Overwrite = False,
    details: options.Details = False,
    tables: options.SourceOptions,
    json: options.Json = False,
) -> None:
    """Apply a plan to your own records and write the release with its manifest."""
    from elldelta.ledger.publish import release
    from elldelta.plan.signature import given_plan

    source = tables.source(sources)
    size_before = into.size
    arguments = {
        **records.arguments(),
        **vars(passing),
        "ledger": into.open(),
        "updates": updates.policy(target),
    }
    if tables.engine != "duckdb":
        given_plan(plan, agency_key)  # a plan that cannot be used is refused before the engine starts
    with tables.reading("Releasing") as read:
        made = release(
            source, plan, to=target, overwrite=overwrite, agency_key=agency_key, **arguments, **read
        )
    written = [f"Wrote {made.place} and its manifest."]
    if made.manifest.records_quarantined:
        quarantined = counted(made.manifest.records_quarantined, "record")
        written.append(f"Wrote {quarantined} to {records.outside}: personal data.")
    if updates.state is not None:
        written.append(f"Wrote {updates.state}: personal data.")
    if into.ledger is not None:
        has_line = into.size > size_before
        held = f"{into.ledger} held this release already: no line was added."
        written.append(f"Wrote a line to {into.ledger}." if has_line else held)
    if json:
        output.print_json(made.to_dict())
        return
    output.print_text(*(made.manifest.sentences if details else ()), *written)
    of_release(made.manifest, _next(target, plan, into, updates)).print()


def _next(target: Path, plan: Path, into: LedgerOptions, updates: UpdateOptions) -> str:
    """What to do with a release: register it with the agency, or verify it."""
    if into.ledger_copy is not None:
        state = () if updates.state is None else ("--state", str(updates.state))
        command = ("remote", "register", str(target), "--plan", str(plan), *state)
        return do_next("The ledger has room for it; register it", *command)
    ledger = () if into.ledger is None else ("--ledger", str(into.ledger))
    return do_next("Before publishing", "verify", str(target), "--plan", str(plan), *ledger)


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


@command("verify", example="verify release_a.parquet --plan plan.json")
def _verify(
    releases: Annotated[
        list[Path],
        typer.Argument(help="Releases, with their manifests beside them, or globs."),
    ],
    plan: Annotated[Path | None, Doc("The plan it claims to follow.")] = None,
    *,
    plan_numbers: Annotated[
        bool,
        Doc(
            "With --plan: also compute again how probably its releases are refused. How many values are left "
            "does not depend on it."
        ),
    ] = False,
    ledger: Annotated[
        Path | None,
        Doc("The ledger that admitted it: compare its line with the release.", panel="Ledger"),
    ] = None,
    tables: options.EngineOptions,
    json: options.Json = False,
) -> None:
    """Check releases from their files: columns, content, order, manifest, diversity, plan."""
    from elldelta.ledger.verification import verify
    from elldelta.plan.consistency import check_numbers
    from elldelta.plan.signature import given_plan
    from elldelta.release import each_once

    if plan_numbers and plan is None:
        raise ParameterError(
            "There is no plan whose numbers could be computed.",
            found="--plan-numbers was given without --plan.",
            remedy="Name the plan.",
            parameter="plan",
        )
    known = None if plan is None else given_plan(plan, to_use=False)[0]
    if known is not None and plan_numbers:
        check_numbers(known, f"The plan {plan}")
    files = each_once(releases)
    checked: list[dict[str, Any]] = []
    failures: list[ElldeltaError] = []
    with tables.reading("Reading") as read:
        for file in files:
            try:
                found = verify(file, known, ledger=ledger, **read)
            except ElldeltaError as failure:
                failures.append(failure)
                checked.append({"release": str(file), **output.error_as_dict(failure)})
            else:
                checked.append({**found.to_dict(), "release": str(file)})
    if len(files) == 1 and failures:
        raise failures[0]
    if json:
        output.print_json(checked[0] if len(files) == 1 else {"releases": checked})
    else:
        if plan_numbers:
            output.print_text(f"The numbers of {plan}, computed again, are what it says.")
        output.print_text(*(line for found in checked for line in _words(found, plan)))
    raise typer.Exit(max((failure.exit_code for failure in failures), default=0))


def _words(found: dict[str, Any], plan: Path | None) -> Iterator[str]:
    """What was found about one release, in words."""
    if "error" in found:
        yield f"{found['release']} FAILS: {found['error']['problem']} {found['error']['found']}".rstrip()
        return
    yield (
        f"{found['release']} is what its manifest says: {counted(found['records'], 'record')} in "
        f"{counted(found['classes'], 'class', 'classes')}{_planned(found)}."
    )
    shown = [_values(found, found["closeness"]), *(_values(column, None) for column in found["also"])]
    yield f"Every class shows at least {', '.join(shown)} and {counted(found['k'], 'record')}."
    if found["loss"] is not None:
        yield f"Information loss: {found['loss']:.4f}."
    if found["closeness"]:
        yield (
            f"Largest deviation from what the plan says: {found['closeness']['distance'] * 100:.2f} points; "
            f"{found['closeness']['allowed'] * 100:g} are allowed."
        )
    if plan is not None:
        yield "It follows the plan you gave."
    if found["certified"]:
        yield f"Its certificate holds: safe to publish {found['beside']}."
    yield from found["sentences"]


def _planned(found: dict[str, Any]) -> str:
    """How many classes the plan has, where they are more."""
    n_planned = found["classes_planned"]
    return f"; its plan has {n_planned:,}" if n_planned > found["classes"] else ""


def _values(found: dict[str, Any], closeness: dict[str, Any] | None) -> str:
    """The fewest values of a sensitive column, and what was promised."""
    promised = f" ({found['ell']} promised)" if found["ell"] > 1 or not closeness else ""
    return f"{counted(found['diversity'], 'value')} of {found['column']!r}{promised}"
