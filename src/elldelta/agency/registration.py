"""Use case: an owner registers a release with the agency, and the agency decides whether to admit it.

The agency sees no record: it is sent the manifest and the counts that the release shows to everybody. From
these it checks everything again that the owner's own machine has checked, as if the owner were its enemy, and
then what only the agency can know: whether the release may join those that were admitted before.

Nothing here reads a file, a clock or a database. Whoever keeps the ledger calls `check_registration` while
nobody else can add a line, and stores `Admission.line` together with the registration.

Errors tell whose fault it is: an `InputError` is a registration that is malformed or contradicts itself or
the plan, a `RefusedError` is an honest answer of no, an `InternalError` is a ledger that is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta.audit.evidence import Evidence
from elldelta.core.differencing import isolate
from elldelta.core.distribution import frozen
from elldelta.core.exposure import least_left
from elldelta.errors import DataError, ElldeltaError, FileError, InternalError, RefusedError
from elldelta.files import as_bytes, changed, digest, is_digest, json_object, seal, unseal
from elldelta.ledger import LedgerHeader, admit, check_owner, check_plan, damaged, first_line, parse_chain
from elldelta.plan.classes import Merged
from elldelta.release import Manifest, Published, open_published, verify_published
from elldelta.release import manifest as manifest_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from elldelta.engines import Progress
    from elldelta.ledger import Admission, LedgerChain
    from elldelta.plan.plan import Plan
    from elldelta.release.release import Release

FORMAT_VERSION = 1
"""Version of the document; old versions are read for ever, newer ones refused."""

KIND = "registration"

MOST_RECORDS = 2**53 - 1
"""More records than this cannot be added up everywhere without a rounding error, and nobody has them."""

MOST_NAMED = 3
"""How many failing classes a refusal names; their labels are what the release shows to everybody."""

_LISTS = ("classes", "values", "counts")
_MOST_TEXT = 200
_LEDGER = "The agency's ledger"
_SOURCE = "The registration"
_MANIFEST = "The manifest of the registration"


@dataclass(frozen=True, eq=False)
class Registration:
    """What an owner sends about a release: its manifest, and the counts that it shows anyway.

    Nothing of the manifest is interpreted here: `understood` does that, after comparing it with the plan.

    Attributes:
        manifest: The manifest of the release, as its file holds it; its seal is intact.
        cells: Three rows: published classes with a record of a value, rising; the positions of these values,
            rising within a class; and how many records, at least 1.
    """

    manifest: Mapping[str, Any]
    cells: NDArray[np.int64]

    @classmethod
    def of(cls, manifest: Manifest, table: NDArray[np.int64]) -> Self:
        """The registration of a release with these counts, classes x values."""
        places = np.nonzero(table)
        return cls(manifest.to_dict(), frozen(np.stack([*places, table[places]]), np.int64))

    @property
    def plan_digest(self) -> str:
        """The plan that the release claims to follow."""
        return str(self.manifest["plan_digest"])

    @property
    def content_digest(self) -> str:
        """The digest of the release's content, as it claims."""
        return str(self.manifest["content_digest"])

    @property
    def n_records(self) -> int:
        """The number of records."""
        return int(self.cells[2].sum())

    @cached_property
    def digest(self) -> str:
        """The digest of everything that is registered."""
        return str(self.to_dict()["digest"])

    def table(self, n_classes: int, n_values: int) -> NDArray[np.int64]:
        """The counts as a table, classes x values.

        Raises:
            FileError: They speak of classes or values that there are not.
        """
        rows, values, counts = self.cells
        if (rows >= n_classes).any() or (values >= n_values).any():
            raise FileError(
                "The registration counts classes or values that the release does not have.",
                found=f"There are {n_classes} classes and {n_values} sensitive values.",
                remedy="Make the registration from the release and the plan it was made with.",
            )
        table = np.zeros((n_classes, n_values), dtype=np.int64)
        table[rows, values] = counts
        return table

    def to_dict(self) -> dict[str, Any]:
        """The registration as plain JSON values, with its digest."""
        cells = dict(zip(_LISTS, self.cells.tolist(), strict=True))
        return seal(KIND, FORMAT_VERSION, {"manifest": dict(self.manifest), "cells": cells})

    def to_bytes(self) -> bytes:
        """The registration as it travels."""
        return as_bytes(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote, from anybody; whatever is not exactly that is refused.

        Also what would mean the same: what was read, written down again, must have the digest that it had.

        Raises:
            FileError: It is not JSON, no registration, of a newer version, or does not match its digests.
        """
        document = json_object(content)
        if document is None:
            raise FileError(
                f"{_SOURCE} is not a registration.",
                found="It is not a JSON object, or one that can be read in two ways.",
                remedy="Let 'elldelta remote register' make it.",
            )
        try:
            parts = unseal(KIND, FORMAT_VERSION, document, _SOURCE)
            manifest, cells = parts["manifest"], parts["cells"]
            if not isinstance(manifest, dict):
                raise TypeError
            described = unseal(manifest_file.KIND, manifest_file.FORMAT_VERSION, manifest, _MANIFEST)
            registration = cls(manifest, _numbers([cells[name] for name in _LISTS]))
            is_intact = (
                is_digest(described["plan_digest"])
                and is_digest(described["content_digest"])
                and _is_in_order(registration.cells)
                and registration.digest == document["digest"]
            )
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            is_intact = False
        if not is_intact:
            raise changed(_SOURCE)
        return registration


@dataclass(frozen=True, eq=False)
class Registered:
    """A release that was admitted before. Worth keeping in memory: it is understood once.

    Attributes:
        plan: The plan it follows.
        owner: Who registered it.
        registration: What was sent.
        line: Its line of the plan's ledger, with the newline.
    """

    plan: Plan
    owner: str
    registration: Registration
    line: bytes

    @cached_property
    def published(self) -> Published:
        """What it shows."""
        return understood(self.plan, self.registration, name=f"of {self.owner}")


def registration_of(release: Path | Release, plan: Plan, *, progress: Progress | None = None) -> Registration:
    """What an owner sends about a release; the release is checked first, as the agency will check it.

    Args:
        release: The release, with its manifest beside it.
        plan: The plan it was made with.
        progress: Is told how far the reading is.

    Raises:
        FileError: Release, manifest and plan do not belong together.
        RefusedError: The release does not keep what the plan asks.
    """
    published = open_published(release, progress=progress)
    verify_published(published, plan)
    return Registration.of(published.manifest, published.counts)


def check_registration(
    plan: Plan,
    registration: Registration,
    entries: Sequence[Registered],
    *,
    owner: str,
    elsewhere: Sequence[Registered] = (),
) -> Admission:
    """Decides whether a release is admitted; changes nothing.

    In this order: the registration is what it says (digests, counts, manifest against counts); it follows the
    plan (classes, terms, certificate or number of records); the owner keeps its classes and sends its own
    release; the plan's ledger has room for what it misses (Theorem F); and linked with everything registered
    before, exactly, it leaves everybody as many values as was promised.

    A certified plan admits any number of releases. A probabilistic plan is about t releases: the first t
    that pass the same checks are admitted, and the next one is refused.

    Args:
        plan: The plan, as the agency has issued it.
        registration: What the owner sent.
        entries: All releases admitted under this plan, in the order of their lines.
        owner: The name of the owner, as the agency knows it; never from what was sent.
        elsewhere: Releases admitted under other plans for the same population, in any order.

    Returns:
        The admission; with nothing to be added if the same owner has registered the same content before.

    Raises:
        InputError: The registration is malformed, or is not what it says.
        RefusedError: It is not admitted; the error says why.
        InternalError: The ledger is damaged. Nothing can be admitted until it is restored.
    """
    owner = check_owner(owner)
    chain = _intact_chain(plan, entries)
    published = understood(plan, registration, name=f"of {owner}")
    verify_published(published, plan)
    before = [*entries, *elsewhere]
    if not published.n_records:
        raise RefusedError(
            "A release without a record is not registered.",
            found="Its counts are all zero.",
            remedy="There is nothing to publish; register a release that shows somebody.",
        )
    content = registration.content_digest
    if any(item.owner != owner and item.registration.content_digest == content for item in before):
        raise RefusedError(
            "Another owner has registered exactly this release.",
            found="Its content has the digest of a release that was admitted before.",
            remedy="Register your own release. If it is yours, tell the agency that somebody else sent it.",
        )
    if chain.find(owner, content) is None:
        _check_number(plan, len(chain.active))
    admission = admit(
        chain, plan.terms, published.grouping, published.counts, owner=owner, content_digest=content
    )
    if admission.is_new:
        check_linkage(plan, published, before)
        _check_subtraction(plan, published, [item for item in elsewhere if item.owner == owner])
    return admission


def understood(plan: Plan, registration: Registration, *, name: str) -> Published:
    """A registration as a release that was read: nothing of it is interpreted before it fits the plan.

    Raises:
        FileError: It was made with another plan, schema or classes, or its counts have another digest.
    """
    document = registration.manifest
    if registration.plan_digest != plan.digest:
        raise _other("It was made with another plan: the digests differ.")
    if not _same(document.get("schema"), plan.schema.to_dict()):
        raise _other("It describes its columns differently.")
    classes = document.get("classes")
    base = classes
    if isinstance(classes, dict) and classes.get("shape") == Merged.shape:
        base = classes.get("base")
    if not _same(base, plan.classes.to_dict()):
        raise _other("Its classes are not unions of the plan's classes.")
    manifest = Manifest.from_dict(document, source=_MANIFEST)
    if not _is_plain(manifest, plan) or not _same(manifest.to_dict(), document):
        raise _other("Its manifest holds what no manifest holds.")
    table = registration.table(manifest.classes.n_classes, plan.schema.n_values)
    published = Published(name, plan.schema, manifest.classes, table, manifest)
    if published.digest != manifest.content_digest:
        raise FileError(
            f"{_SOURCE} is not that of the release its manifest describes.",
            found="The counts do not have the digest that the manifest names.",
            remedy="Make the registration again, from the release and its manifest.",
        )
    return published


def ledger_chain(plan: Plan, lines: Iterable[bytes]) -> LedgerChain:
    """The ledger of a plan, from the lines that were stored, checked like one in a file.

    Args:
        plan: The plan.
        lines: The line of every admitted release, in order, with its newline.

    Raises:
        FileError: A line was changed, removed, put in between, or is no line of this plan's ledger.
    """
    chain = parse_chain(ledger_export(plan, lines), _LEDGER)
    if chain.tail or not chain.ends_in_newline:
        raise damaged(_LEDGER, chain.n_lines + 1)
    check_plan(chain, plan.digest, plan.terms, _LEDGER)
    return chain


def ledger_export(plan: Plan, lines: Iterable[bytes]) -> bytes:
    """The ledger of a plan as a file that `elldelta ledger verify` reads."""
    return first_line(LedgerHeader.of(plan.digest, plan.terms)) + b"".join(lines)


def _intact_chain(plan: Plan, entries: Sequence[Registered]) -> LedgerChain:
    """The ledger; what was stored about a release must be what its line says."""
    try:
        chain = ledger_chain(plan, [item.line for item in entries])
    except FileError as problem:
        found, remedy = problem.found, problem.remedy
    else:
        lines = [(plan.digest, entry.owner, entry.content_digest) for entry in chain.entries]
        stored = [(item.plan.digest, item.owner, item.registration.content_digest) for item in entries]
        if lines == stored and not chain.voided:
            return chain
        found = "A line does not belong to the registration that is stored with it."
        remedy = "Restore the ledger from a copy; a ledger is only ever added to."
    raise InternalError(f"{_LEDGER} has been changed or damaged.", found=found, remedy=remedy)


def _check_number(plan: Plan, n_admitted: int) -> None:
    """Refuses one more release than a probabilistic plan is about."""
    if plan.guarantee == "probabilistic" and n_admitted >= plan.releases:
        raise RefusedError(
            f"The plan is about {plan.releases} releases, and they are all registered.",
            found=f"{n_admitted} were admitted; the promise says nothing about one more.",
            remedy="Ask the agency for a plan for more releases, or for a certified one.",
        )


def check_linkage(plan: Plan, published: Published, before: Sequence[Registered]) -> None:
    """Links a release with all others, exactly, and refuses it where somebody is left with too little.

    Whoever is in releases of several plans was promised the most that one of these plans promises.
    """
    stored = _stored(before)
    if any(item.schema.digest != published.schema.digest for item in stored):
        raise RefusedError(
            "The release cannot be linked with all that was registered before.",
            found="Releases for the same population describe their columns differently.",
            remedy="The agency must keep one schema for a population; ask for a plan with the earlier one.",
        )
    evidence = Evidence.from_published([*stored, published])
    new = len(stored)
    promises = [(item.ell, item.min_records) for item in (*(item.plan for item in before), plan)]
    for ell, min_records in sorted(set(promises)):
        left = least_left(
            evidence.releases,
            member_of=new,
            also_in=[place for place, own in enumerate(promises) if own == (ell, min_records)],
            min_records=min_records,
        )
        failing = np.flatnonzero((left >= 0) & (left < ell))
        if failing.size:
            raise _below(evidence, new, left, failing, ell)


def _below(
    evidence: Evidence, new: int, left: NDArray[np.int64], failing: NDArray[np.intp], ell: int
) -> RefusedError:
    """The refusal of a release that would take somebody below ell, with the worst classes."""
    rows = evidence.releases[new].partition.class_of[failing]
    order = np.argsort(left[failing], kind="stable")
    worst = list(dict.fromkeys(rows[order].tolist()))
    named = "; ".join(
        ", ".join(
            f"{column} {label}"
            for column, label in zip(evidence.columns, evidence.label(new, row), strict=True)
        )
        for row in worst[:MOST_NAMED]
    )
    more = f", and {len(worst) - MOST_NAMED} more" if len(worst) > MOST_NAMED else ""
    return RefusedError(
        "Linked with what is registered already, the release would leave somebody with fewer than "
        f"{ell} values.",
        found=f"{len(worst)} of its classes, at worst with {int(left[failing].min())} values left: "
        f"{named}{more}.",
        remedy="Publish coarser classes, or leave the records of these classes out, and register again.",
    )


def _check_subtraction(plan: Plan, published: Published, own: Sequence[Registered]) -> None:
    """Refuses the same records under other classes, if subtraction shows a group with too few values."""
    for earlier, item in zip(_stored(own), own, strict=True):
        first, second = Evidence.from_published([earlier, published]).releases
        try:
            groups = isolate(first, second)
        except DataError:  # not the same records
            continue
        ell = max(plan.ell, item.plan.ell)
        below = [group for group in groups if group.diversity < ell]
        if below:
            raise RefusedError(
                "The same records were registered under another plan, with other classes.",
                found=f"Subtracting the releases from each other shows {len(below)} groups of people with "
                f"fewer than {ell} values, which neither release shows.",
                remedy="Publish these records under one plan only.",
            )


def _stored(items: Sequence[Registered]) -> list[Published]:
    """What was admitted before; what cannot be understood any more is damage, not the new owner's fault."""
    try:
        return [item.published for item in items]
    except ElldeltaError as problem:
        found = problem.found
    raise InternalError(
        f"{_LEDGER} holds a release that is not what it was.",
        found=found,
        remedy="Restore the ledger and its registrations from a copy.",
    )


def _is_plain(manifest: Manifest, plan: Plan) -> bool:
    """Whether the parts of a manifest that nothing can be compared with are at least what they must be."""
    columns = {column.name for column in plan.schema.counted_columns}
    line = manifest.ledger
    return (
        _is_short(manifest.software)
        and manifest.order in ("sorted", "any")
        and all(
            isinstance(counts, dict)
            and counts.keys() <= columns
            and all(type(n) is int and n >= 0 for n in counts.values())
            for counts in (manifest.nulls, manifest.unknown)
        )
        and (manifest.coarsening is None or _is_numbers(manifest.coarsening, columns))
        and (manifest.utility is None or _is_numbers(manifest.utility, columns, depth=2))
        and (
            line is None
            or (
                isinstance(line, dict)
                and line.keys() == {"sequence", "hash", "owner"}
                and type(line["sequence"]) is int
                and _is_short(line["hash"])
                and _is_short(line["owner"])
            )
        )
    )


def _is_numbers(document: object, columns: set[str], *, depth: int = 1) -> bool:
    """Whether it is a table of numbers by name; names of columns may be longer than other names."""
    return isinstance(document, dict) and all(
        (_is_short(name) or name in columns)
        and (type(value) in (int, float) or (depth > 1 and _is_numbers(value, columns, depth=depth - 1)))
        for name, value in document.items()
    )


def _is_short(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _MOST_TEXT and text.isprintable()


def _same(document: object, expected: object) -> bool:
    """Whether two documents are spelt alike; Python would also take 1.0 and True for 1."""
    return document is not None and digest(document) == digest(expected)


def _other(found: str) -> FileError:
    return FileError(
        f"{_SOURCE} does not follow the plan.",
        found=found,
        remedy="Register a release that was made with this plan, and its own manifest.",
    )


def _numbers(lists: list[Any]) -> NDArray[np.int64]:
    """Lists of whole numbers as the rows of an array; raises for anything else."""
    # Python's own numbers are looked at before numpy's: those take True for 1.
    if not all(isinstance(numbers, list) and set(map(type, numbers)) <= {int} for numbers in lists):
        raise TypeError
    return frozen(np.array(lists, dtype=np.int64), np.int64)


def _is_in_order(cells: NDArray[np.int64]) -> bool:
    """Whether these are counts, and written in their only order."""
    rows, values, counts = cells
    steps = np.diff(rows)
    rises = (steps > 0) | ((steps == 0) & (np.diff(values) > 0))
    n_records = sum(counts.tolist())  # Python's numbers do not wrap around
    return bool(rises.all() and (cells >= 0).all() and (counts >= 1).all()) and n_records <= MOST_RECORDS
