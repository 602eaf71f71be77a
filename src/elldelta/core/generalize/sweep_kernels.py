"""The compiled sweep over runs, and the tree of sums that tells it the cells of any run.

Import this module inside the function that needs it, as with `kernels`. Tables are dense or sparse
(`elldelta.core.distribution.MassTable`).
"""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.kernels import add_row, compiled, empty_row
from elldelta.core.occupancy_kernels import class_failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable

FAN_OUT = 8
"""Sums per node in the tree of sums; rows per node at its lowest level, if they are dense."""


@compiled
def sum_tree(table: MassTable, n_leaf_rows: int, nodes: NDArray[Any], offsets: NDArray[np.int64]) -> None:
    """Sums of `n_leaf_rows` rows, of FAN_OUT such sums, and so on; `offsets[d]` is where depth d + 1 begins.

    A tree instead of prefix sums: a range is then a sum of positive terms, not a difference, so that small
    cells keep their accuracy; and it takes a seventh of the memory of the table, not as much again.
    """
    for node in range(nodes.shape[0]):
        nodes[node, :] = 0
    for depth in range(offsets.size - 1):
        first = offsets[depth]
        for node in range(offsets[depth + 1] - first):
            if depth == 0:
                for row in range(node * n_leaf_rows, (node + 1) * n_leaf_rows):
                    add_row(table, row, nodes, first + node)
            else:
                for child in range(node * FAN_OUT, (node + 1) * FAN_OUT):
                    add_row(nodes, offsets[depth - 1] + child, nodes, first + node)


@compiled
def range_sum(
    table: MassTable,
    n_leaf_rows: int,
    nodes: NDArray[Any],
    offsets: NDArray[np.int64],
    start: int,
    stop: int,
    out: NDArray[Any],
) -> None:
    """Sums the rows start..stop-1 of a table with the help of its `sum_tree`."""
    out[:] = 0
    sums = out.reshape(1, out.size)
    depth = 0
    while True:
        width = n_leaf_rows if depth == 0 else FAN_OUT
        last = depth == offsets.size - 1 or stop - start < 2 * width
        head = stop if last else start + (-start) % width
        tail = stop if last else stop - stop % width
        if depth == 0:
            for row in range(start, head):
                add_row(table, row, sums, 0)
            for row in range(tail, stop):
                add_row(table, row, sums, 0)
        else:
            first = offsets[depth - 1]
            for row in range(first + start, first + head):
                add_row(nodes, row, sums, 0)
            for row in range(first + tail, first + stop):
                add_row(nodes, row, sums, 0)
        if last:
            return
        start = head // width
        stop = tail // width
        depth += 1


@compiled
def sweep(
    table: MassTable,
    n_leaf_rows: int,
    nodes: NDArray[Any],
    offsets: NDArray[np.int64],
    scale: float,
    n_records: float,
    n_apart: float,
    ell: int,
    releases: int,
    certifiable: bool,
    first_row: int,
    last_row: int,
    eps: float,
    spend_upper: float,
    rate_after: float,
    ends: NDArray[np.int64],
    failures: NDArray[np.float64],
    peaks: NDArray[np.float64],
) -> tuple[int, float, int]:
    """Closes a class as soon as its failure is at most `eps`, from `first_row` to before `last_row`.

    Fills in, per class, where it ends (exclusive), its failure and its largest probability. Rows left over
    join the last class. The sweep stops early, before a class after which the failures so far plus
    `rate_after` for every later row would exceed `spend_upper`.

    Returns the number of classes (0: none could be closed), the smallest failure above eps that was met one
    row before a class closed (up to there the partition is the same), and the row that was reached.

    The length of a class is found by guessing from the previous class and the slope of log failure per row,
    then by bisection: the failure falls as a class grows (Lemma A holds for growing cells as well).
    """
    n_rows = last_row
    n_values = table.shape[1]
    no_poisson = np.empty((0, 4), dtype=np.float64)  # Lemma B gains a little at four times the cost
    cells = empty_row(table)
    order = np.arange(n_values).astype(np.int32)
    missing = np.empty(n_values, dtype=np.float64)
    tails = np.empty(n_values + 3, dtype=np.float64)
    log_eps = log(eps)
    n_closed = 0
    start = first_row
    length = 1
    slope = 0.0  # fall of log failure per row, learnt on the way
    just_above = inf
    spent = 0.0
    while start < n_rows:
        low, high = 0, n_rows - start + 1  # one row more than there is counts as passing
        failure_low, failure_high, peak_high = inf, 0.0, 0.0
        guess = min(length, high - 1)
        step = 1
        n_tries = 0
        while high - low > 1:
            range_sum(table, n_leaf_rows, nodes, offsets, start, start + guess, cells)
            failure, _ = class_failure(
                cells,
                order,
                scale,
                n_records,
                n_apart,
                no_poisson,
                ell,
                releases,
                certifiable,
                inf,
                missing,
                tails,
            )
            n_tries += 1
            if failure <= eps:
                high = guess
                failure_high = failure
                peak_high = cells[order[0]] * scale
            else:
                low = guess
                failure_low = failure
            if slope > 0.0 and failure < inf and n_tries <= 3:
                wanted = guess + (log(failure) - log_eps) / slope
                guess = int(np.ceil(min(max(wanted, low + 1.0), high - 1.0)))
            elif failure_low < inf and failure_high > 0.0:
                guess = (low + high) // 2
            else:
                guess = guess - step if failure <= eps else guess + step
                step *= 2
            guess = min(max(guess, low + 1), high - 1)
        if high > n_rows - start:
            break
        spent += failure_high
        if spent + rate_after * (n_rows - start - high) > spend_upper:
            return n_closed, just_above, start
        if failure_low < inf:
            slope = log(failure_low / failure_high)
            just_above = min(just_above, failure_low)
        length = high
        start += high
        ends[n_closed] = start
        failures[n_closed] = failure_high
        peaks[n_closed] = peak_high
        n_closed += 1
    if n_closed:
        ends[n_closed - 1] = n_rows  # a larger class fails less, so its bound stands
    return n_closed, just_above, n_rows
