"""The classes of a plan, in terms of the schema: which combinations belong together, and how that is told.

A shape is one class here: it assigns every combination of domain values, seen or not, to exactly one
class, knows the smallest box around each class (for labels and losses), and can be written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from elldelta.core.box_tree import BoxTree
from elldelta.core.partition import Partition, hulls_by_group
from elldelta.errors import ParameterError, SchemaError
from elldelta.files import whole_numbers_of
from elldelta.schema.domains import Categories

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from elldelta.model import Past
    from elldelta.schema.schema import Schema


@runtime_checkable
class Classes(Protocol):
    """The classes of a plan: every combination has exactly one. They can be looked up, told and written."""

    shape: ClassVar[str]

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""

    def class_of(self, schema: Schema, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination."""

    def hulls(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier: two tables R x d."""

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

        A combination that never occurred joins the run of the nearest one that did. A run that began with one
        that did would tell that somebody in the past had just these values.
        """
        firsts = partition.starts[1:]
        before, after = ranks[firsts - 1], ranks[firsts]
        return cls(np.concatenate(([0], before + (after - before) // 2 + 1)))

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

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], schema: Schema) -> Runs:
        """Reads what `to_dict` wrote."""
        runs = cls(whole_numbers_of(document, "starts"))
        if int(runs.starts[-1]) >= schema.n_combinations:
            raise ParameterError("The classes reach beyond the combinations of the schema.")
        return runs


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes: a range of positions in every quasi-identifier.

    Attributes:
        tree: The cuts that they come from; its leaves are the classes.
    """

    shape: ClassVar[str] = "boxes"

    tree: BoxTree

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return self.tree.n_leaves

    def class_of(self, schema: Schema, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination."""
        painted = self.tree.painted
        found = self.tree.locate(schema.unrank(ranks)) if painted is None else painted[ranks]
        return found.astype(np.int64, copy=False)

    def hulls(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier."""
        return self.tree.lows[self.tree.leaves], self.tree.highs[self.tree.leaves]

    def to_dict(self) -> dict[str, Any]:
        """The classes as plain JSON values: the cuts in preorder."""
        return {
            "shape": self.shape,
            "attributes": self.tree.attributes.tolist(),
            "places": self.tree.places.tolist(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], schema: Schema) -> Boxes:
        """Reads what `to_dict` wrote."""
        attributes, places = whole_numbers_of(document, "attributes"), whole_numbers_of(document, "places")
        return cls(BoxTree(attributes, places, schema.sizes))


@dataclass(frozen=True, eq=False)
class Merged:
    """Unions of a plan's classes: what is published where classes move up the tree of the plan.

    Attributes:
        base: The classes of the plan.
        group_of: The published class of each base class, numbered 0, 1, 2, ... without a gap.
    """

    shape: ClassVar[str] = "merged"

    base: Classes
    group_of: NDArray[np.int64]

    def __post_init__(self) -> None:
        group_of = np.array(self.group_of, dtype=np.int64, copy=True)
        if (
            group_of.shape != (self.base.n_classes,)
            or not 0 <= group_of.min() <= group_of.max() < self.base.n_classes
            or (np.bincount(group_of) == 0).any()
        ):
            raise ParameterError("Every base class needs a group, and groups are numbered without a gap.")
        group_of.setflags(write=False)
        object.__setattr__(self, "group_of", group_of)

    @property
    def n_classes(self) -> int:
        """The number of published classes."""
        return int(self.group_of.max()) + 1

    def class_of(self, schema: Schema, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each combination."""
        return self.group_of[self.base.class_of(schema, ranks)]

    def hulls(self, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of each class in each quasi-identifier."""
        lows, highs = self.base.hulls(schema)
        return hulls_by_group(self.group_of, lows, highs)

    def to_dict(self) -> dict[str, Any]:
        """The classes as plain JSON values."""
        return {"shape": self.shape, "base": self.base.to_dict(), "group_of": self.group_of.tolist()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], schema: Schema) -> Merged:
        """Reads what `to_dict` wrote."""
        return cls(classes_from_dict(document["base"], schema), whole_numbers_of(document, "group_of"))


_SHAPES: dict[str, Callable[[Mapping[str, Any], Schema], Classes]] = {
    Runs.shape: Runs.from_dict,
    Boxes.shape: Boxes.from_dict,
    Merged.shape: Merged.from_dict,
}
"""How each shape is read; a new shape adds one line."""


def classes_from_dict(document: Mapping[str, Any], schema: Schema) -> Classes:
    """Reads what `to_dict` wrote and checks that it fits the schema."""
    read = _SHAPES.get(str(document.get("shape")))
    if read is None:
        raise ParameterError(
            f"The shape of the classes is not known; known are: {', '.join(_SHAPES)}.",
            remedy="Update elldelta.",
        )
    return read(document, schema)


def grouping_of(classes: Classes) -> Partition:
    """The published class of every planned class."""
    return Partition(classes.group_of if isinstance(classes, Merged) else np.arange(classes.n_classes))


def class_labels(schema: Schema, classes: Classes) -> list[tuple[str, ...]]:
    """What a release shows for each class: one label per quasi-identifier."""
    return hull_labels(schema, *classes.hulls(schema))


def hull_labels(schema: Schema, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> list[tuple[str, ...]]:
    """What a release shows for classes with these hulls."""
    columns = [
        column.labels(lows[:, place], highs[:, place])
        for place, column in enumerate(schema.quasi_identifiers)
    ]
    return list(zip(*columns, strict=True))


MOST_POSITIONS = 2**31 - 1
"""Of one column: the search for classes counts positions with 32 bits."""

FEWER = 5
"""Fewer past records than this lie below the range, and fewer above it: a plan tells the range, and must not
tell the extreme value of one of the people behind it."""

Ranges = tuple[tuple[int, int], ...]
"""The first and the last position of every quasi-identifier between which nearly all past records lie.

A domain may be wider than its people: ages of 0 to 120 where nobody is older than 90. Who is known to be
between 17 and 90 is told nothing by a class of all ages. So loss is measured over what was seen, and so the
search for classes weighs it."""


def check_sizes(schema: Schema) -> None:
    """Refuses domains that the search for classes cannot hold."""
    columns = zip(schema.names, schema.sizes, strict=True)
    if too_large := [name for name, size in columns if size > MOST_POSITIONS]:
        raise SchemaError(
            f"A plan is made for columns of at most {MOST_POSITIONS:,} positions.",
            found=f"More have {', '.join(map(repr, too_large))}.",
            remedy="Give them a width in the schema. An identifier is no quasi-identifier: leave it out.",
        )


def seen_ranges(model: Past) -> Ranges:
    """The shortest ranges that leave fewer than `FEWER` past records on each side.

    Categories without an order have no range: all of them count.
    """
    found = list(whole_ranges(model.schema))
    columns = zip(model.schema.quasi_identifiers, model.spread, strict=True)
    for place, (column, (positions, records)) in enumerate(columns):
        if isinstance(column.domain, Categories) and not column.domain.ordered:
            continue
        low = int(np.searchsorted(np.cumsum(records), FEWER))
        high = positions.size - 1 - int(np.searchsorted(np.cumsum(records[::-1]), FEWER))
        if low <= high:  # otherwise there are next to no records
            found[place] = int(positions[low]), int(positions[high])
    return tuple(found)


def whole_ranges(schema: Schema) -> Ranges:
    """The ranges of whole domains."""
    return tuple((0, size - 1) for size in schema.sizes)


def check_ranges(seen: Ranges, schema: Schema) -> None:
    """Refuses ranges that do not lie in the domains of the quasi-identifiers."""
    if len(seen) != len(schema.sizes) or not all(
        0 <= low <= high < size for (low, high), size in zip(seen, schema.sizes, strict=True)
    ):
        raise ParameterError("The ranges that were seen must lie inside their domains.")


def lengths_of(seen: Ranges) -> tuple[int, ...]:
    """How many positions every range has."""
    return tuple(high - low + 1 for low, high in seen)
