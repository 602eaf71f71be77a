"""Information loss: the one number that says how much of the quasi-identifiers classes keep.

The loss is NCP, the normalized certainty penalty: per record and column the share of a range that the label
of its class spans, averaged over columns and records. A record that is left out counts 1. The range is
what was seen in the past, so room for values that nobody has changes nothing. Only labels count: where people
lie inside their classes would make the number look better, and nobody is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.partition import weighted_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def spans_of_hulls(
    lows: NDArray[np.int64], highs: NDArray[np.int64], ranges: Sequence[tuple[int, int]]
) -> NDArray[np.float64]:
    """The share of every range that each class spans, R x d: (high - low) / (size - 1), inside the range.

    Args:
        lows: The lowest position of each class in each column, as its label tells it, R x d.
        highs: The highest.
        ranges: The first and last position of every range; one of a single position is never spanned.
    """
    first, last = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    lengths = np.clip(highs, first, last) - np.clip(lows, first, last)
    spans: NDArray[np.float64] = lengths / np.maximum(1, last - first)
    return spans


def information_loss(records: NDArray[Any], spans: NDArray[np.float64], n_left_out: int = 0) -> float | None:
    """The mean over records and columns of what labels span, 0 to 1; None without a record.

    Args:
        records: The records of every class.
        spans: The share of its range that every class spans in every column, R x d.
        n_left_out: Records that no class shows: they count 1.
    """
    total = float(records.sum()) + n_left_out
    return (weighted_sum(records, spans.mean(axis=1)) + n_left_out) / total if total else None
