"""Witnesses: per class, the values that the proof counts, and how many of them a release may miss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.mass_table import BLOCK
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Witnesses:
    """The witness set A_c of every class, and the allowances that Theorems C and E need.

    A_c is a prefix of the values ranked by P(c, s). Only the witnesses themselves are stored: a class of a
    large plan has some tens of them, out of a thousand values. The allowance b_c = floor((a_c - ell) / t) is
    what each of t releases may miss so that the pigeonhole of Theorems C and E leaves ell values,
    t b_c <= a_c - ell.

    Attributes:
        values: The witnesses of the first class by falling P(c, s), ties by index, then those of the second,
            and so on, read-only.
        n_witnesses: a_c = |A_c|, one per class, read-only, from ell to |S|.
        n_values: |S|.
        ell: How many values must survive the linkage.
        releases: t, how many releases are linked.
    """

    values: NDArray[np.int32]
    n_witnesses: NDArray[np.int32]
    n_values: int
    ell: int
    releases: int

    def __post_init__(self) -> None:
        values = _read_only(self.values, np.int32)
        n_witnesses = _read_only(self.n_witnesses, np.int32)
        if values.ndim != 1 or n_witnesses.ndim != 1 or n_witnesses.sum(dtype=np.int64) != values.size:
            raise ParameterError(
                "Witnesses need one number of witnesses per class, and so many values.",
                found=f"{values.size} values for {n_witnesses.size} classes.",
            )
        if (n_witnesses < self.ell).any() or (n_witnesses > self.n_values).any():
            raise ParameterError(
                f"Every class needs from ell = {self.ell} to {self.n_values} witnesses.",
                found=f"From {n_witnesses.min()} to {n_witnesses.max()} witnesses.",
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "n_witnesses", n_witnesses)
        if not self._names_each_value_once():
            raise ParameterError(
                "A witness must be a sensitive value, and counts once.",
                found="A value lies outside the sensitive values, or appears twice in a class.",
            )

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return int(self.n_witnesses.size)

    @property
    def allowances(self) -> NDArray[np.int32]:
        """b_c for every class: how many witnesses each release may miss."""
        allowances: NDArray[np.int32] = (self.n_witnesses - self.ell) // self.releases
        return allowances

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the witnesses of each class begin in `values`, and at last where the last one's end."""
        starts = np.zeros(self.n_classes + 1, dtype=np.int64)
        np.cumsum(self.n_witnesses, out=starts[1:])
        starts.setflags(write=False)
        return starts

    def of(self, class_index: int) -> tuple[int, ...]:
        """A_c: the witness values of one class, most probable first."""
        start, stop = self.starts[class_index : class_index + 2]
        return tuple(self.values[start:stop].tolist())

    def _names_each_value_once(self) -> bool:
        if ((self.values < 0) | (self.values >= self.n_values)).any():
            return False
        step = max(1, BLOCK // self.n_values)
        for first in range(0, self.n_classes, step):
            lengths = self.n_witnesses[first : first + step]
            start = int(self.starts[first])
            values = self.values[start : start + int(lengths.sum())]
            seen = np.zeros((lengths.size, self.n_values), dtype=np.bool_)
            seen[np.repeat(np.arange(lengths.size), lengths), values] = True
            if np.count_nonzero(seen) < values.size:
                return False
        return True


def _read_only(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    array = np.array(array, dtype=dtype, copy=True)
    array.setflags(write=False)
    return array
