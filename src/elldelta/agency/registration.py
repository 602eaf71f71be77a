"""What an owner sends about a release, and what the agency makes of it before it looks at anything else.

The agency sees no record: it is sent which classes are published together, and the counts that the release
shows to everybody. Everything else follows from these and the plan, which it knows. It checks everything
again that the owner's own machine has checked, as if the owner were its enemy.

Errors tell whose fault it is: an `InputError` is a registration that is malformed or contradicts itself or
the plan, a `RefusedError` is an honest answer of no.

Of a table that is published again the state, which says who is in the table, stays with the owner. The agency
gets its digest, and how many records came and went in each class. Who stayed follows from these numbers.

Whether a release may join those that were admitted before is decided in `elldelta.agency.admission`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta.agency.linking import as_published
from elldelta.core.checks import MOST_RECORDS, check_whole
from elldelta.core.distribution import frozen
from elldelta.core.partition import grouping_from_merged, merged_classes
from elldelta.core.updates import Groups
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, changed, is_digest, json_object, seal, unsealed_record
from elldelta.ledger import Cells, Revision, UpdateSummary, check_updatable, read_update_summary
from elldelta.release import (
    Published,
    is_cut,
    loss_of,
    open_published,
    verify_published,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from elldelta.core.partition import Partition
    from elldelta.engines import Progress
    from elldelta.plan.plan import Plan
    from elldelta.release.release import Release

FORMAT_VERSION = 1
"""Version of the document; others are refused."""

KIND = "registration"

_SOURCE = "The registration"


@dataclass(frozen=True, eq=False)
class Registration:
    """What an owner sends about a release: its classes, and the counts that it shows anyway.

    Nothing of it is interpreted here: `validate_registration` does that, with the plan.

    Attributes:
        plan_digest: The plan that the release claims to follow.
        content_digest: The digest of the release's content, as it claims.
        merged: Base classes that are published together, as a line of a ledger says it.
        cells: How many records each published class shows of each value.
        n_left_out: How many records the owner has left out, for whatever reason; only the owner knows.
        update: What is told of a table that is published again; otherwise None.
    """

    plan_digest: str
    content_digest: str
    merged: tuple[tuple[int, ...], ...]
    cells: Cells
    n_left_out: int = 0
    update: UpdateSummary | None = None

    def __post_init__(self) -> None:
        if not is_digest(self.plan_digest) or not is_digest(self.content_digest):
            raise ParameterError("A registration names its plan and its content by their digests.")
        check_whole("the number of records left out", self.n_left_out, 0, MOST_RECORDS)

    @classmethod
    def of(cls, published: Published, update: UpdateSummary | None = None) -> Self:
        """The registration of a release that was read."""
        return cls(
            published.manifest.plan_digest,
            published.manifest.content_digest,
            _merged(published.grouping),
            Cells.of(_by_first_class(published)),
            published.manifest.records_lost,
            update,
        )

    @property
    def n_records(self) -> int:
        """The number of records."""
        return sum(self.cells.counts)

    @cached_property
    def digest(self) -> str:
        """The digest of everything that is registered."""
        return str(self.to_dict()["digest"])

    def to_dict(self) -> dict[str, Any]:
        """The registration as plain JSON values, with its digest."""
        content = {
            "plan_digest": self.plan_digest,
            "content_digest": self.content_digest,
            "merged": self.merged,
            "cells": self.cells.to_dict(),
            "n_left_out": self.n_left_out,
            "update": None if self.update is None else self.update.to_dict(),
        }
        return seal(KIND, FORMAT_VERSION, content)

    def to_bytes(self) -> bytes:
        """The registration as it travels."""
        return as_bytes(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote, from anybody; whatever is not exactly that is refused.

        Also what would mean the same: what was read, written down again, must have the digest that it had.

        Raises:
            FileError: It is not JSON, no registration, of another version, or does not match its digest.
        """
        document = json_object(content)
        if document is None:
            raise FileError(
                f"{_SOURCE} is not a registration.",
                found="It is not a JSON object, or one that can be read in two ways.",
                remedy="Let 'elldelta remote register' make it.",
            )
        return unsealed_record(KIND, FORMAT_VERSION, cls, document, _SOURCE)


@dataclass(frozen=True, eq=False)
class ValidatedRelease:
    """A release that is what it says and follows its plan: all that deciding about it and keeping it need.

    Attributes:
        content_digest: The digest of the release's content.
        merged: Base classes that are published together, as a line of a ledger says it.
        counts: What the published classes show, classes x values; numbered by their first base class.
        loss: How much information is lost, with the records that are left out.
        n_left_out: The records that its owner says are left out.
        revision: What has changed, for a table that is published again.
    """

    content_digest: str
    merged: tuple[tuple[int, ...], ...]
    counts: NDArray[np.int64]
    loss: float | None = None
    n_left_out: int = 0
    revision: Revision | None = None


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
    if is_living and published.manifest.ledger is not None:
        raise RefusedError(
            "The series of this table is kept in another ledger.",
            found="Its manifest names a line of a ledger that is a file.",
            remedy="Register series that were begun with a copy of the agency's ledger.",
        )
    update = None if state is None else read_update_summary(state, plan)
    revision = revision_of(update, _by_first_class(published))
    if revision is not None and not _is_described(revision, published.manifest.update or {}):
        raise FileError(
            "The release and the state do not agree.",
            found="They say different things about who came and went.",
            remedy="Give the state that was written with the release.",
        )
    return Registration.of(published, update)


