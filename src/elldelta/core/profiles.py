"""An order for categories that have none: similar sensitive profiles next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution
from elldelta.core.mass_table import to_dense

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

PSEUDO_RECORDS = 1.0
"""How many records, spread like P_S, are added to every category: the profile of a category with very few
records says little, and is drawn towards that of everybody."""

MOST_OPTIMAL = 400
"""Up to so many categories the leaves of the clustering are ordered optimally; beyond, as they come."""


def order_by_profile(counts: ArrayLike) -> NDArray[np.intp]:
    """A permutation of the categories that puts similar P(S | category) next to each other; deterministic.

    Average-linkage clustering of the Hellinger distances between profiles, its leaves ordered so that
    neighbours are as close as the tree allows. Of the two directions the one that begins with the lower
    index is taken.

    Args:
        counts: One row per category, one column per sensitive value: records, or any other mass.

    >>> order_by_profile([[90, 10], [10, 90], [80, 20], [20, 80]]).tolist()
    [0, 2, 3, 1]
    """
    table = np.asarray(counts)
    if table.dtype.kind == "f":
        table = to_dense(JointDistribution.from_probabilities(table).mass)
    else:
        table = to_dense(JointDistribution.from_counts(table).mass)
    n_categories = table.shape[0]
    if n_categories < 3:
        return np.arange(n_categories)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import pdist

    marginal = table.sum(axis=0) / table.sum()
    unit = PSEUDO_RECORDS if table.dtype.kind == "i" else 1e-9
    smoothed = table + unit * marginal
    roots = np.sqrt(smoothed / smoothed.sum(axis=1, keepdims=True))
    distances = pdist(roots) / np.sqrt(2.0)  # Hellinger: from 0, the same profile, to 1, nothing in common
    tree = linkage(distances, method="average", optimal_ordering=n_categories <= MOST_OPTIMAL)
    order: NDArray[np.intp] = leaves_list(tree).astype(np.intp)
    return order if order[0] < order[-1] else order[::-1].copy()
