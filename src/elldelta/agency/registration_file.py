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

from elldelta.core.mass_table import frozen
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
            raise changed(source)
        return registration


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
