"""What an owner sends about a release, and what the agency makes of it before it looks at anything else.

The agency sees no record: it is sent the manifest and the counts that the release shows to everybody. From
these it checks everything again that the owner's own machine has checked, as if the owner were its enemy.
What is kept of it is the counts; everything else follows from them and the plan (`Examined`).

Errors tell whose fault it is: an `InputError` is a registration that is malformed or contradicts itself or
the plan, a `RefusedError` is an honest answer of no. Whether a release may join those that were admitted
before is decided in `elldelta.agency.admission`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta.agency.series import checked_update, is_in_order, numbers_of, revision_of, table_of
from elldelta.core.distribution import frozen
from elldelta.core.partition import merged_classes
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, changed, digest, is_digest, json_object, seal, unseal
from elldelta.plan.classes import Merged
from elldelta.release import (
    Manifest,
    Published,
    Revision,
    check_updatable,
    open_published,
    read_told,
    verify_published,
)
from elldelta.release import manifest as manifest_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from elldelta.engines import Progress
    from elldelta.plan.plan import Plan
    from elldelta.release.release import Release

FORMAT_VERSION = 1
"""Version of the document; others are refused."""

KIND = "registration"

_LISTS = ("classes", "values", "counts")
_MOST_TEXT = 200
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
        update: Of a table that is published again: the digest of the owner's state, which stays with the
            owner; after the first time also the digest of the state before it, and who came
            and who went, as cells of published classes that are numbered by their first base class. Otherwise
            None.
    """

    manifest: Mapping[str, Any]
    cells: NDArray[np.int64]
    update: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, manifest: Manifest, table: NDArray[np.int64], update: Mapping[str, Any] | None = None
    ) -> Self:
        """The registration of a release with these counts, classes x values."""
        places = np.nonzero(table)
        return cls(manifest.to_dict(), frozen(np.stack([*places, table[places]]), np.int64), update)

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
        return table_of(self.cells, n_classes, n_values)

    def revision(self, counts: NDArray[np.int64]) -> Revision | None:
        """What has changed since the owner's last release; None for a release that stands by itself.

        Args:
            counts: What the published classes show, numbered by their first base class.

        Raises:
            FileError: More came than the release shows, or its manifest says something else.
        """
        return revision_of(self.update, self.manifest["update"], counts)

    def to_dict(self) -> dict[str, Any]:
        """The registration as plain JSON values, with its digest."""
        cells = dict(zip(_LISTS, self.cells.tolist(), strict=True))
        update = None if self.update is None else dict(self.update)
        return seal(KIND, FORMAT_VERSION, {"manifest": dict(self.manifest), "cells": cells, "update": update})

    def to_bytes(self) -> bytes:
        """The registration as it travels."""
        return as_bytes(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote, from anybody; whatever is not exactly that is refused.

        Also what would mean the same: what was read, written down again, must have the digest that it had.

        Raises:
            FileError: It is not JSON, no registration, of another version, or does not match its digests.
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
            update = None if parts["update"] is None else checked_update(parts["update"])
            registration = cls(manifest, numbers_of([cells[name] for name in _LISTS]), update)
            is_intact = (
                is_digest(described["plan_digest"])
                and is_digest(described["content_digest"])
                and is_in_order(registration.cells)
                and registration.digest == document["digest"]
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            is_intact = False
        if not is_intact:
            raise changed(_SOURCE)
        return registration


@dataclass(frozen=True, eq=False)
class Examined:
    """A release that is what it says and follows its plan: all that deciding about it and keeping it need.

    Attributes:
        content_digest: The digest of the release's content.
        merged: Base classes that are published together, as a line of a ledger says it.
        counts: What the published classes show, classes x values; numbered by their first base class.
        revision: What has changed, for a table that is published again.
        update: What its manifest says about that: numbers of classes and records.
    """

    content_digest: str
    merged: tuple[tuple[int, ...], ...]
    counts: NDArray[np.int64]
    revision: Revision | None = None
    update: Mapping[str, int] | None = None


def registration_of(
    release: Path | Release, plan: Plan, *, state: Path | None = None, progress: Progress | None = None
) -> Registration:
    """What an owner sends about a release; the release is checked first, as the agency will check it.

    Args:
        release: The release, with its manifest beside it.
        plan: The plan it was made with.
        state: Of a table that is published again, the state that was written with it; what is sent of it is
            its digest, and how many records came and went in each class.
        progress: Is told how far the reading is.

    Raises:
        FileError: Release, manifest, plan and state do not belong together.
        RefusedError: The release does not keep what the plan asks.
    """
    published = open_published(release, progress=progress)
    verify_published(published, plan)
    is_living = published.manifest.update is not None
    if is_living != (state is not None):
        raise ParameterError(
            "A table that is published again is registered with its state."
            if is_living
            else "Only a table that is published again has a state.",
            found="None was given." if is_living else "The release stands by itself.",
            remedy="Give the state that was written with the release. It stays on this machine."
            if is_living
            else "Leave the state out.",
        )
    try:
        update = None if state is None else checked_update(read_told(state, plan))
    except (KeyError, TypeError, ValueError):
        raise changed(f"The state {state}") from None
    registration = Registration.of(published.manifest, published.counts, update)
    registration.revision(_by_first_class(published))
    return registration


def examine(plan: Plan, registration: Registration, *, owner: str) -> Examined:
    """Checks everything that can be checked without knowing what else is registered.

    The registration is what it says (digests, counts, manifest against counts), and the release follows the
    plan (classes, terms, certificate or number of records).

    Raises:
        InputError: It is malformed, or is not what it says.
        RefusedError: The release does not keep what the plan asks.
    """
    published = understood(plan, registration, name=f"of {owner}")
    verify_published(published, plan)
    if not published.n_records:
        raise RefusedError(
            "A release without a record is not registered.",
            found="Its counts are all zero.",
            remedy="There is nothing to publish; register a release that shows somebody.",
        )
    merged = tuple(sorted(tuple(members) for members in merged_classes(published.grouping)))
    counts = _by_first_class(published)
    revision = registration.revision(counts)
    if revision is not None:
        if published.manifest.ledger is not None:
            raise RefusedError(
                "The series of this table is kept in another ledger.",
                found="Its manifest names a line of a ledger that is a file.",
                remedy="Register series that were begun with a copy of the agency's ledger.",
            )
        if plan.guarantee != "certified":
            raise RefusedError(
                "Only tables under a certified plan are published again.", found="The plan is not certified."
            )
        check_updatable(plan)
    update = published.manifest.update
    left_out = {} if update is None else {"records_left_out": published.manifest.records_left_out}
    update = None if update is None else {**update, **left_out}
    return Examined(registration.content_digest, merged, counts, revision, update)


def _by_first_class(published: Published) -> NDArray[np.int64]:
    """What the published classes show, numbered by their first base class."""
    order = np.array([members[0] for members in published.grouping]).argsort()
    return frozen(published.counts[order], np.int64)


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
    first, *others = [own.sum(axis=1) for own in plan.schema.by_column(table)]
    if any((first != own).any() for own in others):
        raise _other("It counts other records in one of the sensitive columns than in another.")
    published = Published(name, plan.schema, manifest.classes, table, manifest)
    if published.digest != manifest.content_digest:
        raise FileError(
            f"{_SOURCE} is not that of the release its manifest describes.",
            found="The counts do not have the digest that the manifest names.",
            remedy="Make the registration again, from the release and its manifest.",
        )
    return published


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
        and (manifest.coarsening is None or _isnumbers_of(manifest.coarsening, columns))
        and (manifest.utility is None or _isnumbers_of(manifest.utility, columns, depth=2))
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


def _isnumbers_of(document: object, columns: set[str], *, depth: int = 1) -> bool:
    """Whether it is a table of numbers by name; names of columns may be longer than other names."""
    return isinstance(document, dict) and all(
        (_is_short(name) or name in columns)
        and (type(value) in (int, float) or (depth > 1 and _isnumbers_of(value, columns, depth=depth - 1)))
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
