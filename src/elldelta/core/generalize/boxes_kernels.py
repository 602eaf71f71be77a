"""The compiled best-first search: boxes are cut until no cut keeps the limit.

Import this module inside the function that needs it, as with `kernels`. A box holds a stretch of `order`, a
permutation of the rows of the table, in rising order; cutting it divides that stretch. The table is dense or
sparse (`elldelta.core.distribution.MassTable`).

Most of the time goes into finding the best cut of a box. It depends on the boxes that were cut before only by
what is left of a total, so that it can be found ahead of time, several at once in several threads: as long as
a cut fits what is left, it is the one that would be found then.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np

from elldelta.core.generalize.cuts_kernels import Grid, best_cut
from elldelta.core.generalize.failure_kernels import (
    EACH,
    TOTAL,
    Constraint,
    failure_of,
    scratch_for,
)
from elldelta.core.kernels import add_row, compiled, inner
from elldelta.core.occupancy_kernels import CHECKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CHECKS", "EACH", "TOTAL", "Constraint", "Grid", "n_processors"]

START, STOP, ATTRIBUTE, SIDES, NUMBER = range(5)
"""Of every record: its rows, the attribute of its best cut or -1, the first record of the two sides of that
cut or -1, and the number of its box or -1 if it is not one, because it was cut or not made yet."""

SCORE, PLACE, BELOW, ABOVE, FAILURE, FOUND_AT = range(6)
"""Of the best cut: what `best_cut` fills in; then the failure of the record itself, and what all boxes had
spent together when the cut was found."""

N_RECORDS, N_BOXES, IS_OVER = range(3)
"""How many there are, and whether no cut is left."""


class Search(NamedTuple):
    """A search under way: all boxes so far, with those that were cut and the sides of cuts to come."""

    order: NDArray[np.int64]
    buffer: NDArray[np.int64]
    lows: NDArray[np.int32]  # records x attributes: the ends of the box, inclusive
    highs: NDArray[np.int32]
    facts: NDArray[np.int64]  # records x START..NUMBER
    cuts: NDArray[np.float64]  # records x SCORE..FOUND_AT
    spent: NDArray[np.float64]  # one number: the failure of all boxes together
    used: NDArray[np.int64]  # N_RECORDS, N_BOXES, IS_OVER


def n_processors() -> int:
    """How many processors this process may use, or as many as the compiler was told to."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


@inner
def divide(grid: Grid, rows: NDArray[np.int64], buffer: NDArray[np.int64], attribute: int, place: int) -> int:
    """Moves the rows above the cut behind the others, keeping their order; returns how many lie below."""
    n_below = 0
    n_above = 0
    for row in rows:
        if grid.positions[row, attribute] <= place:
            rows[n_below] = row
            n_below += 1
        else:
            buffer[n_above] = row
            n_above += 1
    for i in range(n_above):
        rows[n_below + i] = buffer[i]
    return n_below


@inner
def reunite(rows: NDArray[np.int64], buffer: NDArray[np.int64], n_below: int) -> None:
    """Takes a division back: both sides rise."""
    for i in range(n_below):
        buffer[i] = rows[i]
    below, above = 0, n_below
    for i in range(rows.size):
        if below < n_below and (above == rows.size or buffer[below] < rows[above]):
            rows[i] = buffer[below]
            below += 1
        else:
            rows[i] = rows[above]
            above += 1


@inner
def added_by(search: Search, record: int) -> float:
    """The failure that the best cut of a record adds."""
    return float(search.cuts[record, BELOW] + search.cuts[record, ABOVE] - search.cuts[record, FAILURE])


@inner
def fits(constraint: Constraint, search: Search, record: int) -> bool:
    """Whether the best cut of a record keeps the limit now."""
    return bool(constraint.mode != TOTAL or search.spent[0] + added_by(search, record) <= constraint.limit)


