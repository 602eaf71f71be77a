"""Use case: a release that a ledger must admit, and a table that is published again.

Count, choose classes, certify, admit, write: the ledger is locked from the choice of classes on, and its line
and the files come to stand together. `release` is the public verb, with a ledger and without.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.engines import running
from elldelta.errors import ParameterError
from elldelta.files import AtomicFiles, PrivateKey, check_writable
from elldelta.ledger.ledger import OpenLedger
from elldelta.plan.signature import given_plan
from elldelta.release.manifest import describe
from elldelta.release.release import (
    Release,
    ReleaseRequest,
    check_apart,
    classes_must_be_fixed,
    coins_of,
    count_records,
    decide,
    make_release,
    write_files,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from elldelta.core.promises import Promise
    from elldelta.engines import Engine, Progress
    from elldelta.files import CsvFormat, PublicKey, TrustedKeys
    from elldelta.ledger.admission import Admission, ReadLedger
    from elldelta.ledger.ledger import Ledger
    from elldelta.ledger.updates import UpdatePolicy
    from elldelta.model import CountedTable, ShowValues
    from elldelta.plan.plan import Plan
    from elldelta.release.manifest import Line


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
    ledger: Ledger | None = None,
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
    if updates is not None:
        _check_updates(updates, known, person, leave_out=leave_out, has_ledger=ledger is not None)
    key_files = () if key is None or isinstance(key, PrivateKey) else (Path(key),)
    request = ReleaseRequest(
        plan=known,
        to=None if to is None else Path(to),
        columns=columns,
        values=values,
        person=person,
        quarantine=None if quarantine is None else Path(quarantine),
        show_values=show_values,
        leave_out=leave_out,
        coins=coins_of(key, announced),
        overwrite=overwrite,
        csv_format=csv_format,
        name=name,
        inputs=(*plan_files, *key_files),
    )
    if ledger is None:
        return make_release(source, request, engine, progress)
    return publish(source, request, ledger, updates, engine=engine, progress=progress)


def publish(
    source: Any,  # noqa: ANN401 (files, any table in memory, a table or a query of a database)
    request: ReleaseRequest,
    ledger: Ledger,
    updates: UpdatePolicy | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Makes a release that a ledger admits; its files and its line appear together, or none of them does.

    Raises:
        RefusedError: Too few records, the table does not pass, or the ledger does not admit it.
    """
    _check_ledger(request, ledger)
    state, inputs = ((), ()) if updates is None else ((updates.state,), updates.inputs)
    outputs = [*request.outputs, *state, *ledger.files]
    check_apart(outputs, [*request.inputs, *inputs])
    for path in state:
        check_writable(path, overwrite=request.overwrite)
    with running(engine) as active:
        counted = count_records(
            source,
            request,
            active,
            progress,
            outputs=outputs,
            keep_persons=updates is not None,
            # An update counts the persons of what it publishes, not of the table.
            count_once=updates is None or updates.since is None,
        )
        with ledger.open(request.plan) as book:
            if updates is None:
                return _publish_once(request, counted, ledger.owner, book, progress)
            return _publish_again(request, counted, ledger.owner, book, updates, progress)


def _publish_once(
    request: ReleaseRequest, counted: CountedTable, owner: str, book: ReadLedger, progress: Progress | None
) -> Release:
    """A table that stands by itself."""
    content = decide(request, counted, _promises_left(request, book, owner))
    admission = book.check(content.certificate, owner=owner, content_digest=content.digest)
    manifest = describe(request.plan, content, ledger=_line(admission, book))
    with AtomicFiles(overwrite=request.overwrite) as files:
        made = write_files(request, counted, content, manifest, files, progress)
        files.place = _placing(request, book, admission)
    return made


def _publish_again(
    request: ReleaseRequest,
    counted: CountedTable,
    owner: str,
    book: ReadLedger,
    updates: UpdatePolicy,
    progress: Progress | None,
) -> Release:
    """A table that is published again, or for the first time of several; its state comes to stand with it."""
    from elldelta.ledger.updates import Comparison

    with (
        AtomicFiles(overwrite=request.overwrite) as files,
        Comparison(updates, counted, request.plan, owner, request.person or "") as comparison,
    ):
        if updates.since is None:
            update = comparison.begin(decide(request, counted, _promises_left(request, book, owner)))
        else:
            update = comparison.compare(book)
        content = update.content
        revision, persons = comparison.write_state(update, files.stage(updates.state, private=True))
        admission = book.check(
            content.certificate, owner=owner, content_digest=content.digest, revision=revision
        )
        manifest = describe(
            request.plan, content, ledger=_line(admission, book), persons=persons, update=update.numbers
        )
        made = write_files(request, counted, content, manifest, files, progress)
        files.place = _placing(request, book, admission)
    return made


def _promises_left(request: ReleaseRequest, book: ReadLedger, owner: str) -> tuple[Promise, ...]:
    """What the ledger has left, where the choice of classes depends on it.

    As it stood before the owner's release, if that is made again: so that it is the same.
    """
    if request.coins is None and not request.leave_out:
        return ()
    return book.before(owner).state.left()


def _line(admission: Admission, book: ReadLedger) -> Line | None:
    """What the manifest says about the ledger; nothing of a copy, which gets no line."""
    entry = admission.entry
    if not isinstance(book, OpenLedger):
        return None
    return {"sequence": entry.sequence, "hash": entry.hash, "owner": entry.owner}


def _placing(
    request: ReleaseRequest, book: ReadLedger, admission: Admission
) -> Callable[[Mapping[Path, Path]], object] | None:
    """What brings the files to their places together with the line; None for a copy, which gets none."""
    if not isinstance(book, OpenLedger):
        return None
    return partial(book.commit, admission, overwrite=request.overwrite)


def _check_ledger(request: ReleaseRequest, ledger: Ledger) -> None:
    """Refuses what no ledger admits."""
    plan = request.plan
    if not plan.is_certified:
        raise ParameterError("A ledger admits releases of certified plans only.", found="The plan is not.")
    if ledger.files and request.to is None:
        raise ParameterError(
            "A ledger that is a file admits releases that are files.",
            found="The release is to stay in memory.",
            remedy="Name a file for the release.",
            parameter="to",
        )
    if plan.moving is not None and plan.movers is not None:
        raise classes_must_be_fixed("Where people move and a ledger admits releases, classes are fixed.")


def _check_updates(
    updates: UpdatePolicy, plan: Plan, person: str | None, *, leave_out: bool, has_ledger: bool
) -> None:
    """Refuses what cannot be published again, before anything is read."""
    from elldelta.ledger.updates import check_updatable

    if person is None or not has_ledger:
        raise ParameterError(
            "A table that is published again needs a ledger, and a column that tells persons apart.",
            found="There is no ledger." if person is not None else "There is no such column.",
            remedy="Give a ledger, the owner's name in it and the column of the persons.",
            parameter=("ledger", "owner", "person"),
        )
    check_updatable(plan)
    if leave_out and updates.since is not None:
        raise ParameterError(
            "Classes are left out of the first release of a table only.",
            found="An update withholds classes by its own rules.",
            remedy="Let no class be left out.",
            parameter="leave_out",
        )
