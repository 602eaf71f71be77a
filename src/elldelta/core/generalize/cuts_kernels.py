"""Compiled inner loops of the boxes: all cuts of one box, and the best of them.

Import this module inside the function that needs it, as with `kernels`. A box is given by its rows and by its
ends in the domain, `lows` and `highs`, inclusive. What gets bounded is the *failure* of a class. The table is
dense or sparse (`elldelta.core.distribution.MassTable`).
"""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elldelta.core.generalize.failure_kernels import TOTAL, Constraint, Scratch, failure_of
from elldelta.core.kernels import add_row, compiled, inner, n_stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable

MOST_CUTS = 512
"""Cuts of one box that are looked at per attribute, evenly spread over the positions if there are more."""

TABLE_PER_CELL = 32
"""The sums for all cuts are made at once unless they take more than so many times the cells of the box."""


class Grid(NamedTuple):
    """What stays the same while boxes are cut: the table and where its rows lie."""

    table: MassTable  # n x |S|, floats
    row_mass: NDArray[np.float64]  # the probability of each row
    positions: NDArray[np.int32]  # n x d
    weights: NDArray[np.float64]  # loss per position of length, one per attribute
    depths: NDArray[np.int32]  # of every place between two positions, of attributes with a hierarchy
    offsets: NDArray[np.int64]  # where the depths of an attribute begin


@inner
def gather(
    grid: Grid, rows: NDArray[np.int64], points: NDArray[np.int32], masses: NDArray[np.float64]
) -> float:
    """Fills in where the rows of a box lie and what they weigh; returns its loss.

    That is its mass times the weighted lengths of its hull, the smallest box around the rows.
    """
    n_attributes = grid.weights.size
    low, high = points[0].copy(), points[0].copy()
    for attribute in range(n_attributes):
        low[attribute] = high[attribute] = grid.positions[rows[0], attribute]
    mass = 0.0
    for i in range(rows.size):
        masses[i] = grid.row_mass[rows[i]]
        mass += masses[i]
        for attribute in range(n_attributes):
            position = grid.positions[rows[i], attribute]
            points[i, attribute] = position
            low[attribute] = min(low[attribute], position)
            high[attribute] = max(high[attribute], position)
    length = 0.0
    for attribute in range(n_attributes):
        length += grid.weights[attribute] * (high[attribute] - low[attribute])
    return mass * length


