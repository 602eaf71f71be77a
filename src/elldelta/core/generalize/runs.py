"""Greedy-Generalize: the paper's classes, which are runs of the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_ell, check_p
from elldelta.core.partition import Partition

if TYPE_CHECKING:
    from elldelta.core.distribution import JointDistribution


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
