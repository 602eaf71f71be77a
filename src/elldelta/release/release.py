"""Use case: an owner applies a plan to its own records. Everything is checked before anything is written."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from elldelta.engines import Engine, Progress, format_of, from_arrow, running
from elldelta.engines.task import computed
from elldelta.errors import ParameterError
from elldelta.files import (
    AtomicFiles,
    CsvFormat,
    PrivateKey,
    PublicKey,
    TrustedKeys,
    as_bytes,
    check_writable,
    read_private_key,
)
from elldelta.model import ShowValues, UnknownPolicy, check_person, count, count_persons
from elldelta.pages.page import Displayed
from elldelta.plan.signature import given_plan
from elldelta.release.manifest import SUMMARY, Line, Manifest, describe, manifest_path
from elldelta.release.mapping import mapped
from elldelta.release.publishable import Coins, Publishable, check_choice, publishable
from elldelta.release.quarantine import write_quarantine
from elldelta.release.rows import released_rows, write_release
from elldelta.release.updates import Comparison, UpdatePolicy, check_update_policy

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from elldelta.plan.plan import Plan
    from elldelta.release.updates import Revision


NOT_IN_DOMAIN = (
    "Correct the data; map what is only written differently; put such records aside, into a quarantine file, "
    "and release the others; or ask whoever made the plan for one whose domains hold these values."
)
"""What an owner can do who has a plan and no schema."""


DECOYS = b"elldelta decoys of releases"
"""What the secret behind decoys is made for: no other use of the key shows it."""


class AdmittingLedger(Protocol):
    """A ledger as a release needs it; `elldelta.ledger` has the one that is a file."""

    @property
    def owner(self) -> str:
        """Who publishes."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that it writes; none if it is a copy."""

    def open(self, plan: Plan) -> AbstractContextManager[Any]:
        """Locks it: gives `state`, `before`, `has_published`, `check_since`, `check` and `commit`."""


