"""The ladder: the counts of past records that a plan may tell, so that none of them is anybody's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = 5
"""The distance of the lowest rungs (`ladder`)."""

SHARE = 0.1
"""The distance of higher rungs, as a share."""


def ladder(largest: float) -> NDArray[np.int64]:
    """The counts that a plan may tell: rungs from 0 until one is not below the largest count.

    Multiples of 5 up to about 50, then steps of about a tenth, so that none of them is anybody's own. The
    rung below a count is on the safe side: a value that was less frequent is missing more often.
    """
    rungs = [0]
    while rungs[-1] < max(1.0, largest):
        rungs.append(rungs[-1] + max(STEP, round(SHARE * rungs[-1] / STEP) * STEP))
    return np.array(rungs, dtype=np.int64)


def rounded_total(n_records: float) -> int:
    """The number of all past records that a plan may tell: rounded up, so that shares grow nowhere.

    >>> [rounded_total(n) for n in (997, 1500, 30162)]
    [1000, 1500, 30200]
    """
    step = max(STEP, int(10 ** (len(str(int(n_records))) - 3)))
    return -(-int(n_records) // step) * step


def rungs_below(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Of every count the highest rung that is not above it."""
    rungs = ladder(float(counts.max(initial=0)))
    found: NDArray[np.int64] = rungs[np.searchsorted(rungs, counts, side="right") - 1]
    return found
