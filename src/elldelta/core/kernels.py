"""Compiled inner loops, apart from everything else because importing the compiler takes a moment.

Import this module inside the function that needs it, never at the top of a module: commands that only
print a formula must not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Function = TypeVar("Function", bound="Callable[..., Any]")


def compiled(function: Function) -> Function:
    """Compiles on first use and keeps the machine code on disk, where a folder can be written at all."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[return-value]
    except RuntimeError:  # no writable place for the cache
        return numba.njit(nogil=True)(function)  # type: ignore[return-value]


@compiled
def greedy_ends(mass: NDArray[Any], ell: int, threshold: float) -> NDArray[np.intp]:
    """The rows (exclusive) at which Greedy-Generalize closes a class, in one sweep.

    Sums are accumulated inside each class, not taken as differences of prefix sums: the relative error
    of a cell then grows with the length of its class only, also for cells as small as 1e-12.
    """
    n_rows, n_values = mass.shape
    ends = np.empty(n_rows, dtype=np.intp)
    n_ends = 0
    cells = np.zeros(n_values, dtype=mass.dtype)
    for row in range(n_rows):
        n_reached = 0
        for value in range(n_values):
            cell = cells[value] + mass[row, value]
            cells[value] = cell
            n_reached += cell >= threshold
        if n_reached >= ell:
            ends[n_ends] = row + 1
            n_ends += 1
            cells[:] = 0
    return ends[:n_ends]


@compiled
def sum_rows(table: NDArray[Any], class_of: NDArray[np.intp], sums: NDArray[Any]) -> None:
    """Adds every row of a table to the sum of its class, in one pass and without a sorted copy."""
    n_rows, n_values = table.shape
    for row in range(n_rows):
        target = class_of[row]
        for value in range(n_values):
            sums[target, value] += table[row, value]
