"""Tables of mass, one row per quasi-identifier or class: dense arrays, or rows that store only what occurs.

A dense table is a plain two-dimensional array. Of a nation's combinations each occurs with a few of a
thousand sensitive values: written out, the table would be nearly all zeros and would not fit into memory.
`SparseRows` stores the cells above zero alone. Everything that works on a table takes either form, and gives
the same result for both, to the last bit where the cells are counts: sums of whole numbers have no rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE_TABLE = 1 << 22
"""Cells from which on sums are compiled: below, starting the compiler would take longer. A smaller table of
counts is dense, which is quickest; its 32 MiB hurt nobody."""

LARGEST_DENSE = 1 << 29
"""Cells of a dense table above which writing it out is refused (4 GiB)."""

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
"""Either form."""


def sparse_rows(
    offsets: NDArray[Any], values: NDArray[Any], cells: NDArray[Any], n_values: int
) -> SparseRows:
    """Checks and freezes sparse rows; arrays that are of the right type already are shared, not copied."""
    # Before they are stored in 32 bits, where 2^32 would become 0.
    if np.size(values) and not 0 <= np.min(values) <= np.max(values) < min(n_values, 1 << 31):
        raise _contradicting("Some cells lie outside the sensitive values.")
    table = SparseRows(
        frozen(offsets, np.int64),
        frozen(values, np.int32),
        frozen(cells, np.int64 if np.asarray(cells).dtype.kind in "iu" else np.float64),
        (int(np.size(offsets)) - 1, int(n_values)),
    )
    problem = _contradiction(table)
    if problem:
        raise _contradicting(problem)
    return table


def to_dense(table: MassTable) -> NDArray[Any]:
    """The dense form, for what needs all cells at once.

    Raises:
        DistributionError: It would not fit into memory.
    """
    if not isinstance(table, SparseRows):
        return table
    n_rows, n_values = table.shape
    if n_rows * n_values > LARGEST_DENSE:
        raise DistributionError(
            "The table is too large to be written out with all its zeros.",
            found=f"It has {n_rows} rows and {n_values} sensitive values.",
            remedy="Use wider ranges or coarser dates, or put sensitive values into bins.",
        )
    return _written_out(table, 0, n_rows)


def is_sparse_better(n_rows: int, n_values: int, n_stored: int) -> bool:
    """Whether counts are better kept as sparse rows: the table is large, and they take less memory."""
    return n_rows * n_values > LARGE_TABLE and 12 * n_stored + 8 * n_rows < 8 * n_rows * n_values


def row_sums(table: MassTable) -> NDArray[Any]:
    """The mass of every row."""
    if not isinstance(table, SparseRows):
        sums: NDArray[Any] = table.sum(axis=1)
        return sums
    sums = np.zeros(table.shape[0], dtype=table.dtype)
    holds_any = np.diff(table.offsets) > 0  # a sum over no cells would be the next row's first cell
    if holds_any.any():
        sums[holds_any] = np.add.reduceat(table.cells, table.offsets[:-1][holds_any])
    return sums


def column_sums(table: MassTable) -> NDArray[Any]:
    """The mass of every column."""
    if not isinstance(table, SparseRows):
        sums: NDArray[Any] = table.sum(axis=0)
        return sums
    sums = np.zeros(table.shape[1], dtype=table.dtype)
    np.add.at(sums, table.values, table.cells)
    return sums


def column(table: MassTable, value: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """The rows that may hold a value, and its mass in each of them."""
    if not isinstance(table, SparseRows):
        return np.arange(table.shape[0]), table[:, value]
    places = np.flatnonzero(table.values == value)
    return np.searchsorted(table.offsets, places, side="right") - 1, table.cells[places]


def take_rows(table: MassTable, rows: NDArray[np.intp]) -> MassTable:
    """Some rows, in the order given."""
    if not isinstance(table, SparseRows):
        return np.ascontiguousarray(table[rows])
    lengths = np.diff(table.offsets)[rows]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.arange(offsets[-1]) + np.repeat(table.offsets[rows] - offsets[:-1], lengths)
    return _unchecked(offsets, table.values[places], table.cells[places], table.shape[1])


def with_floats(table: MassTable) -> MassTable:
    """The same table with its cells as floats; counts below 2^53 stay exact."""
    if isinstance(table, SparseRows):
        return table._replace(cells=frozen(table.cells, np.float64))
    return frozen(table, np.float64)


def without_below(table: MassTable, fewest: float) -> MassTable:
    """The same table without the cells that are smaller than `fewest`."""
    if not isinstance(table, SparseRows):
        kept: NDArray[Any] = np.where(table < fewest, 0, table)
        return kept
    keeps = table.cells >= fewest
    if keeps.all():
        return table
    n_kept = np.concatenate(([0], np.cumsum(keeps)))
    return _unchecked(n_kept[table.offsets], table.values[keeps], table.cells[keeps], table.shape[1])


def dense_blocks(table: MassTable) -> Iterator[tuple[int, NDArray[Any]]]:
    """The rows as dense arrays that fit into memory, one after the other, each with its first row."""
    n_rows, n_values = table.shape
    if not isinstance(table, SparseRows):
        yield 0, table
        return
    step = max(1, BLOCK // n_values)
    for start in range(0, n_rows, step):
        yield start, _written_out(table, start, min(n_rows, start + step))


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
        return table.copy()  # every row is a group of its own
    sums = np.zeros((n_groups, table.shape[1]), dtype=table.dtype)
    if table.size >= LARGE_TABLE:
        from elldelta.core.kernels import sum_rows

        sum_rows(frozen(table, table.dtype), group_of, sums)
        return sums
    order, groups, starts, _ = _groups(group_of)
    if groups.size:
        sums[groups] = np.add.reduceat(table[order], starts, axis=0)
    return sums


def frozen(array: NDArray[Any], dtype: Any) -> NDArray[Any]:  # noqa: ANN401 (anything that names a type)
    """A read-only view of an array, or of a copy if its type or layout is another one."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.setflags(write=False)
    return view


