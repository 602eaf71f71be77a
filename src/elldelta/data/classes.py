"""The classes of a plan, in terms of the schema: which combinations belong together, and how that is told.

A shape is one class here: it assigns every combination of domain values, seen or not, to exactly one
class, knows the smallest box around each class (for labels and losses), and can be written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.partition import Partition
    from elldelta.data.schema import Schema


class Cover(Protocol):
    """Classes that can be looked up and told to a reader."""

    shape: ClassVar[str]

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""

    def class_of(self, schema: Schema, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination."""

    def hulls(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier: two tables R x d."""


class Classes(Cover, Protocol):
    """The classes of a plan: they cover every combination exactly once, and can be written down."""

    def to_dict(self) -> dict[str, Any]:
        """The classes as plain JSON values."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of the lexicographic order of all combinations.

    Attributes:
        starts: The rank at which each run begins, rising from 0; a run ends where the next one begins.
    """

    shape: ClassVar[str] = "runs"

    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        starts = np.array(self.starts, dtype=np.int64, copy=True)
        if starts.ndim != 1 or not starts.size or starts[0] != 0 or (np.diff(starts) <= 0).any():
            raise ParameterError("The starts of runs must rise from 0.", found=f"{starts.size} starts.")
        starts.setflags(write=False)
        object.__setattr__(self, "starts", starts)

    @classmethod
    def from_partition(cls, partition: Partition, ranks: NDArray[np.int64]) -> Runs:
        """Extends runs of the combinations that occur to runs of all combinations.

        A combination that never occurred joins the run of the last one before it that did.
        """
        starts = ranks[partition.starts].copy()
        starts[0] = 0
        return cls(starts)

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return int(self.starts.size)

    def class_of(self, schema: Schema, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination."""
        return (np.searchsorted(self.starts, ranks, side="right") - 1).astype(np.int64)

    def hulls(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier.

        A run keeps the leading values that its two ends share, spans a range of the first value that
        differs, and everything after that. No two runs have the same hull: where their first ranges
        agree, both lie within a single value, and the same holds for the next quasi-identifier.
        """
        lasts = np.append(self.starts[1:], schema.n_combinations) - 1
        lows, highs = schema.unrank(self.starts), schema.unrank(lasts)
        differs = lows != highs
        after_first = np.cumsum(differs, axis=1) - differs > 0
        lows = np.where(after_first, 0, lows)
        highs = np.where(after_first, np.array(schema.sizes) - 1, highs)
        return lows, highs

    def to_dict(self) -> dict[str, Any]:
        """The classes as plain JSON values."""
        return {"shape": self.shape, "starts": self.starts.tolist()}


SHAPES: Mapping[str, type[Runs]] = {Runs.shape: Runs}
"""Every shape by its name; a new shape adds one line."""


def classes_from_dict(document: Mapping[str, Any], schema: Schema) -> Classes:
    """Reads what `to_dict` wrote and checks that it fits the schema."""
    shape = document.get("shape")
    if shape != Runs.shape:
        raise ParameterError(
            f"The shape of the classes is not known; known are: {', '.join(SHAPES)}.",
            remedy="Update elldelta.",
        )
    runs = Runs(_integers(document["starts"]))
    if int(runs.starts[-1]) >= schema.n_combinations:
        raise ParameterError("The classes reach beyond the combinations of the schema.")
    return runs


def class_labels(schema: Schema, classes: Cover) -> list[tuple[str, ...]]:
    """What a release shows for each class: one label per quasi-identifier."""
    lows, highs = classes.hulls(schema)
    columns = [
        column.labels(lows[:, place], highs[:, place])
        for place, column in enumerate(schema.quasi_identifiers)
    ]
    return list(zip(*columns, strict=True))


def _integers(values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind != "i":
        raise ParameterError("The starts of runs must be whole numbers.")
    return array.astype(np.int64)
