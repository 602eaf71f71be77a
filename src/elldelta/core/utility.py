"""How much information classes keep: sizes and NCP.

Every measure is about what labels tell of classes, whatever their shape: a run is measured by its hull, as
a box is. Where people lie inside their classes would make these look better, and nobody is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.distribution import frozen
from elldelta.core.generalize.boxes import position_weights
from elldelta.core.partition import hulls_by_group, weighted_sum
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.partition import Partition


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
    widths = (highs - lows) / np.maximum(1, np.array(sizes) - 1)
    by_attribute = tuple(weighted_sum(shares, column) for column in widths.T)
    return Utility(
        n_classes=int(shares.size),
        smallest_class=float(records.min()),
        median_class=float(np.median(records)),
        largest_class=float(records.max()),
        ncp_by_attribute=by_attribute,
        ncp=float(np.mean(by_attribute)),
    )


@dataclass(frozen=True, eq=False)
class HullLoss:
    """NCP of unions of base classes: Σ mass(C) · mean over attributes of (high - low) / (size - 1).

    Attributes:
        lows: First position of each base class per attribute, R x d, read-only.
        highs: Last position, inclusive, R x d, read-only.
        sizes: The number of positions of each attribute.
        mass: The mass of each base class, read-only; scaled to a sum of 1 where there is any. With the plan's
            mass the merges depend on the owner's records only through which values classes show.
    """

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    sizes: tuple[int, ...]
    mass: NDArray[np.float64]

    def __post_init__(self) -> None:
        lows, highs = frozen(self.lows, np.int64, copy=True), frozen(self.highs, np.int64, copy=True)
        mass = np.array(self.mass, dtype=np.float64)
        sizes = tuple(int(size) for size in self.sizes)
        if lows.ndim != 2 or lows.shape != highs.shape or lows.shape != (mass.size, len(sizes)):
            raise ParameterError(
                "Losses need a low and a high end per attribute, and a mass, for every base class.",
                found=f"Shapes {lows.shape}, {highs.shape} and {mass.shape} for {len(sizes)} attributes.",
            )
        if (lows < 0).any() or (lows > highs).any() or (highs >= np.array(sizes)).any():
            raise ParameterError("The ends of a class must rise and lie inside the domain.")
        if not np.isfinite(mass).all() or (mass < 0.0).any():
            raise ParameterError("Masses must be finite and not negative.")
        total = float(mass.sum())
        object.__setattr__(self, "lows", lows)
        object.__setattr__(self, "highs", highs)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "mass", frozen(mass / total if total else mass, np.float64))

    @property
    def weights(self) -> NDArray[np.float64]:
        """Loss per position of length, one per attribute; 0 for a domain of one position."""
        return position_weights(self.sizes)

    def hulls(self, grouping: Partition) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lowest and highest position of every published class, two tables of its rows x d."""
        return hulls_by_group(grouping.class_of, self.lows, self.highs)

    def ncp(self, grouping: Partition, suppressed: NDArray[np.bool_] | None = None) -> float:
        """The mean loss over the mass of the classes that are published: 0 is exact, 1 tells nothing.

        Suppressed classes do not count here; how many records they hold is told beside it.
        """
        lows, highs = self.hulls(grouping)
        lengths = ((highs - lows) * self.weights).sum(axis=1)
        mass = self.mass
        if suppressed is not None:
            mass = np.where(suppressed[grouping.class_of], 0.0, mass)
        total = float(mass.sum())
        return weighted_sum(mass, lengths[grouping.class_of]) / total if total else 0.0
