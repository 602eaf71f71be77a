"""How much information classes keep: sizes and NCP.

Every measure is about classes over the rows of a distribution, whatever their shape: a run is measured by the
hull of its rows, just as a box is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.partition import hulls_by_group
from elldelta.core.tiling import check_positions
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.core.partition import Partition


@dataclass(frozen=True)
class Utility:
    """Measures of one partition; small is good in all but `n_classes`.

    Attributes:
        n_classes: R.
        smallest_class: Records of the smallest class, N P(c) where P is a forecast.
        median_class: Records of the median class.
        largest_class: Records of the largest class.
        ncp_by_attribute: Per attribute, the mean over records of (highest - lowest occupied position of the
            class) / (domain size - 1); 0 for a domain of one position.
        ncp: The mean over attributes: 0 if no class spans two positions, 1 for a single class of everything.
    """

    n_classes: int
    smallest_class: float
    median_class: float
    largest_class: float
    ncp_by_attribute: tuple[float, ...]
    ncp: float

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Loss and class sizes as plain JSON values, with the names of the attributes."""
        return {
            "ncp": self.ncp,
            "ncp_by_column": dict(zip(names, self.ncp_by_attribute, strict=True)),
            "smallest_class": self.smallest_class,
            "median_class": self.median_class,
            "largest_class": self.largest_class,
        }


def measure_utility(
    distribution: JointDistribution,
    partition: Partition,
    positions: ArrayLike,
    sizes: Sequence[int],
    n_records: int,
) -> Utility:
    """Measures classes as a forecast for a release.

    Args:
        distribution: P, one row per combination.
        partition: The classes.
        positions: The position of every row in each ordered domain, n x d.
        sizes: The number of positions of each domain.
        n_records: N, the records that are drawn from P.
    """
    records = check_whole("the number of records", n_records) * class_probabilities(distribution, partition)
    by_attribute = ncp_by_attribute(distribution, partition, positions, sizes)
    return Utility(
        n_classes=partition.n_classes,
        smallest_class=float(records.min()),
        median_class=float(np.median(records)),
        largest_class=float(records.max()),
        ncp_by_attribute=by_attribute,
        ncp=float(np.mean(by_attribute)),
    )


def ncp_by_attribute(
    distribution: JointDistribution, partition: Partition, positions: ArrayLike, sizes: Sequence[int]
) -> tuple[float, ...]:
    """NCP of every attribute: Σ_c P(c) (highest - lowest position of c with P > 0) / (domain size - 1)."""
    lows, highs = occupied_hulls(distribution, partition, positions, sizes)
    lengths = (highs - lows) / np.maximum(1, np.array(sizes) - 1)
    return tuple((class_probabilities(distribution, partition) @ lengths).tolist())


def occupied_hulls(
    distribution: JointDistribution, partition: Partition, positions: ArrayLike, sizes: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lowest and highest position of every class, R x d each, over its rows with P > 0.

    A class without any such row weighs nothing; its hull is that of all its rows.
    """
    points = check_positions(positions, tuple(sizes))
    if points.shape[0] != partition.n_quasi_identifiers:
        raise ParameterError(
            f"The partition covers {partition.n_quasi_identifiers} rows.",
            found=f"There are {points.shape[0]} rows of positions.",
        )
    counts = distribution.quasi_identifier_marginal > 0.0
    if not counts.all():
        counts |= ~np.isin(partition.class_of, partition.class_of[counts])
    class_of = partition.class_of[counts]
    placed = points[counts]
    return hulls_by_group(class_of, placed, placed)


def class_probabilities(distribution: JointDistribution, partition: Partition) -> NDArray[np.float64]:
    """P(c) of every class."""
    if distribution.n_quasi_identifiers != partition.n_quasi_identifiers:
        raise ParameterError(
            f"The partition covers {partition.n_quasi_identifiers} quasi-identifiers.",
            found=f"The distribution has {distribution.n_quasi_identifiers}.",
        )
    shares: NDArray[np.float64] = np.zeros(partition.n_classes)
    np.add.at(shares, partition.class_of, distribution.quasi_identifier_marginal)
    return shares
