"""Sweeps over runs: the greedy at one eps, and the search for the eps that spends a budget.

Used by `runs`, which checks what comes out of here from scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_ell
from elldelta.core.occupancy import records_apart
from elldelta.core.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution, MassTable
    from elldelta.core.generalize.bounds import SharpBound

MANY_ROWS = 1 << 17
"""From here on eps is fitted on a sample of the rows, and about one sweep sees all of them."""

N_STRETCHES = 16
"""The sample consists of so many stretches of 1/256 of the rows each."""


@dataclass(frozen=True, eq=False)
class Run:
    """One sweep, or several joined.

    Attributes:
        ends: Where each class ends (exclusive).
        failures: Failure bound of each class.
        peaks: The largest P(c, s) of each class.
        eps: The largest failure that a class was allowed.
        just_above: The sweep gives the same classes for every eps up to (not including) this.
    """

    ends: NDArray[np.int64]
    failures: NDArray[np.float64]
    peaks: NDArray[np.float64]
    eps: float
    just_above: float

    @property
    def n_classes(self) -> int:
        """The number of classes, 0 if none could be closed."""
        return int(self.ends.size)

    def partition(self) -> Partition:
        """The classes, if there is at least one."""
        return Partition.from_starts(np.concatenate(([0], self.ends[:-1])), int(self.ends[-1]))


class Sweeper:
    """The compiled sweep with everything that stays the same while eps is searched."""

    def __init__(self, distribution: JointDistribution, bound: SharpBound) -> None:
        from elldelta.core.generalize import sweep_kernels

        self._kernels = sweep_kernels
        self.table: MassTable = distribution.mass
        self.n_rows: int = distribution.n_quasi_identifiers
        self.scale = 1.0 / distribution.total
        self.bound = bound
        self.ell = check_ell(bound.ell, distribution.n_values)
        self.n_apart = records_apart(bound.n_records, bound.shared_records)
        self.times = 1 if bound.is_joint else bound.releases
        # The nodes are dense. A node of sparse rows takes as many of them as store the cells of FAN_OUT dense
        # rows, so that the tree never takes more than a seventh of the cells that the table stores.
        n_cells = self.n_rows * distribution.n_values
        self.n_leaf_rows: int = self._kernels.FAN_OUT * -(-n_cells // distribution.n_cells)
        self.nodes, self.offsets = self._sum_tree()

    def _sum_tree(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        sizes = [0]
        n_nodes, width = self.n_rows, self.n_leaf_rows
        while n_nodes >= 2 * width:
            n_nodes //= width
            sizes.append(n_nodes)
            width = self._kernels.FAN_OUT
        offsets = np.cumsum(sizes, dtype=np.int64)
        nodes = np.empty((int(offsets[-1]), self.table.shape[1]), dtype=self.table.dtype)
        self._kernels.sum_tree(self.table, self.n_leaf_rows, nodes, offsets)
        return nodes, offsets

    def run(
        self,
        eps: float,
        first_row: int = 0,
        last_row: int | None = None,
        spend_upper: float = np.inf,
        rate_after: float = 0.0,
    ) -> tuple[Run, int]:
        """The greedy sweep with "failure of the class <= eps", and the row at which it stopped."""
        last_row = self.n_rows if last_row is None else last_row
        room = last_row - first_row
        ends = np.empty(room, dtype=np.int64)
        failures = np.empty(room, dtype=np.float64)
        peaks = np.empty(room, dtype=np.float64)
        n_closed, just_above, row = self._kernels.sweep(
            self.table,
            self.n_leaf_rows,
            self.nodes,
            self.offsets,
            self.scale,
            float(self.bound.n_records),
            self.n_apart,
            self.ell,
            self.bound.releases,
            self.bound.certifiable,
            first_row,
            last_row,
            eps,
            spend_upper,
            rate_after,
            ends,
            failures,
            peaks,
        )
        found = slice(0, n_closed)
        return Run(ends[found].copy(), failures[found].copy(), peaks[found].copy(), eps, just_above), row

    def total(self, run: Run, weight: float = 1.0) -> float:
        """The failure of a run; `weight` says how many times the rows of a sample stand for."""
        total = self.bound.total(run.failures, run.peaks)
        return total + (weight - 1.0) * self._summed(run)

    def _summed(self, run: Run) -> float:
        """The part of the total that is a sum over classes (not the once-paid price of eta)."""
        return float(run.failures.sum()) * self.times

    def fit(self, budget: float) -> Run | None:
        """The run with the most classes that was found within the budget; None if that is Q alone."""
        if budget == 0.0:
            return None
        if self.n_rows >= MANY_ROWS:
            run = self.fit_many(budget)
            if run is not None:
                return run
        low, high = self._bracket(lambda eps: self.run(eps)[0], 1.0, budget)
        if high is None:
            return low if low is not None and low.n_classes else None
        return self._spend_the_rest(low, high, budget)

    def _bracket(
        self, sweep: Callable[[float], Run], weight: float, budget: float
    ) -> tuple[Run | None, Run | None]:
        """A run within the budget and one beyond it, close together: neighbours, or within 2 %.

        The total is not monotone in eps, but nearly proportional to it, so a secant on logarithms finds
        the place quickly; where it does not move, halving does.
        """
        low: Run | None = None
        high: Run | None = None
        eps = budget
        for _ in range(40):
            run = sweep(eps)
            if self.total(run, weight) <= budget:
                low = run
            else:
                high = run
            if high is None:
                if eps >= budget:
                    break
                eps = min(budget, eps * self._step(run, weight, budget))
                continue
            ceiling = float(high.failures.max())
            if low is None:
                eps = high.eps * min(0.5, 0.95 * budget / self.total(high, weight))
                if eps < 1e-300:
                    break
                continue
            floor = low.just_above if low.n_classes else low.eps
            low_total, high_total = self.total(low, weight), self.total(high, weight)
            if low.n_classes and (floor >= ceiling or high_total <= 1.02 * low_total):
                break
            eps = 0.0
            if low_total > 0.0:
                share = np.log(budget / low_total) / np.log(high_total / low_total)
                eps = low.eps * (high.eps / low.eps) ** min(max(float(share), 0.05), 0.95)
            if not floor < eps < ceiling:
                eps = float(np.sqrt(floor * ceiling))
            if not low.eps < eps < high.eps:
                break
        return low, high

    def _step(self, low: Run, weight: float, budget: float) -> float:
        """How much to raise an eps that leaves a part of the budget: a little more than in proportion."""
        total = self.total(low, weight)
        return min(16.0, max(1.02, 1.05 * budget / total)) if total > 0.0 else 16.0

    def _spend_the_rest(self, low: Run | None, high: Run, budget: float) -> Run | None:
        """Classes of `high` up to some row, classes at the eps of `low` from there on."""
        low_eps = low.eps if low is not None else float(high.failures.min()) / 2.0
        best = low if low is not None and low.n_classes else None
        first, last = 0, high.n_classes
        while last - first > 1 + self.n_rows // (4 * MANY_ROWS):
            n_head = (first + last) // 2
            run = self._joined(high, n_head, self.run(low_eps, int(high.ends[n_head - 1]))[0])
            if self.total(run) <= budget:
                first = n_head
                if best is None or run.n_classes > best.n_classes:
                    best = run
            else:
                last = n_head
        return best

    def fit_many(self, budget: float) -> Run | None:
        """As `fit`, with one sweep over all rows: the two values of eps come from a sample of the rows.

        The first eps is used as long as the second, at its rate in the sample, can finish within the
        budget. None if that did not work out; the slower way then decides.
        """
        length = self.n_rows // (16 * N_STRETCHES)
        weight = self.n_rows / (N_STRETCHES * length)
        low, high = self._bracket(lambda eps: self._sample(eps, length), weight, budget)
        if low is None or not low.n_classes:
            return None
        if high is None:
            run, _ = self.run(low.eps)
            return run if run.n_classes and self.total(run) <= budget else None
        low_eps, high_eps = low.eps, high.eps
        rate = self._summed(low) * weight / self.n_rows
        if low.just_above < float(high.failures.max()):
            # The total moves smoothly with eps: keep the two apart by more than the sample errs.
            low_eps *= min(1.0, 0.94 * budget / self.total(low, weight))
            rate *= low_eps / low.eps
            high_eps *= max(1.0, 1.05 * budget / self.total(high, weight))
        once = (self.total(high) - self._summed(high)) * high_eps / high.eps
        times = self.times
        margin = 0.003
        for _ in range(3):
            upper = (budget * (1.0 - margin) - once) / times
            head, row = self.run(high_eps, 0, None, upper, rate / times)
            run = head
            if row < self.n_rows:
                tail, _ = self.run(low_eps, row)
                run = self._joined(head, head.n_classes, tail)
                rate = self._summed(tail) / (self.n_rows - row)
            excess = self.total(run) / budget - 1.0
            if run.n_classes and 0.0 < excess < 0.1:
                # Re-plan only the last rows, with half the failure per class, until the excess is gone.
                n_kept = int(np.searchsorted(run.ends, (0.996 - 3.0 * excess) * self.n_rows))
                tail, _ = self.run(low_eps / 2.0, int(run.ends[n_kept - 1]))
                run = self._joined(run, n_kept, tail)
                excess = self.total(run) / budget - 1.0
            if run.n_classes and excess <= 0.0:
                return run
            margin += 0.002
        return None

    def _sample(self, eps: float, length: int) -> Run:
        starts = np.linspace(0, self.n_rows - length, N_STRETCHES).astype(np.int64)
        runs = [self.run(eps, int(start), int(start) + length)[0] for start in starts]
        return Run(
            np.concatenate([run.ends for run in runs]),
            np.concatenate([run.failures for run in runs]),
            np.concatenate([run.peaks for run in runs]),
            eps,
            min(run.just_above for run in runs),
        )

    def _joined(self, head: Run, n_head: int, tail: Run) -> Run:
        ends = np.concatenate((head.ends[:n_head], tail.ends))
        if ends.size:
            # Rows that closed nothing join the last class, which can only lower its failure.
            ends[-1] = self.n_rows
        return Run(
            ends,
            np.concatenate((head.failures[:n_head], tail.failures)),
            np.concatenate((head.peaks[:n_head], tail.peaks)),
            max(head.eps, tail.eps),
            tail.just_above,
        )