def _groups(
    group_of: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The rows by group, the groups that have any, and where each of them begins and ends."""
    steps = np.diff(group_of)
    order = np.arange(group_of.size) if (steps >= 0).all() else np.argsort(group_of, kind="stable")
    ranked = group_of[order]
    order = order[np.searchsorted(ranked, 0) :]
    ranked = group_of[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    return order, ranked[starts], starts, np.append(starts[1:], order.size)


def _sparse_sums(table: SparseRows, group_of: NDArray[np.intp], n_groups: int) -> MassTable:
    from elldelta.core import kernels

    n_values = table.shape[1]
    if n_groups * n_values <= LARGE_TABLE:
        sums = np.zeros((n_groups, n_values), dtype=table.dtype)
        kernels.sum_rows(table, group_of, sums)
        return sums
    order, groups, starts, stops = _groups(group_of)
    # As many cells as there are at most; memory that nothing is written to costs nothing.
    room = min(table.cells.size, n_groups * n_values)
    values, cells = np.empty(room, dtype=np.int32), np.empty(room, dtype=table.dtype)
    lengths = np.zeros(n_groups, dtype=np.int64)
    found = np.zeros(groups.size, dtype=np.int64)
    n_stored = kernels.sparse_group_sums(table, order, starts, stops, found, values, cells)
    lengths[groups] = found
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return _unchecked(offsets, values[:n_stored].copy(), cells[:n_stored].copy(), n_values)


def _written_out(table: SparseRows, start: int, stop: int) -> NDArray[Any]:
    first, last = int(table.offsets[start]), int(table.offsets[stop])
    block = np.zeros((stop - start, table.shape[1]), dtype=table.dtype)
    rows = np.repeat(np.arange(stop - start), np.diff(table.offsets[start : stop + 1]))
    block[rows, table.values[first:last]] = table.cells[first:last]
    return block


def _unchecked(offsets: NDArray[Any], values: NDArray[Any], cells: NDArray[Any], n_values: int) -> SparseRows:
    """Sparse rows that come from sparse rows."""
    shape = (int(offsets.size) - 1, n_values)
    return SparseRows(frozen(offsets, np.int64), frozen(values, np.int32), frozen(cells, cells.dtype), shape)


def _contradicting(found: str) -> DistributionError:
    return DistributionError("A table of sparse rows contradicts itself.", found=found)


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