@inner
def allowed_cuts(
    occupied: NDArray[np.int64],
    depths: NDArray[np.int32],
    low: int,
    high: int,
) -> NDArray[np.int64]:
    """The last position below each allowed cut, rising.

    A cut between two positions is allowed if no other place of the interval low..high is cut at a coarser
    depth of the hierarchy (see `CutTree`), and worth looking at if both sides are occupied. Of the allowed
    places in a gap the one nearest to the middle is taken, so that unseen positions join their neighbours.
    Without depths every place is allowed.
    """
    deepest = 0
    for position in range(low, high if depths.size > 0 else low):
        deepest = max(deepest, depths[position])
    cuts = np.empty(occupied.size, dtype=np.int64)
    n_cuts = 0
    for i in range(occupied.size - 1):
        middle = (occupied[i] + occupied[i + 1] - 1) // 2
        found = -1
        for step in range(occupied[i + 1] - occupied[i]):
            if depths.size == 0 or (middle - step >= occupied[i] and depths[middle - step] == deepest):
                found = middle - step
                break
            if middle + step < occupied[i + 1] and depths[middle + step] == deepest:
                found = middle + step
                break
        if found >= 0:
            cuts[n_cuts] = found
            n_cuts += 1
    if n_cuts > MOST_CUTS:
        for i in range(MOST_CUTS):
            cuts[i] = cuts[((2 * i + 1) * n_cuts) // (2 * MOST_CUTS)]
        n_cuts = MOST_CUTS
    return cuts[:n_cuts]


@compiled
def occupied_positions(points: NDArray[np.int32], low: int, high: int, attribute: int) -> NDArray[np.int64]:
    """The positions of an attribute that occur, rising; low..high is known to hold them."""
    span = high - low + 1
    n_rows = points.shape[0]
    if span <= 4 * n_rows + 16:
        seen = np.zeros(span, dtype=np.bool_)
        for i in range(n_rows):
            seen[points[i, attribute] - low] = True
        n_seen = 0
        for i in range(span):
            n_seen += seen[i]
        occupied = np.empty(n_seen, dtype=np.int64)
        n_seen = 0
        for i in range(span):
            if seen[i]:
                occupied[n_seen] = low + i
                n_seen += 1
        return occupied
    column = np.empty(n_rows, dtype=np.int64)
    for i in range(n_rows):
        column[i] = points[i, attribute]
    step = 1
    while step < column.size:
        step = 3 * step + 1
    while step > 0:  # Shell's sort: few rows, and the library's takes seconds to compile
        for i in range(step, column.size):
            position = column[i]
            j = i
            while j >= step and column[j - step] > position:
                column[j] = column[j - step]
                j -= step
            column[j] = position
        step //= 3
    n_seen = 1
    for i in range(1, column.size):
        if column[i] != column[n_seen - 1]:
            column[n_seen] = column[i]
            n_seen += 1
    return column[:n_seen]


@inner
def bins_of(
    points: NDArray[np.int32],
    attribute: int,
    cuts: NDArray[np.int64],
    low: int,
    high: int,
    bins: NDArray[np.int32],
) -> None:
    """Fills in, for every row, the number of cuts below its position."""
    span = high - low + 1
    if span <= 4 * bins.size + 16:
        bin_at = np.empty(span, dtype=np.int32)
        n_passed = 0
        for i in range(span):
            while n_passed < cuts.size and cuts[n_passed] < low + i:
                n_passed += 1
            bin_at[i] = n_passed
        for i in range(bins.size):
            bins[i] = bin_at[points[i, attribute] - low]
    else:
        for i in range(bins.size):
            low, high = 0, cuts.size  # cuts[:low] lie below the position, cuts[high:] do not
            while low < high:
                middle = (low + high) // 2
                if cuts[middle] < points[i, attribute]:
                    low = middle + 1
                else:
                    high = middle
            bins[i] = low


@inner
def losses_removed(
    points: NDArray[np.int32],
    masses: NDArray[np.float64],
    weights: NDArray[np.float64],
    bins: NDArray[np.int32],
    n_cuts: int,
    loss: float,
    removed: NDArray[np.float64],
) -> None:
    """Fills in, for every cut of one attribute, by how much it lowers the loss of a box.

    The hulls of its sides count, so that an attribute that is not cut can get shorter too.
    """
    n_attributes = weights.size
    n_bins = n_cuts + 1
    mass = np.zeros(n_bins, dtype=np.float64)
    lows = np.full((n_bins, n_attributes), np.iinfo(np.int32).max, dtype=np.int32)
    highs = np.full((n_bins, n_attributes), -1, dtype=np.int32)
    for i in range(bins.size):
        here = bins[i]
        mass[here] += masses[i]
        for other in range(n_attributes):
            position = points[i, other]
            lows[here, other] = min(lows[here, other], position)
            highs[here, other] = max(highs[here, other], position)
    below_mass = 0.0
    below_low, below_high = lows[0], highs[0]
    for cut in range(n_cuts):
        below_mass += mass[cut]
        length = 0.0
        for other in range(n_attributes):
            below_low[other] = min(below_low[other], lows[cut, other])
            below_high[other] = max(below_high[other], highs[cut, other])
            length += weights[other] * (below_high[other] - below_low[other])
        removed[cut] = loss - below_mass * length
    above_mass = 0.0
    above_low, above_high = lows[n_cuts], highs[n_cuts]
    for cut in range(n_cuts - 1, -1, -1):
        above_mass += mass[cut + 1]
        length = 0.0
        for other in range(n_attributes):
            above_low[other] = min(above_low[other], lows[cut + 1, other])
            above_high[other] = max(above_high[other], highs[cut + 1, other])
            length += weights[other] * (above_high[other] - above_low[other])
        removed[cut] -= above_mass * length


@inner
def keep_best(
    places: NDArray[np.int64],
    removed: NDArray[np.float64],
    bins: NDArray[np.int32],
    first: NDArray[np.int64],
    n_best: int,
) -> None:
    """Leaves so many cuts, those that lower the loss most, the first of equal ones; joins the other bins."""
    n_cuts = first[-1]
    if n_cuts <= n_best:
        return
    is_kept = np.zeros(n_cuts, dtype=np.bool_)
    for _ in range(n_best):
        best = -1
        for cut in range(n_cuts):
            if not is_kept[cut] and (best < 0 or removed[cut] > removed[best]):
                best = cut
        is_kept[best] = True
    n_kept = 0
    for attribute in range(bins.shape[0]):
        start, stop = first[attribute], first[attribute + 1]
        first[attribute] = n_kept
        if start == stop:
            continue
        below = np.zeros(stop - start + 1, dtype=np.int32)
        for cut in range(start, stop):
            if is_kept[cut]:
                places[n_kept], removed[n_kept] = places[cut], removed[cut]
                n_kept += 1
            below[cut - start + 1] = n_kept - first[attribute]
        for i in range(bins.shape[1]):
            bins[attribute, i] = below[bins[attribute, i]]
    first[-1] = n_kept


@inner
def sums_beside(
    table: MassTable,
    rows: NDArray[np.int64],
    bins: NDArray[np.int32],
    below: NDArray[Any],
    above: NDArray[Any],
) -> None:
    """Fills in, for every bin, the cells of the rows up to it and of the rows from it on.

    Both are sums of positive terms: one as the difference of the other and the whole would lose small cells.
    """
    n_bins, n_values = below.shape
    for here in range(n_bins):
        below[here, :] = 0
    for i in range(rows.size):
        add_row(table, rows[i], below, bins[i])
    for value in range(n_values):
        above[n_bins - 1, value] = below[n_bins - 1, value]
    for here in range(n_bins - 2, -1, -1):
        for value in range(n_values):
            above[here, value] = above[here + 1, value] + below[here, value]
    for here in range(1, n_bins):
        for value in range(n_values):
            below[here, value] += below[here - 1, value]


@inner
def sums_at(
    table: MassTable,
    rows: NDArray[np.int64],
    bins: NDArray[np.int32],
    cut: int,
    sides: NDArray[np.float64],
) -> None:
    """Fills in the cells of the rows below one cut and above it, where doing so for all cuts is too much."""
    sides[:, :] = 0.0
    for i in range(rows.size):
        add_row(table, rows[i], sides, 1 if bins[i] > cut else 0)


@inner
def score_of(
    gain: float, added: float, below: float, above: float, failure: float, constraint: Constraint
) -> float:
    """How good a cut is: loss removed per failure added, or times the share of the capacity that it keeps.

    Where every class counts by itself, the capacity of a class (into how many it can be cut, roughly) is the
    logarithm of its failure over that of the limit.
    """
    if constraint.mode == TOTAL:
        return float(gain / max(added, constraint.floor) ** constraint.power)
    kept = (log(below) + log(above)) / log(failure)
    return float(gain * kept**constraint.power)


@compiled
def best_cut(
    grid: Grid,
    constraint: Constraint,
    scratch: Scratch,
    rows: NDArray[np.int64],
    lows: NDArray[np.int32],
    highs: NDArray[np.int32],
    failure: float,
    spent: float,
    out: NDArray[np.float64],
) -> int:
    """The best cut of one box that keeps the limit: returns the attribute, or -1 if there is none.

    Fills in `out`: score, position below the cut, failures below and above.

    The loss that a cut removes is cheap to know, the failure it adds is not. Cuts are tried from the largest
    loss removed downwards, and no further than a cut that adds no failure at all could still win.
    """
    n_attributes = grid.weights.size
    n_values = grid.table.shape[1]
    points = np.empty((rows.size, n_attributes), dtype=np.int32)
    masses = np.empty(rows.size, dtype=np.float64)
    loss = gather(grid, rows, points, masses)
    room = 0
    for attribute in range(n_attributes):
        room += min(MOST_CUTS, rows.size, highs[attribute] - lows[attribute] + 1) + 1
    places = np.empty(room, dtype=np.int64)
    removed = np.empty(room, dtype=np.float64)
    bins = np.empty((n_attributes, rows.size), dtype=np.int32)
    first = np.zeros(n_attributes + 1, dtype=np.int64)
    for attribute in range(n_attributes):
        low, high = lows[attribute], highs[attribute]
        start = first[attribute]
        first[attribute + 1] = start
        if low == high:
            continue
        occupied = occupied_positions(points, low, high, attribute)
        depths = grid.depths[grid.offsets[attribute] : grid.offsets[attribute + 1]]
        cuts = allowed_cuts(occupied, depths, low, high)
        if cuts.size == 0:
            continue
        stop = start + cuts.size
        for i in range(cuts.size):
            places[start + i] = cuts[i]
        bins_of(points, attribute, cuts, low, high, bins[attribute])
        losses_removed(points, masses, grid.weights, bins[attribute], cuts.size, loss, removed[start:stop])
        first[attribute + 1] = stop
    keep_best(places, removed, bins, first, constraint.most_tries)
    n_cuts = first[n_attributes]
    # One table of sums per attribute, made when the first of its cuts is tried; bins are one more than cuts.
    # Where rows are so sparse that this table would be much larger, each cut is summed by itself.
    n_cells = n_stored(grid.table, rows)
    below = np.empty((n_cuts + n_attributes, n_values), dtype=np.float64)
    above = np.empty((n_cuts + n_attributes, n_values), dtype=np.float64)
    is_made = np.zeros(n_attributes, dtype=np.bool_)
    failures = np.empty(2, dtype=np.float64)
    best = 0.0
    best_attribute = -1
    for _ in range(min(n_cuts, constraint.most_tries)):
        # Few are tried as a rule, so the largest is searched each time instead of sorting all.
        cut = 0
        for other in range(1, n_cuts):
            if removed[other] > removed[cut]:
                cut = other
        gain = max(removed[cut], 1e-300)  # a cut for nothing still gives one class more
        removed[cut] = -inf
        if constraint.mode == TOTAL and gain / constraint.floor**constraint.power <= best:
            break
        attribute = 0
        while first[attribute + 1] <= cut:
            attribute += 1
        start, stop = first[attribute] + attribute, first[attribute + 1] + attribute + 1
        if (stop - start) * n_values > TABLE_PER_CELL * n_cells:
            sums_at(grid.table, rows, bins[attribute], cut - first[attribute], scratch.sides)
            cells_below, cells_above = scratch.sides[0], scratch.sides[1]
        else:
            if not is_made[attribute]:
                sums_beside(grid.table, rows, bins[attribute], below[start:stop], above[start:stop])
                is_made[attribute] = True
            cells_below, cells_above = below[cut + attribute], above[cut + attribute + 1]
        # The lighter side decides most often: look at it first.
        balance = 0.0
        for value in range(n_values):
            balance += cells_below[value] - cells_above[value]
        side = 1 if balance > 0.0 else 0
        passes = True
        for turn in range(2):
            cells = cells_below if side == 0 else cells_above
            enough = constraint.limit
            if constraint.mode == TOTAL:
                enough += failure - spent - (failures[1 - side] if turn == 1 else 0.0)
            failures[side] = failure_of(cells, constraint, enough, scratch)
            if constraint.mode == TOTAL:
                added = failures[side] - failure if turn == 0 else failures[0] + failures[1] - failure
                passes = (
                    spent + added <= constraint.limit
                    and gain / max(added, constraint.floor) ** constraint.power > best
                )
            else:
                passes = failures[side] <= constraint.limit
            if not passes:
                break
            side = 1 - side
        if not passes:
            continue
        added = failures[0] + failures[1] - failure
        if constraint.mode == TOTAL and spent + added > constraint.limit:
            continue
        score = score_of(gain, added, failures[0], failures[1], failure, constraint)
        if score > best:
            best = score
            best_attribute = attribute
            out[0] = score
            out[1] = places[cut]
            out[2], out[3] = failures
    return best_attribute
