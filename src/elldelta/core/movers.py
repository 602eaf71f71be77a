"""People who move: classes among which somebody may move have their witnesses in common (Theorem H).

A birthday, a move or a marriage puts a person into another base class. Let R be the base classes somebody may
be in over time, with the same witnesses A and allowance b, t b <= |A| - ell. Then any t certified releases
leave at least ell values to everybody who stays within R, whichever classes of R they are in: each release
misses at most b of A. The statement and its proof are in `docs/theory/movers.md`.

R is never told: it follows from the classes and from which columns stay the same for everybody. Which
witnesses are best in common is a search; what is promised is recomputed from scratch for what it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import JointDistribution, SparseRows, take_rows
from elldelta.core.generalize.bounds import SharpPlan
from elldelta.core.generalize.boxes import EFFORT, MANY_ROWS, boxes, loss_of_boxes, position_weights
from elldelta.core.occupancy import ClassFailures, class_failures_upper
from elldelta.core.partition import Partition
from elldelta.core.tiling import CutTree, Tiling, clean_cut
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable
    from elldelta.core.generalize.bounds import SharpBound

PATIENCE = 2
"""So many larger sets of witnesses may be worse before the search for one ends."""

MOST_SWAPS = 40
"""Exchanges of one witness for another that are tried."""

MOST_PLACES = 6
"""Places at which a column that stays the same is cut, at most, before all others are."""

WORTH = 0.999
"""A cut that makes ranges smaller must lower the loss to this share of it: every cut costs time."""


def ranges_of(lows: NDArray[np.int64], highs: NDArray[np.int64], stays: Sequence[int]) -> NDArray[np.int64]:
    """The number of the range R of every base class: who is in one of its classes never leaves it.

    Classes are in different ranges if a cut through a column that stays the same keeps them apart, and no
    class lies on both sides of it. Errs towards larger ranges, the safe side.

    Args:
        lows: First position of each class per quasi-identifier, R x d.
        highs: Last position, inclusive.
        stays: The quasi-identifiers that stay the same for everybody.

    >>> ranges_of(np.array([[0, 0], [0, 3], [1, 0]]), np.array([[0, 2], [0, 9], [1, 9]]), [0]).tolist()
    [0, 0, 1]
    """
    found = np.zeros(lows.shape[0], dtype=np.int64)
    own_lows, own_highs = lows[:, list(stays)], highs[:, list(stays)]
    pending, n_ranges = [np.arange(lows.shape[0])], 0
    while pending:
        classes = pending.pop()
        cut = clean_cut(own_lows[classes], own_highs[classes])
        if cut is None:
            found[classes] = n_ranges
            n_ranges += 1
        else:
            is_below = own_highs[classes, cut[0]] <= cut[1]
            pending += [classes[~is_below], classes[is_below]]
    return found


@dataclass(frozen=True, eq=False)
class CommonWitnesses:
    """Witnesses that the classes of a range have in common.

    Attributes:
        range_of: The range of every class.
        values: The witnesses of each range, most probable first.
    """

    range_of: NDArray[np.int64]
    values: tuple[tuple[int, ...], ...]

    def evaluate(self, classes: JointDistribution, bound: SharpBound) -> SharpPlan:
        """The failure of classes, from their masses alone and from scratch. Errs upwards."""
        failures = np.empty(classes.n_quasi_identifiers)
        for number, values in enumerate(self.values):
            rows = np.flatnonzero(self.range_of == number)
            fixed = _fixed(bound, len(values))
            found = class_failures_upper(
                _columns(take_rows(classes.mass, rows), values),
                fixed.ell,
                fixed.n_records,
                total=classes.total,
                checked_by="owner",
            )
            failures[rows] = found.failures_upper
        values_of = [self.values[number] for number in self.range_of.tolist()]
        lengths = np.array([len(values) for values in values_of], dtype=np.int32)
        witnesses = np.fromiter(chain.from_iterable(values_of), np.int32, int(lengths.sum()))
        found = ClassFailures(failures, lengths, witnesses)
        return SharpPlan(bound, found, bound.total(failures))


def common_witnesses(
    classes: JointDistribution, range_of: NDArray[np.int64], bound: SharpBound, fewest: int = 1
) -> CommonWitnesses:
    """Witnesses in common for given classes: of each range its most probable values, the best number.

    Args:
        classes: P of the classes.
        range_of: The range of every class.
        bound: What the classes must promise; checked by owners.
        fewest: The mass that a value must have in a range to be its witness.

    Raises:
        RefusedError: A range has fewer than ell values.
    """
    chosen = []
    for number in range(int(range_of.max()) + 1):
        table = take_rows(classes.mass, np.flatnonzero(range_of == number))
        best: tuple[float, tuple[int, ...]] | None = None
        n_worse = 0
        for values in _candidates(_masses(table), bound, fewest):
            fixed = _fixed(bound, len(values))
            own = _columns(table, values)
            failures = class_failures_upper(
                own, fixed.ell, fixed.n_records, total=classes.total, checked_by="owner"
            ).failures_upper
            reached = float(failures.max() if bound.per_class else failures.sum())
            if best is None or reached < best[0]:
                best, n_worse = (reached, values), 0
            elif (n_worse := n_worse + 1) == PATIENCE:
                break
        if best is None:
            raise _refusal(bound, None)
        chosen.append(best[1])
    return CommonWitnesses(range_of, tuple(chosen))


def common_boxes(
    distribution: JointDistribution,
    positions: NDArray[np.int64],
    sizes: Sequence[int],
    bound: SharpBound,
    stays: Sequence[int],
    *,
    trees: Sequence[CutTree | None],
    fewest: int = 1,
    is_draft: bool = False,
    progress: Callable[[float], None] | None = None,
) -> tuple[Partition, Tiling, CommonWitnesses]:
    """Boxes with little information loss for people who move, and the witnesses they have in common.

    Columns that stay the same are cut first, as long as that lowers the loss: each part is a range by itself
    and has its own witnesses.

    Args:
        distribution: P, one row per occupied combination of quasi-identifiers.
        positions: The position of every row in each ordered domain, n x d, from 0.
        sizes: The number of positions of each domain.
        bound: What the classes must promise; checked by owners.
        stays: The quasi-identifiers that stay the same for everybody.
        trees: Per attribute, a hierarchy that cuts must follow, or None.
        fewest: The mass that a value must have in a range to be its witness.
        is_draft: Whether to do with one range and less search.
        progress: Is told how far the search is.

    Raises:
        RefusedError: Not even the single class of everything keeps the limit; says what would.
    """
    search = _Search(
        distribution, positions, tuple(sizes), bound, tuple(stays), tuple(trees), fewest, is_draft
    )
    parts = search.ranges()
    class_of = np.empty(positions.shape[0], dtype=np.int64)
    lows, highs, range_of = [], [], []
    n_classes = 0
    for number, (part, found) in enumerate(parts):
        best = found if is_draft else search.drawn(part, found.values, is_draft=False)
        class_of[part.rows] = best.partition.class_of + n_classes
        lows.append(best.tiling.lows + np.array(part.lows))
        highs.append(best.tiling.highs + np.array(part.lows))
        range_of.append(np.full(best.tiling.n_boxes, number))
        n_classes += best.tiling.n_boxes
        if progress is not None:
            progress(0.5 + 0.5 * (number + 1) / len(parts))
    tiling = Tiling(np.concatenate(lows), np.concatenate(highs), tuple(sizes))
    common = CommonWitnesses(np.concatenate(range_of), tuple(found.values for _, found in parts))
    return Partition(class_of), tiling, common


@dataclass(frozen=True, eq=False)
class _Part:
    """Part of the domain: its ends, inclusive, and the rows of P that lie in it."""

    lows: tuple[int, ...]
    highs: tuple[int, ...]
    rows: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Found:
    """Boxes of a part, in its own positions, for given witnesses."""

    values: tuple[int, ...]
    partition: Partition
    tiling: Tiling
    loss: float


@dataclass(frozen=True, eq=False)
class _Search:
    distribution: JointDistribution
    positions: NDArray[np.int64]
    sizes: tuple[int, ...]
    bound: SharpBound
    stays: tuple[int, ...]
    trees: tuple[CutTree | None, ...]
    fewest: int
    is_draft: bool

    def ranges(self, progress: Callable[[float], None] | None = None) -> list[tuple[_Part, _Found]]:
        """Parts that are ranges of their own, with drafts of their boxes."""
        tops = tuple(size - 1 for size in self.sizes)
        whole = _Part((0,) * len(self.sizes), tops, np.arange(self.positions.shape[0]))
        pending = [(whole, self.best(whole))]
        done: list[tuple[_Part, _Found]] = []
        may_cut = not self.is_draft and whole.rows.size < MANY_ROWS
        while pending:
            part, found = pending.pop()
            halves = self._halves(part, found.loss * WORTH) if may_cut else None
            if halves is None:
                done.append((part, found))
                if progress is not None:
                    progress(0.5 * sum(own.rows.size for own, _ in done) / whole.rows.size)
            else:
                pending += reversed(halves)
        return [(part, self._swapped(part, found)) for part, found in done]

    def best(self, part: _Part) -> _Found:
        """Boxes of a part with the best number of witnesses, which are its most probable values."""
        best: _Found | None = None
        refusal: RefusedError | None = None
        n_worse = 0
        for values in _candidates(self._masses(part), self.bound, self.fewest):
            try:
                found = self.drawn(part, values)
            except RefusedError as problem:
                refusal = refusal or problem
                continue
            if best is None or found.loss < best.loss:
                best, n_worse = found, 0
            elif (n_worse := n_worse + 1) == PATIENCE:
                break
        if best is None:
            raise _refusal(self.bound, refusal)
        return best

    def drawn(self, part: _Part, values: tuple[int, ...], *, is_draft: bool = True) -> _Found:
        """Boxes of a part for given witnesses."""
        whole = self.distribution
        share = float(whole.quasi_identifier_marginal[part.rows].sum())
        fixed = _fixed(self.bound, len(values))
        if not fixed.per_class and fixed.limit is not None:
            fixed = replace(fixed, limit=fixed.limit * share)
        points = self.positions[part.rows] - np.array(part.lows)
        row_mass, weights = whole.quasi_identifier_marginal[part.rows], position_weights(self.sizes)
        partition, tiling = boxes(
            JointDistribution(_columns(take_rows(whole.mass, part.rows), values), whole.total),
            points,
            [high - low + 1 for low, high in zip(part.lows, part.highs, strict=True)],
            fixed,
            trees=[
                None if tree is None else CutTree(tree.levels[:, low : high + 1])
                for tree, low, high in zip(self.trees, part.lows, part.highs, strict=True)
            ],
            weighed=(row_mass, weights),
            is_draft=is_draft,
        )
        loss = loss_of_boxes(partition.class_of, points, row_mass, weights)
        return _Found(values, partition, tiling, loss)

    def _halves(self, part: _Part, most: float) -> list[tuple[_Part, _Found]] | None:
        """The best cut of a part through a column that stays the same; None if none lowers the loss."""
        best: list[tuple[_Part, _Found]] | None = None
        for attribute, place in self._places(part):
            is_below = self.positions[part.rows, attribute] <= place
            below = replace(part, highs=_with(part.highs, attribute, place), rows=part.rows[is_below])
            above = replace(part, lows=_with(part.lows, attribute, place + 1), rows=part.rows[~is_below])
            try:
                halves = [(half, self.best(half)) for half in (below, above)]
            except RefusedError:
                continue
            loss = sum(found.loss for _, found in halves)
            if loss < most:
                best, most = halves, loss
        return best

    def _places(self, part: _Part) -> Iterator[tuple[int, int]]:
        """Where a part may be cut through columns that stay the same: attribute, last position below."""
        mass = self.distribution.quasi_identifier_marginal[part.rows]
        for attribute in self.stays:
            low, high = part.lows[attribute], part.highs[attribute]
            tree = self.trees[attribute]
            depths = np.zeros(high - low, np.int32) if tree is None else tree.depths[low:high]
            own = self.positions[part.rows, attribute] - low
            below = np.cumsum(np.bincount(own, mass, high - low + 1))[:-1]
            is_free = depths == depths.max(initial=0)
            places = np.flatnonzero(is_free & (below > 0.0) & (below < mass.sum()))
            if places.size > MOST_PLACES:
                wanted = np.arange(1, MOST_PLACES + 1) / (MOST_PLACES + 1) * mass.sum()
                nearest = np.abs(below[places][:, None] - wanted).argmin(axis=0)
                places = places[np.unique(nearest)]
            # One place of a gap is as good as another: those with the same rows below are one.
            _, first = np.unique(below[places], return_index=True)
            for place in places[first].tolist():
                yield attribute, low + place

    def _swapped(self, part: _Part, found: _Found) -> _Found:
        """Exchanges weak witnesses for values that are missing less often, while that lowers the loss."""
        n_cells = part.rows.size * self.distribution.n_values
        n_left = 0 if self.is_draft else min(MOST_SWAPS, EFFORT // max(1, n_cells))
        improves = True
        while improves and n_left > 0:
            improves = False
            weakness = self._weakness(part, found)
            masses = self._masses(part)
            possible = np.flatnonzero((masses > 0) & (masses >= self.fewest))
            others = sorted(set(possible.tolist()) - set(found.values), key=lambda value: weakness[value])
            weak = sorted(found.values, key=lambda value: -weakness[value])
            for out in weak[:3]:
                for new in others[:3]:
                    kept = tuple(new if value == out else value for value in found.values)
                    n_left -= 1
                    try:
                        other = self.drawn(part, kept)
                    except RefusedError:
                        continue
                    if other.loss < found.loss:
                        found, improves = other, True
                        break
                if improves or n_left <= 0:
                    break
        return found

    def _weakness(self, part: _Part, found: _Found) -> NDArray[np.float64]:
        """How much mass lies in classes that miss each value, about."""
        rows = JointDistribution(take_rows(self.distribution.mass, part.rows), self.distribution.total)
        weakness = np.zeros(rows.n_values)
        for _, block in rows.generalized(found.partition).dense_blocks():
            chances = block / rows.total
            weakness += chances.sum(axis=1) @ np.exp(-self.bound.n_records * chances)
        return weakness

    def _masses(self, part: _Part) -> NDArray[Any]:
        return _masses(take_rows(self.distribution.mass, part.rows))


def _masses(table: MassTable) -> NDArray[Any]:
    """The mass of every value."""
    if not isinstance(table, SparseRows):
        sums: NDArray[Any] = table.sum(axis=0)
        return sums
    return np.bincount(table.values, table.cells, table.shape[1])


def _candidates(masses: NDArray[Any], bound: SharpBound, fewest: int) -> Iterator[tuple[int, ...]]:
    """The most probable values, in every number that has a larger allowance than the one before."""
    order = np.argsort(-masses, kind="stable")[: int(((masses > 0) & (masses >= fewest)).sum())]
    for number in range(bound.ell, order.size + 1, bound.releases):
        yield tuple(order[:number].tolist())


def _fixed(bound: SharpBound, n_witnesses: int) -> SharpBound:
    """The bound for given witnesses: those that a release may miss are the allowance of t releases.

    Planners choose the best of several numbers of witnesses. With |A| values of which |A| - b must be shown
    in one release the best choice is all of them: one witness and one allowance more never raise a bound.
    """
    allowance = (n_witnesses - bound.ell) // bound.releases
    limit = bound.limit if bound.per_class or bound.limit is None else bound.limit / bound.releases
    return replace(bound, ell=n_witnesses - allowance, releases=1, limit=limit)


def _columns(table: MassTable, values: Sequence[int]) -> MassTable:
    """Some columns of a table, in the order given."""
    if not isinstance(table, SparseRows):
        return np.ascontiguousarray(table[:, list(values)])
    place = np.full(table.shape[1], -1, dtype=np.int32)
    place[list(values)] = np.arange(len(values))
    found = place[table.values]
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets))
    keeps = np.flatnonzero(found >= 0)
    keeps = keeps[np.lexsort((found[keeps], rows[keeps]))]
    offsets = np.searchsorted(rows[keeps], np.arange(table.shape[0] + 1)).astype(np.int64)
    arrays: list[NDArray[Any]] = [offsets, found[keeps], table.cells[keeps]]
    for array in arrays:
        array.setflags(write=False)
    return SparseRows(arrays[0], arrays[1], arrays[2], (table.shape[0], len(values)))


def _with(ends: tuple[int, ...], place: int, end: int) -> tuple[int, ...]:
    return (*ends[:place], end, *ends[place + 1 :])


def _refusal(bound: SharpBound, problem: RefusedError | None) -> RefusedError:
    """The refusal of a bound that no number of common witnesses keeps; says what the fewest would need."""
    return RefusedError(
        f"No classes of people who move keep the limit for ell = {bound.ell} with witnesses in common.",
        found="Too few values occur." if problem is None else problem.found,
        remedy="Lower ell, or estimate from more records." if problem is None else problem.remedy,
    )
