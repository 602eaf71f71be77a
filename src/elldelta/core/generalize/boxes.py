"""Boxes: axis-aligned classes over ordered domains, made by best-first cutting from the box of everything.

Any partition made from P alone keeps every theorem, so the shape is free; boxes lose several times less
information than runs of a lexicographic order. The search is a heuristic; what it promises is recomputed from
scratch for the partition it returns (`docs/theory/boxes.md`).
"""

from __future__ import annotations

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.box_tree import BoxTree, check_positions
from elldelta.core.checks import check_whole
from elldelta.core.distribution import frozen, take_rows, with_floats
from elldelta.core.generalize.bounds import K_SHARE, ClosenessBound, keeps, refuse_if_impossible
from elldelta.core.ladder import ladder
from elldelta.core.partition import Partition, hulls_by_group, weighted_sum
from elldelta.errors import InternalError, ParameterError, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.box_tree import CutTree
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.bounds import Bounds
    from elldelta.core.generalize.boxes_kernels import Search

FLOORS = (0.1, 0.05, 0.03, 0.02, 0.01, 0.003, 0.001)
"""Shares of the budget up to which the failure that a cut adds counts as nothing; the best result is kept."""

POWERS = (1.0, 0.0, 2.0)
"""How much a cut is preferred that leaves more to cut, where classes are bounded one by one."""

EMPHASES = (1.3, 1.15)
"""Factors by which one attribute at a time is made more, or less, urgent to cut; and the floor, squared."""

MOST_RUNS = 80
"""Searches that may be spent on emphases, if the table is small."""

EFFORT = 1 << 24
"""Cells that these searches usually look at together: large tables get fewer of them, or none."""

MANY_ROWS = 1 << 17
"""From here on one trade-off is tried instead of several, and few cuts per box."""

MANY_FLOOR = 1e-4
"""The one trade-off of a total budget that is tried when there are many rows, hence many classes."""

FEW_TRIES = 8
"""Cuts per box whose failure is computed when there are many rows."""


AHEAD = 256
"""Boxes of a large table whose cuts are looked at ahead of time, together."""

PIECES = 16
"""So many parts are they dealt out in, to threads that take the next part when they are done."""


def boxes(
    distribution: JointDistribution,
    positions: ArrayLike,
    sizes: Sequence[int],
    bounds: Bounds,
    *,
    trees: Sequence[CutTree | None] | None = None,
    weighed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    effort: int = EFFORT,
    progress: Callable[[float], None] | None = None,
) -> tuple[Partition, BoxTree]:
    """Boxes with little information loss that keep bounds; deterministic.

    Starts from one box and keeps cutting where most loss is removed per failure added, until no cut keeps
    the bounds. For tables of moderate size this is repeated with other trade-offs and with one attribute
    or another made more urgent, and the result with the smallest loss is kept. Both sides of every cut hold
    rows of P > 0; unoccupied combinations, and rows of P = 0, belong to the box around them.

    Args:
        distribution: P, one row per occupied combination of quasi-identifiers.
        positions: The position of every row in each ordered domain, n x d, from 0.
        sizes: The number of positions of each domain.
        bounds: What the classes must fulfil, for every sensitive column.
        trees: Per attribute, a hierarchy that cuts must follow, or None.
        weighed: The mass of every row, and the loss per position of each attribute, where P is only part of
            a whole: some of its values, some of its rows, part of its domains. By default what P says.
        effort: Cells that repetitions with one attribute made more urgent may look at together; 0 for none of
            them: ten times as fast, a few percent more loss.
        progress: Is told the share of the search that is done, between two of its runs.

    Returns:
        The class of every row, and the tree of the cuts, whose leaves are the classes.

    Raises:
        RefusedError: Not even the single class of everything keeps the bounds; says what would.
    """
    sizes = tuple(check_whole("the size of a domain", size) for size in sizes)
    points = check_positions(positions, sizes)
    if points.shape[0] != distribution.n_quasi_identifiers:
        raise ParameterError(
            f"The distribution has {counted(distribution.n_quasi_identifiers, 'row')}.",
            found=f"The table of positions has {counted(points.shape[0], 'row')}.",
        )
    refuse_if_impossible(distribution, bounds)
    search = _Search(distribution, points, sizes, bounds, trees, weighed, progress, effort)
    return search.result(search.with_emphases(search.best_trade_off()))


