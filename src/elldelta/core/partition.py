"""Partitions of the quasi-identifiers into equivalence classes, and the paper's way to make one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_ell, check_p, check_whole
from elldelta.core.distribution import frozen, sum_by_group
from elldelta.errors import ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.distribution import JointDistribution


@dataclass(frozen=True, eq=False)
class Partition:
    """Assigns every quasi-identifier to exactly one class.

    The representation makes the two laws of a partition structural: each quasi-identifier has one entry
    (classes are disjoint and cover Q), and every class number up to the largest is used (none is empty).

    Attributes:
        class_of: The class number of each quasi-identifier, read-only.
    """

    class_of: NDArray[np.intp]

    def __post_init__(self) -> None:
        class_of = np.array(self.class_of, dtype=np.intp, copy=True)
        if class_of.ndim != 1 or class_of.size == 0:
            raise ParameterError(
                "A partition needs one class number per quasi-identifier.",
                found=f"An array of shape {class_of.shape}.",
            )
        if (
            class_of.min() < 0
            or class_of.max() >= class_of.size  # checked first: counting would need that much memory
            or (np.bincount(class_of) == 0).any()
        ):
            raise ParameterError(
                "Class numbers must be 0, 1, 2, ... without a gap.",
                found=f"{counted(np.unique(class_of).size, 'different number')} "
                f"from {class_of.min()} to {class_of.max()}.",
            )
        class_of.setflags(write=False)
        object.__setattr__(self, "class_of", class_of)

    @classmethod
    def from_starts(cls, starts: ArrayLike, n_quasi_identifiers: int) -> Partition:
        """Contiguous classes ("runs"), given by the row at which each begins; the first is 0."""
        n_quasi_identifiers = check_whole("the number of quasi-identifiers", n_quasi_identifiers)
        rows = np.asarray(starts, dtype=np.intp)
        if (
            rows.ndim != 1
            or rows.size == 0
            or rows[0] != 0
            or (np.diff(rows) <= 0).any()
            or rows[-1] >= n_quasi_identifiers
        ):
            raise ParameterError(
                f"Starts must begin with 0, rise, and stay below {n_quasi_identifiers}.",
                found=f"{rows.size} starts.",
            )
        lengths = np.diff(rows, append=n_quasi_identifiers)
        return cls(np.repeat(np.arange(rows.size), lengths))

    @classmethod
    def single(cls, n_quasi_identifiers: int) -> Partition:
        """The coarsest partition: one class, Q itself."""
        return cls.from_starts([0], n_quasi_identifiers)

    @property
    def n_classes(self) -> int:
        """The number of classes, R."""
        return int(self.class_of.max()) + 1

    @property
    def n_quasi_identifiers(self) -> int:
        """|Q|."""
        return int(self.class_of.size)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the classes are runs of the order, numbered along it."""
        return bool((np.diff(self.class_of) >= 0).all())

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """The first row of each class, for contiguous partitions."""
        if not self.is_contiguous:
            raise ParameterError("Only contiguous partitions have starts.")
        rows = np.flatnonzero(np.diff(self.class_of, prepend=-1))
        rows.setflags(write=False)
        return rows

    def __len__(self) -> int:
        return self.n_classes

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        """The rows of each class, ascending, class by class."""
        order = stable_order(self.class_of)
        return iter(np.split(order, np.cumsum(np.bincount(self.class_of))[:-1]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and np.array_equal(self.class_of, other.class_of)

    def __hash__(self) -> int:
        return hash(self.class_of.tobytes())

    def snapped_p(self, distribution: JointDistribution, ell: int) -> float:
        """The largest p for which every class has ell cells >= p: min over classes of the ell-th cell."""
        ell = check_ell(ell, distribution.n_values)
        smallest = distribution.generalized(self).largest_cells(ell)[:, 0].min()
        return float(smallest / distribution.total)

    def is_admissible(self, distribution: JointDistribution, ell: int, p: float) -> bool:
        """Whether every class has at least ell cells with P(c, s) >= p (within the tolerance)."""
        ell = check_ell(ell, distribution.n_values)
        reached = distribution.generalized(self).largest_cells(ell)[:, 0]
        return bool((reached >= distribution.threshold(p)).all())


def merged_classes(grouping: Partition) -> list[list[int]]:
    """The published classes that hold several base classes: a short way to write a grouping down."""
    sizes = np.bincount(grouping.class_of)
    members = np.flatnonzero(sizes[grouping.class_of] > 1)
    members = members[np.argsort(grouping.class_of[members], kind="stable")]
    ends = np.cumsum(sizes[sizes > 1])[:-1]
    return [group.tolist() for group in np.split(members, ends) if group.size]


def grouping_from_merged(merged: Sequence[Sequence[int]], n_classes: int) -> Partition:
    """Reads what `merged_classes` wrote; published classes are numbered by their first base class."""
    first = np.arange(n_classes)
    seen: set[int] = set()
    for members in merged:
        if len(members) < 2 or len(set(members)) < len(members) or seen & set(members):
            raise ParameterError("Merged classes must be disjoint and hold at least two base classes each.")
        if not all(0 <= member < n_classes for member in members):
            raise ParameterError(f"Merged classes must be numbers from 0 to {n_classes - 1}.")
        seen |= set(members)
        first[list(members)] = min(members)
    return Partition(np.unique(first, return_inverse=True)[1].reshape(-1))


def sum_by_class(table: NDArray[Any], partition: Partition) -> NDArray[Any]:
    """Adds up the rows of a table class by class."""
    sums: NDArray[Any] = sum_by_group(table, partition.class_of, partition.n_classes)
    return sums


def stable_order(numbers: NDArray[Any]) -> NDArray[np.intp]:
    """The places of whole numbers from 0 on, by rising number; those of equal numbers in their order.

    Numbers of 16 bits are counted, not compared: many places are in order ten times as soon.
    """
    if numbers.size and numbers.max() >= 1 << 32:
        return np.argsort(numbers, kind="stable")
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    above = (numbers >> 16).astype(np.uint16)
    return order[np.argsort(above[order], kind="stable")] if above.any() else order


def rows_by_group(
    group_of: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The rows by group, the groups that have any, and where each of them begins and ends."""
    is_sorted = (group_of[1:] >= group_of[:-1]).all()
    order = np.arange(group_of.size) if is_sorted else stable_order(group_of + 1)
    order = order[np.searchsorted(group_of[order], 0) :]
    ranked = group_of[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    return order, ranked[starts], starts, np.append(starts[1:], order.size)


def hulls_by_group(
    group_of: NDArray[np.intp], lows: NDArray[Any], highs: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lowest and the highest position of every group, by attribute; no group is empty."""
    order, _, starts, _ = rows_by_group(group_of)
    return np.minimum.reduceat(lows[order], starts), np.maximum.reduceat(highs[order], starts)


def weighted_sum(weights: NDArray[Any], terms: NDArray[Any]) -> float:
    """The sum of weight times term, rounded once: the same on every processor, and in every order.

    A matrix product adds up as it suits the processor. Where results are compared, its last digit would
    decide which of them is taken, and plans of one model would differ from machine to machine.
    """
    return math.fsum((weights * terms).tolist())


def greedy(distribution: JointDistribution, ell: int, p: float) -> Partition:
    """Greedy-Generalize (Algorithm 2), corrected: the most contiguous classes for a given p.

    Sweeps once over the ordered quasi-identifiers and closes a class as soon as ell cells reach p. What is
    left at the end joins the last closed class. The result has the most classes of all contiguous partitions
    that are admissible for (ell, p) (Proposition 3): any other one closes its k-th class no earlier than this
    one, for every k.

    The pseudo-code printed in the paper can leave the last quasi-identifier without a class, and can keep
    a last class that is not admissible; this function does neither.

    A cell counts as reaching p within `RELATIVE_TOLERANCE`: compute promises from `Partition.snapped_p`.
    """
    from elldelta.core.kernels import greedy_ends

    ell = check_ell(ell, distribution.n_values)
    p = check_p(p, float(distribution.ranked_marginal[ell - 1]), ell)
    n_rows = distribution.n_quasi_identifiers
    ends = greedy_ends(distribution.mass, ell, distribution.threshold(p))
    # No class closed although p <= p_ell: only rounding of the sums can do that, and Q is admissible.
    starts = np.concatenate(([0], ends[:-1])) if ends.size else np.zeros(1, dtype=np.intp)
    return Partition.from_starts(starts, n_rows)


def union_over_range(missed: NDArray[np.bool_], ranges: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """Per base class what is missed in any class that people there may move to; None: they do not move."""
    if ranges is None:
        return missed
    union = np.zeros((int(ranges.max()) + 1, missed.shape[1]), dtype=np.bool_)
    np.logical_or.at(union, ranges, missed)
    return union[ranges]


def max_over_range(numbers: NDArray[np.int64], ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per base class the largest number of any class that people there may move to."""
    largest = np.zeros(int(ranges.max()) + 1, dtype=np.int64)
    np.maximum.at(largest, ranges, numbers)
    return largest[ranges]


def checked_ranges(
    ranges: NDArray[np.int64], witnesses: NDArray[np.bool_], allowances: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the classes among which people move, or refuses what these do not have in common."""
    numbers: NDArray[np.int64] = frozen(ranges, np.int64, copy=True)
    if numbers.shape == allowances.shape and numbers.min() >= 0:
        _, first, number = np.unique(numbers, return_index=True, return_inverse=True)
        example = first[number]
        if (witnesses == witnesses[example]).all() and (allowances == allowances[example]).all():
            return numbers
    raise ParameterError(
        "Classes among which people move must have their witnesses and their allowance in common.",
        found="They have not, or it is not said which classes these are.",
    )
