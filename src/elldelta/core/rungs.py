"""Counts that a plan may tell: rounded down to a ladder, so that none of them is anybody's own.

A count lies between two rungs: multiples of 5 up to about 50, then steps of about a tenth. The rung below is
on the safe side: a value that was less frequent is missing more often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import JointDistribution, SparseRows, frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = 5
"""The distance of the lowest rungs."""

SHARE = 0.1
"""The distance of higher rungs, as a share."""


def ladder(largest: float) -> NDArray[np.int64]:
    """The rungs from 0 until one is not below the largest count."""
    rungs = [0]
    while rungs[-1] < max(1.0, largest):
        rungs.append(rungs[-1] + max(STEP, round(SHARE * rungs[-1] / STEP) * STEP))
    return np.array(rungs, dtype=np.int64)


def rungs_below(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Of every count the highest rung that is not above it."""
    rungs = ladder(float(counts.max(initial=0)))
    found: NDArray[np.int64] = rungs[np.searchsorted(rungs, counts, side="right") - 1]
    return found


def floored(masses: JointDistribution, fewest: int = STEP) -> JointDistribution:
    """Counts at the rung below, and none of those that are smaller than `fewest`; shares become no larger."""
    masses = masses.without_below(max(fewest, STEP))
    table = masses.mass
    cells = table.cells if isinstance(table, SparseRows) else table
    low = rungs_below(cells)
    lower = table._replace(cells=frozen(low, np.int64)) if isinstance(table, SparseRows) else low
    return JointDistribution(lower, masses.total, slices=masses.slices)