def validate_registration(plan: Plan, registration: Registration, *, owner: str) -> ValidatedRelease:
    """Checks everything that can be checked without knowing what else is registered.

    The registration is what it says (digests, counts, classes), and the release follows the plan (classes,
    certificate or number of records).

    Raises:
        InputError: It is malformed, or is not what it says.
        RefusedError: The release does not keep what the plan asks.
    """
    if registration.plan_digest != plan.digest:
        raise _other("It was made with another plan: the digests differ.")
    try:
        grouping = grouping_from_merged(registration.merged, plan.n_classes)
    except ParameterError:
        raise _other("Its classes are not unions of the plan's classes.") from None
    if not is_cut(plan, grouping):
        fixed = "the plan's classes as they are" if plan.moving is None else "nodes of the plan's tree"
        raise _other(f"It puts classes together otherwise than the plan says: it should show {fixed}.")
    if _merged(grouping) != registration.merged:
        raise changed(_SOURCE)
    counts = frozen(registration.cells.table(grouping.n_classes, plan.schema.n_values), np.int64)
    first, *others = [column.sum(axis=1) for column in plan.schema.by_column(counts)]
    if any((first != other).any() for other in others):
        raise _other("It counts other records in one of the sensitive columns than in another.")
    published = as_published(plan, grouping, counts, registration.content_digest, name=f"of {owner}")
    if published.digest != registration.content_digest:
        raise FileError(
            f"{_SOURCE} is not that of the release that it names.",
            found="The counts do not have the digest of its content.",
            remedy="Make the registration again, from the release and its manifest.",
        )
    verify_published(published, plan, has_manifest=False)
    if not published.n_records:
        raise RefusedError(
            "A release without a record is not registered.",
            found="Its counts are all zero.",
            remedy="There is nothing to publish; register a release that shows somebody.",
        )
    revision = revision_of(registration.update, counts)
    if revision is not None:
        if not plan.is_certified:
            raise RefusedError(
                "Only tables under a certified plan are published again.", found="The plan is not certified."
            )
        check_updatable(plan)
    n_left_out = registration.n_left_out
    hulls = published.classes.hulls(plan.schema)
    loss = loss_of(plan.schema, hulls, counts, plan.seen, n_left_out)
    return ValidatedRelease(
        registration.content_digest, registration.merged, counts, loss, n_left_out, revision
    )


def revision_of(update: UpdateSummary | None, counts: NDArray[np.int64]) -> Revision | None:
    """What a registration says has changed; None for a release that stands by itself.

    Args:
        update: What is told of the update.
        counts: What the published classes show, numbered by their first base class.

    Raises:
        FileError: More came than the release shows.
    """
    if update is None:
        return None
    groups = None
    if update.since is not None:
        came, went = update.came.table(*counts.shape), update.went.table(*counts.shape)
        groups = Groups(came, went, counts - came)
        groups = groups.only(groups.changes)
        if (groups.stayers < 0).any():
            raise FileError(
                "The registration contradicts itself.",
                found="More have come than the release shows.",
                remedy="Make the registration again, with the state that was written with the release.",
            )
    return Revision(groups, update.since or "", update.state)


def changes_of(revision: Revision) -> dict[str, int]:
    """How much of a table has changed since it was last published; empty the first time."""
    groups = revision.groups
    if groups is None:
        return {}
    return {
        "classes_changed": int(groups.changes.sum()),
        "records_joined": int(groups.joiners.sum()),
        "records_left": int(groups.leavers.sum()),
    }


def _is_described(revision: Revision, description: Mapping[str, object]) -> bool:
    """Whether a manifest says the same about who came and went."""
    changes = changes_of(revision)
    return ("classes_changed" in changes) == (
        "classes_changed" in description
    ) and changes.items() <= description.items()


def _by_first_class(published: Published) -> NDArray[np.int64]:
    """What the published classes show, numbered by their first base class."""
    order = np.array([members[0] for members in published.grouping]).argsort()
    return frozen(published.counts[order], np.int64)


def _merged(grouping: Partition) -> tuple[tuple[int, ...], ...]:
    """Base classes that are published together, in their one order."""
    return tuple(sorted(tuple(members) for members in merged_classes(grouping)))


def _other(found: str) -> FileError:
    return FileError(
        f"{_SOURCE} does not follow the plan.",
        found=found,
        remedy="Register a release that was made with this plan.",
    )
