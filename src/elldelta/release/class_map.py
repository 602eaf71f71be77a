"""Which combination goes to which class, and what the class is called in a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.errors import DataError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEFT_OUT = -1
"""The class number of a combination whose records are not released."""


@dataclass(frozen=True, eq=False)
class ClassMap:
    """Assigns combinations to classes, and names every class by one label per quasi-identifier.

    Attributes:
        ranks: The combinations, rising; at least all that occur in the table to be released.
        class_of: The class number of each, or `LEFT_OUT`.
        labels: For every class its labels, in the order of the quasi-identifiers. No two classes may have the
            same labels: a reader could not tell them apart.
    """

    ranks: NDArray[np.int64]
    class_of: NDArray[np.int64]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for name in ("ranks", "class_of"):
            array = np.array(getattr(self, name), dtype=np.int64, copy=True)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        labels = tuple(tuple(row) for row in self.labels)
        object.__setattr__(self, "labels", labels)
        if (
            self.ranks.ndim != 1
            or self.ranks.shape != self.class_of.shape
            or (np.diff(self.ranks) <= 0).any()
        ):
            raise ParameterError(
                "A class map needs rising ranks and one class number for each.",
                found=f"{self.ranks.size} ranks and {self.class_of.size} class numbers.",
            )
        if self.class_of.size and not LEFT_OUT <= self.class_of.min() <= self.class_of.max() < len(labels):
            raise ParameterError(
                f"Class numbers run from 0 to {len(labels) - 1}, or are {LEFT_OUT} for records left out.",
                found=f"They run from {self.class_of.min()} to {self.class_of.max()}.",
            )
        if len(set(labels)) < len(labels) or len(set(map(len, labels))) > 1:
            raise ParameterError(
                "Every class needs labels of its own, one per quasi-identifier.",
                found=f"{len(labels)} classes have {len(set(labels))} different sets of labels.",
            )

    def classes_of(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class numbers of some combinations; all must be in the map."""
        places = np.searchsorted(self.ranks, ranks)
        inside = places < self.ranks.size
        if not inside.all() or (self.ranks[places] != ranks).any():
            raise DataError(
                "The table holds combinations that the classes do not cover.",
                found="Some occupied combinations have no class.",
                remedy="Make the class map from the counts of this table.",
            )
        return self.class_of[places]
