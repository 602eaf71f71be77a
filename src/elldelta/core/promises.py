"""Promises: what a published class must show (Theorems E and G).

A plan fixes base classes. A release publishes disjoint unions of them. A promise is about one sensitive
column and says of every base class whether what is published around it shows enough. A plan makes any number
of promises, and a release is certified if it keeps all of them. No distribution enters: the owner checks its
own counts, alone. Where several columns are sensitive, releases do not tell which of their values
belong to one person, so that linking crosses out the values of each column by itself.

* `Values`: per base class witness values A_c and an allowance b_c with t b_c <= a_c - ell. A published class
  with a record misses at most b_c of A_c, for every base class inside it, also for those without a record.
* `Close`: it stays close to the reference of each of them.
* `Size`: it holds at least k records.

Any t certified releases, of any owners, linked in any way, leave what is promised to everybody who lies in a
class with a record in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from elldelta.core.checks import check_ell, check_releases, check_whole
from elldelta.core.closeness import (
    LARGEST_REFERENCE,
    SmallestShares,
    as_limit,
    distances_upper,
    exact_distance,
    rounding,
)
from elldelta.core.distribution import frozen
from elldelta.core.diversity import as_count_table
from elldelta.core.partition import Partition, checked_ranges, max_over_range, sum_by_class
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

LATER = (
    "The same people may be published under this plan at a later size or date that was announced beforehand. "
    "Whatever else is published of them now tells that this attempt failed."
)
"""All that a refusal offers."""


@dataclass(frozen=True, eq=False)
class Shown:
    """What a release shows.

    Attributes:
        counts: Records by published class and value, read-only: the values of the first sensitive column,
            then those of the next; every record counts once in each. Zero where records are left out.
        grouping: The published class of every base class.
        left_out: Whether the records of a published class are left out, read-only; by default of none.
    """

    counts: NDArray[np.int64]
    grouping: Partition
    left_out: NDArray[np.bool_] = None  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        n_groups = self.grouping.n_classes
        if self.left_out is None:
            object.__setattr__(self, "left_out", np.zeros(n_groups, np.bool_))
        object.__setattr__(self, "counts", as_count_table(self.counts))
        object.__setattr__(self, "left_out", frozen(self.left_out, np.bool_, copy=True))
        if self.counts.shape[0] != n_groups or self.left_out.shape != (n_groups,):
            raise ParameterError(
                f"The grouping has {counted(n_groups, 'published class', 'published classes')}.",
                found=f"Counts have the shape {self.counts.shape}, and what is left out "
                f"{self.left_out.shape}.",
            )

    @classmethod
    def of(
        cls, table: ArrayLike, grouping: Partition | None = None, left_out: NDArray[np.bool_] | None = None
    ) -> Self:
        """What an owner's table shows.

        Args:
            table: Records by base class and value.
            grouping: The published class of every base class; None publishes every base class by itself.
            left_out: Published classes whose records are left out, one bool each.
        """
        records = as_count_table(table)
        grouping = Partition(np.arange(len(records))) if grouping is None else grouping
        if grouping.n_quasi_identifiers != len(records):
            raise ParameterError(
                f"The table has {counted(len(records), 'base class', 'base classes')}.",
                found=f"The grouping is about {grouping.n_quasi_identifiers}.",
            )
        counts = sum_by_class(records, grouping)
        shown = cls(counts, grouping, left_out)  # type: ignore[arg-type]
        if not shown.left_out.any():
            return shown
        return cls(np.where(shown.left_out[:, np.newaxis], 0, counts), grouping, shown.left_out)

    def column(self, values: slice, n_classes: int) -> NDArray[np.int64]:
        """Records by published class and value of one sensitive column of a plan with so many classes."""
        if self.grouping.n_quasi_identifiers != n_classes or values.stop > self.counts.shape[1]:
            raise ParameterError(
                f"The promise is about {counted(n_classes, 'base class', 'base classes')} and "
                f"values up to the {values.stop}th.",
                found=f"The release has "
                f"{counted(self.grouping.n_quasi_identifiers, 'base class', 'base classes')} and "
                f"{counted(self.counts.shape[1], 'value')}.",
            )
        return self.counts[:, values]

    @property
    def has_records(self) -> NDArray[np.bool_]:
        """Whether a published class has a record, one per published class."""
        found: NDArray[np.bool_] = np.any(self.counts, axis=1)
        return found

    @property
    def n_published(self) -> int:
        """Published classes with at least one record."""
        return int(self.has_records.sum())


class Promise(Protocol):
    """What is promised about one sensitive column."""

    @property
    def values(self) -> slice:
        """Where the values of its column stand in a table of counts."""

    def violation(self, shown: Shown) -> NDArray[Any]:
        """By how much every base class breaks it; 0 where it is kept. Decided exactly."""

    def after(self, shown: Shown) -> Promise:
        """What the next release must keep so that both together keep it; may ask for more than that."""

    @property
    def broken(self) -> str:
        """What it is called where it is broken."""

    def words(self, violation: NDArray[Any]) -> str:
        """A sentence: how many classes break it, without a value of anybody."""


@dataclass(frozen=True, eq=False)
class Values:
    """At least ell values of a sensitive column are left after t releases are linked (Theorems E and H).

    Attributes:
        witnesses: R x |S|: whether a value is in A_c, read-only.
        allowances: b_c, how many of them a release may miss, one per base class, read-only.
        ell: How many values survive the linkage.
        releases: t, how many releases may be linked.
        min_records: r: a witness counts as shown only with at least r records in the published class. The
            linkage then leaves ell values with at least r linked records each.
        ranges: Per base class the number of the classes among which somebody may move, which then have their
            witnesses and their allowance in common (Theorem H), read-only; None: nobody moves.
        column: The name of the sensitive column.
        start: Where its values begin in a table of counts.
    """

    witnesses: NDArray[np.bool_]
    allowances: NDArray[np.int64]
    ell: int
    releases: int = 1
    min_records: int = 1
    ranges: NDArray[np.int64] | None = None
    column: str = "sensitive"
    start: int = 0

    def __post_init__(self) -> None:
        witnesses = frozen(self.witnesses, np.bool_, copy=True)
        allowances = frozen(self.allowances, np.int64, copy=True)
        if witnesses.ndim != 2 or witnesses.size == 0 or allowances.shape != witnesses.shape[:1]:
            raise ParameterError(
                "A promise of values needs witnesses and one allowance for every base class.",
                found=f"Shapes {witnesses.shape} and {allowances.shape}.",
            )
        ell = check_ell(self.ell, witnesses.shape[1])
        releases = check_releases(self.releases)
        min_records = check_whole("the number of records of a witness", self.min_records)
        spare = witnesses.sum(axis=1) - ell
        # Python's whole numbers, not numpy's: t b must not wrap around for an absurdly large t.
        too_large = sum(
            b < 0 or releases * b > room
            for b, room in zip(allowances.tolist(), spare.tolist(), strict=True)
        )  # fmt: skip
        if too_large:
            raise ParameterError(
                "Allowances must not be negative, and t of them must leave ell of the witnesses "
                "(t b_c <= a_c - ell).",
                found=f"{too_large} of {counted(allowances.size, 'base class', 'base classes')} break this "
                f"for ell = {ell} and t = {releases}.",
                remedy="Use the allowances of the plan.",
            )
        if self.ranges is not None:
            object.__setattr__(self, "ranges", checked_ranges(self.ranges, witnesses, allowances))
        object.__setattr__(self, "witnesses", witnesses)
        object.__setattr__(self, "allowances", allowances)
        object.__setattr__(self, "ell", ell)
        object.__setattr__(self, "releases", releases)
        object.__setattr__(self, "min_records", min_records)

    @classmethod
    def of(
        cls,
        witnesses: Witnesses | Sequence[Sequence[int]],
        n_values: int,
        *,
        ell: int,
        releases: int,
        allowances: ArrayLike | None = None,
        min_records: int = 1,
        ranges: NDArray[np.int64] | None = None,
        column: str = "sensitive",
        start: int = 0,
    ) -> Values:
        """The promise of a plan file: the witness values of every base class, as positions.

        Allowances that are not given are the largest that t releases can share, floor((a_c - ell) / t).
        """
        n_values = check_whole("the number of sensitive values", n_values)
        releases = check_releases(releases)
        listed = Witnesses.of(witnesses)
        if listed.values.max(initial=0) >= n_values:
            raise ParameterError(
                f"Witness values must be positions from 0 to {n_values - 1}.",
                found="At least one is outside.",
            )
        membership = listed.table(n_values)
        if allowances is None:
            allowances = np.maximum(0, membership.sum(axis=1) - ell) // min(releases, n_values + 1)
        return cls(membership, np.asarray(allowances), ell, releases, min_records, ranges, column, start)

    @property
    def values(self) -> slice:
        """Where the values of its column stand in a table of counts."""
        return slice(self.start, self.start + self.witnesses.shape[1])

    @cached_property
    def n_witnesses(self) -> NDArray[np.int64]:
        """a_c, one per base class."""
        return frozen(self.witnesses.sum(axis=1), np.int64)

    def missed(self, shown: Shown) -> NDArray[np.bool_]:
        """M(c), R x |S|: the witnesses of c that its published class does not show.

        Nothing is missed where the published class has no record: nobody is there who could be linked.
        """
        counts = shown.column(self.values, len(self.witnesses))
        absent = (counts < self.min_records) & counts.any(axis=1, keepdims=True)
        missed: NDArray[np.bool_] = self.witnesses & absent[shown.grouping.class_of]
        return missed

    def violation(self, shown: Shown) -> NDArray[np.int64]:
        """How many witnesses more than it may miss every base class misses (Theorem E)."""
        excess: NDArray[np.int64] = np.maximum(0, self.missed(shown).sum(axis=1) - self.allowances)
        return excess

    def after(self, shown: Shown) -> Values:
        """What one more release must show, if this one and its like are all that was published.

        The witnesses that are left, as many of which may be missing as are more than ell. Where people move,
        all witnesses, and the number that this release misses in the worst class less.
        """
        missed = self.missed(shown)
        if self.ranges is None:
            return self.with_room(self.witnesses & ~missed)
        room = self.allowances if self.releases == 1 else self.n_witnesses - self.ell
        return self.with_room(
            self.witnesses, room - max_over_range(missed.sum(axis=1, dtype=np.int64), self.ranges)
        )

    def with_room(self, witnesses: NDArray[np.bool_], allowances: NDArray[np.int64] | None = None) -> Values:
        """The same promise for one more release, which may miss so many of these witnesses.

        By default as many as leave ell.
        """
        room = witnesses.sum(axis=1) - self.ell if allowances is None else allowances
        return replace(self, witnesses=witnesses, allowances=room, releases=1)

    @property
    def broken(self) -> str:
        """What it is called where it is broken."""
        return f"Too few of the values of {self.column!r} that the plan counts on"

    def words(self, violation: NDArray[Any]) -> str:
        """How many classes break it."""
        verb = "misses" if int((violation > 0).sum()) == 1 else "miss"
        return (
            f"{_classes(violation)} {verb} too many of the values of {self.column!r} that the plan counts on."
        )


@dataclass(frozen=True, eq=False)
class Close:
    """Shares of linked records stay close to public references (Theorem G).

    Attributes:
        references: Whole numbers in proportion to pi_c, R x |S|, read-only; each row has a sum of its own.
        limit: T, the largest E in any base class.
        releases: t, how many releases share the limit. Each of them is checked alone, for T / t.
        smallest: What other releases have shown already, if E is about all of them together (a ledger).
        unseen: What releases of which nothing is known add to E at most; whatever adds nothing is then kept.
        column: The name of the sensitive column.
        start: Where its values begin in a table of counts.
    """

    references: NDArray[np.int64]
    limit: Fraction
    releases: int = 1
    smallest: SmallestShares | None = None
    column: str = "sensitive"
    start: int = 0
    unseen: Fraction | int = 0

    def __post_init__(self) -> None:
        references = as_count_table(self.references)
        if (references.sum(axis=1) < 1).any() or int(references.max()) > LARGEST_REFERENCE:
            raise ParameterError(
                f"A reference needs whole numbers up to {LARGEST_REFERENCE}, not all of them 0, "
                "for every base class.",
                found=f"{int((references.sum(axis=1) < 1).sum())} of {len(references)} have only zeros.",
            )
        if self.smallest is not None and self.smallest.counts.shape != references.shape:
            raise ParameterError(
                "References and smallest shares are about other classes or values.",
                found=f"Shapes {references.shape} and {self.smallest.counts.shape}.",
            )
        object.__setattr__(self, "references", frozen(references, np.int64))
        object.__setattr__(self, "limit", as_limit(self.limit))
        object.__setattr__(self, "releases", check_releases(self.releases))

    @property
    def values(self) -> slice:
        """Where the values of its column stand in a table of counts."""
        return slice(self.start, self.start + self.references.shape[1])

    @property
    def allowed(self) -> Fraction:
        """The largest E of one release: T / t."""
        return self.limit / self.releases

    @property
    def shares(self) -> NDArray[np.float64]:
        """pi_c, R x |S|."""
        shares: NDArray[np.float64] = self.references / self.references.sum(axis=1, keepdims=True)
        return shares

    @property
    def nobody(self) -> Shown:
        """A release without a record: what is then too far away, others have shown."""
        nothing = np.zeros((1, self.values.stop), dtype=np.int64)
        return Shown(nothing, Partition.single(len(self.references)))

    def distances_upper(self, shown: Shown) -> NDArray[np.float64]:
        """E of every base class, at most a rounding error too large."""
        counts = shown.column(self.values, len(self.references))
        return distances_upper(self.references, counts, shown.grouping, self.smallest)

    def violation(self, shown: Shown) -> NDArray[np.float64]:
        """By how much E exceeds what is allowed; whether it does is decided exactly, also at the limit."""
        allowed = self.allowed - self.unseen
        upper, limit = self.distances_upper(shown), float(allowed)
        slack = rounding(self.references.shape[1])
        too_far = upper > limit
        # Floating-point numbers decide what is clear, whole numbers what is not.
        for base in np.flatnonzero(np.abs(upper - limit) <= 3.0 * slack).tolist():
            row = shown.counts[shown.grouping.class_of[base], self.values]
            too_far[base] = exact_distance(self.references, base, row, self.smallest) > allowed
        if self.unseen and self.smallest is not None:
            joined = self.smallest.joined(shown.counts[:, self.values], shown.grouping)
            too_far &= np.any(
                (joined.counts != self.smallest.counts) | (joined.sizes != self.smallest.sizes), axis=1
            )
        return np.where(too_far, np.maximum(upper - limit, slack), 0.0)

    def after(self, shown: Shown) -> Close:
        """What one more release must keep, so that all of them together stay within T."""
        smallest = SmallestShares.none(*self.references.shape) if self.smallest is None else self.smallest
        return self.beside(smallest.joined(shown.counts[:, self.values], shown.grouping))

    def beside(self, smallest: SmallestShares) -> Close:
        """The same promise for one more release, beside others with these smallest shares.

        A certificate asks each of t releases for T / t. Whoever sees all of them asks E for T itself.
        """
        return replace(self, smallest=smallest, releases=1)

    @property
    def broken(self) -> str:
        """What it is called where it is broken."""
        return f"More than {float(self.allowed):.3g} away from the reference of {self.column!r}"

    def words(self, violation: NDArray[Any]) -> str:
        """How many classes break it."""
        return f"{self.broken} in {_classes(violation)}."


@dataclass(frozen=True, eq=False)
class Size:
    """No published class holds fewer than k records. Witnesses alone make sure of ell x r.

    Attributes:
        k: The fewest records of a published class that has any.
        values: Where the values of a sensitive column stand in a table of counts.
    """

    k: int
    values: slice

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_whole("the fewest records of a class, k,", self.k))

    def violation(self, shown: Shown) -> NDArray[np.int64]:
        """How many records every base class lacks, if it is published."""
        sizes = shown.counts[:, self.values].sum(axis=1)
        lacks = np.where(sizes > 0, np.maximum(0, self.k - sizes), 0)
        found: NDArray[np.int64] = lacks[shown.grouping.class_of]
        return found

    def after(self, shown: Shown) -> Size:
        """The same: releases do not share it."""
        return self

    @property
    def broken(self) -> str:
        """What it is called where it is broken."""
        return f"Fewer than {counted(self.k, 'record')}"

    def words(self, violation: NDArray[Any]) -> str:
        """How many classes break it."""
        return f"{self.broken} in {_classes(violation)}."


def _classes(violation: NDArray[Any]) -> str:
    return f"{int((violation > 0).sum()):,} of {counted(violation.size, 'class', 'classes')}"
