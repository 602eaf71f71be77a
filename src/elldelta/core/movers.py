"""People who move: classes among which somebody may move have their witnesses in common (Theorem H).

A birthday, a move or a marriage puts a person into another base class. Let R be the base classes somebody may
be in over time, with the same witnesses A and allowance b, t b <= |A| - ell. Then any t certified releases
leave at least ell values to everybody who stays within R, whichever classes of R they are in: each release
misses at most b of A. The statement and its proof are in `docs/theory/values.md`.

R is never told: it follows from the classes and from which columns stay the same for everybody. The witnesses
in common are the most probable values, of which the best number is tried; what is promised is recomputed from
scratch for what is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import JointDistribution, SparseRows, take_rows
from elldelta.core.generalize.boxes import EFFORT, boxes, loss_of_boxes
from elldelta.core.occupancy import ClassFailures, class_failures_upper
from elldelta.core.witnesses import Witnesses
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from elldelta.core.box_tree import BoxTree, CutTree
    from elldelta.core.distribution import MassTable
    from elldelta.core.generalize.bounds import BoundResult, SharpBound
    from elldelta.core.partition import Partition

MAX_WORSE_SETS = 2
"""So many larger sets of witnesses may be worse before the search for one ends."""


def ranges_of(
    lows: NDArray[np.int64], highs: NDArray[np.int64], fixed_columns: Sequence[int]
) -> NDArray[np.int64]:
    """The number of the range R of every base class: who is in one of its classes never leaves it.

    Classes are in different ranges if a cut through a column that stays the same keeps them apart, and no
    class lies on both sides of it. Errs towards larger ranges, the safe side.

    Args:
        lows: First position of each class per quasi-identifier, R x d.
        highs: Last position, inclusive.
        fixed_columns: The quasi-identifiers that stay the same for everybody.

    >>> ranges_of(np.array([[0, 0], [0, 3], [1, 0]]), np.array([[0, 2], [0, 9], [1, 9]]), [0]).tolist()
    [0, 0, 1]
    """
    found = np.zeros(lows.shape[0], dtype=np.int64)
    fixed_lows, fixed_highs = lows[:, list(fixed_columns)], highs[:, list(fixed_columns)]
    pending, n_ranges = [np.arange(lows.shape[0])], 0
    while pending:
        classes = pending.pop()
        cut = clean_cut(fixed_lows[classes], fixed_highs[classes])
        if cut is None:
            found[classes] = n_ranges
            n_ranges += 1
        else:
            is_below = fixed_highs[classes, cut[0]] <= cut[1]
            pending += [classes[~is_below], classes[is_below]]
    return found


def clean_cut(lows: NDArray[np.int64], highs: NDArray[np.int64]) -> tuple[int, int] | None:
    """A cut between boxes that goes through none of them, as even as there is one: attribute, last position.

    Args:
        lows: First positions, boxes x attributes.
        highs: Last positions, inclusive.
    """
    n_boxes = lows.shape[0]
    best: tuple[int, int, int] | None = None
    for attribute in range(lows.shape[1] if n_boxes > 1 else 0):
        ends, starts = np.sort(highs[:, attribute]), np.sort(lows[:, attribute])
        # After the i-th smallest end nothing may be open: then just i + 1 boxes have begun.
        n_begun = np.searchsorted(starts, ends, side="right")
        clean = np.flatnonzero(n_begun == np.arange(1, n_boxes + 1))
        clean = clean[clean < n_boxes - 1]
        if clean.size:
            middle = int(clean[np.argmin(np.abs(2 * (clean + 1) - n_boxes))])
            uneven = abs(2 * (middle + 1) - n_boxes)
            if best is None or uneven < best[0]:
                best = uneven, attribute, int(ends[middle])
    return None if best is None else best[1:]


@dataclass(frozen=True, eq=False)
class CommonWitnesses:
    """Witnesses that the classes of a range have in common.

    Attributes:
        range_of: The range of every class.
        witnesses: Those of each range, most probable first.
    """

    range_of: NDArray[np.int64]
    witnesses: Witnesses

    def evaluate(self, classes: JointDistribution, bound: SharpBound) -> BoundResult:
        """The failure of classes, from their masses alone and from scratch. Errs upwards."""
        failures = np.empty(classes.n_quasi_identifiers)
        for number, values in enumerate(self.witnesses):
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
        return bound.promised(ClassFailures(failures, self.witnesses.at(self.range_of)), classes)


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
        best: tuple[float, NDArray[np.intp]] | None = None
        n_worse = 0
        for values in _candidates(_masses(table), bound, fewest):
            fixed = _fixed(bound, len(values))
            cells = _columns(table, values)
            failures = class_failures_upper(
                cells, fixed.ell, fixed.n_records, total=classes.total, checked_by="owner"
            ).failures_upper
            reached = float(failures.max() if bound.per_class else failures.sum())
            if best is None or reached < best[0]:
                best, n_worse = (reached, values), 0
            elif (n_worse := n_worse + 1) == MAX_WORSE_SETS:
                break
        if best is None:
            raise _refusal(bound, None)
        chosen.append(best[1])
    return CommonWitnesses(range_of, Witnesses.of(chosen))


def common_boxes(
    distribution: JointDistribution,
    positions: NDArray[np.int64],
    sizes: Sequence[int],
    bound: SharpBound,
    *,
    trees: Sequence[CutTree | None],
    weights: NDArray[np.float64],
    fewest: int = 1,
    effort: int = EFFORT,
    progress: Callable[[float], None] | None = None,
) -> tuple[Partition, BoxTree, NDArray[np.intp]]:
    """Boxes with little information loss for people who move, and the witnesses that all have in common.

    Args:
        distribution: P, one row per occupied combination of quasi-identifiers.
        positions: The position of every row in each ordered domain, n x d, from 0.
        sizes: The number of positions of each domain.
        bound: What the classes must promise; checked by owners.
        trees: Per attribute, a hierarchy that cuts must follow, or None.
        weights: The loss per position of each attribute.
        fewest: The mass that a value must have to be a witness.
        effort: How much is searched for less loss, once the number of witnesses is known.
        progress: Is told how far the search is, once the number of witnesses is known.

    Raises:
        RefusedError: Not even the single class of everything keeps the limit; says what would.
    """
    row_mass = distribution.quasi_identifier_marginal

    def drawn(
        values: NDArray[np.intp], tell: Callable[[float], None] | None = None, effort: int = 0
    ) -> tuple[Partition, BoxTree]:
        return boxes(
            JointDistribution(_columns(distribution.mass, values), distribution.total),
            positions,
            sizes,
            (_fixed(bound, len(values)),),
            trees=trees,
            weighed=(row_mass, weights),  # of all values, not only of witnesses
            effort=effort,
            progress=tell,
        )

    best: tuple[float, NDArray[np.intp]] | None = None
    refusal: RefusedError | None = None
    n_worse = 0
    for values in _candidates(_masses(distribution.mass), bound, fewest):
        try:
            partition, _ = drawn(values)
        except RefusedError as problem:
            refusal = refusal or problem
            continue
        loss = loss_of_boxes(partition.class_of, positions, row_mass, weights)
        if best is None or loss < best[0]:
            best, n_worse = (loss, values), 0
        elif (n_worse := n_worse + 1) == MAX_WORSE_SETS:
            break
    if best is None:
        raise _refusal(bound, refusal)
    return *drawn(best[1], progress, effort), best[1]


def _masses(table: MassTable) -> NDArray[Any]:
    """The mass of every value."""
    if not isinstance(table, SparseRows):
        sums: NDArray[Any] = table.sum(axis=0)
        return sums
    return np.bincount(table.values, table.cells, table.shape[1])


def _candidates(masses: NDArray[Any], bound: SharpBound, fewest: int) -> Iterator[NDArray[np.intp]]:
    """The most probable values, in every number that has a larger allowance than the one before."""
    order = np.argsort(-masses, kind="stable")[: int(((masses > 0) & (masses >= fewest)).sum())]
    for number in range(bound.ell, order.size + 1, bound.releases):
        yield order[:number]


def _fixed(bound: SharpBound, n_witnesses: int) -> SharpBound:
    """The bound for given witnesses: those that a release may miss are the allowance of t releases.

    Planners choose the best of several numbers of witnesses. With |A| values of which |A| - b must be shown
    in one release the best choice is all of them: one witness and one allowance more never raise a bound.
    """
    allowance = (n_witnesses - bound.ell) // bound.releases
    limit = bound.limit if bound.per_class or bound.limit is None else bound.limit / bound.releases
    return replace(bound, ell=n_witnesses - allowance, releases=1, limit=limit)


def _columns(table: MassTable, values: NDArray[Any]) -> MassTable:
    """Some columns of a table, in the order given."""
    if not isinstance(table, SparseRows):
        return np.ascontiguousarray(table[:, values])
    place = np.full(table.shape[1], -1, dtype=np.int32)
    place[values] = np.arange(len(values))
    found = place[table.values]
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets))
    keeps = np.flatnonzero(found >= 0)
    keeps = keeps[np.lexsort((found[keeps], rows[keeps]))]
    offsets = np.searchsorted(rows[keeps], np.arange(table.shape[0] + 1)).astype(np.int64)
    arrays: list[NDArray[Any]] = [offsets, found[keeps], table.cells[keeps]]
    for array in arrays:
        array.setflags(write=False)
    return SparseRows(arrays[0], arrays[1], arrays[2], (table.shape[0], len(values)))


def _refusal(bound: SharpBound, problem: RefusedError | None) -> RefusedError:
    """The refusal of a bound that no number of common witnesses keeps; says what the fewest would need."""
    return RefusedError(
        f"No classes of people who move keep the limit for ell = {bound.ell} with witnesses in common.",
        found="Too few values occur." if problem is None else problem.found,
        remedy="Lower ell, or estimate from more records." if problem is None else problem.remedy,
    )
