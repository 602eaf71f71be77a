"""Classes against records: which p to choose (the paper's mechanism on runs).

R(p), the number of greedy classes, is a falling step function of p. A sweep at one p tells more than R(p):
it tells an interval of p on which the greedy partition stays the same (`Piece`). The frontier is found by
laying such intervals end to end, so it is exact, and needs a few sweeps per point instead of one per interval
sum of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_delta, check_ell, check_whole
from elldelta.core.distribution import RELATIVE_TOLERANCE
from elldelta.core.generalize.greedy import greedy, greedy_at_threshold
from elldelta.core.mass_table import sum_by_group
from elldelta.core.partition import Partition, ell_th_largest, sum_by_class
from elldelta.core.sample_size import Mechanism, smallest_p, union_records
from elldelta.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from elldelta.core.distribution import JointDistribution


@dataclass(frozen=True)
class Piece:
    """An interval of thresholds (low, high] on which Greedy-Generalize returns one and the same partition.

    The interval is the longest possible upwards. Downwards it ends where the sweep itself would first differ,
    even if the partition that comes out happens to be the same.

    Attributes:
        partition: That partition.
        low: The next threshold below at which some class closes earlier (in the unit of the mass).
        high: The snapped threshold, min over classes of the ell-th largest cell.
    """

    partition: Partition
    low: float
    high: float

    @property
    def n_classes(self) -> int:
        """R on this interval."""
        return self.partition.n_classes


@dataclass(frozen=True)
class FrontierPoint:
    """The best that Algorithm 1 can do for one number of classes.

    Attributes:
        n_classes: R.
        p: The largest p for which Greedy-Generalize still makes R classes.
        records: The records to wait for with the paper's m (Theorem 1).
        records_union: The same with R in place of m.
    """

    n_classes: int
    p: float
    records: int
    records_union: int


@dataclass(frozen=True)
class Frontier:
    """All points, from many classes to few, and the number of sweeps it took to find them."""

    ell: int
    delta: float
    points: tuple[FrontierPoint, ...]
    n_sweeps: int

    def most_classes(self, n_records: int) -> FrontierPoint | None:
        """The point with the most classes among those that need at most `n_records` records."""
        return next((point for point in self.points if point.records <= n_records), None)


def piece_at(distribution: JointDistribution, ell: int, threshold: float) -> Piece:
    """One greedy sweep, with the interval of thresholds on which its partition does not change.

    Upwards the partition stays until the smallest of the ell-th largest cells of its classes. Downwards
    it stays until a class without its last quasi-identifier would close, or the rows left over would.
    """
    partition = greedy_at_threshold(distribution, ell, threshold)
    masses = sum_by_class(distribution.mass, partition)
    high = ell_th_largest(masses, ell).min()
    return Piece(partition, _next_change(distribution, ell, threshold, partition), float(high))


def frontier(
    distribution: JointDistribution,
    ell: int,
    delta: float,
    *,
    n_records_upper: int | None = None,
    eta: float = 0.0,
) -> Frontier:
    """Every number of classes that Greedy-Generalize can reach, with its largest p and its N.

    Args:
        distribution: P(Q, S).
        ell: The diversity wanted.
        delta: The failure probability of one release.
        n_records_upper: Leave out points that need more records than this.
        eta: The error of the distribution in total variation; points with p <= eta are left out.

    Raises:
        RefusedError: Not even one class for everybody is possible within `n_records_upper`.
    """
    ell = check_ell(ell, distribution.n_values)
    delta = check_delta(delta)
    marginal, n_rows = distribution.value_marginal, distribution.n_quasi_identifiers
    top = Mechanism.from_beta(marginal, n_rows, ell, 1.0, eta)
    p_low = eta
    if n_records_upper is not None:
        p_low = smallest_p(marginal, n_rows, ell, delta, n_records_upper, eta)
    search = _Search(distribution, ell)
    pieces = search.pieces(p_low, top.p)
    points = []
    for piece in pieces:
        p = min(float(distribution.probability(piece.high)), top.p)
        if p <= eta:
            continue
        records = Mechanism.create(marginal, n_rows, ell, p, eta).records(delta)
        union = union_records(piece.n_classes, ell, p - eta, delta)
        points.append(FrontierPoint(piece.n_classes, p, records, union))
    if n_records_upper is not None:
        points = [point for point in points if point.records <= n_records_upper]
    return Frontier(ell, delta, tuple(points), search.n_sweeps)


def most_classes(
    distribution: JointDistribution,
    ell: int,
    delta: float,
    n_records: int,
    eta: float = 0.0,
    make: Callable[[float], Partition] | None = None,
) -> tuple[Partition, float]:
    """The finest classes that the paper's mechanism can promise with N records, and their p.

    R falls and N falls as p grows, so the smallest p that N records can pay for gives the most classes;
    the p returned is snapped to what the classes really reach, and N pays for that.

    Args:
        distribution: P(Q, S).
        ell: The diversity wanted.
        delta: The failure probability of one release.
        n_records: N.
        eta: The error of the distribution in total variation.
        make: Makes a partition with ell cells >= p in every class; Greedy-Generalize by default.

    Raises:
        RefusedError: Even a single class for everybody needs more records.
    """
    ell = check_ell(ell, distribution.n_values)
    n_records = check_whole("the number of records", n_records)
    marginal, n_rows = distribution.value_marginal, distribution.n_quasi_identifiers
    p_ell = float(distribution.ranked_marginal[ell - 1])
    smallest = smallest_p(marginal, n_rows, ell, delta, n_records, eta)

    def built(p: float) -> Partition:
        return make(p) if make is not None else greedy(distribution, ell, p)

    # The tolerance may let in a cell below p, which N then does not pay for: try a p that is clear of it,
    # and at last one class for everybody, which `smallest_p` has found affordable.
    for p in (smallest, min(p_ell, smallest * (1.0 + 3.0 * RELATIVE_TOLERANCE)), None):
        partition = Partition.single(n_rows) if p is None and make is None else built(p or p_ell)
        snapped = min(partition.snapped_p(distribution, ell), p_ell)
        if Mechanism.create(marginal, n_rows, ell, snapped, eta).records(delta) <= n_records:
            return partition, snapped
    raise InternalError("One class for everybody was affordable and then was not.")


class _Search:
    """Lays pieces end to end between two thresholds and counts the sweeps."""

    def __init__(self, distribution: JointDistribution, ell: int) -> None:
        self._distribution = distribution
        self._ell = ell
        self._slack = 0.0 if distribution.is_counted else RELATIVE_TOLERANCE
        self._scale = 0.0  # the largest R p seen: C in the guess R(p) = floor(C / p)
        self.n_sweeps = 0

    def pieces(self, p_low: float, p_high: float) -> list[Piece]:
        """One piece per number of classes, each with the largest threshold that gives it; finest first."""
        smallest = 1.0 if self._distribution.is_counted else float(np.nextafter(0.0, 1.0))
        coarse = self._sweep(self._distribution.threshold(p_high))
        fine = self._sweep(max(self._distribution.threshold(p_low), smallest))
        found = {coarse.n_classes: coarse}
        stack = [(coarse, fine)]
        while stack:
            above, below = stack.pop()
            probes = self._probes()
            next(probes)
            while above.n_classes != below.n_classes and not self._adjacent(above, below):
                middle = self._sweep(probes.send((above, below)))
                if middle.n_classes == above.n_classes:
                    above = middle
                elif middle.n_classes == below.n_classes:
                    below = middle
                else:
                    stack.append((middle, below))
                    below = middle
            best = found.get(below.n_classes)
            if best is None or below.high > best.high:
                found[below.n_classes] = below
        return [found[n_classes] for n_classes in sorted(found, reverse=True)]

    def _probes(self) -> Generator[float, tuple[Piece, Piece], None]:
        """Thresholds to try between two pieces: a guess, the next change beside it, the middle, and so on.

        The guess takes R(p) for floor(C / p), which is what a uniform distribution does. If it hits the
        piece above, the next change is just below that piece; if it hits the one below, just above.
        Either makes progress, so the search ends whatever the guesses are worth.
        """
        above, below = yield 0.0
        while True:
            previous = above
            guess = self._scale / ((above.n_classes + below.n_classes + 1) // 2)
            above, below = yield self._inside(guess, above, below)
            beside = self._just_above(below.high) if above is previous else above.low
            above, below = yield self._inside(beside, above, below)
            middle = 2.0 / (1.0 / above.low + 1.0 / max(below.high, above.low * 1e-6))
            above, below = yield self._inside(middle, above, below)

    def _inside(self, threshold: float, above: Piece, below: Piece) -> float:
        if not self._just_above(below.high) <= threshold < above.low:
            threshold = above.low
        if self._distribution.is_counted:
            return float(np.ceil(threshold))
        return threshold * (1.0 - self._slack)

    def _adjacent(self, above: Piece, below: Piece) -> bool:
        return above.low <= below.high * (1.0 + self._slack)

    def _just_above(self, threshold: float) -> float:
        """The next threshold that can differ: one record more, or clear of rounding errors."""
        return threshold + 1.0 if self._distribution.is_counted else threshold * (1.0 + 3.0 * self._slack)

    def _sweep(self, threshold: float) -> Piece:
        self.n_sweeps += 1
        piece = piece_at(self._distribution, self._ell, threshold)
        self._scale = max(self._scale, piece.n_classes * piece.high)
        return piece


def _next_change(distribution: JointDistribution, ell: int, threshold: float, partition: Partition) -> float:
    """The largest ell-th cell of anything that almost closed: each class without its last row, the rest."""
    last_end = _closing_row(distribution, ell, threshold, int(partition.starts[-1]))
    ends = np.append(partition.starts[1:], last_end)
    group_of = partition.class_of.copy()
    group_of[ends - 1] = -1
    group_of[last_end:] = partition.n_classes
    almost = sum_by_group(distribution.mass, group_of, partition.n_classes + 1)
    return float(ell_th_largest(almost, ell).max())


def _closing_row(distribution: JointDistribution, ell: int, threshold: float, start: int) -> int:
    """The row (exclusive) at which a sweep from `start` closes its first class, or the end."""
    from elldelta.core.kernels import greedy_ends

    ends = greedy_ends(distribution.mass, ell, threshold, start, 1)
    return int(ends[0]) if ends.size else distribution.n_quasi_identifiers