@dataclass(frozen=True, eq=False, repr=False)
class Release(Displayed):
    """A release that was made.

    Attributes:
        table: The rows, of the kind of table that was given; None if they were written to `place`.
        manifest: What the release says about itself.
        name: Words for it, for audits and messages.
        place: The file to which it was written; None if it is in memory.
    """

    table: Any
    manifest: Manifest
    name: str = "a release in memory"
    place: Path | None = None

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance; no rows."""
        manifest = self.manifest
        return {
            "name": self.name,
            "records": f"{manifest.records_released:,} of {manifest.records_read:,}",
            "classes": manifest.classes_published,
            "values in the poorest class": manifest.diversity,
            "promised": f"{manifest.ell} for {manifest.releases} linked releases, {manifest.plan_kind}",
            "plan": manifest.plan_digest,
            "content": manifest.content_digest,
        }

    def to_dict(self) -> dict[str, Any]:
        """Where it is and what the manifest tells in numbers, as plain JSON values; not the rows."""
        return {
            "release": self.name if self.place is None else str(self.place),
            "manifest": None if self.place is None else str(manifest_path(self.place)),
            **{name: getattr(self.manifest, name) for name in SUMMARY},
        }


def release(
    source: Any,  # noqa: ANN401 (files, any table in memory, a table or a query of a database)
    plan: Plan | str | os.PathLike[str],
    *,
    to: str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, Mapping[str, str]] | None = None,
    person: str | None = None,
    updates: UpdatePolicy | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    show_values: ShowValues | None = None,
    ledger: AdmittingLedger | None = None,
    leave_out: bool = False,
    key: PrivateKey | str | os.PathLike[str] | None = None,
    announced: str | None = None,
    overwrite: bool = False,
    agency_key: PublicKey | TrustedKeys | str | os.PathLike[str] | None = None,
    csv_format: CsvFormat | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    name: str | None = None,
) -> Release:
    """Applies a plan to an owner's records; release and manifest appear together, or neither does.

    Args:
        source: Files, folders, globs, a table in memory (pandas, Polars, Arrow), or what is in a database: a
            table by its name, a query.
        plan: The plan, or its file.
        to: Where the release goes. By default nowhere: it is returned as a table in memory. A .parquet or
            .csv file has its manifest beside it.
        columns: The plan's names of columns that are called differently here: {"ZIP": "zip"}.
        values: The plan's values for values that are written differently, by the plan's columns:
            {"sex": {"female": "F"}}. Texts are compared without spaces around them.
        person: The column that tells persons apart, if some have several records. The release then shows each
            person's value once; witnesses and classes need so many persons. The column is never written.
        updates: For a table that is published again and again: where its state is, and the rules. Needs
            `person` and `ledger`.
        quarantine: A file for records with a value outside its domain, which holds personal data; without it
            a table with such records is refused.
        show_values: Is told every column with such values, and examples of them, which are personal data.
        ledger: A ledger that must admit the release (`elldelta.Ledger`), for releases that go to files: then
            any number of admitted releases may be linked, and the certificate's limit of t no longer matters.
        leave_out: Leave the records of classes out that do not pass, instead of refusing the table; for
            certified plans with fixed classes. That a class is missing tells that it did not pass.
        key: For plans whose classes move: the owner's private key, or its file ('elldelta signature key'
            makes one). Which classes move by chance follows from it; whoever knows it sees which did.
        announced: For the same plans: the name under which this release was announced before anybody looked
            at the table. The same name gives the same classes again; two tables under one name share their
            decoys, and would show them.
        overwrite: Whether files that are there may be replaced.
        agency_key: The agency's public key, or its file: then the plan must be a file that it has signed.
        csv_format: How CSV files are written.
        engine: The engine to use; DuckDB by default.
        progress: Is told how far the work is.
        name: Words for the release, for audits and messages; by default where it goes.

    Raises:
        RefusedError: Too few records, the table does not pass, or the ledger does not admit it. Nothing is
            published.
    """
    known, plan_files = given_plan(plan, agency_key)
    place = None if to is None else Path(to)
    apart = None if quarantine is None else Path(quarantine)
    _check_ledger(ledger, known, place)
    coins = _coins(key, announced)
    check_choice(known, leave_out=leave_out, has_coins=coins is not None)
    if person is not None:
        check_person(person, known.schema.columns)
    if updates is not None:
        check_update_policy(updates, known, person, has_ledger=ledger is not None)
        if leave_out and updates.since is not None:
            raise ParameterError(
                "Classes are left out of the first release of a table only.",
                found="An update withholds classes by its own rules.",
                remedy="Let no class be left out.",
                parameter="leave_out",
            )
    if known.moving is not None:
        _check_moving(known, person, has_ledger=ledger is not None)
    files = [*_files(place, apart), *([] if updates is None else [updates.state])]
    keys = () if key is None or isinstance(key, PrivateKey) else (Path(key),)
    plan_files = (*plan_files, *keys, *(() if updates is None else updates.inputs))
    outputs = [*files, *(ledger.files if ledger else ())]
    _check_apart(outputs, plan_files)
    with running(engine) as active:
        for path in files:
            check_writable(path, overwrite=overwrite)
        opened = active.open(source, csv_format)
        _check_apart(outputs, [*plan_files, *opened.files])
        unknown: UnknownPolicy = "refuse" if apart is None else "quarantine"
        counted = count(
            mapped(opened, known.schema, columns, values),
            known.schema,
            unknown=unknown,
            remedy=NOT_IN_DOMAIN,
            helpful=("values", "quarantine"),
            show_values=show_values,
            progress=progress,
        )
        if person is not None:
            # An update counts the persons of what it publishes, not of the table.
            counted = count_persons(
                counted,
                person,
                progress,
                keep=updates is not None,
                once=updates is None or updates.since is None,
            )
        book: Any
        with nullcontext() if ledger is None else ledger.open(known) as book:
            decided = partial(
                publishable,
                counted.counts,
                known,
                leave_out=leave_out,
                coins=coins,
                # As it stood before the owner's release, if that is made again: so that it is the same.
                state=None if ledger is None else book.before(ledger.owner).state,
            )
            commit = None if ledger is None else _Commit(book, ledger, updates, overwrite=overwrite)
            if updates is None:
                content = computed(lambda _: decided(), None)
                manifest = describe(known, content, None if commit is None else commit.admit(content))
            table = None
            with AtomicFiles(overwrite=overwrite, place=commit.place if commit else None) as staging:
                if updates is not None and commit is not None:
                    compared = Comparison(updates, counted, known, commit.owner, person or "")
                    begin = decided if updates.since is None else None
                    content, manifest = _revised(compared, begin, commit, staging, updates.state)
                if place is None:
                    table = from_arrow(released_rows(content).to_table(), opened.given)
                else:
                    write_release(content, place, staging, progress)
                # Comes to stand before the release does, or with it: no release without its quarantine.
                if apart is not None and manifest.records_quarantined:
                    write_quarantine(counted, apart, staging, progress=progress)
                if place is not None:
                    staging.stage(manifest_path(place)).write_bytes(as_bytes(manifest.to_dict()))
    return Release(table, manifest, name or _words(place), place)


def _words(place: Path | None) -> str:
    return "a release in memory" if place is None else place.name


def _revised(
    compared: Comparison,
    begin: Callable[[], Publishable] | None,
    commit: _Commit,
    staging: AtomicFiles,
    state: Path,
) -> tuple[Publishable, Manifest]:
    """What is published of a table that lives, and its manifest; its state is written on the way.

    Args:
        compared: The table beside its last state.
        begin: Decides what is published the first time; None for an update.
        commit: The ledger.
        staging: Where the state is written.
        state: Its name.
    """
    with compared:
        if begin is None:
            compared.compare(commit.book)
        else:
            compared.begin(computed(lambda _: begin(), None))
        digest = compared.write_state(staging.stage(state, private=True))
        line = commit.admit(compared.content, compared.revision(digest))
        return compared.content, compared.described(describe(compared.plan, compared.content, line))


class _Commit:
    """Asks a ledger to admit a release, and brings the files to their places together with its line."""

    def __init__(
        self,
        book: Any,  # noqa: ANN401 (an open ledger)
        ledger: AdmittingLedger,
        updates: UpdatePolicy | None,
        *,
        overwrite: bool,
    ) -> None:
        self.owner = ledger.owner
        # A ledger that writes nothing says whether a release would be admitted, and that is all.
        self.place = self._place if ledger.files else None
        self._first = None if updates is None else updates.state
        self.book = book
        self._overwrite = overwrite
        self._admission: Any = None

    def admit(self, content: Publishable, revision: Revision | None = None) -> Line | None:
        """What the manifest says about the ledger."""
        self._admission = self.book.check(
            content.certificate, owner=self.owner, content_digest=content.digest, revision=revision
        )
        if self.place is None:
            return None
        entry = self._admission.entry
        return {"sequence": entry.sequence, "hash": entry.hash, "owner": self.owner}

    def _place(self, staged: Mapping[Path, Path]) -> None:
        # The table goes last, so that a release that is taken back was never visible; a state goes first.
        places = list(staged.items())[::-1]
        places.sort(key=lambda pair: pair[1] != self._first)
        self.book.commit(self._admission, dict(places), overwrite=self._overwrite)


def _files(place: Path | None, quarantine: Path | None) -> list[Path]:
    """The files that a release writes; refuses names that do not tell their format."""
    tables = [path for path in (place, quarantine) if path is not None]
    for path in tables:
        format_of(path)
    return tables if place is None else [*tables, manifest_path(place)]


def _check_ledger(ledger: AdmittingLedger | None, plan: Plan, place: Path | None) -> None:
    if ledger is None:
        return
    if not plan.is_certified:
        raise ParameterError("A ledger admits releases of certified plans only.", found="The plan is not.")
    if ledger.files and place is None:
        raise ParameterError(
            "A ledger that is a file admits releases that are files.",
            found="The release is to stay in memory.",
            remedy="Name a file for the release.",
            parameter="to",
        )


def _coins(key: PrivateKey | str | os.PathLike[str] | None, announced: str | None) -> Coins | None:
    """What decoys come from; None if neither a key nor a name is given."""
    if key is None and announced is None:
        return None
    if key is None or announced is None:
        raise ParameterError(
            "Decoys come from a key and from the announced name of the release.",
            found=f"There is no {'key' if key is None else 'name'}.",
            remedy="Give both.",
            parameter=("key", "announced"),
        )
    known = key if isinstance(key, PrivateKey) else read_private_key(key)
    return Coins(known.secret_for(DECOYS), announced)


def _check_moving(plan: Plan, person: str | None, *, has_ledger: bool) -> None:
    """Refuses what Theorem K does not cover: there passing depends on more than a class's own counts."""
    uncovered = {
        "Where persons are counted, classes are fixed.": person is not None,
        "Where people move and a ledger admits releases, classes are fixed.": has_ledger
        and plan.movers is not None,
    }
    problem = next((words for words, is_so in uncovered.items() if is_so), None)
    if problem is not None:
        raise ParameterError(
            problem,
            found="The classes of this plan move up a tree, and what that tells could not be bounded here.",
            remedy="Ask for a plan with fixed classes (without a merge risk).",
        )


def _check_apart(outputs: Sequence[Path], inputs: Iterable[Path]) -> None:
    """Refuses outputs that are each other, or that are what is read: one would destroy the other."""
    targets = [path.resolve() for path in outputs]
    if len(set(targets)) < len(targets):
        raise ParameterError(
            "Release, manifest, quarantine and ledger must be different files.",
            found="Two of them have the same name.",
            remedy="Choose another name for one of them.",
        )
    read = {path.resolve() for path in inputs}
    if set(targets) & read:
        raise ParameterError(
            "A file that is read cannot be written at the same time.",
            found="An output is one of the inputs.",
            remedy="Choose another name for the output; the input stays as it is.",
        )