@dataclass(frozen=True)
class _TradeOff:
    floor: float
    power: float
    emphases: tuple[float, ...]

    def moved(self, place: int, times: float) -> _TradeOff:
        """The same with one emphasis changed, or with another floor for place -1."""
        if place < 0:
            return replace(self, floor=self.floor * times**2)
        emphases = (*self.emphases[:place], self.emphases[place] * times, *self.emphases[place + 1 :])
        return replace(self, emphases=emphases)


@dataclass(frozen=True, eq=False)
class _Found:
    box_of: NDArray[np.int64]
    attributes: NDArray[np.int64]
    places: NDArray[np.int64]
    loss: float
    trade_off: _TradeOff

    @property
    def is_finest(self) -> bool:
        """Whether every box is a single combination: no other search can find more."""
        return self.loss == 0.0

    def beats(self, other: _Found) -> bool:
        n_boxes, n_others = self.places.size, other.places.size
        return self.loss < other.loss or (self.loss == other.loss and n_boxes > n_others)


class _Search:
    """The compiled search with everything that stays the same between trade-offs."""

    def __init__(
        self,
        distribution: JointDistribution,
        points: NDArray[np.int64],
        sizes: tuple[int, ...],
        bounds: Bounds,
        trees: Sequence[CutTree | None] | None,
        weighed: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
        progress: Callable[[float], None] | None,
        effort: int,
    ) -> None:
        from elldelta.core.generalize import boxes_kernels

        self.kernels = boxes_kernels
        self.distribution = distribution
        self.points = points
        self.sizes = sizes
        self.bounds = bounds
        self.budget = None if bounds[0].per_class else bounds[0].limit  # what all classes share, if they do
        marginal, weights = weighed or (distribution.quasi_identifier_marginal, position_weights(sizes))
        self.occupied = np.flatnonzero(marginal > 0.0)
        every = self.occupied.size == marginal.size
        mass = distribution.mass if every else take_rows(distribution.mass, self.occupied)
        depths = _depths(trees, sizes)
        self.grid = boxes_kernels.Grid(
            # Counts below 2^53 are exact as floats; one type of table keeps one compiled program.
            with_floats(mass),
            np.ascontiguousarray(marginal if every else marginal[self.occupied]),
            np.ascontiguousarray(points if every else points[self.occupied], dtype=np.int32),
            weights.copy(),
            np.concatenate(depths),
            np.cumsum([0, *map(len, depths)], dtype=np.int64),
        )
        for array in self.grid[1:]:
            array.setflags(
                write=False
            )  # always, as with the table, so that there is one compiled program, not one for each mix
        # All cells, stored or not: the same table in another form must give the same boxes.
        self.n_cells = self.occupied.size * distribution.n_values
        self.many = self.occupied.size >= MANY_ROWS
        self.progress = progress
        self.n_runs = 0
        is_worth_more = not self.many and len(sizes) > 1
        self.n_emphases = min(MOST_RUNS, effort // max(1, self.n_cells)) if is_worth_more else 0

    def best_trade_off(self) -> _Found:
        """The best of a few searches that differ in how they weigh loss against what is left to cut."""
        even = (1.0,) * len(self.sizes)
        if self.budget is not None:
            budget = self.budget
            floors = (MANY_FLOOR,) if self.many else FLOORS
            trade_offs = [_TradeOff(floor * budget, 1.0, even) for floor in floors]
        else:
            trade_offs = [_TradeOff(1.0, power, even) for power in (POWERS[:1] if self.many else POWERS)]
        best = self.run(trade_offs[0])
        n_worse = 0
        for trade_off in trade_offs[1:]:
            if best.is_finest:
                break
            found = self.run(trade_off)
            if found.beats(best):
                best, n_worse = found, 0
            elif (n_worse := n_worse + 1) == 3:
                break
        return best

    def with_emphases(self, best: _Found) -> _Found:
        """Makes one attribute at a time more or less urgent, or the floor, while that lowers the loss."""
        n_left = 0 if best.is_finest else self.n_emphases
        for factor in EMPHASES:
            improves = True
            while improves and n_left > 0:
                improves = False
                for place in range(-1 if self.budget is not None else 0, len(self.sizes)):
                    for times in (factor, 1.0 / factor):
                        found = self.run(best.trade_off.moved(place, times))
                        n_left -= 1
                        if found.beats(best):
                            best, improves = found, True
                    if n_left <= 0:
                        break
        return best

    def run(self, trade_off: _TradeOff, slack: float = 1e-9) -> _Found:
        box_of, attributes, places = self._cut(trade_off, slack)
        self.n_runs += 1
        self._tell(0.0)
        if self.many:  # there is no other search to compare with
            return _Found(box_of, attributes, places, 0.0, trade_off)
        loss = loss_of_boxes(box_of, self.grid.positions, self.grid.row_mass, self.grid.weights)
        return _Found(box_of, attributes, places, loss, trade_off)

    def _cut(
        self, trade_off: _TradeOff, slack: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """One search. Of a large table cuts are found ahead of time, by all processors that there are."""
        kernels, n_rows, n_attributes = self.kernels, self.occupied.size, len(self.sizes)
        weights = self.grid.weights * np.array(trade_off.emphases)
        weights.setflags(write=False)
        grid = self.grid._replace(weights=weights)
        constraint = self._constraint(trade_off.floor, trade_off.power, slack)
        n_threads = kernels.n_processors()
        n_ahead = AHEAD if self.many and n_threads > 1 else 0
        search = kernels.Search(
            np.arange(n_rows),
            np.empty(n_rows, dtype=np.int64),
            np.zeros((1024, n_attributes), dtype=np.int32),
            np.tile(np.array(self.sizes, dtype=np.int32) - 1, (1024, 1)),
            np.empty((1024, 5), dtype=np.int64),
            np.empty((1024, 6), dtype=np.float64),
            np.empty(1, dtype=np.float64),
            np.array([1, 1, 0]),
        )
        search.facts[0] = 0, n_rows, -1, -1, 0
        search.cuts[0, kernels.FAILURE] = -1.0
        wanted, n_looked_at = np.zeros(1, dtype=np.int64), 0
        with ThreadPoolExecutor(n_threads) as threads:
            while not search.used[kernels.IS_OVER]:
                if wanted.size:
                    look = functools.partial(kernels.advance, grid, constraint, search, n_ahead=0)
                    list(threads.map(look, np.array_split(wanted, min(wanted.size, PIECES))))
                n_looked_at += np.subtract(*search.facts[wanted, kernels.STOP :: -1].T).sum()
                self._tell(n_looked_at / (n_rows * math.log2(n_rows + 1)))
                if search.used[kernels.N_RECORDS] + 2 * AHEAD > search.facts.shape[0]:
                    grown = {
                        name: _doubled(getattr(search, name)) for name in ("lows", "highs", "facts", "cuts")
                    }
                    search = search._replace(**grown)
                wanted = kernels.advance(grid, constraint, search, wanted[:0], n_ahead)
        return self._tree_of(search)

    def _tree_of(self, search: Search) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The leaf of every row, and the cuts in preorder: attribute or -1, and the last position below."""
        kernels = self.kernels
        numbers, sides = search.facts[:, kernels.NUMBER].tolist(), search.facts[:, kernels.SIDES].tolist()
        preorder, pending = [], [0]
        while pending:
            record = pending.pop()
            preorder.append(record)
            if numbers[record] < 0:  # it was cut
                pending += sides[record] + 1, sides[record]
        nodes = np.array(preorder)
        is_cut = search.facts[nodes, kernels.NUMBER] < 0
        attributes, places = np.full(nodes.size, -1), np.zeros(nodes.size, dtype=np.int64)
        attributes[is_cut] = search.facts[nodes[is_cut], kernels.ATTRIBUTE]
        places[is_cut] = search.cuts[nodes[is_cut], kernels.PLACE]
        # The stretches of the leaves follow each other, as the leaves do.
        leaves = search.facts[nodes[~is_cut]]
        leaf_of = np.empty_like(search.order)
        leaf_of[search.order] = np.repeat(
            np.arange(leaves.shape[0]), leaves[:, kernels.STOP] - leaves[:, kernels.START]
        )
        return leaf_of, attributes, places

    def _tell(self, share: float) -> None:
        """Tells how much is done, if the search under way has come so far: each row in a class of its own."""
        if self.progress is not None:
            n_runs = 1 if self.many else len(FLOORS) + self.n_emphases
            self.progress(min(1.0, (self.n_runs + share) / n_runs))

    def result(self, found: _Found) -> tuple[Partition, BoxTree]:
        n_with_k = sum(bound.k > 1 for bound in self.bounds)
        for slack in (1e-9, 1e-6, 1e-4, 1e-4 + K_SHARE * n_with_k):
            if slack > 1e-9:
                # Sums in another order differ in the last digits: aim lower by more than they do. Classes
                # that may hold fewer than k records add at most their share, and mostly nothing.
                found = self.run(found.trade_off, slack)
            tree = BoxTree(found.attributes, found.places, self.sizes)
            box_of = found.box_of
            if self.occupied.size < self.points.shape[0]:
                box_of = tree.locate(self.points)
            partition = Partition(box_of)
            if keeps(self.distribution, partition, self.bounds):
                return partition, tree
        raise InternalError("Boxes did not keep their bounds when these were recomputed.")

    def _constraint(self, floor: float, power: float, slack: float) -> Any:  # noqa: ANN401 (a compiled type)
        """What is asked of every sensitive column, for compiled code; all arrays are read-only, as there."""
        kernels, bounds, first = self.kernels, self.bounds, self.bounds[0]
        limit = (first.limit or 0.0) * (1.0 - slack)
        if self.budget is not None and first.checked_by == "owner":
            limit /= first.releases
        slices = self.distribution.slices
        columns = [
            (values.start, values.stop, bound.ell if bound.asks_values else 0)
            for bound, values in zip(bounds, slices, strict=True)
        ]
        near = [bound.closeness or ClosenessBound(0.0) for bound in bounds]
        rungs = ladder(self.distribution.total) if first.rounds_down else np.empty(0)
        return kernels.Constraint(
            columns=frozen(columns, np.int64),
            least_masses=frozen([bound.least_mass for bound in bounds], np.float64),
            closeness_limits=frozen([each.limit for each in near], np.float64),
            references=_by_value([each.reference for each in near], slices),
            priors=_by_value([each.prior for each in near], slices),
            n_past=float(min(each.n_past for each in near)),
            n_whole=float(first.whole_records),
            weight=first.weight,
            mode=kernels.EACH if first.per_class else kernels.TOTAL,
            limit=limit,
            scale=1.0 / self.distribution.total,
            n_records=float(first.n_records),
            releases=first.releases,
            checked_by=kernels.CHECKS[first.checked_by],
            fewest_past=float(first.fewest_past),
            rungs=frozen(rungs, np.float64),
            floor=floor,
            power=power,
            most_tries=FEW_TRIES if self.many else 1 << 30,
        )


def _by_value(arrays: Sequence[NDArray[np.float64] | None], slices: Sequence[slice]) -> NDArray[np.float64]:
    """One number per value of all columns; 0 in columns without any, and no number at all if none has one."""
    numbers = np.zeros(0 if all(array is None for array in arrays) else slices[-1].stop)
    for array, values in zip(arrays, slices, strict=True):
        if array is not None:
            numbers[values] = array
    return frozen(numbers, np.float64)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.empty_like(array)))


def position_weights(sizes: Sequence[int]) -> NDArray[np.float64]:
    """Loss per position of length, one per attribute; 0 for a domain of one position."""
    return np.array([1.0 / (len(sizes) * (size - 1)) if size > 1 else 0.0 for size in sizes])


def loss_of_boxes(
    box_of: NDArray[np.intp],
    positions: NDArray[Any],
    row_mass: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """The mass of every box times the weighted lengths of the hull of its rows, added up."""
    lows, highs = hulls_by_group(box_of, positions, positions)
    return weighted_sum(np.bincount(box_of, row_mass), ((highs - lows) * weights).sum(axis=1))


def _depths(trees: Sequence[CutTree | None] | None, sizes: tuple[int, ...]) -> list[NDArray[np.int32]]:
    """The depth of every place of each domain; none without a hierarchy, where a domain may be very long."""
    if trees is None:
        trees = (None,) * len(sizes)
    found = tuple(None if tree is None else tree.size for tree in trees)
    if len(found) != len(sizes) or any(n not in (None, size) for n, size in zip(found, sizes, strict=True)):
        raise ParameterError(
            f"Hierarchies must fit domains of {', '.join(map(str, sizes))} positions.",
            found=f"They have {', '.join(map(str, found))} positions.",
        )
    return [np.zeros(0, dtype=np.int32) if tree is None else tree.depths for tree in trees]
