"""Witnesses: per class, the values that the proof counts, and how many of them a release may miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Witnesses:
    """The witness set A_c of every class, and the allowances that Theorems C and E need.

    A_c is a prefix of the values ranked by P(c, s), so one table of ranks and one length per class say it
    all. The allowance b_c = floor((a_c - ell) / t) is what each of t releases may miss so that the pigeonhole
    of Theorems C and E leaves ell values, t b_c <= a_c - ell.

    Attributes:
        ranked_values: Value indices by falling P(c, s), ties by index, R x |S|, read-only.
        n_witnesses: a_c = |A_c|, one per class, read-only, from ell to |S|.
        ell: How many values must survive the linkage.
        releases: t, how many releases are linked.
    """

    ranked_values: NDArray[np.int32]
    n_witnesses: NDArray[np.int32]
    ell: int
    releases: int

    def __post_init__(self) -> None:
        ranked_values = _read_only(self.ranked_values, np.int32)
        n_witnesses = _read_only(self.n_witnesses, np.int32)
        if ranked_values.ndim != 2 or n_witnesses.shape != ranked_values.shape[:1]:
            raise ParameterError(
                "Witnesses need one ranking and one number of witnesses per class.",
                found=f"Shapes {ranked_values.shape} and {n_witnesses.shape}.",
            )
        if not _ranks_each_value_once(ranked_values):
            raise ParameterError(
                "Every class must rank every sensitive value exactly once.",
                found="A value is missing from a ranking, or appears twice.",
            )
        if (n_witnesses < self.ell).any() or (n_witnesses > ranked_values.shape[1]).any():
            raise ParameterError(
                f"Every class needs from ell = {self.ell} to {ranked_values.shape[1]} witnesses.",
                found=f"From {n_witnesses.min()} to {n_witnesses.max()} witnesses.",
            )
        object.__setattr__(self, "ranked_values", ranked_values)
        object.__setattr__(self, "n_witnesses", n_witnesses)

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return int(self.n_witnesses.size)

    @property
    def allowances(self) -> NDArray[np.int32]:
        """b_c for every class: how many witnesses each release may miss."""
        allowances: NDArray[np.int32] = (self.n_witnesses - self.ell) // self.releases
        return allowances

    def of(self, class_index: int) -> tuple[int, ...]:
        """A_c: the witness values of one class, most probable first."""
        n_witnesses = int(self.n_witnesses[class_index])
        ranked: list[int] = self.ranked_values[class_index].tolist()
        return tuple(ranked[:n_witnesses])

    def split(self, class_index: int) -> tuple[int, ...]:
        """The allowances of the t releases for one class; the remainder of (a - ell) / t is spread, not lost.

        >>> ranks = np.arange(6)[np.newaxis]
        >>> Witnesses(ranks, np.array([5]), ell=2, releases=2).split(0)
        (2, 1)
        """
        share, rest = divmod(int(self.n_witnesses[class_index]) - self.ell, self.releases)
        return tuple(share + (release < rest) for release in range(self.releases))

    def membership(self) -> NDArray[np.bool_]:
        """R x |S|: whether a value is a witness of a class."""
        chosen = np.zeros(self.ranked_values.shape, dtype=np.bool_)
        n_values = np.size(self.ranked_values, axis=1)
        within = np.arange(n_values) < self.n_witnesses.reshape(-1, 1)
        np.put_along_axis(chosen, self.ranked_values.astype(np.intp), within, axis=1)
        return chosen


def _ranks_each_value_once(ranked_values: NDArray[np.int32]) -> bool:
    n_values = ranked_values.shape[1]
    if ((ranked_values < 0) | (ranked_values >= n_values)).any():
        return False
    seen = np.zeros(ranked_values.shape, dtype=np.bool_)
    np.put_along_axis(seen, ranked_values.astype(np.intp), True, axis=1)
    return bool(seen.all())


def _read_only(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    array = np.array(array, dtype=dtype, copy=True)
    array.setflags(write=False)
    return array
