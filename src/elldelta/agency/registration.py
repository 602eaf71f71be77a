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

from elldelta.core.distribution import frozen
from elldelta.core.partition import merged_classes
from elldelta.errors import FileError, RefusedError
from elldelta.files import as_bytes, changed, digest, is_digest, json_object, seal, unseal
from elldelta.plan.classes import Merged
from elldelta.release import Manifest, Published, open_published, verify_published
from elldelta.release import manifest as manifest_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from elldelta.engines import Progress
    from elldelta.plan.plan import Plan
    from elldelta.release.release import Release

FORMAT_VERSION = 1
"""Version of the document; old versions are read for ever, newer ones refused."""

KIND = "registration"

MOST_RECORDS = 2**53 - 1
"""More records than this cannot be added up everywhere without a rounding error, and nobody has them."""

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
class Examined:
    """A release that is what it says and follows its plan: all that deciding about it and keeping it need.

    Attributes:
        content_digest: The digest of the release's content.
        merged: Base classes that are published together, as a line of a ledger says it.
        counts: What the published classes show, classes x values; numbered by their first base class.
    """

    content_digest: str
    merged: tuple[tuple[int, ...], ...]
    counts: NDArray[np.int64]


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


def examine(plan: Plan, registration: Registration, *, owner: str) -> Examined:
    """Checks everything that can be checked without knowing what else is registered.

    The registration is what it says (digests, counts, manifest against counts), and the release follows the
    plan (classes, terms, certificate or number of records).

    Raises:
        InputError: It is malformed, or is not what it says.
        RefusedError: The release does not keep what the plan asks.
    """
    published = understood(plan, registration, name=f"of {owner}")
    if published.manifest.update is not None:
        raise RefusedError(
            "An agency does not admit tables that are published again and again.",
            found="The release is one of a series, which its owner's own ledger has admitted.",
            remedy="Keep such a series in a ledger that is a file, and register releases that stand alone.",
        )
    verify_published(published, plan)
    if not published.n_records:
        raise RefusedError(
            "A release without a record is not registered.",
            found="Its counts are all zero.",
            remedy="There is nothing to publish; register a release that shows somebody.",
        )
    merged = tuple(sorted(tuple(members) for members in merged_classes(published.grouping)))
    order = np.array([members[0] for members in published.grouping]).argsort()
    counts = frozen(published.counts[order], np.int64)
    return Examined(registration.content_digest, merged, counts)


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
