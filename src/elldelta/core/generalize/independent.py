"""Generalize-Ind (Algorithm 3), executable: classes of equal length when Q and S are independent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_ell, check_p, check_whole
from elldelta.core.distribution import RELATIVE_TOLERANCE
from elldelta.core.partition import Partition
from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from elldelta.core.distribution import JointDistribution


def generalize_independent(distribution: JointDistribution, ell: int, p: float) -> Partition:
    """Cuts Q into runs of T = ceil(|Q| p / (theta p_ell)), the remainder joining the last.

    theta = |Q| min_q P_Q(q), so every run of T has mass at least T theta / |Q| >= p / p_ell, and its ell
    most probable cells reach p. The printed T = |Q| / floor(theta p_ell / p) need not be an integer and
    divides by zero for p > theta p_ell; a single class (Q itself) is always admissible.

    Raises:
        DistributionError: The distribution is not a product of its marginals.
    """
    ell = check_ell(ell, distribution.n_values)
    p_ell = float(distribution.ranked_marginal[ell - 1])
    p = check_p(p, p_ell, ell)
    if not distribution.is_product():
        raise DistributionError(
            "Generalize-Ind needs quasi-identifiers and sensitive values that are independent.",
            found="The table is not the product of its marginals.",
            remedy="Use Greedy-Generalize, which works for every distribution.",
        )
    n_rows = distribution.n_quasi_identifiers
    theta = n_rows * float(distribution.quasi_identifier_marginal.min())
    length = _run_length(n_rows, p, theta * p_ell)
    n_classes = max(1, n_rows // length)
    partition = Partition.from_starts(np.arange(n_classes) * length, n_rows)
    # Cells that are a product only within the tolerance may fall short of p: then one class is safe.
    return partition if partition.is_admissible(distribution, ell, p) else Partition.single(n_rows)


def uniform_classes(n_quasi_identifiers: int, p: float, p_ell: float) -> int:
    """The most classes of any admissible partition if Q is uniform and independent of S.

    max(1, floor(|Q| / ceil(|Q| p / p_ell))): Corollary 2 with the number of quasi-identifiers per class
    rounded up to a whole one. Greedy-Generalize attains it.
    """
    n_quasi_identifiers = check_whole("the number of quasi-identifiers", n_quasi_identifiers)
    return max(1, n_quasi_identifiers // _run_length(n_quasi_identifiers, p, p_ell))


def _run_length(n_rows: int, p: float, p_per_row_share: float) -> int:
    """The fewest rows whose cells reach p, at most all of them, with the same tolerance as the sweep."""
    if p_per_row_share <= 0.0:
        return n_rows
    return max(1, min(n_rows, math.ceil(n_rows * p / p_per_row_share * (1.0 - RELATIVE_TOLERANCE))))
