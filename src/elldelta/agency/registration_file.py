"""What an owner sends to the agency about a release: its manifest, and the counts that it shows anyway.

The counts are written down as three lists of equal length, class, value and number of records, in rising
order and without zeros: one spelling for every table. Nothing here interprets what the manifest says about
schema and classes; that is done by whoever knows the plan, after comparing them with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta.errors import FileError
from elldelta.files import as_bytes, changed, is_digest, json_object, seal, unseal
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
        """Reads what `to_bytes` wrote, from anybody; whatever is not exactly that is refused.

        Also what would mean the same: what was read, written down again, must have the digest that it had.

        Raises:
            FileError: It is not JSON, no registration, of a newer version, or does not match its digests.
        """
        document = json_object(content)
        if document is None:
            raise FileError(
                f"{source} is not a registration.",
                found="It is not a JSON object, or one that can be read in two ways.",
                remedy="Let 'elldelta remote register' make it.",
            )
        try:
            parts = unseal(KIND, FORMAT_VERSION, document, source)
            manifest, cells = parts["manifest"], parts["cells"]
            if not isinstance(manifest, dict):
                raise TypeError
            described = unseal(
                manifest_file.KIND, manifest_file.FORMAT_VERSION, manifest, f"{source}'s manifest"
            )
            registration = cls(manifest, *(_numbers(cells[name]) for name in _LISTS))
            is_intact = (
                is_digest(described["plan_digest"])
                and is_digest(described["content_digest"])
                and registration._is_in_order()
                and registration.digest == document["digest"]
            )
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            is_intact = False
        if not is_intact:
            raise changed(source)
        return registration

    def _is_in_order(self) -> bool:
        """Whether the counts are written in their only order, and are counts."""
        if not self.rows.size == self.values.size == self.counts.size:
            return False
        steps = np.diff(self.rows)
        rises = (steps > 0) | ((steps == 0) & (np.diff(self.values) > 0))
        is_counted = (self.rows >= 0) & (self.values >= 0) & (self.counts >= 1)
        n_records = sum(self.counts.tolist())  # Python's numbers do not wrap around
        return bool(rises.all() and is_counted.all()) and n_records <= MOST_RECORDS


def _numbers(numbers: object) -> NDArray[np.int64]:
    # Python's own numbers are looked at before numpy's: those take True for 1.
    if not isinstance(numbers, list) or not set(map(type, numbers)) <= {int}:
        raise TypeError
    array = np.array(numbers, dtype=np.int64)
    array.setflags(write=False)
    return array