@inner
def look_at(grid: Grid, constraint: Constraint, search: Search, record: int) -> None:
    """Fills in both sides of the best cut of a record, with the best cuts of those.

    A cut that no longer fits, or was not looked for yet, is replaced by the best of the same record that
    does. Threads may do this at the same time for different records.
    """
    facts, cuts, spent = search.facts, search.cuts, search.spent
    scratch = scratch_for(constraint, grid.table.shape[1])
    start, stop, attribute = facts[record, START], facts[record, STOP], facts[record, ATTRIBUTE]
    rows, buffer = search.order[start:stop], search.buffer[start:stop]
    if cuts[record, FAILURE] < 0.0:  # the box of everything
        sides = scratch.sides
        for value in range(sides.shape[1]):
            sides[0, value] = 0.0
        for row in rows:
            add_row(grid.table, row, sides, 0)
        cuts[record, FAILURE] = spent[0] = failure_of(sides[0], constraint, inf, scratch)
    first, n_found = record, 1
    if attribute >= 0 and fits(constraint, search, record):
        place = int(cuts[record, PLACE])
        middle = start + divide(grid, rows, buffer, attribute, place)
        first, n_found = facts[record, SIDES], 2
        for side in range(2):
            other = first + side
            for each in range(search.lows.shape[1]):
                search.lows[other, each] = search.lows[record, each]
                search.highs[other, each] = search.highs[record, each]
            facts[other, NUMBER] = -1
            facts[other, START] = start if side == 0 else middle
            facts[other, STOP] = middle if side == 0 else stop
            cuts[other, FAILURE] = cuts[record, BELOW + side]
        search.highs[first, attribute] = place
        search.lows[first + 1, attribute] = place + 1
    elif facts[record, SIDES] >= 0:
        reunite(rows, buffer, facts[facts[record, SIDES], STOP] - start)
    for found in range(first, first + n_found):
        facts[found, SIDES] = -1
        facts[found, ATTRIBUTE] = best_cut(
            grid,
            constraint,
            scratch,
            search.order[facts[found, START] : facts[found, STOP]],
            search.lows[found],
            search.highs[found],
            cuts[found, FAILURE],
            spent[0],
            cuts[found],
        )
        cuts[found, FOUND_AT] = spent[0]


@inner
def cut(constraint: Constraint, search: Search, record: int, heap: list[tuple[float, int, int]]) -> None:
    """Cuts a box whose sides are known."""
    facts, used = search.facts, search.used
    if constraint.mode == TOTAL:
        search.spent[0] += max(0.0, added_by(search, record))
    first = facts[record, SIDES]
    facts[first, NUMBER], facts[first + 1, NUMBER] = facts[record, NUMBER], used[N_BOXES]
    facts[record, NUMBER] = -1
    used[N_BOXES] += 1
    for side in range(first, first + 2):
        if facts[side, ATTRIBUTE] >= 0:
            heapq.heappush(heap, (-search.cuts[side, SCORE], facts[side, NUMBER], side))


@compiled
def advance(
    grid: Grid, constraint: Constraint, search: Search, records: NDArray[np.int64], n_ahead: int
) -> NDArray[np.int64]:
    """Cuts boxes, best first, as long as the sides of the best cut are known; nothing is ever taken back.

    The failure of a class falls as it grows, so what is left of a total only shrinks.

    Args:
        grid: The table.
        constraint: What the classes must fulfil.
        search: What was found so far; tells when it is over, and may need room for more records.
        records: If there are any, they are looked at, and nothing else happens: several threads may do so at
            a time. One compiled function does both, as most of its code is the same.
        n_ahead: How many records to look at together; with 0 each of them here, when its turn comes.

    Returns:
        The records to look at before it goes on, the best first.
    """
    facts, cuts, spent, used = search.facts, search.cuts, search.spent, search.used
    wanted = np.empty(max(1, n_ahead), dtype=np.int64)
    n_wanted, n_looked = 0, 0
    heap = [(0.0, 0, 0)]
    heap.clear()
    for each in range(used[N_RECORDS] if records.size == 0 else 0):
        if facts[each, NUMBER] >= 0 and facts[each, ATTRIBUTE] >= 0:
            heapq.heappush(heap, (-cuts[each, SCORE], facts[each, NUMBER], each))
    while n_looked < records.size or (
        heap and n_wanted < wanted.size and used[N_RECORDS] + 2 <= facts.shape[0]
    ):
        if n_looked < records.size:
            record = records[n_looked]
            n_looked += 1
        else:
            record = heapq.heappop(heap)[2]
            is_fit = fits(constraint, search, record)
            if not is_fit and cuts[record, FOUND_AT] == spent[0]:
                facts[record, ATTRIBUTE] = -1  # nothing has changed: looking again finds the same
                continue
            if is_fit and facts[record, SIDES] >= 0:
                if n_wanted == 0:  # otherwise a better one waits
                    cut(constraint, search, record, heap)
                continue
            if is_fit:
                facts[record, SIDES] = used[N_RECORDS]
                used[N_RECORDS] += 2
            wanted[n_wanted] = record
            if n_ahead > 0:
                n_wanted += 1
                continue
        look_at(grid, constraint, search, record)
        if records.size == 0 and facts[record, ATTRIBUTE] >= 0:
            heapq.heappush(heap, (-cuts[record, SCORE], facts[record, NUMBER], record))
    if records.size == 0:
        used[IS_OVER] = len(heap) == 0 and n_wanted == 0
    return wanted[:n_wanted]
