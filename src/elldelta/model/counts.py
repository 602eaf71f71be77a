"""Counts by (combination of quasi-identifier values, sensitive value), and the account of every record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import (
    JointDistribution,
    SparseRows,
    frozen,
    is_sparse_better,
    sparse_rows,
)
from elldelta.errors import DataError, InternalError, SchemaError, counted
from elldelta.files import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from elldelta.schema.schema import Schema

LARGEST_DENSE = 1 << 29
"""Cells of a dense table above which writing it out is refused (4 GiB)."""


@dataclass(frozen=True)
class Accounting:
    """What became of every record that was read.

    n_read = n_counted + n_suppressed + n_quarantined + n_repeated.

    A record with a value outside a domain is quarantined; otherwise one without a value where the policy
    says so is suppressed. The numbers per column count every such value, so a record may be in several.

    Attributes:
        n_read: Records in the table.
        n_counted: Records that take part.
        n_suppressed: Records left out because a value is missing.
        n_quarantined: Records left out because a value lies outside its domain.
        nulls: Missing values per column, for columns whose policy is not "category".
        unknown: Values outside the domain, per column.
        n_repeated: Records that say of a person what another one says already, where persons are counted.
        n_further: Records that take part beside another one of their person, with another value.
    """

    n_read: int
    n_counted: int
    n_suppressed: int = 0
    n_quarantined: int = 0
    nulls: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    n_repeated: int = 0
    n_further: int = 0

    def __post_init__(self) -> None:
        for name in ("nulls", "unknown"):
            tally = {column: int(n) for column, n in getattr(self, name).items() if n}
            object.__setattr__(self, name, MappingProxyType(tally))
        parts = (self.n_counted, self.n_suppressed, self.n_quarantined, self.n_repeated)
        if self.n_read != sum(parts) or min(parts) < 0:
            raise InternalError(
                "Records were lost or invented while counting.",
                found=f"Read {self.n_read}; counted {self.n_counted}, suppressed {self.n_suppressed}, "
                f"quarantined {self.n_quarantined}, repeated {self.n_repeated}.",
                remedy="Please report this.",
            )

    def require_records(self) -> None:
        """Refuses a table of which nothing was counted."""
        if not self.n_counted:
            raise DataError(
                "There is no record to estimate from.",
                found=f"{counted(self.n_read, 'record was', 'records were')} read, none was counted.",
                remedy="Give a table with records that fit the schema.",
            )

    def __reduce__(self) -> tuple[type[Accounting], tuple[Any, ...]]:
        """How it gets to another process: its frozen mappings would not."""
        return Accounting, tuple(self.to_dict().values())

    def __add__(self, other: Accounting) -> Accounting:
        return Accounting(
            self.n_read + other.n_read,
            self.n_counted + other.n_counted,
            self.n_suppressed + other.n_suppressed,
            self.n_quarantined + other.n_quarantined,
            _added(self.nulls, other.nulls),
            _added(self.unknown, other.unknown),
            self.n_repeated + other.n_repeated,
            self.n_further + other.n_further,
        )

    def to_dict(self) -> dict[str, Any]:
        """The account as plain JSON values; it can be made again from them."""
        return {**fields_of(self), "nulls": dict(self.nulls), "unknown": dict(self.unknown)}


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each sensitive value occurs with each combination: only what occurs is stored.

    Attributes:
        schema: What the numbers mean.
        ranks: The occupied combinations, rising.
        table: The number of records of each cell with a record: one row per occupied combination, one column
            per sensitive value. It is what the kernels of `elldelta.core` work on.
        accounting: What became of every record.
        persons: Where one record per person and value is counted: per combination how many persons are
            counted there, each person at one combination of the table. None where records are counted.
        weights: For each cell the weights of its records, added up in units (`elldelta.core.weights.UNITS`);
            None where nobody asked for them.
    """

    schema: Schema
    ranks: NDArray[np.int64]
    table: SparseRows
    accounting: Accounting
    persons: NDArray[np.int64] | None = None
    weights: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", frozen(self.ranks, np.int64, copy=True))
        n, offsets = self.table.cells, self.table.offsets
        checks = {
            "Its ranks do not rise inside the schema's combinations.": _rises_below(
                self.ranks, self.schema.n_combinations
            ),
            "Its table is about other combinations or sensitive values.": self.table.shape
            == (self.ranks.size, self.schema.n_values),
            "Some combinations hold no record.": (np.diff(offsets) > 0).all(),
            f"Its cells do not add up to the {counted(self.n_records, 'record')} counted.": (
                n.sum(dtype=np.float64) < 2.0**62 and self._adds_up()
            ),
        }
        problem = next((problem for problem, holds in checks.items() if not holds), None)
        if problem is not None:
            raise DataError("A table of counts contradicts itself.", found=problem)

    @classmethod
    def from_cells(
        cls, schema: Schema, ranks: ArrayLike, values: ArrayLike, n: ArrayLike, accounting: Accounting
    ) -> Counts:
        """Adds up cells given in any order, repetitions included.

        A read-only array of numbers whose cells are in order already is shared, not copied.
        """
        ranks, values, n = (np.asarray(array, dtype=np.int64) for array in (ranks, values, n))
        if not _are_ordered(ranks, values):
            order = _order_of_cells(schema, ranks, values)
            ranks, values, n = ranks[order], values[order], n[order]
            n.setflags(write=False)
        new_rank = np.ones(ranks.size, dtype=np.bool_)
        np.not_equal(ranks[1:], ranks[:-1], out=new_rank[1:])
        new_cell = new_rank.copy()
        new_cell[1:] |= values[1:] != values[:-1]
        if not new_cell.all():
            starts = np.flatnonzero(new_cell)
            ranks, values, n = ranks[starts], values[starts], np.add.reduceat(n, starts)
            new_rank = new_rank[starts]
        first = np.flatnonzero(new_rank)
        ranks = ranks[first]
        ranks.setflags(write=False)  # made here: no further copy is needed
        if n.size == 0:
            nothing = SparseRows(
                frozen(np.zeros(1), np.int64), frozen(values, np.int32), n, (0, schema.n_values)
            )
            return cls(schema, ranks, nothing, accounting)
        table = sparse_rows(np.append(first, n.size), values, frozen(n, np.int64, copy=True), schema.n_values)
        return cls(schema, ranks, table, accounting)

    def for_column(self, index: int) -> Counts:
        """The counts of one sensitive column."""
        shown, values = self.schema.value_slices[index], self.values
        in_column = (values >= shown.start) & (values < shown.stop)
        ranks = self.ranks[self.rows[in_column]]
        return Counts.from_cells(
            self.schema.for_column(index),
            ranks,
            values[in_column] - shown.start,
            self.n[in_column],
            self.accounting,
        )

    def _adds_up(self) -> bool:
        """Whether every record counts once in every sensitive column."""
        starts = [values.start for values in self.schema.value_slices]
        if len(starts) == 1:
            return int(self.n.sum()) == self.n_records
        column_of = np.searchsorted(starts, self.values, side="right") - 1
        sums = np.zeros((self.n_combinations, len(starts)), dtype=np.int64)
        np.add.at(sums, (self.rows, column_of), self.n)
        return bool((sums == sums[:, :1]).all()) and int(sums[:, 0].sum()) == self.n_records

    @property
    def n_records(self) -> int:
        """The number of records that were counted."""
        return self.accounting.n_counted

    @property
    def n_combinations(self) -> int:
        """The number of combinations that occur."""
        return int(self.ranks.size)

    @property
    def rows(self) -> NDArray[np.intp]:
        """For each cell with a record, the place of its combination in `ranks`."""
        return frozen(np.repeat(np.arange(self.n_combinations), np.diff(self.table.offsets)), np.intp)

    @property
    def values(self) -> NDArray[np.int32]:
        """For each cell, the position of its sensitive value; cells are sorted by row, then value."""
        return self.table.values

    @property
    def n(self) -> NDArray[np.int64]:
        """For each cell, the number of records, at least 1."""
        return self.table.cells

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The positions of each occupied combination, one row per combination."""
        positions = self.schema.unrank(self.ranks)
        positions.setflags(write=False)
        return positions

    @property
    def combination_totals(self) -> NDArray[np.int64]:
        """Records per occupied combination."""
        if not self.n.size:
            return self.n
        totals: NDArray[np.int64] = np.add.reduceat(self.n, self.table.offsets[:-1])
        return totals // len(self.schema.sensitives)

    def dense(self, *, most_cells: int = LARGEST_DENSE) -> NDArray[np.int64]:
        """The table of occupied combinations x all sensitive values, for what needs all cells at once."""
        shape = self.table.shape
        if shape[0] * shape[1] > most_cells:
            raise DataError(
                "The table of combinations and sensitive values, zeros included, does not fit into memory.",
                found=f"{counted(shape[0], 'combination')}, with {counted(shape[1], 'sensitive value')}.",
                remedy="Use wider ranges or coarser dates, or put sensitive values into bins.",
            )
        table = np.zeros(shape, dtype=np.int64)
        table[self.rows, self.values] = self.n
        return table

    def by_class(self, class_of: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
        """Records by class and sensitive value; those of a combination with a negative class are left out.

        Args:
            class_of: The class of each occupied combination.
            n_classes: The number of classes.
        """
        return self._added_up(self.n, class_of, n_classes)

    def weights_by_class(self, class_of: NDArray[np.int64], n_classes: int) -> NDArray[np.int64] | None:
        """The same of weights; None where nobody asked for them."""
        return None if self.weights is None else self._added_up(self.weights, class_of, n_classes)

    def _added_up(
        self, cells: NDArray[np.int64], class_of: NDArray[np.int64], n_classes: int
    ) -> NDArray[np.int64]:
        n_values = self.schema.n_values
        table = np.zeros((n_classes, n_values), dtype=np.int64)
        classes, values = class_of[self.rows], self.values
        if class_of.min(initial=0) < 0:
            is_in_one = classes >= 0
            classes, values, cells = classes[is_in_one], values[is_in_one], cells[is_in_one]
        np.add.at(table.reshape(-1), classes * n_values + values, cells)
        table.setflags(write=False)
        return table

    @cached_property
    def distribution(self) -> JointDistribution:
        """P(Q, S) over the occupied combinations, in the order of `ranks`.

        Sparse where that is smaller: the counts are then shared as they are.
        """
        self.accounting.require_records()
        slices = self.schema.value_slices
        if is_sparse_better(self.n_combinations, self.schema.n_values, self.n.size):
            return JointDistribution(self.table, self.n_records, slices=slices)
        return JointDistribution(frozen(self.dense(), np.int64), self.n_records, slices=slices)


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


def _rises_below(ranks: NDArray[np.int64], limit: int) -> bool:
    if ranks.size == 0:
        return True
    return bool(ranks[0] >= 0 and (np.diff(ranks) > 0).all() and int(ranks[-1]) < limit)


def _added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in (*first, *second)}
