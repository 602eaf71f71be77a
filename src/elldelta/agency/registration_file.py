"""What an owner sends to the agency about a release: its manifest, and the counts that it shows anyway.

The counts are written down as three lists of equal length, class, value and number of records, in rising
order and without zeros: one spelling for every table. Nothing here interprets what the manifest says about
schema and classes; that is done by whoever knows the plan, after comparing them with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta.errors import FileError
from elldelta.files import as_bytes, changed, is_digest, seal, unseal
from elldelta.release import manifest as manifest_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from elldelta.release.manifest import Manifest

FORMAT_VERSION = 1
"""Version of the document; old versions are read for ever, newer ones refused."""

KIND = "registration"

MOST_RECORDS = 2**53 - 1
"""More records than this cannot be added up everywhere without a rounding error, and nobody has them."""

_KEYS = frozenset({"kind", "format", "manifest", "cells", "digest"})
_LISTS = ("classes", "values", "counts")


@dataclass(frozen=True, eq=False)
class Registration:
    """A release as it is registered.

    Attributes:
        manifest: The manifest of the release, as its file holds it; its seal is intact.
        rows: Published classes with a record of a value, rising.
        values: The positions of these values, rising within a class.
        counts: How many records, at least 1.
    """

    manifest: Mapping[str, Any]
    rows: NDArray[np.int64]
    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, manifest: Manifest, table: NDArray[np.int64]) -> Self:
        """The registration of a release with these counts, classes x values."""
        rows, values = np.nonzero(table)
        return cls(manifest.to_dict(), rows.astype(np.int64), values.astype(np.int64), table[rows, values])

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
        return int(self.counts.sum())

    @cached_property
    def digest(self) -> str:
        """The digest of everything that is registered."""
        return str(self.to_dict()["digest"])

    def table(self, n_classes: int, n_values: int) -> NDArray[np.int64]:
        """The counts as a table, classes x values.

        Raises:
            FileError: They speak of classes or values that there are not.
        """
        if self.rows.size and (int(self.rows.max()) >= n_classes or int(self.values.max()) >= n_values):
            raise FileError(
                "The registration counts classes or values that the release does not have.",
                found=f"There are {n_classes} classes and {n_values} sensitive values.",
                remedy="Make the registration from the release and the plan it was made with.",
            )
        table = np.zeros((n_classes, n_values), dtype=np.int64)
        table[self.rows, self.values] = self.counts
        return table

    def to_dict(self) -> dict[str, Any]:
        """The registration as plain JSON values, with its digest."""
        cells = {
            "classes": self.rows.tolist(),
            "values": self.values.tolist(),
            "counts": self.counts.tolist(),
        }
        return seal(KIND, FORMAT_VERSION, {"manifest": dict(self.manifest), "cells": cells})

    def to_bytes(self) -> bytes:
        """The registration as it travels."""
        return as_bytes(self.to_dict())

    @classmethod
    def from_bytes(cls, content: bytes, *, source: str = "The registration") -> Self:
        """Reads what `to_bytes` wrote, from anybody: whatever is not exactly that is refused.

        Raises:
            FileError: It is not JSON, or no registration, or damaged.
        """
        try:
            document = json.loads(content, object_pairs_hook=_without_doubles, parse_constant=_refuse)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise FileError(
                f"{source} is not a registration.",
                found="It is not a JSON object, or one that can be read in two ways.",
                remedy="Let 'elldelta remote register' make it.",
            )
        return cls.from_dict(document, source=source)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The registration") -> Self:
        """Reads what `to_dict` wrote; anything else is refused, also what would mean the same.

        Raises:
            FileError: It is no registration, of a newer version, or does not match its digests.
        """
        try:
            content = unseal(KIND, FORMAT_VERSION, document, source)
            if document.keys() != _KEYS or type(document["format"]) is not int or document["format"] < 1:
                raise changed(source)
            manifest = content["manifest"]
            if not isinstance(manifest, dict):
                raise changed(source)
            described = unseal(
                manifest_file.KIND, manifest_file.FORMAT_VERSION, manifest, f"{source}'s manifest"
            )
            if not is_digest(described.get("plan_digest")) or not is_digest(described.get("content_digest")):
                raise changed(source)
            rows, values, counts = _cells(content["cells"], source)
        except RecursionError:  # nested deeper than anything of ours
            raise changed(source) from None
        return cls(manifest, rows, values, counts)


def _cells(cells: object, source: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Three lists of whole numbers in their only order."""
    if not isinstance(cells, dict) or cells.keys() != set(_LISTS):
        raise changed(source)
    arrays = []
    for name in _LISTS:
        numbers = cells[name]
        # Python's own numbers are looked at before numpy's: those wrap around, and take True for 1.
        if (
            not isinstance(numbers, list)
            or not set(map(type, numbers)) <= {int}
            or (numbers and not 0 <= min(numbers) <= max(numbers) <= MOST_RECORDS)
        ):
            raise changed(source)
        arrays.append(np.array(numbers, dtype=np.int64))
    rows, values, counts = arrays
    if not rows.size == values.size == counts.size:
        raise changed(source)
    steps = np.diff(rows)
    rises = (steps > 0) | ((steps == 0) & (np.diff(values) > 0))
    if not rises.all() or (counts < 1).any() or sum(cells["counts"]) > MOST_RECORDS:
        raise changed(source)
    for array in arrays:
        array.setflags(write=False)
    return rows, values, counts


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError
    return document


def _refuse(_: str) -> None:
    raise ValueError
