"""Counts by (combination of quasi-identifier values, sensitive value), and the account of every record."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import LARGEST_DENSE, JointDistribution, is_sparse_better
from elldelta.errors import DataError, InternalError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from elldelta.schema.schema import Schema


@dataclass(frozen=True)
class Accounting:
    """What became of every record that was read: n_read = n_counted + n_suppressed + n_quarantined.

    A record with a value outside a domain is quarantined; otherwise one without a value where the policy
    says so is suppressed. The numbers per column count every such value, so a record may be in several.

    Attributes:
        n_read: Records in the table.
        n_counted: Records that take part.
        n_suppressed: Records left out because a value is missing.
        n_quarantined: Records left out because a value lies outside its domain.
        nulls: Missing values per column, for columns whose policy is not "category".
        unknown: Values outside the domain, per column.
    """

    n_read: int
    n_counted: int
    n_suppressed: int = 0
    n_quarantined: int = 0
    nulls: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("nulls", "unknown"):
            tally = {column: int(n) for column, n in getattr(self, name).items() if n}
            object.__setattr__(self, name, MappingProxyType(tally))
        parts = (self.n_counted, self.n_suppressed, self.n_quarantined)
        if self.n_read != sum(parts) or min(parts) < 0:
            raise InternalError(
                "Records were lost or invented while counting.",
                found=f"Read {self.n_read}; counted {self.n_counted}, suppressed {self.n_suppressed}, "
                f"quarantined {self.n_quarantined}.",
                remedy="Please report this.",
            )

    def __add__(self, other: Accounting) -> Accounting:
        return Accounting(
            self.n_read + other.n_read,
            self.n_counted + other.n_counted,
            self.n_suppressed + other.n_suppressed,
            self.n_quarantined + other.n_quarantined,
            _added(self.nulls, other.nulls),
            _added(self.unknown, other.unknown),
        )

    def to_dict(self) -> dict[str, Any]:
        """The account as plain JSON values; `from_dict` is the inverse."""
        return {
            "n_read": self.n_read,
            "n_counted": self.n_counted,
            "n_suppressed": self.n_suppressed,
            "n_quarantined": self.n_quarantined,
            "nulls": dict(self.nulls),
            "unknown": dict(self.unknown),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Accounting:
        """Reads what `to_dict` wrote."""
        return cls(**document)


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each sensitive value occurs with each combination: only what occurs is stored.

    Attributes:
        schema: What the numbers mean.
        ranks: The occupied combinations, rising.
        rows: For each cell with a record, the place of its combination in `ranks`.
        values: For each cell, the position of its sensitive value.
        n: For each cell, the number of records, at least 1. Cells are sorted by row, then value.
        accounting: What became of every record.
    """

    schema: Schema
    ranks: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.int64]
    n: NDArray[np.int64]
    accounting: Accounting

    def __post_init__(self) -> None:
        for name in ("ranks", "rows", "values", "n"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        problem = self._contradiction()
        if problem:
            raise DataError("A table of counts contradicts itself.", found=problem)

    @classmethod
    def from_cells(
        cls, schema: Schema, ranks: ArrayLike, values: ArrayLike, n: ArrayLike, accounting: Accounting
    ) -> Counts:
        """Adds up cells given in any order, repetitions included.

        Read-only arrays of cells that are in order already are shared, not copied.
        """
        ranks, values, n = (np.asarray(array, dtype=np.int64) for array in (ranks, values, n))
        if n.size == 0:
            return cls(schema, ranks, ranks, values, n, accounting)
        if not _are_ordered(ranks, values):
            order = _order_of_cells(schema, ranks, values)
            ranks, values, n = ranks[order], values[order], n[order]
            values.setflags(write=False)
            n.setflags(write=False)
        new_rank = np.ones(ranks.size, dtype=np.bool_)
        np.not_equal(ranks[1:], ranks[:-1], out=new_rank[1:])
        new_cell = new_rank.copy()
        new_cell[1:] |= values[1:] != values[:-1]
        rows: NDArray[np.int64] = np.cumsum(new_rank, dtype=np.int64)
        rows -= 1
        ranks = ranks[new_rank]
        if not new_cell.all():
            starts = np.flatnonzero(new_cell)
            rows, values, n = rows[starts], values[starts], np.add.reduceat(n, starts)
        ranks.setflags(write=False)  # made here: no further copy is needed
        rows.setflags(write=False)
        return cls(schema, ranks, rows, values, n, accounting)

    @property
    def n_records(self) -> int:
        """The number of records that were counted."""
        return self.accounting.n_counted

    @property
    def n_combinations(self) -> int:
        """The number of combinations that occur."""
        return int(self.ranks.size)

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The positions of each occupied combination, one row per combination."""
        positions = self.schema.unrank(self.ranks)
        positions.setflags(write=False)
        return positions

    @cached_property
    def combination_totals(self) -> NDArray[np.int64]:
        """Records per occupied combination."""
        return _bincount(self.rows, self.n, self.n_combinations)

    @cached_property
    def value_totals(self) -> NDArray[np.int64]:
        """Records per sensitive value, seen or not."""
        return _bincount(self.values, self.n, self.schema.n_values)

    def by_class(self, class_of: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
        """Records by class and sensitive value; those of a combination with a negative class are left out.

        Args:
            class_of: The class of each occupied combination.
            n_classes: The number of classes.
        """
        n_values = self.schema.n_values
        # Combinations that are left out have a row of their own at the end, which is cut off.
        first = np.where(class_of < 0, n_classes, class_of) * n_values
        table = np.zeros((n_classes + 1) * n_values, dtype=np.int64)
        np.add.at(table, first[self.rows] + self.values, self.n)
        return table.reshape(n_classes + 1, n_values)[:n_classes]

    def dense(self) -> NDArray[np.int64]:
        """The table of occupied combinations x all sensitive values, for what needs all cells at once."""
        shape = (self.n_combinations, self.schema.n_values)
        if shape[0] * shape[1] > LARGEST_DENSE:
            raise DataError(
                "The table of combinations and sensitive values, zeros included, does not fit into memory.",
                found=f"{shape[0]} combinations occur with {shape[1]} sensitive values.",
                remedy="Use wider ranges or coarser dates, or put sensitive values into bins.",
            )
        table = np.zeros(shape, dtype=np.int64)
        table[self.rows, self.values] = self.n
        return table

    def to_distribution(self) -> JointDistribution:
        """P(Q, S) over the occupied combinations, in the order of `ranks`.

        Sparse where that is smaller: what does not occur then takes no memory, and the counts are shared.
        """
        return self._distribution

    @cached_property
    def _distribution(self) -> JointDistribution:
        if self.n_records == 0:
            raise DataError(
                "There is no record to estimate from.",
                found=f"{self.accounting.n_read} records were read, none was counted.",
                remedy="Give a table with records that fit the schema.",
            )
        if not is_sparse_better(self.n_combinations, self.schema.n_values, self.n.size):
            return JointDistribution.from_counts(self.dense())
        offsets = np.searchsorted(self.rows, np.arange(self.n_combinations + 1))
        return JointDistribution.from_cells(offsets, self.values, self.n, self.schema.n_values)

    def _is_sorted(self) -> bool:
        """Whether the rows of the cells are 0, ..., 0, 1, ..., 1, 2, ... with rising values inside each."""
        if self.rows.size == 0 or self.ranks.size == 0:
            return self.rows.size == self.ranks.size
        before, after = self.rows[:-1], self.rows[1:]
        rises = (after == before) & (self.values[1:] > self.values[:-1])
        rises |= after == before + 1
        return bool(self.rows[0] == 0 and self.rows[-1] == self.ranks.size - 1 and rises.all())

    def _contradiction(self) -> str:
        same_length = self.rows.shape == self.values.shape == self.n.shape
        if self.ranks.ndim != 1 or self.rows.ndim != 1 or not same_length:
            return "Its arrays differ in length."
        checks = {
            "Its ranks do not rise inside the schema's combinations.": _rises_below(
                self.ranks, self.schema.n_combinations
            ),
            "Its sensitive values lie outside their domain.": (self.values >= 0).all()
            and (self.values < self.schema.n_values).all(),
            "Some cells hold no record.": (self.n >= 1).all(),
            "Its cells are not sorted, or some combinations hold no record.": self._is_sorted(),
            f"Its cells do not add up to the {self.n_records} records counted.": (
                self.n.sum(dtype=np.float64) < 2.0**62 and int(self.n.sum()) == self.n_records
            ),
        }
        return next((problem for problem, holds in checks.items() if not holds), "")


def merge_counts(parts: Iterable[Counts]) -> Counts:
    """Adds counts of several tables with the same schema: two years, two regions."""
    counts = list(parts)
    if not counts:
        raise DataError("There is nothing to merge.", remedy="Give at least one table of counts.")
    schema = counts[0].schema
    for place, part in enumerate(counts, start=1):
        if part.schema.digest != schema.digest:
            raise SchemaError(
                "Only counts with the same schema can be merged.",
                found=f"Number {place} has another schema than the first.",
                remedy="Count all tables with one schema.",
            )
    accounting = counts[0].accounting
    for part in counts[1:]:
        accounting += part.accounting
    return Counts.from_cells(
        schema,
        np.concatenate([part.ranks[part.rows] for part in counts]),
        np.concatenate([part.values for part in counts]),
        np.concatenate([part.n for part in counts]),
        accounting,
    )


def _order_of_cells(schema: Schema, ranks: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.intp]:
    if schema.n_combinations * schema.n_values < 2**63:
        # Many times as fast as sorting by two keys, and four times as a stable sort, which nobody needs here:
        # cells that are the same are added up.
        return np.argsort(ranks * schema.n_values + values)
    return np.lexsort((values, ranks))


def _are_ordered(ranks: NDArray[np.int64], values: NDArray[np.int64]) -> bool:
    """Whether cells are sorted by rank, then value: those of a model file are, and need no more memory."""
    rises = (ranks[1:] == ranks[:-1]) & (values[1:] >= values[:-1])
    rises |= ranks[1:] > ranks[:-1]
    return bool(rises.all())


def _frozen(array: NDArray[Any]) -> NDArray[np.int64]:
    """The array itself if nobody can change it any more, otherwise a read-only copy."""
    given = np.asarray(array)
    is_view = isinstance(given.base, np.ndarray)  # of something that may be changed yet
    if given.dtype == np.int64 and not is_view and not given.flags.writeable:
        return given
    copy = np.array(given, dtype=np.int64, copy=True)
    copy.setflags(write=False)
    return copy


def _rises_below(ranks: NDArray[np.int64], limit: int) -> bool:
    if ranks.size == 0:
        return True
    return bool(ranks[0] >= 0 and (np.diff(ranks) > 0).all() and int(ranks[-1]) < limit)


def _bincount(places: NDArray[np.int64], n: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    totals = np.zeros(size, dtype=np.int64)
    np.add.at(totals, places, n)
    totals.setflags(write=False)
    return totals


def _added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in (*first, *second)}
