"""The paper's classes and witnesses with the exact union bound.

The paper bounds Pr[some witness is missing] by m ell (1 - p)^N. The same proof, without rounding every
cell down to p and the number of classes up to m, gives Σ_c Σ_{s in S_c|ell} (1 - P(c, s))^N.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.additive_error import cellwise_lower
from elldelta.core.checks import check_count, check_delta, check_ell
from elldelta.core.partition import largest_cells
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.mass_table import MassTable
    from elldelta.core.partition import Partition


def union_failure_upper(masses: MassTable, total: float, ell: int, n_records: int, eta: float = 0.0) -> float:
    """Σ_c Σ_{s in S_c|ell} (1 - P(c, s))^N: bounds the failure of one release. Errs upwards; at most 1.

    Args:
        masses: The mass of every (class, value) cell.
        total: What all masses sum to.
        ell: How many witnesses each class has: its ell most probable values.
        n_records: N.
        eta: The error of the distribution in total variation; every cell may be smaller by so much.
    """
    ell = check_ell(ell, masses.shape[1])
    n_records = check_count("the number of records", n_records)
    top = cellwise_lower(largest_cells(masses, ell) / total, eta)
    with np.errstate(divide="ignore"):  # a cell that has all the mass is missed with probability 0
        missing = np.exp(n_records * np.log1p(-np.minimum(top, 1.0)))
    # Exponents below 750 lose less than 1e-12 of each term: rounded up by more than that, and by more than
    # smaller terms lose to underflow.
    return min(1.0, math.fsum(missing.ravel()) * (1.0 + 1e-9) + 1e-306 * int(missing.size))


def union_search(
    distribution: JointDistribution,
    ell: int,
    delta: float,
    n_records: int,
    make: Callable[[float], Partition],
    *,
    p_start: float,
    eta: float = 0.0,
    n_steps: int = 24,
) -> Partition:
    """The partition at the smallest p that the search finds to keep the exact union bound within delta.

    The bound falls as p grows, but not strictly for every shape, so this is a heuristic; the bound is checked
    for the partition returned.

    Args:
        distribution: P.
        ell: How many witnesses each class has.
        delta: The failure probability of one release.
        n_records: N.
        make: Makes a partition with ell cells >= p in every class.
        p_start: Where to begin: the paper's own p, or p_ell if it has none.
        eta: The error of the distribution in total variation.
        n_steps: How many partitions to try at most.

    Raises:
        RefusedError: Even the partition at `p_start` exceeds delta.
    """
    delta = check_delta(delta)

    def holds(partition: Partition) -> bool:
        masses = partition.class_masses(distribution)
        return union_failure_upper(masses, distribution.total, ell, n_records, eta) <= delta

    best = make(p_start)
    if not holds(best):
        raise RefusedError(
            f"{n_records} records are not enough for ell = {ell} and delta = {delta:g}.",
            found="Even the coarsest classes fail more often than that.",
            remedy="Wait for more records, or choose a smaller ell or a larger delta.",
        )
    too_low, high = 0.0, best.snapped_p(distribution, ell)
    for _ in range(n_steps):
        middle = high * 0.7 if too_low == 0.0 else math.sqrt(too_low * high)
        if middle <= too_low * (1.0 + 1e-6) or middle <= 0.0:
            break
        partition = make(middle)
        if holds(partition):
            if partition.n_classes >= best.n_classes:
                best = partition
            high = middle
        else:
            too_low = middle
    return best
