"""What has a promise of its own: a sensitive column, or several that stay tied together.

Releases do not tell which values of different units belong to one person: each unit is counted by itself. The
values of all units are numbered one after the other, so that a table of counts has the values of the first
unit, then those of the next; every record counts once in each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import ValueUnit
from elldelta.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.schema.schema import Column


@dataclass(frozen=True)
class SensitiveUnit:
    """A sensitive column, or several that are tied together, and where its values stand among all.

    Attributes:
        columns: Its columns.
        start: The position of its first value among the values of all units.
    """

    columns: tuple[Column, ...]
    start: int

    @property
    def name(self) -> str:
        """Its name, or those of its columns with a plus between them."""
        return "+".join(column.name for column in self.columns)

    @property
    def size(self) -> int:
        """How many values it has: tuples, if columns are tied."""
        return math.prod(column.size for column in self.columns)

    @property
    def place(self) -> ValueUnit:
        """Where its values stand, as tables of counts know it."""
        return ValueUnit(self.start, tuple(column.size for column in self.columns))

    @property
    def has_missing(self) -> bool:
        """Whether a missing value counts as a value."""
        return any(column.has_missing for column in self.columns)

    def join(self, positions: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The positions of values among all, from those in each column."""
        if len(self.columns) == 1:
            return positions[0] + self.start if self.start else positions[0]
        joined: NDArray[np.int64] = positions[0].copy()
        for column, places in zip(self.columns[1:], positions[1:], strict=True):
            joined *= column.size
            joined += places
        joined += self.start
        return joined

    def split(self, values: NDArray[Any]) -> tuple[NDArray[np.int64], ...]:
        """The position of each value in each of the columns: the inverse of `join`."""
        left = np.asarray(values, dtype=np.int64) - self.start
        found = []
        for column in reversed(self.columns):
            left, place = np.divmod(left, column.size)
            found.append(place)
        return tuple(reversed(found))

    @property
    def countings(self) -> tuple[NDArray[np.int64] | None, ...]:
        """What counts as one value, in each way in which its values count: None, if every value does.

        Like values count as their group. Tuples of tied columns count as the values of each of the columns.
        """
        if len(self.columns) > 1:
            return self.split(self.start + np.arange(self.size))
        tree = self.columns[0].cut_tree
        return (None if tree is None else tree.levels[1],)

    @property
    def labels(self) -> tuple[str, ...]:
        """What its values are called; the parts of a tuple with a plus between them."""
        return tuple(map(" + ".join, product(*(column.value_labels for column in self.columns))))


def sensitive_units(
    columns: Sequence[Column], tied: Sequence[tuple[str, ...]] = ()
) -> tuple[SensitiveUnit, ...]:
    """The units of sensitive columns, in the order of their first columns.

    Args:
        columns: The sensitive columns.
        tied: Groups of their names that stay together.
    """
    known = {column.name: column for column in columns}
    named = [name for group in tied for name in group]
    if (
        len(set(named)) < len(named)
        or not set(named) <= known.keys()
        or any(len(group) < 2 for group in tied)
    ):
        raise SchemaError(
            "Only sensitive columns can be tied together, two or more of them, each in one group.",
            found="A name in `tied` is that of no sensitive column, stands there twice, or stands alone.",
            remedy='Write, for instance, tied = [["disease", "stage"]].',
        )
    units: list[SensitiveUnit] = []
    start = 0
    for group in dict.fromkeys(next((group for group in tied if name in group), (name,)) for name in known):
        units.append(SensitiveUnit(tuple(known[name] for name in group), start))
        start += units[-1].size
    return tuple(units)
