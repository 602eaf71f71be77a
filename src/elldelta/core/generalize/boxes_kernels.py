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
    Scratch,
    failure_of,
    scratch_for,
)
from elldelta.core.kernels import add_row, compiled
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


@compiled
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


@compiled
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


@compiled
def find_cut(grid: Grid, constraint: Constraint, scratch: Scratch, search: Search, record: int) -> None:
    """Fills in the best cut of a record, for what is spent now."""
    facts, cuts = search.facts[record], search.cuts[record]
    spent = search.spent[0]
    facts[SIDES] = -1
    facts[ATTRIBUTE] = best_cut(
        grid,
        constraint,
        scratch,
        search.order[facts[START] : facts[STOP]],
        search.lows[record],
        search.highs[record],
        cuts[FAILURE],
        spent,
        cuts,
    )
    cuts[FOUND_AT] = spent


@compiled
def begin(grid: Grid, constraint: Constraint, search: Search) -> None:
    """Fills in the box of everything, whose ends are there already."""
    scratch = scratch_for(constraint, grid.table.shape[1])
    scratch.sides[0] = 0.0
    for row in range(search.order.size):
        add_row(grid.table, row, scratch.sides, 0)
    search.spent[0] = failure_of(scratch.sides[0], constraint, inf, scratch)
    search.cuts[0, FAILURE] = search.spent[0]
    search.facts[0, START], search.facts[0, STOP], search.facts[0, NUMBER] = 0, search.order.size, 0
    search.used[N_RECORDS], search.used[N_BOXES], search.used[IS_OVER] = 1, 1, 0
    find_cut(grid, constraint, scratch, search, 0)


@compiled
def added_by(search: Search, record: int) -> float:
    """The failure that the best cut of a record adds."""
    cuts = search.cuts[record]
    return float(cuts[BELOW] + cuts[ABOVE] - cuts[FAILURE])


@compiled
def fits(constraint: Constraint, search: Search, record: int) -> bool:
    """Whether the best cut of a record keeps the limit now."""
    if constraint.mode != TOTAL:
        return True
    return bool(search.spent[0] + added_by(search, record) <= constraint.limit)


@compiled
def look_ahead(grid: Grid, constraint: Constraint, search: Search, records: NDArray[np.int64]) -> None:
    """Fills in both sides of the best cuts of some records, with the best cuts of those.

    A cut that no longer fits is replaced by the best of the same record that does. Threads may do this at the
    same time for different records.
    """
    scratch = scratch_for(constraint, grid.table.shape[1])
    for record in records:
        facts, cuts = search.facts[record], search.cuts[record]
        start, stop, attribute = facts[START], facts[STOP], facts[ATTRIBUTE]
        rows, buffer = search.order[start:stop], search.buffer[start:stop]
        if not fits(constraint, search, record):
            if facts[SIDES] >= 0:
                reunite(rows, buffer, search.facts[facts[SIDES], STOP] - start)
            find_cut(grid, constraint, scratch, search, record)
            continue
        place = int(cuts[PLACE])
        n_below = divide(grid, rows, buffer, attribute, place)
        for side in range(2):
            other = facts[SIDES] + side
            search.lows[other] = search.lows[record]
            search.highs[other] = search.highs[record]
            search.facts[other, NUMBER] = -1
            if side == 0:
                search.highs[other, attribute] = place
                search.facts[other, START], search.facts[other, STOP] = start, start + n_below
            else:
                search.lows[other, attribute] = place + 1
                search.facts[other, START], search.facts[other, STOP] = start + n_below, stop
            search.cuts[other, FAILURE] = cuts[BELOW + side]
            find_cut(grid, constraint, scratch, search, other)


@compiled
def advance(grid: Grid, constraint: Constraint, search: Search, n_ahead: int) -> NDArray[np.int64]:
    """Cuts boxes, best first, as long as the sides of the best cut are known; nothing is ever taken back.

    The failure of a class falls as it grows, so what is left of a total only shrinks.

    Args:
        grid: The table.
        constraint: What the classes must fulfil.
        search: What was found so far; tells when it is over, and may need room for more records.
        n_ahead: How many records to look at together; with 0 each of them here, when its turn comes.

    Returns:
        The records to `look_ahead` at before it goes on, the best first.
    """
    facts, cuts, spent, used = search.facts, search.cuts, search.spent, search.used
    scratch = scratch_for(constraint, grid.table.shape[1])
    wanted = np.empty(max(1, n_ahead), dtype=np.int64)
    n_wanted = 0
    heap = [(0.0, 0, 0)]
    heap.clear()
    for each in range(used[N_RECORDS]):
        if facts[each, NUMBER] >= 0 and facts[each, ATTRIBUTE] >= 0:
            heapq.heappush(heap, (-cuts[each, SCORE], facts[each, NUMBER], each))
    while heap and n_wanted < wanted.size and used[N_RECORDS] + 2 <= facts.shape[0]:
        _, number, record = heapq.heappop(heap)
        is_fit = fits(constraint, search, record)
        if not is_fit and cuts[record, FOUND_AT] == spent[0]:
            facts[record, ATTRIBUTE] = -1  # nothing has changed: looking again finds the same
            continue
        if not is_fit or facts[record, SIDES] < 0:
            if is_fit:
                facts[record, SIDES] = used[N_RECORDS]
                used[N_RECORDS] += 2
            wanted[n_wanted] = record
            if n_ahead > 0:
                n_wanted += 1
                continue
            look_ahead(grid, constraint, search, wanted)
            if not is_fit:
                if facts[record, ATTRIBUTE] >= 0:
                    heapq.heappush(heap, (-cuts[record, SCORE], number, record))
                continue
        elif n_wanted > 0:
            continue  # a better one waits
        if constraint.mode == TOTAL:
            spent[0] += max(0.0, added_by(search, record))
        facts[record, NUMBER] = -1
        for side in range(2):
            other = facts[record, SIDES] + side
            facts[other, NUMBER] = number if side == 0 else used[N_BOXES]
            if facts[other, ATTRIBUTE] >= 0 and fits(constraint, search, other):
                cuts[other, FOUND_AT] = spent[0]
            elif facts[other, ATTRIBUTE] >= 0:
                find_cut(grid, constraint, scratch, search, other)
            if facts[other, ATTRIBUTE] >= 0:
                heapq.heappush(heap, (-cuts[other, SCORE], facts[other, NUMBER], other))
        used[N_BOXES] += 1
    used[IS_OVER] = len(heap) == 0 and n_wanted == 0
    return wanted[:n_wanted]


@compiled
def tree_of(search: Search) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The leaf of every row, and the cuts in preorder: the attribute or -1, and the last position below."""
    n_nodes = 2 * search.used[N_BOXES] - 1
    leaf_of = np.empty(search.order.size, dtype=np.int64)
    attributes, places = np.full(n_nodes, -1, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    n_leaves = 0
    pending = [0]
    for node in range(n_nodes):
        record = pending.pop()
        facts = search.facts[record]
        if facts[NUMBER] < 0:  # it was cut
            attributes[node], places[node] = facts[ATTRIBUTE], search.cuts[record, PLACE]
            pending.append(facts[SIDES] + 1)
            pending.append(facts[SIDES])
            continue
        for i in range(facts[START], facts[STOP]):
            leaf_of[search.order[i]] = n_leaves
        n_leaves += 1
    return leaf_of, attributes, places
