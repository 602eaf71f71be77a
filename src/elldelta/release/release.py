"""Use case: an owner applies a plan to its own records. Everything is checked before anything is written.

Count, choose classes, certify, write: what `elldelta.ledger.publish` shares with it are these steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.engines import format_of, from_arrow, running
from elldelta.engines.task import computed
from elldelta.errors import DataError, ParameterError, counted
from elldelta.files import AtomicFiles, PrivateKey, as_bytes, check_writable, read_private_key
from elldelta.model import check_person, count, count_persons
from elldelta.pages.page import Displayed
from elldelta.release.manifest import SUMMARY, Manifest, describe, manifest_path
from elldelta.release.publishable import Coins, Publishable, check_choice, publishable
from elldelta.release.published import IN_MEMORY
from elldelta.release.rows import released_rows, write_release

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from elldelta.core.promises import Promise
    from elldelta.engines import Engine, Progress, Table
    from elldelta.files import CsvFormat
    from elldelta.model import CountedTable, ShowValues
    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema


NOT_IN_DOMAIN = (
    "Correct the data; map what is only written differently; put such records aside, into a quarantine file, "
    "and release the others; or ask whoever made the plan for one whose domains hold these values."
)
"""What an owner can do who has a plan and no schema."""


DECOYS = b"elldelta decoys of releases"
"""What the secret behind decoys is made for: no other use of the key shows it."""


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
    name: str = IN_MEMORY
    place: Path | None = None

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance; no rows."""
        manifest = self.manifest
        return {
            "name": self.name,
            "records": f"{manifest.records_released:,} of {manifest.records_read:,}",
            "classes": manifest.classes_published,
            "values in the poorest class": manifest.diversity,
            "promised": f"{manifest.ell} for {counted(manifest.releases, 'linked release')}, "
            f"{manifest.plan_kind}",
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


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """What an owner wants to be released; refuses what the plan does not allow.

    Attributes:
        plan: The plan.
        to: Where the release goes; None for a table in memory.
        columns: The plan's names of columns that are called differently.
        values: The plan's values for values that are written differently.
        person: The column that tells persons apart.
        quarantine: A file for records with a value outside its domain.
        show_values: Is told every column with such values, and examples of them.
        leave_out: Whether classes that do not pass are left out.
        coins: What decoys come from.
        overwrite: Whether files that are there may be replaced.
        csv_format: How CSV files are written.
        name: Words for the release.
        inputs: The files that are read besides the table.
        outputs: The files that are written: release, manifest and quarantine.
    """

    plan: Plan
    to: Path | None = None
    columns: Mapping[str, str] | None = None
    values: Mapping[str, Mapping[str, str]] | None = None
    person: str | None = None
    quarantine: Path | None = None
    show_values: ShowValues | None = None
    leave_out: bool = False
    coins: Coins | None = None
    overwrite: bool = False
    csv_format: CsvFormat | None = None
    name: str | None = None
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_choice(self.plan, leave_out=self.leave_out, has_coins=self.coins is not None)
        if self.person is None and self.plan.persons:
            raise ParameterError(
                "Releases of this plan count persons, and no column tells them apart.",
                found="In the past records people had several records each; without that column all values "
                "of a class may be those of one person.",
                remedy="Name the column. Where every record is another person's, add one that numbers them.",
                parameter="person",
            )
        if self.person is not None:
            check_person(self.person, self.plan.schema.columns)
            if not self.plan.is_certified:
                raise ParameterError(
                    "Persons are counted under certified plans only.",
                    found=f"The plan is {self.plan.kind}: its promise rests on independent records, and "
                    "records of one person are not.",
                    remedy="Ask for a certified plan, or release a table with one record of every person.",
                    parameter="person",
                )
            if self.plan.schema.weight is not None:
                raise ParameterError(
                    "Where persons are counted, no weights are shown.",
                    found=f"The plan's column of weights is {self.plan.schema.weight.name!r}, and of the "
                    "records of a person only some are shown.",
                    remedy="Ask for a plan without weights, or give a table with one record per person.",
                    parameter="person",
                )
            if self.plan.moving is not None:
                raise classes_must_be_fixed("Where persons are counted, classes are fixed.")
        tables = [path for path in (self.to, self.quarantine) if path is not None]
        for path in tables:
            format_of(path)  # refuses names that do not tell their format
        manifests = [] if self.to is None else [manifest_path(self.to)]
        object.__setattr__(self, "outputs", (*tables, *manifests))


def make_release(
    source: Any,  # noqa: ANN401 (files, any table in memory, a table or a query of a database)
    request: ReleaseRequest,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Makes a release that no ledger admits; it and its manifest appear together, or neither does.

    Raises:
        RefusedError: Too few records, or the table does not pass. Nothing is published.
    """
    check_apart(request.outputs, request.inputs)
    with running(engine) as active:
        counted = count_records(source, request, active, progress, outputs=request.outputs)
        content = decide(request, counted)
        manifest = describe(request.plan, content)
        with AtomicFiles(overwrite=request.overwrite) as files:
            return write_files(request, counted, content, manifest, files, progress)


def count_records(
    source: Any,  # noqa: ANN401 (files, any table in memory, a table or a query of a database)
    request: ReleaseRequest,
    engine: Engine,
    progress: Progress | None = None,
    *,
    outputs: Sequence[Path],
    keep_persons: bool = False,
    count_once: bool = True,
) -> CountedTable:
    """Counts the owner's records, in the words of the plan.

    Args:
        source: The records.
        request: What is asked for.
        engine: The engine.
        progress: Is told how far the reading is.
        outputs: The files that are going to be written; none of them may be one of the table's.
        keep_persons: Whether the engine keeps which value of which person counts where.
        count_once: Whether different persons are counted too.
    """
    for path in request.outputs:
        check_writable(path, overwrite=request.overwrite)
    table = engine.open(source, request.csv_format)
    check_apart(outputs, table.files)
    schema = request.plan.schema
    counted = count(
        with_plan_columns(table, schema, request.columns, request.values),
        schema,
        unknown="refuse" if request.quarantine is None else "quarantine",
        remedy=NOT_IN_DOMAIN,
        helpful=("values", "quarantine"),
        show_values=request.show_values,
        weighted=True,
        progress=progress,
    )
    if request.person is None:
        return counted
    return count_persons(counted, request.person, progress, keep=keep_persons, once=count_once)


def decide(
    request: ReleaseRequest, counted: CountedTable, promises_left: Sequence[Promise] = ()
) -> Publishable:
    """Chooses the classes and certifies them; Ctrl-C is heard meanwhile.

    Args:
        request: What is asked for.
        counted: The owner's records.
        promises_left: What the releases of a ledger have left, if a ledger must admit this one.
    """
    return computed(
        lambda _: publishable(
            counted.counts,
            request.plan,
            leave_out=request.leave_out,
            coins=request.coins,
            promises_left=promises_left,
        ),
        None,
    )


def write_files(
    request: ReleaseRequest,
    counted: CountedTable,
    content: Publishable,
    manifest: Manifest,
    files: AtomicFiles,
    progress: Progress | None = None,
) -> Release:
    """Writes release, quarantine and manifest, which appear when the block of `files` ends."""
    place = request.to
    # The table comes to stand last: no release without its manifest and its quarantine.
    if place is not None:
        files.stage(manifest_path(place)).write_bytes(as_bytes(manifest.to_dict()))
    if request.quarantine is not None and manifest.records_quarantined:
        from elldelta.release.quarantine import write_quarantine

        write_quarantine(counted, request.quarantine, files, progress=progress)
    if place is None:
        table = from_arrow(released_rows(content).to_table(), counted.table.given)
        return Release(table, manifest, request.name or IN_MEMORY)
    write_release(content, place, files, progress)
    return Release(None, manifest, request.name or place.name, place)


def coins_of(key: PrivateKey | str | os.PathLike[str] | None, announced: str | None) -> Coins | None:
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


def classes_must_be_fixed(problem: str) -> ParameterError:
    """The error for what Theorem K does not cover: there passing depends on more than a class's counts."""
    return ParameterError(
        problem,
        found="The classes of this plan move up a tree, and what that tells could not be bounded here.",
        remedy="Ask for a plan with fixed classes (without a merge risk).",
    )


def with_plan_columns(
    table: Table,
    schema: Schema,
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """The table with the plan's columns and values; whoever lacks one may have it under another name.

    Args:
        table: The owner's table.
        schema: The plan's columns.
        columns: The plan's names of columns that are called differently.
        values: The plan's values for values that are written differently.
    """
    if columns or values:
        from elldelta.release.mapping import mapped

        table = mapped(table, schema, columns or {}, values or {})
    problem: DataError | None = None
    try:
        table = schema.composed(table)
        table.require(schema.columns)
    except DataError as error:
        problem = error
    if problem is not None:
        remedy = f"{problem.remedy} If it has another name, say which."
        raise DataError(problem.problem, found=problem.found, remedy=remedy, parameter="columns")
    return table


def check_apart(outputs: Sequence[Path], inputs: Iterable[Path]) -> None:
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
