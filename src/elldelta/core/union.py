"""The paper's classes and witnesses with the exact union bound.

The paper bounds Pr[some witness is missing] by m ell (1 - p)^N. The same proof, without rounding every
cell down to p and the number of classes up to m, gives Σ_c Σ_{s in S_c|ell} (1 - P(c, s))^N.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.additive_error import cellwise_lower
from elldelta.core.checks import check_count, check_delta, check_ell
from elldelta.core.frontier import most_classes, piece_at
from elldelta.errors import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.frontier import Piece
    from elldelta.core.partition import Partition

MOST_SWEEPS = 200
"""The search for the smallest p stops after so many sweeps and keeps the best found."""


def union_failure_upper(
    masses: NDArray[Any], total: float, ell: int, n_records: int, eta: float = 0.0
) -> float:
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
    top = np.partition(masses, masses.shape[1] - ell, axis=1)[:, masses.shape[1] - ell :]
    top = cellwise_lower(top / total, eta)
    with np.errstate(divide="ignore"):  # a cell that has all the mass is missed with probability 0
        missing = np.exp(n_records * np.log1p(-np.minimum(top, 1.0)))
    return min(1.0, math.fsum(missing.ravel()))


def union_runs(
    distribution: JointDistribution, ell: int, delta: float, n_records: int, eta: float = 0.0
) -> tuple[Partition, float]:
    """Greedy-Generalize at the smallest p for which the exact union bound stays within delta.

    Starts from the paper's own choice where it has one. The bound is not quite monotone in p, so this is
    the smallest p that the search finds; the bound is checked for the partition returned.

    Returns:
        The partition and its snapped p.

    Raises:
        RefusedError: Even a single class for everybody exceeds delta.
    """
    ell = check_ell(ell, distribution.n_values)
    delta = check_delta(delta)

    def holds(piece: Piece) -> bool:
        masses = piece.partition.class_masses(distribution)
        return union_failure_upper(masses, distribution.total, ell, n_records, eta) <= delta

    best = _first_that_holds(distribution, ell, delta, n_records, eta)
    if not holds(best):
        raise RefusedError(
            f"{n_records} records are not enough for ell = {ell} and delta = {delta:g}.",
            found="Even a single class for everybody fails more often than that.",
            remedy="Wait for more records, or choose a smaller ell or a larger delta.",
        )
    too_low = 0.0
    probe = best.low / 2.0
    for _ in range(MOST_SWEEPS):
        if best.low <= too_low * (1.0 + 1e-9) or best.low <= 0.0:
            break
        if not too_low < probe <= best.low:
            probe = best.low
        probe = float(np.ceil(probe)) if distribution.is_counted else probe * (1.0 - 1e-9)
        piece = piece_at(distribution, ell, probe)
        if holds(piece):
            best = piece
        else:
            too_low = piece.high
        probe = best.low / 2.0 if too_low == 0.0 else math.sqrt(too_low * max(best.low, too_low))
    p = float(distribution.probability(best.high))
    return best.partition, min(p, float(distribution.ranked_marginal[ell - 1]))


def _first_that_holds(
    distribution: JointDistribution, ell: int, delta: float, n_records: int, eta: float
) -> Piece:
    """The paper's choice, which the exact bound confirms, or one class if the paper has no choice."""
    try:
        _, p = most_classes(distribution, ell, delta, n_records, eta)
    except RefusedError:
        p = float(distribution.ranked_marginal[ell - 1])
    return piece_at(distribution, ell, distribution.threshold(p))
