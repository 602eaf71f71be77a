"""Closeness: how far the shares of linked records are from what is public (Theorem G).

A plan gives every base class c a public reference distribution pi_c. Release j shows the shares f_j(s) in the
published class around c. What any of the releases shows too little of adds up to

    E = Σ_s max_j (pi_c(s) - f_j(s))^+  <=  Σ_j TV(f_j, pi_c),

and the shares g of the linked records, m(s) = min_j n_j(s), are within E of pi_c in total variation. So for
every set of values the linked records and the plan differ by at most E. Everything here is decided exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import described
from elldelta.core.diversity import as_count_table
from elldelta.core.ladder import STEP
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.partition import Partition

_CELLS_AT_ONCE = 1 << 20

SMOOTHING = 4.0
"""Past records, spread like all of them, that are added to every class before its reference is published."""

PER_PART = 0.75
"""The most parts of a reference for every past record of its class."""

FEWEST_PAST = 10
"""No class is made of fewer past records: its reference would tell of single people."""

MOST_PARTS = 1000
"""The finest reference, in parts."""

_STEPS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)

LARGEST_REFERENCE = 10**9
"""The largest whole number in a reference: sums over 2^31 values stay below 2^63."""


def as_limit(limit: object) -> Fraction:
    """A limit in total variation, strictly between 0 and 1, as the decimal number that was written.

    >>> as_limit(0.1), as_limit("0.25")
    (Fraction(1, 10), Fraction(1, 4))
    """
    if isinstance(limit, str | Rational | Real) and not isinstance(limit, bool):
        try:
            exact = Fraction(limit) if isinstance(limit, Rational) else Fraction(str(limit))
        except ValueError:
            exact = Fraction(0)
        if 0 < exact < 1:
            return exact
    raise ParameterError(
        "A closeness is a distance in total variation, strictly between 0 and 1.",
        found=f"It is {described(limit)}.",
        remedy="Useful values are 0.1 to 0.4; 0.2 means 20 percentage points.",
    )


def linked_excess(reference: Sequence[int], tables: Sequence[Sequence[int]]) -> Fraction:
    """E of Theorem G for one base class, exactly: how far from the reference linking can lead.

    Args:
        reference: Whole numbers in proportion to pi_c.
        tables: What each release shows in its published class, in records per value. Those without a record
            say nothing: nobody is there who could be linked.

    >>> linked_excess([1, 1, 2], [[3, 1, 4]])
    Fraction(1, 8)
    >>> linked_excess([1, 1, 2], [[3, 1, 4], [1, 3, 4]])
    Fraction(1, 4)
    """
    total = sum(map(int, reference))
    rows = [[Fraction(int(n), sum(map(int, row))) for n in row] for row in tables if any(row)]
    least = [min((row[value] for row in rows), default=Fraction(1)) for value in range(len(reference))]
    shortfalls = (
        Fraction(int(weight), total) - share for weight, share in zip(reference, least, strict=True)
    )
    return sum((max(Fraction(0), short) for short in shortfalls), Fraction(0))


@dataclass(frozen=True, eq=False)
class SmallestShares:
    """The smallest share of every value that any release so far shows: what a ledger keeps for Theorem G.

    Attributes:
        counts: Records of the value in the published class with the smallest share, R x |S|, read-only.
        sizes: All records of that class, R x |S|, read-only. A share of 1 / 1 stands where nothing was shown.
    """

    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts, sizes = as_count_table(self.counts), as_count_table(self.sizes)
        if counts.shape != sizes.shape or (sizes < 1).any() or (counts > sizes).any():
            raise ParameterError(
                "Shares need a number of records and a size of at least that, and 1, for every value.",
                found=f"Shapes {counts.shape} and {sizes.shape}.",
            )
        for name, array in (("counts", counts), ("sizes", sizes)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def none(cls, n_classes: int, n_values: int) -> SmallestShares:
        """Before the first release."""
        ones = np.ones((n_classes, n_values), dtype=np.int64)
        return cls(ones, ones)

    def row(self, base: int) -> list[Fraction]:
        """The shares of one base class, exactly."""
        return [
            Fraction(n, size)
            for n, size in zip(self.counts[base].tolist(), self.sizes[base].tolist(), strict=True)
        ]

    def at(self, classes: NDArray[np.int64]) -> SmallestShares:
        """The same for cells that lie in these base classes."""
        return SmallestShares(self.counts[classes], self.sizes[classes])

    def smaller(self, other: SmallestShares) -> SmallestShares:
        """The smaller of two shares, cell by cell, exactly."""
        large = max(int(self.sizes.max()), int(other.sizes.max())) >= 2**31
        kind = object if large else np.int64
        less = other.counts.astype(kind) * self.sizes.astype(kind)
        less = (less < self.counts.astype(kind) * other.sizes.astype(kind)).astype(np.bool_)
        return SmallestShares(
            np.where(less, other.counts, self.counts), np.where(less, other.sizes, self.sizes)
        )

    def joined(self, shown: NDArray[np.int64], grouping: Partition) -> SmallestShares:
        """With one more release; shares are compared exactly.

        Args:
            shown: Its records by published class and value.
            grouping: The published class of every base class.
        """
        counts, sizes = self.counts.copy(), self.sizes.copy()
        totals = shown.sum(axis=1)
        for rows in _blocks(*counts.shape):
            groups = grouping.class_of[rows]
            new, size = shown[groups], totals[groups][:, np.newaxis]
            largest = max(int(size.max()), int(sizes[rows].max()))
            # Products of two sizes may need more than 64 bits: then Python's whole numbers.
            kind = np.int64 if largest < 2**31 else object
            less = new.astype(kind) * sizes[rows].astype(kind) < counts[rows].astype(kind) * size.astype(kind)
            less = less.astype(np.bool_) & (size > 0)
            counts[rows] = np.where(less, new, counts[rows])
            sizes[rows] = np.where(less, np.broadcast_to(size, new.shape), sizes[rows])
        return SmallestShares(counts, sizes)


def distances_upper(
    references: NDArray[np.int64],
    shown: NDArray[np.int64],
    grouping: Partition,
    smallest: SmallestShares | None = None,
) -> NDArray[np.float64]:
    """E of every base class, at most a rounding error too large.

    Without other releases it is TV(f(C), pi_c). A published class without a record adds nothing.

    Args:
        references: Whole numbers in proportion to pi_c, R x |S|.
        shown: Records by published class and value, zero where records are left out.
        grouping: The published class of every base class.
        smallest: What other releases have shown.
    """
    sizes = shown.sum(axis=1)
    found = np.empty(len(references))
    for rows in _blocks(*references.shape):
        groups = grouping.class_of[rows]
        table, size = shown[groups], sizes[groups][:, np.newaxis]
        weights = references[rows]
        shares = weights / weights.sum(axis=1, keepdims=True)
        short = np.where(size > 0, shares - table / np.maximum(1, size), 0.0)
        if smallest is not None:
            short = np.maximum(short, shares - smallest.counts[rows] / smallest.sizes[rows])
        found[rows] = np.maximum(0.0, short).sum(axis=1)
    return np.minimum(1.0, found + rounding(references.shape[1]))


def rounding(n_values: int) -> float:
    """How far a sum of |S| shares in floating point can be from the exact one."""
    # Each of |S| differences is wrong by at most 3 units of 2^-53, their sum, which is at most 1, by |S|.
    return float(n_values + 8) * 2.0**-50


def exact_distance(
    references: NDArray[np.int64], base: int, row: NDArray[np.int64], smallest: SmallestShares | None = None
) -> Fraction:
    """E of one base class, exactly; see `distances_upper`."""
    others = [] if smallest is None else [smallest.row(base)]
    reference, size = references[base].tolist(), int(row.sum())
    total, excess = sum(reference), Fraction(0)
    for value, weight in enumerate(reference):
        least = Fraction(int(row[value]), size) if size else Fraction(1)
        least = min(least, *(shares[value] for shares in others)) if others else least
        excess += max(Fraction(0), Fraction(weight, total) - least)
    return excess


def public_references(
    counts: ArrayLike, smoothing: float = SMOOTHING, *, overall: ArrayLike | None = None
) -> NDArray[np.int64]:
    """References from past records, rounded, R x |S|.

    Nothing but multiples of `STEP` is looked at, rounded down. What this takes from a class, and at least as
    many records as `smoothing` says, comes back spread like all records. Then shares are rounded to parts, of
    which there are at most `PER_PART` for every past record, and at most `MOST_PARTS`. How many parts there
    are tells the size of a class to about a fifth. No class should have fewer than `FEWEST_PAST` records.

    Args:
        counts: Past records by class and value.
        smoothing: How many records are at least spread.
        overall: All past records by value, if the classes are not all that there are.

    >>> public_references([[30, 10, 0], [0, 10, 10]]).tolist()
    [[22, 8, 0], [1, 7, 7]]
    """
    exact = np.asarray(counts)
    everybody = exact.sum(axis=0) if overall is None else np.asarray(overall)
    table, sizes, spread = (
        STEP * (n // STEP).astype(np.float64) for n in (exact, exact.sum(axis=1, keepdims=True), everybody)
    )
    spread /= max(1.0, float(spread.sum()))
    taken = np.maximum(smoothing, sizes - table.sum(axis=1, keepdims=True))
    shares = (table + taken * spread) / (table.sum(axis=1, keepdims=True) + taken)
    steps = np.array([step * 10**power for power in range(7) for step in _STEPS])
    steps = np.concatenate((np.arange(1, 10), steps[steps <= MOST_PARTS]))
    parts = steps[np.maximum(1, np.searchsorted(steps, sizes * PER_PART, side="right")) - 1]
    floors = np.floor(shares * parts)
    left = (parts - floors.sum(axis=1, keepdims=True)).astype(np.int64)
    ranks = np.argsort(np.argsort(-(shares * parts - floors), axis=1, kind="stable"), axis=1)
    references: NDArray[np.int64] = (floors + (ranks < left)).astype(np.int64)
    return references


def distances_between(one: ArrayLike, other: ArrayLike) -> NDArray[np.float64]:
    """TV between distributions, row by row: what a release made for other references costs in addition."""
    difference = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    distances: NDArray[np.float64] = 0.5 * np.abs(difference).sum(axis=-1)
    return distances


def values_lower(shares: ArrayLike, limit: float) -> NDArray[np.int64]:
    """The fewest distinct values that the linked records can show, row by row; downwards where it is close.

    >>> values_lower([[0.25, 0.25, 0.25, 0.25], [0.9, 0.1, 0.0, 0.0]], 0.25).tolist()
    [3, 1]
    """
    falling = -np.sort(-np.asarray(shares, dtype=np.float64), axis=-1)
    is_short = np.cumsum(falling, axis=-1) + limit < 1.0 - 1e-9
    fewest: NDArray[np.int64] = np.minimum(falling.shape[-1], 1 + is_short.sum(axis=-1)).astype(np.int64)
    return fewest


def _blocks(n_rows: int, n_values: int) -> Iterator[slice]:
    step = max(1, _CELLS_AT_ONCE // n_values)
    return (slice(start, start + step) for start in range(0, n_rows, step))
