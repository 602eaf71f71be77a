"""Compiled inner loops, apart from everything else because importing the compiler takes a moment.

Import this module inside the function that needs it, never at the top of a module: commands that only
print a formula must not wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pkgutil
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable, SparseRows

Function = TypeVar("Function", bound="Callable[..., Any]")

Typed: TypeAlias = Any
"""Something whose type only the compiler knows."""

FEW_CELLS = 32
"""So few values of a group are sorted; of more, all values are looked at in their order."""


SOURCES = (
    "distribution.py",
    "kernels.py",
    "accountant_kernels.py",
    "closeness_kernels.py",
    "occupancy_kernels.py",
    "generalize/boxes_kernels.py",
    "generalize/cuts_kernels.py",
    "generalize/failure_kernels.py",
)
"""What compiled functions are made from: all of them, and the types of what they take."""


@functools.cache
def sources_digest() -> str:
    """Tells whether machine code that was kept is still that of the sources."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(pkgutil.get_data("elldelta.core", name) or b"")
    return digest.hexdigest()


class _KeptCode(IndexDataCacheFile):
    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call, no-any-return]
        except (ImportError, AttributeError):  # it names types of an earlier version that are gone
            return {}


class _Cache(FunctionCache):
    """Machine code on disk, until one of the sources changes.

    The compiler's own cache looks at the file of a function, not at those of the functions that it calls and
    whose code it holds as well: after an upgrade it would run what the earlier version has compiled.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        place = self._cache_path, self._impl.filename_base
        self._cache_file = _KeptCode(*place, sources_digest())  # type: ignore[no-untyped-call]


def compiled(function: Function) -> Function:
    """Compiles on first use and keeps the machine code on disk, where a folder can be written at all."""
    made: Any = numba.njit(nogil=True)(function)
    with contextlib.suppress(RuntimeError):  # no writable place for the cache
        made._cache = _Cache(function)
    return made  # type: ignore[no-any-return]


def inner(function: Function) -> Function:
    """Written into each function that calls it, before that is compiled.

    For what is short, or called from one place: a function compiled by itself is compiled once more with each
    that calls it, directly or not, and to hand over a tuple of arrays is more code than most functions have.
    Not for the longest, `best_cut`: all statements are copied at every level into which they are written.
    """
    return numba.njit(inline="always", nogil=True)(function)  # type: ignore[return-value]


def add_row(table: MassTable, row: int, sums: NDArray[Any], line: int) -> None:
    """Adds one row of a table to a line of dense sums. For compiled code, which reads either form so.

    Lines are told by their number: to cut an array out of another costs more than to add a short row.
    """
    raise NotImplementedError


@overload(add_row, inline="always")
def _add_row(table: Typed, row: Typed, sums: Typed, line: Typed) -> Typed:
    if isinstance(table, numba.types.Array):

        def dense(table: Typed, row: Typed, sums: Typed, line: Typed) -> Typed:
            for value in range(sums.shape[1]):
                sums[line, value] += table[row, value]

        return dense

    def sparse(table: Typed, row: Typed, sums: Typed, line: Typed) -> Typed:
        for place in range(table.offsets[row], table.offsets[row + 1]):
            sums[line, table.values[place]] += table.cells[place]

    return sparse


def add_row_reaching(table: MassTable, row: int, out: NDArray[Any], threshold: float) -> int:
    """As `add_row`; returns how many cells the row has lifted to the threshold. For compiled code."""
    raise NotImplementedError


@overload(add_row_reaching)
def _add_row_reaching(table: Typed, row: Typed, out: Typed, threshold: Typed) -> Typed:
    if isinstance(table, numba.types.Array):

        def dense(table: Typed, row: Typed, out: Typed, threshold: Typed) -> Typed:
            n_lifted = 0
            for value in range(out.size):
                before = out[value]
                cell = before + table[row, value]
                out[value] = cell
                n_lifted += (cell >= threshold) & (before < threshold)
            return n_lifted

        return dense

    def sparse(table: Typed, row: Typed, out: Typed, threshold: Typed) -> Typed:
        n_lifted = 0
        for place in range(table.offsets[row], table.offsets[row + 1]):
            value = table.values[place]
            before = out[value]
            cell = before + table.cells[place]
            out[value] = cell
            n_lifted += (cell >= threshold) & (before < threshold)
        return n_lifted

    return sparse


def empty_row(table: MassTable) -> NDArray[Any]:
    """A dense row of zeros that rows of the table can be added to. For compiled code."""
    raise NotImplementedError


@overload(empty_row)
def _empty_row(table: Typed) -> Typed:
    if isinstance(table, numba.types.Array):

        def dense(table: Typed) -> Typed:
            return np.zeros(table.shape[1], dtype=table.dtype)

        return dense

    def sparse(table: Typed) -> Typed:
        return np.zeros(table.shape[1], dtype=table.cells.dtype)

    return sparse


def n_stored(table: MassTable, rows: NDArray[np.int64]) -> int:
    """How many cells have to be read to add up some rows. For compiled code."""
    raise NotImplementedError


@overload(n_stored, inline="always")
def _n_stored(table: Typed, rows: Typed) -> Typed:
    if isinstance(table, numba.types.Array):

        def dense(table: Typed, rows: Typed) -> Typed:
            return rows.size * table.shape[1]

        return dense

    def sparse(table: Typed, rows: Typed) -> Typed:
        n_cells = 0
        for row in rows:
            n_cells += table.offsets[row + 1] - table.offsets[row]
        return n_cells

    return sparse


@compiled
def greedy_ends(table: MassTable, ell: int, threshold: float) -> NDArray[np.intp]:
    """The rows (exclusive) at which Greedy-Generalize closes a class, in one sweep.

    Sums are accumulated inside each class, not taken as differences of prefix sums: the relative error
    of a cell then grows with the length of its class only, also for cells as small as 1e-12.
    """
    n_rows = table.shape[0]
    ends = np.empty(n_rows, dtype=np.intp)
    n_ends = 0
    cells = empty_row(table)
    n_reached = 0
    for row in range(n_rows):
        n_reached += add_row_reaching(table, row, cells, threshold)
        if n_reached >= ell:
            ends[n_ends] = row + 1
            n_ends += 1
            cells[:] = 0
            n_reached = 0
    return ends[:n_ends]


@compiled
def sum_rows(table: MassTable, group_of: NDArray[np.intp], sums: NDArray[Any]) -> None:
    """Adds every row of a table to the sum of its group, in one pass; rows of group -1 are left out."""
    for row in range(table.shape[0]):
        if group_of[row] >= 0:
            add_row(table, row, sums, group_of[row])


@compiled
def sparse_group_sums(
    table: SparseRows,
    order: NDArray[np.intp],
    starts: NDArray[np.intp],
    stops: NDArray[np.intp],
    lengths: NDArray[np.int64],
    values: NDArray[np.int32],
    cells: NDArray[Any],
) -> int:
    """Sums of groups of rows as sparse rows: fills in how many cells each has, their values and their mass.

    Returns how many cells were filled in altogether.
    """
    n_values = table.shape[1]
    sums = empty_row(table)
    touched = np.empty(n_values, dtype=np.int32)
    n_filled = 0
    for group in range(starts.size):
        n_touched = 0
        for i in range(starts[group], stops[group]):
            row = order[i]
            for place in range(table.offsets[row], table.offsets[row + 1]):
                value = table.values[place]
                if sums[value] == 0:
                    touched[n_touched] = value
                    n_touched += 1
                sums[value] += table.cells[place]
        if n_touched < FEW_CELLS:
            for i in range(1, n_touched):
                value = touched[i]
                j = i
                while j > 0 and touched[j - 1] > value:
                    touched[j] = touched[j - 1]
                    j -= 1
                touched[j] = value
        else:
            n_touched = 0
            for value in range(n_values):
                if sums[value] > 0:
                    touched[n_touched] = value
                    n_touched += 1
        for i in range(n_touched):
            value = touched[i]
            values[n_filled] = value
            cells[n_filled] = sums[value]
            sums[value] = 0
            n_filled += 1
        lengths[group] = n_touched
    return n_filled


@compiled
def one_more(terms: NDArray[np.float64], length: int, chance: float) -> None:
    """Counts one more of independent events, which happens with `chance`.

    Chances of 0, 1, ... events, and the tails of their number, all follow the same recursion: the new
    `terms[k]` is (1 - chance) terms[k] + chance terms[k - 1], for k from 1 to `length`. What becomes of the
    first one is for the caller to say.
    """
    rest = 1.0 - chance
    for k in range(length, 0, -1):
        terms[k] = rest * terms[k] + chance * terms[k - 1]
