"""The joint distribution P(Q, S) of quasi-identifiers and sensitive values.

Of a nation's combinations each occurs with a few of a thousand sensitive values: written out, the table would
be nearly all zeros and would not fit into memory. `SparseRows` stores the cells above zero alone. Whatever is
asked of a distribution has the same answer for both forms, to the last bit where the cells are counts: sums
of whole numbers have no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from elldelta.core.ladder import STEP, rungs_below
from elldelta.errors import DistributionError, ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, DTypeLike

    from elldelta.core.partition import Partition

SUM_TOLERANCE = 1e-9
"""How far probabilities may be from summing to 1."""

RELATIVE_TOLERANCE = 1e-9
"""A cell counts as reaching p from p (1 - RELATIVE_TOLERANCE) on.

Sums of probabilities carry rounding errors, and p itself is often such a sum; without a tolerance a class
is lost whenever the two differ in the last bit. Whoever uses the tolerance computes the promise from the
*snapped* p, the smallest cell that was really accepted, so the tolerance never buys privacy.
"""


LARGE_TABLE = 1 << 22
"""Cells from which on sums are compiled: below, starting the compiler would take longer. A smaller table of
counts is dense, which is quickest; its 32 MiB hurt nobody."""

BLOCK = 1 << 21
"""Cells that are written out at a time when sparse rows are read block by block (16 MiB)."""


class SparseRows(NamedTuple):
    """A table of which only the cells above zero are stored, row after row; all arrays are read-only.

    A named tuple, because compiled code takes it as it is; `sparse_rows` makes one and checks it.

    Attributes:
        offsets: Where each row begins in the other two arrays, and at last where the last one ends.
        values: The column of each cell, rising inside a row.
        cells: The mass of each cell, above zero: counts (int64) or probabilities (float64).
        shape: The number of rows and of columns.
    """

    offsets: NDArray[np.int64]
    values: NDArray[np.int32]
    cells: NDArray[Any]
    shape: tuple[int, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the cells, as of an array."""
        return self.cells.dtype


