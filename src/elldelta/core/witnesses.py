"""Witness values of classes: flat arrays, one class after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 (records are read by their annotations)

from elldelta.core.distribution import frozen
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elldelta.core.distribution import JointDistribution


_AT_ONCE = 1 << 18
"""So many witnesses are compared at a time, about."""


@dataclass(frozen=True, eq=False)
class Witnesses:
    """A_c of every class, as positions of values.

    Attributes:
        counts: a_c, how many each class has, read-only.
        values: Those of the first class, then those of the second, and so on, read-only; usually the most
            probable one of a class first.

    >>> witnesses = Witnesses.of([[2, 0], [1]])
    >>> witnesses.counts.tolist(), witnesses.values.tolist(), witnesses.offsets.tolist()
    ([2, 1], [2, 0, 1], [0, 2, 3])
    """

    counts: NDArray[np.int64]
    values: NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        counts, values = np.asarray(self.counts), np.asarray(self.values)
        if (
            counts.ndim != 1
            or values.ndim != 1
            or not 0 <= counts.min(initial=0) <= counts.max(initial=0) <= values.size
            or counts.sum() != values.size
        ):
            raise ParameterError("How many witnesses classes have must add up to all of them.")
        if not 0 <= values.min(initial=0) <= values.max(initial=0) < 1 << 31:  # as they are stored
            raise ParameterError("Witnesses are positions of values.", found="At least one is not.")
        object.__setattr__(self, "counts", frozen(counts, np.int64, copy=True))
        object.__setattr__(self, "values", frozen(values, np.int32, copy=True))

    @classmethod
    def of(cls, lists: Witnesses | Sequence[Sequence[int] | NDArray[Any]]) -> Witnesses:
        """The witnesses that are listed class by class."""
        if isinstance(lists, Witnesses):
            return lists
        counts = np.array([len(values) for values in lists], dtype=np.int64)
        return cls(counts, np.fromiter(chain.from_iterable(lists), np.int64, int(counts.sum())))

    @classmethod
    def joined(cls, parts: Sequence[Witnesses]) -> Witnesses:
        """The witnesses of the classes of each part, one part after the other."""
        return cls(
            np.concatenate([part.counts for part in parts]), np.concatenate([part.values for part in parts])
        )

    @classmethod
    def none(cls, n_classes: int) -> Witnesses:
        """Classes of which no distinct values are asked."""
        return cls(np.zeros(n_classes, np.int64), np.zeros(0, np.int32))

    def __len__(self) -> int:
        """The number of classes."""
        return self.counts.size

    def __getitem__(self, number: int) -> NDArray[np.integer[Any]]:
        """The witnesses of one class."""
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    def __iter__(self) -> Iterator[NDArray[np.integer[Any]]]:
        """The witnesses of every class."""
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the witnesses of each class begin, and at last where they end."""
        return frozen(np.concatenate(([0], np.cumsum(self.counts))), np.int64)

    @property
    def classes(self) -> NDArray[np.int64]:
        """The class of each witness."""
        return np.repeat(np.arange(len(self)), self.counts)

    def repeat_any(self) -> bool:
        """Whether a class has a witness twice."""
        return any((keys[1:] == keys[:-1]).any() for keys in self._sorted_keys())

    def same_sets(self, other: Witnesses) -> bool:
        """Whether every class has the same witnesses here and there, in any order."""
        return np.array_equal(self.counts, other.counts) and all(
            np.array_equal(here, there)
            for here, there in zip(self._sorted_keys(), other._sorted_keys(), strict=True)
        )

    def _sorted_keys(self) -> Iterator[NDArray[np.int64]]:
        """Class and value of each witness as one number, rising; some classes at a time."""
        step = max(1, _AT_ONCE * len(self) // max(1, self.values.size))
        for start in range(0, len(self), step):
            counts = self.counts[start : start + step]
            some = slice(self.offsets[start], self.offsets[start + counts.size])
            yield np.sort((np.repeat(np.arange(counts.size), counts) << 32) + self.values[some])

    def at(self, classes: NDArray[np.int64]) -> Witnesses:
        """The witnesses of these classes, in the order given."""
        counts, starts = self.counts[classes], self.offsets[classes]
        ends = np.cumsum(counts)
        places = np.arange(counts.sum()) + np.repeat(starts - (ends - counts), counts)
        return Witnesses(counts, self.values[places])

    def sums(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """What a number for each witness adds up to in each class."""
        return np.bincount(self.classes, numbers, len(self)).astype(np.float64)

    def cells(self, classes: JointDistribution) -> NDArray[Any]:
        """The mass of each witness in its class."""
        found = np.empty(self.values.size, dtype=classes.mass.dtype)
        for start, block in classes.dense_blocks():
            stop = start + len(block)
            rows = np.repeat(np.arange(len(block)), self.counts[start:stop])
            part = slice(self.offsets[start], self.offsets[stop])
            found[part] = np.asarray(block)[rows, self.values[part]]
        return found

    def most_probable_first(self, cells: NDArray[Any]) -> NDArray[np.intp]:
        """The order in which the witnesses of every class fall by a number for each; ties by value."""
        return np.lexsort((self.values, -cells, self.classes))

    def most_frequent_first(self, counts: NDArray[Any]) -> tuple[Witnesses, NDArray[Any]]:
        """The witnesses in that order, and their counts in it."""
        order = self.most_probable_first(counts)
        return Witnesses(self.counts, self.values[order]), counts[order]

    def table(self, n_values: int, numbers: NDArray[Any] | bool = True) -> NDArray[Any]:
        """Classes x values: a number for each witness, 0 elsewhere; by default whether a value is one."""
        table = np.zeros((len(self), n_values), dtype=np.asarray(numbers).dtype)
        table[self.classes, self.values] = numbers
        return table
