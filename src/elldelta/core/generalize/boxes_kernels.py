"""The compiled best-first search: boxes are cut until no cut keeps the limit.

Import this module inside the function that needs it, as with `kernels`. A box holds a stretch of `order`, a
permutation of the rows of the table; cutting it reorders that stretch. The table is dense or sparse
(`elldelta.core.distribution.MassTable`).
"""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.generalize.cuts_kernels import (
    CELLS,
    EACH,
    NEAR,
    TOTAL,
    Grid,
    Rule,
    Scratch,
    best_cut,
    strain_of,
)
from elldelta.core.kernels import add_row, compiled, empty_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CELLS", "EACH", "NEAR", "TOTAL", "Grid", "Rule", "split"]


@compiled
def loss_of(grid: Grid, rows: NDArray[np.int64]) -> float:
    """The mass of the rows times the weighted lengths of the smallest box around them."""
    mass = 0.0
    for row in rows:
        mass += grid.row_mass[row]
    length = 0.0
    for attribute in range(grid.weights.size):
        low = high = grid.positions[rows[0], attribute]
        for row in rows:
            low = min(low, grid.positions[row, attribute])
            high = max(high, grid.positions[row, attribute])
        length += grid.weights[attribute] * (high - low)
    return mass * length


@compiled
def resized(array: NDArray[Any], n_rows: int, room: int) -> NDArray[Any]:
    """The first rows of an array, in one that has the given room."""
    larger = np.empty((room, array.shape[1]), dtype=array.dtype)
    for row in range(n_rows):
        for column in range(array.shape[1]):
            larger[row, column] = array[row, column]
    return larger


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
def split(
    grid: Grid, rules: tuple[Rule, ...], sizes: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Cuts boxes, best first, from the box of everything until no cut keeps the limit.

    Returns the box of every row, and the ends of the boxes, inclusive. A cut that no longer fits what is left
    of a total is replaced by the best of the same box that does. Nothing is ever taken back: the failure of a
    class falls as it grows, so what is left only shrinks.
    """
    n_rows, n_attributes = grid.positions.shape
    n_values = grid.table.shape[1]
    rule = rules[0]
    ranks = np.arange(n_values).astype(np.int32)
    for own in rules:  # every sensitive column ranks its own values
        ranks[own.start : own.stop] -= own.start
    scratch = Scratch(
        ranks,
        np.empty(n_values, dtype=np.float64),
        np.empty(n_values + 3, dtype=np.float64),
        np.empty((2, n_values), dtype=np.float64),
    )
    order = np.arange(n_rows)
    buffer = np.empty(n_rows, dtype=np.int64)
    lows = np.zeros((1024, n_attributes), dtype=np.int32)
    highs = np.empty((1024, n_attributes), dtype=np.int32)
    for attribute in range(n_attributes):
        highs[0, attribute] = sizes[attribute] - 1
    stretches = np.empty((1024, 2), dtype=np.int64)
    stretches[0, 0], stretches[0, 1] = 0, n_rows
    facts = np.empty((1024, 4), dtype=np.float64)  # loss, strain, what the cut adds, spent when it was found
    cuts = np.empty((1024, 6), dtype=np.float64)
    attributes = np.empty((1024, 1), dtype=np.int64)
    cells = empty_row(grid.table)
    for row in range(n_rows):
        add_row(grid.table, row, cells)
    strain, price = strain_of(cells, rules, inf, scratch)
    facts[0, 0] = loss_of(grid, order)
    facts[0, 1] = strain
    spent = strain
    n_boxes = 1
    heap = [(0.0, 0)]
    heap.clear()
    fresh = np.array([0, -1])
    while True:
        for box in fresh:
            if box < 0:
                continue
            start, stop = stretches[box]
            attributes[box, 0] = best_cut(
                grid,
                rules,
                scratch,
                order[start:stop],
                lows[box],
                highs[box],
                facts[box, 0],
                facts[box, 1],
                spent,
                price,
                cuts[box],
            )
            if attributes[box, 0] >= 0:
                facts[box, 3] = spent
                facts[box, 2] = cuts[box, 2] + cuts[box, 3] - facts[box, 1]
                heapq.heappush(heap, (-cuts[box, 0], box))
        if not heap:
            break
        _, box = heapq.heappop(heap)
        fresh[0], fresh[1] = box, -1
        new_price = max(price, cuts[box, 4], cuts[box, 5])
        if rule.mode == TOTAL:
            if spent + facts[box, 2] + new_price > rule.limit:
                if facts[box, 3] == spent:  # nothing has changed since: looking again finds the same
                    fresh[0] = -1
                continue
            spent += max(0.0, facts[box, 2])
            price = new_price
        if n_boxes == lows.shape[0]:
            lows, highs = resized(lows, n_boxes, 2 * n_boxes), resized(highs, n_boxes, 2 * n_boxes)
            facts, cuts = resized(facts, n_boxes, 2 * n_boxes), resized(cuts, n_boxes, 2 * n_boxes)
            stretches = resized(stretches, n_boxes, 2 * n_boxes)
            attributes = resized(attributes, n_boxes, 2 * n_boxes)
        attribute = attributes[box, 0]
        place = int(cuts[box, 1])
        start, stop = stretches[box]
        middle = start + divide(grid, order[start:stop], buffer, attribute, place)
        other = n_boxes
        n_boxes += 1
        for each in range(n_attributes):
            lows[other, each] = lows[box, each]
            highs[other, each] = highs[box, each]
        highs[box, attribute] = place
        lows[other, attribute] = place + 1
        stretches[box, 1] = middle
        stretches[other, 0], stretches[other, 1] = middle, stop
        facts[other, 1] = cuts[box, 3]
        facts[box, 1] = cuts[box, 2]
        facts[box, 0] = loss_of(grid, order[start:middle])
        facts[other, 0] = loss_of(grid, order[middle:stop])
        fresh[1] = other
    box_of = np.empty(n_rows, dtype=np.int64)
    for box in range(n_boxes):
        for i in range(stretches[box, 0], stretches[box, 1]):
            box_of[order[i]] = box
    return box_of, resized(lows, n_boxes, n_boxes), resized(highs, n_boxes, n_boxes)
