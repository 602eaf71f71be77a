"""How much information classes keep: sizes and NCP.

Every measure is about what labels tell of classes, whatever their shape: a run is measured by its hull, as
a box is. Where people lie inside their classes would make these look better, and nobody is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Utility:
    """Measures of one partition; small is good in all but `n_classes`.

    Attributes:
        n_classes: R.
        smallest_class: Records of the smallest class, N P(c) where P is a forecast.
        median_class: Records of the median class.
        largest_class: Records of the largest class.
        ncp_by_attribute: Per attribute, the mean over records of (highest - lowest position of the class) /
            (domain size - 1); 0 for a domain of one position.
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
    shares: NDArray[np.float64],
    lows: NDArray[np.int64],
    highs: NDArray[np.int64],
    sizes: Sequence[int],
    n_records: int,
) -> Utility:
    """Measures classes as a forecast for a release; classes that never occur weigh nothing.

    Args:
        shares: P(c) of every class.
        lows: The lowest position of each class in each ordered domain, as its label tells it, R x d.
        highs: The highest.
        sizes: The number of positions of each domain.
        n_records: N, the records that are drawn from P.
    """
    records = check_whole("the number of records", n_records) * shares[shares > 0.0]
    by_attribute = tuple((shares @ ((highs - lows) / np.maximum(1, np.array(sizes) - 1))).tolist())
    return Utility(
        n_classes=int(shares.size),
        smallest_class=float(records.min()),
        median_class=float(np.median(records)),
        largest_class=float(records.max()),
        ncp_by_attribute=by_attribute,
        ncp=float(np.mean(by_attribute)),
    )
