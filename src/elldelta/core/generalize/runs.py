"""Planners on runs of the order: Greedy-Generalize for the paper's criterion, and one for the sharp bound.

The sharp one closes a class as soon as its failure is at most eps, which gives the most classes for that eps;
eps is then fitted to the budget, and what is left of the budget is spent by switching from a larger eps to
a smaller one part of the way. That is a good heuristic, not an optimum; the failure that counts is recomputed
from scratch for the partition that is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_ell, check_p
from elldelta.core.generalize.bounds import refusal
from elldelta.core.partition import Partition
from elldelta.errors import InternalError, ParameterError

if TYPE_CHECKING:
    from elldelta.core.distribution import JointDistribution
    from elldelta.core.generalize.bounds import SharpBound

SHARES = (1.0, 1.0 - 1e-6, 1.0 - 1e-4, 0.99, 0.9, 0.5, 0.1, 0.0)
"""Shares of the budget to aim at, until what is recomputed stays within it; 0 is the single class Q.

Sums in another order differ in the last digits. And rows that join the last class lower its failure but raise
its largest cell, and with it the price of eta, which the sweep does not see.
"""


def greedy(distribution: JointDistribution, ell: int, p: float) -> Partition:
    """Greedy-Generalize (Algorithm 2), corrected: the most contiguous classes for a given p.

    Sweeps once over the ordered quasi-identifiers and closes a class as soon as ell cells reach p. What is
    left at the end joins the last closed class. The result has the most classes of all contiguous partitions
    that are admissible for (ell, p) (Proposition 3): any other one closes its k-th class no earlier than this
    one, for every k.

    The pseudo-code printed in the paper can leave the last quasi-identifier without a class, and can keep
    a last class that is not admissible; this function does neither.

    A cell counts as reaching p within `RELATIVE_TOLERANCE`: compute promises from `Partition.snapped_p`.
    """
    from elldelta.core.kernels import greedy_ends

    ell = check_ell(ell, distribution.n_values)
    p = check_p(p, float(distribution.ranked_marginal[ell - 1]), ell)
    n_rows = distribution.n_quasi_identifiers
    ends = greedy_ends(distribution.mass, ell, distribution.threshold(p))
    # No class closed although p <= p_ell: only rounding of the sums can do that, and Q is admissible.
    starts = np.concatenate(([0], ends[:-1])) if ends.size else np.zeros(1, dtype=np.intp)
    return Partition.from_starts(starts, n_rows)


def sharp_runs(distribution: JointDistribution, bound: SharpBound) -> Partition:
    """Many contiguous classes that keep the limit of a bound: in total, or the most that each keep it.

    Args:
        distribution: P, with the quasi-identifiers in the order whose runs become classes.
        bound: What the classes must promise.

    Raises:
        RefusedError: Not even the single class Q keeps the limit; says what would.
    """
    from elldelta.core.generalize.sweep import Sweeper

    if bound.limit is None:
        raise ParameterError("Classes are made for a limit on their failure.", found="There is none.")
    sweeper = Sweeper(distribution, bound)
    whole = Partition.single(distribution.n_quasi_identifiers)
    for target in _targets(bound.limit, per_class=bound.per_class):
        run = sweeper.run(target)[0] if bound.per_class else sweeper.fit(target)
        partition = whole if run is None or not run.n_classes else run.partition()
        plan = bound.evaluate(distribution.generalized(partition))
        if plan.holds:
            return partition
        if partition is whole:
            raise refusal(distribution, plan)
    raise InternalError("A class exceeded its bound when it was recomputed.")


def near_runs(distribution: JointDistribution, bound: SharpBound) -> Partition:
    """Contiguous classes that keep a bound with closeness: boxes along the one axis that the order is.

    How likely a class is to be close need not rise whenever it grows, so it is not swept.

    Raises:
        RefusedError: Not even the single class Q keeps the limit; says what would.
    """
    from elldelta.core.generalize.boxes import boxes

    n_rows = distribution.n_quasi_identifiers
    _, tiling = boxes(distribution, np.arange(n_rows)[:, np.newaxis], (n_rows,), bound)
    return Partition.from_starts(np.sort(tiling.lows[:, 0]), n_rows)


def _targets(limit: float, *, per_class: bool) -> list[float]:
    """What to aim at, until what is recomputed stays within the limit."""
    if not per_class:
        return [share * limit for share in SHARES]
    targets = [limit]
    for _ in range(3):
        targets.append(targets[-1] * (1.0 - 1e-6))
    return targets