MassTable: TypeAlias = NDArray[Any] | SparseRows
"""A table of mass, one row per quasi-identifier or class, in either form: what compiled code takes."""


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """P(Q, S) as a table with one row per quasi-identifier, in their fixed order, and one column per value.

    Integer counts stay integers: class sums are then exact and `P(c, s) >= p` is decided on integers.
    Create it with `from_counts`, `from_cells`, `from_probabilities` or `product`.

    Attributes:
        mass: The table, |Q| x |S|, read-only: counts (int64) or probabilities (float64); a dense array, or
            sparse rows that store only the cells above zero.
        total: What turns a mass into a probability: the number of records, or 1.0.
        row_masses: P_Q, where the table holds only some of the values; None: what the table says.
        slices: Where the values of each sensitive column stand, if there are several: each of them sums to
            the total, and the table to as many times that.
    """

    mass: MassTable
    total: float
    row_masses: NDArray[np.float64] | None = None
    slices: tuple[slice, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "slices", tuple(self.slices) or (slice(0, int(self.mass.shape[1])),))

    @classmethod
    def from_counts(cls, counts: ArrayLike) -> JointDistribution:
        """Estimates P by the relative frequencies of a table of whole-number counts.

        >>> JointDistribution.from_counts([[3, 1], [0, 4]]).n_quasi_identifiers
        2
        """
        table = _as_table(counts)
        if table.dtype.kind not in "iu":
            raise DistributionError(
                "Counts must be whole numbers.",
                found=f"The table holds numbers of type {table.dtype}.",
                remedy="Give probabilities as such, or convert the counts to integers.",
            )
        total = _total(_not_negative(table))
        return cls(frozen(table.astype(np.int64)), total)

    @classmethod
    def from_cells(
        cls, offsets: ArrayLike, values: ArrayLike, counts: ArrayLike, n_values: int
    ) -> JointDistribution:
        """The same for counts given as sparse rows: what does not occur takes no memory.

        Args:
            offsets: Where the cells of each quasi-identifier begin, and at last where they end.
            values: The sensitive value of each cell, rising for each quasi-identifier.
            counts: The whole-number count of each cell, at least 1; a read-only array is shared, not copied.
            n_values: |S|.

        >>> JointDistribution.from_cells([0, 2, 3], [0, 1, 1], [3, 1, 4], 2).value_marginal.tolist()
        [0.375, 0.625]
        """
        cells = np.asarray(counts)
        if cells.dtype.kind not in "iu":
            raise DistributionError("Counts must be whole numbers.", found=f"They are of type {cells.dtype}.")
        table = sparse_rows(np.asarray(offsets), np.asarray(values), cells, n_values)
        return cls(table, _total(table.cells))

    @classmethod
    def from_probabilities(cls, probabilities: ArrayLike) -> JointDistribution:
        """Takes P as given: finite, non-negative, summing to 1 within 1e-9."""
        return cls(frozen(_probabilities(probabilities)), 1.0)

    @classmethod
    def product(cls, quasi_identifiers: ArrayLike, values: ArrayLike) -> JointDistribution:
        """The product distribution of two marginals: Q and S independent."""
        return cls.from_probabilities(np.outer(check_marginal(quasi_identifiers), check_marginal(values)))

    @property
    def n_quasi_identifiers(self) -> int:
        """|Q|."""
        return int(self.mass.shape[0])

    @property
    def n_values(self) -> int:
        """|S|."""
        return int(self.mass.shape[1])

    @property
    def is_counted(self) -> bool:
        """Whether the table holds integer counts, so that sums are exact."""
        return bool(self.mass.dtype.kind == "i")

    @cached_property
    def value_marginal(self) -> NDArray[np.float64]:
        """P_S, one probability per sensitive value."""
        if isinstance(self.mass, SparseRows):
            sums = np.zeros(self.n_values, dtype=self.mass.dtype)
            np.add.at(sums, self.mass.values, self.mass.cells)
        else:
            sums = self.mass.sum(axis=0)
        return frozen(sums / self.total)

    @cached_property
    def quasi_identifier_marginal(self) -> NDArray[np.float64]:
        """P_Q, one probability per quasi-identifier."""
        if self.row_masses is not None:
            return self.row_masses
        return frozen(self.row_sums / (self.total * len(self.slices)))

    def for_column(self, index: int) -> JointDistribution:
        """P(Q, S) of one of several sensitive columns."""
        columns = self.slices[index]
        if len(self.slices) == 1:
            return self
        if not isinstance(self.mass, SparseRows):
            return JointDistribution(np.ascontiguousarray(self.mass[:, columns]), self.total, self.row_masses)
        table = kept_cells(self.mass, (self.mass.values >= columns.start) & (self.mass.values < columns.stop))
        mass = _unchecked(
            table.offsets, table.values - columns.start, table.cells, columns.stop - columns.start
        )
        return JointDistribution(mass, self.total, self.row_masses)

    @cached_property
    def ranked_marginal(self) -> NDArray[np.float64]:
        """p_1 >= p_2 >= ...: P_S sorted from large to small."""
        return frozen(np.sort(self.value_marginal)[::-1])

    def threshold(self, p: float) -> float:
        """The smallest mass that counts as probability p, within `RELATIVE_TOLERANCE`.

        For counts this is a whole number, so that the comparison is exact.
        """
        mass = p * self.total * (1.0 - RELATIVE_TOLERANCE)
        return max(1, int(np.ceil(mass))) if self.is_counted else mass

    @property
    def row_sums(self) -> NDArray[Any]:
        """The mass of every row."""
        if not isinstance(self.mass, SparseRows):
            sums: NDArray[Any] = self.mass.sum(axis=1)
            return sums
        sums = np.zeros(self.n_quasi_identifiers, dtype=self.mass.dtype)
        holds_any = np.diff(self.mass.offsets) > 0  # a sum over no cells would be the next row's first cell
        if holds_any.any():
            sums[holds_any] = np.add.reduceat(self.mass.cells, self.mass.offsets[:-1][holds_any])
        return sums

    def generalized(self, partition: Partition) -> JointDistribution:
        """P(C, S): the rows added up class by class; sparse where the rows are and the classes are many."""
        if partition.n_quasi_identifiers != self.n_quasi_identifiers:
            raise ParameterError(
                f"The partition covers {partition.n_quasi_identifiers} quasi-identifiers.",
                found=f"The distribution has {self.n_quasi_identifiers}.",
            )
        mass = sum_by_group(self.mass, partition.class_of, partition.n_classes)
        return JointDistribution(mass, self.total, slices=self.slices)

    def without_below(self, fewest: float) -> JointDistribution:
        """The same, with zero in the place of every cell that is smaller than `fewest`."""
        table = self.mass
        if not isinstance(table, SparseRows):
            return JointDistribution(np.where(table < fewest, 0, table), self.total, slices=self.slices)
        keeps = table.cells >= fewest
        if keeps.all():
            return self
        return JointDistribution(kept_cells(table, keeps), self.total, slices=self.slices)

    def rounded_down(self) -> JointDistribution:
        """Counts at the rung below: shares grow nowhere."""
        table = self.without_below(STEP).mass
        if isinstance(table, SparseRows):
            lower: MassTable = table._replace(cells=frozen(rungs_below(table.cells), np.int64))
        else:
            lower = rungs_below(table)
        return JointDistribution(lower, self.total, slices=self.slices)

    def dense_blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows as dense arrays that fit into memory, one after the other, each with its first row."""
        if not isinstance(self.mass, SparseRows):
            yield 0, self.mass
            return
        offsets, values, cells, (n_rows, n_values) = self.mass
        step = max(1, BLOCK // n_values)
        for start in range(0, n_rows, step):
            stop = min(n_rows, start + step)
            block = np.zeros((stop - start, n_values), dtype=cells.dtype)
            rows = np.repeat(np.arange(stop - start), np.diff(offsets[start : stop + 1]))
            stored = slice(offsets[start], offsets[stop])
            block[rows, values[stored]] = cells[stored]
            yield start, block

    def largest_cells(self, ell: int) -> NDArray[Any]:
        """The ell largest cells of every row: the smallest of them first, the others in any order."""
        found = np.empty((self.n_quasi_identifiers, ell), dtype=self.mass.dtype)
        first = self.n_values - ell
        for start, block in self.dense_blocks():
            found[start : start + len(block)] = np.partition(block, first, axis=1)[:, first:]
        return found


def take_rows(table: MassTable, rows: NDArray[np.intp]) -> MassTable:
    """Some rows of a table, in the order given."""
    if not isinstance(table, SparseRows):
        return np.ascontiguousarray(table[rows])
    lengths = np.diff(table.offsets)[rows]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.arange(offsets[-1]) + np.repeat(table.offsets[rows] - offsets[:-1], lengths)
    return _unchecked(offsets, table.values[places], table.cells[places], table.shape[1])


def kept_cells(table: SparseRows, keeps: NDArray[np.bool_]) -> SparseRows:
    """The same rows with some of their cells alone."""
    n_kept = np.concatenate(([0], np.cumsum(keeps)))
    return _unchecked(n_kept[table.offsets], table.values[keeps], table.cells[keeps], table.shape[1])


def with_floats(table: MassTable) -> MassTable:
    """The same table with its cells as floats; counts below 2^53 stay exact."""
    if isinstance(table, SparseRows):
        return table._replace(cells=frozen(table.cells, np.float64))
    return frozen(table, np.float64)


def is_sparse_better(n_rows: int, n_values: int, n_stored: int) -> bool:
    """Whether counts are better kept as sparse rows: the table is large, and they take less memory."""
    return n_rows * n_values > LARGE_TABLE and 12 * n_stored + 8 * n_rows < 8 * n_rows * n_values


def sparse_rows(
    offsets: NDArray[Any], values: NDArray[Any], cells: NDArray[Any], n_values: int
) -> SparseRows:
    """Checks and freezes sparse rows; arrays that are of the right type already are shared, not copied."""
    # Before they are stored in 32 bits, where 2^32 would become 0.
    is_inside = not np.size(values) or 0 <= np.min(values) <= np.max(values) < min(n_values, 1 << 31)
    table = SparseRows(
        frozen(offsets, np.int64),
        frozen(values, np.int32),
        frozen(cells, np.int64 if np.asarray(cells).dtype.kind in "iu" else np.float64),
        (int(np.size(offsets)) - 1, int(n_values)),
    )
    problem = _contradiction(table) if is_inside else "Some cells lie outside the sensitive values."
    if problem:
        raise DistributionError("A table of sparse rows contradicts itself.", found=problem)
    return table


@overload
def sum_by_group(table: NDArray[Any], group_of: NDArray[np.intp], n_groups: int) -> NDArray[Any]: ...
@overload
def sum_by_group(table: MassTable, group_of: NDArray[np.intp], n_groups: int) -> MassTable: ...
def sum_by_group(table: MassTable, group_of: NDArray[np.intp], n_groups: int) -> MassTable:
    """Adds up the rows group by group; a row of group -1 is left out.

    Rows are added in their order, one after the other. Sparse rows give sparse rows, unless the sums fill a
    small table.
    """
    if isinstance(table, SparseRows):
        return _sparse_sums(table, group_of, n_groups)
    if n_groups == len(table) and np.array_equal(group_of, np.arange(n_groups)):
        return table.copy() if table.flags.writeable else table  # every row is a group of its own
    sums = np.zeros((n_groups, table.shape[1]), dtype=table.dtype)
    if table.size >= LARGE_TABLE:
        from elldelta.core.kernels import sum_rows

        sum_rows(frozen(table), group_of, sums)
        return sums
    from elldelta.core.partition import rows_by_group

    order, groups, starts, _ = rows_by_group(group_of)
    if groups.size:
        sums[groups] = np.add.reduceat(table[order], starts, axis=0)
    return sums


def frozen(array: ArrayLike, dtype: DTypeLike | None = None, *, copy: bool = False) -> NDArray[Any]:
    """A read-only view of an array, or of a copy if its type or layout is another one.

    Args:
        array: The array.
        dtype: The type of what comes back; by default that of the array.
        copy: The array was given by somebody who may change it later: it is copied, unless nobody can.
    """
    found = np.asarray(array)
    if not copy:
        found = np.ascontiguousarray(found, dtype=dtype).view()
    elif _may_change(found) or found.dtype != dtype or not found.flags.c_contiguous:
        found = np.array(found, dtype=dtype, order="C", copy=True)
    found.setflags(write=False)
    return found


def _may_change(array: NDArray[Any]) -> bool:
    """Whether somebody may write to an array, or to that of which it is a part."""
    owner = array.base if isinstance(array.base, np.ndarray) else array
    return array.flags.writeable or owner.flags.writeable


def _sparse_sums(table: SparseRows, group_of: NDArray[np.intp], n_groups: int) -> MassTable:
    from elldelta.core import kernels
    from elldelta.core.partition import rows_by_group

    n_values = table.shape[1]
    if n_groups * n_values <= LARGE_TABLE:
        sums = np.zeros((n_groups, n_values), dtype=table.dtype)
        kernels.sum_rows(table, group_of, sums)
        return sums
    order, groups, starts, stops = rows_by_group(group_of)
    # As many cells as there are at most; memory that nothing is written to costs nothing.
    room = min(table.cells.size, n_groups * n_values)
    values, cells = np.empty(room, dtype=np.int32), np.empty(room, dtype=table.dtype)
    lengths = np.zeros(n_groups, dtype=np.int64)
    found = np.zeros(groups.size, dtype=np.int64)
    n_stored = kernels.sparse_group_sums(table, order, starts, stops, found, values, cells)
    lengths[groups] = found
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return _unchecked(offsets, values[:n_stored].copy(), cells[:n_stored].copy(), n_values)


def check_marginal(marginal: ArrayLike) -> NDArray[np.float64]:
    """Returns a one-dimensional distribution as a read-only array, or raises."""
    array = np.atleast_1d(np.asarray(marginal, dtype=np.float64))
    if array.ndim != 1:
        raise DistributionError(
            "A marginal must be a single row of probabilities.", found=f"It has {array.ndim} dimensions."
        )
    return frozen(_probabilities(array[np.newaxis, :])[0])


def _as_table(cells: ArrayLike) -> NDArray[Any]:
    try:
        table = np.asarray(cells)
    except ValueError:
        raise DistributionError(
            "A table must have rows of equal length.",
            found="The rows differ in length.",
            remedy="Give one row per quasi-identifier and one column per sensitive value.",
        ) from None
    if table.ndim != 2 or table.size == 0:
        raise DistributionError(
            "A table must have at least one row and one column.",
            found=f"Its shape is {table.shape}.",
            remedy="Give one row per quasi-identifier and one column per sensitive value.",
        )
    if table.dtype.kind not in "iuf":
        raise DistributionError("A table must hold numbers.", found=f"It holds {table.dtype}.")
    return table


def _probabilities(probabilities: ArrayLike) -> NDArray[np.float64]:
    table = _as_table(probabilities).astype(np.float64)
    if not np.isfinite(table).all():
        raise DistributionError(
            "Probabilities must be finite.",
            found=f"{counted(int((~np.isfinite(table)).sum()), 'cell is', 'cells are')} infinite or "
            "not a number.",
        )
    total = float(_not_negative(table).sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise DistributionError(
            f"Probabilities must sum to 1 within {SUM_TOLERANCE:g}.",
            found=f"They sum to {total!r}.",
            remedy="Divide by the sum, or give counts as counts.",
        )
    return table


def _not_negative(table: NDArray[Any]) -> NDArray[Any]:
    if (table < 0).any():
        raise DistributionError(
            "Mass must not be negative.",
            found=f"{counted(int((table < 0).sum()), 'cell is', 'cells are')} negative.",
        )
    return table


def _total(counts: NDArray[Any]) -> int:
    """The number of records; a table without any is refused, and so is one too large to add up."""
    if counts.sum(dtype=np.float64) >= 2.0**62:
        raise DistributionError("The counts are too large.", found="Their sum does not fit 62 bits.")
    total = int(counts.sum())
    if total == 0:
        raise DistributionError(
            "The table of counts is empty.",
            found="All counts are zero.",
            remedy="Estimate from at least one record.",
        )
    return total


def _unchecked(offsets: NDArray[Any], values: NDArray[Any], cells: NDArray[Any], n_values: int) -> SparseRows:
    """Sparse rows that come from sparse rows."""
    shape = (int(offsets.size) - 1, n_values)
    return SparseRows(frozen(offsets, np.int64), frozen(values, np.int32), frozen(cells), shape)


def _contradiction(table: SparseRows) -> str:
    offsets, values, cells, (n_rows, n_values) = table
    if n_rows < 1 or n_values < 1 or offsets.ndim != 1 or values.ndim != 1 or values.shape != cells.shape:
        return "Its arrays do not fit together."
    if offsets[0] != 0 or offsets[-1] != values.size or (np.diff(offsets) < 0).any():
        return "Its rows do not cover its cells."
    rises = np.diff(values) > 0
    starts = offsets[1:-1]
    rises[starts[(starts > 0) & (starts < values.size)] - 1] = True
    if not rises.all():
        return "The values of a row do not rise."
    if not (np.isfinite(cells).all() and (cells > 0).all()):
        return "Some cells are not above zero."
    return ""
