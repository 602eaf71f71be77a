"""What a single count table shows: its diversity and its smallest class (Definition 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def as_count_table(counts: ArrayLike) -> NDArray[np.int64]:
    """Returns a classes x values table of non-negative whole numbers, or raises."""
    try:
        table: NDArray[Any] = np.asarray(counts)
    except ValueError:
        raise DistributionError(
            "A count table must have rows of equal length.", found="The rows differ in length."
        ) from None
    if table.ndim != 2 or table.size == 0:
        raise DistributionError(
            "A count table needs at least one class and one sensitive value.",
            found=f"Its shape is {table.shape}.",
        )
    if table.dtype.kind not in "iu" or (table < 0).any():
        raise DistributionError(
            "A count table must hold whole numbers, none of them negative.",
            found=f"Numbers of type {table.dtype}, {int((table < 0).sum())} of them negative.",
        )
    return table.astype(np.int64)


def class_diversities(counts: ArrayLike) -> NDArray[np.int64]:
    """The number of distinct sensitive values in each class; 0 for a class without a record."""
    present: NDArray[np.int64] = np.count_nonzero(as_count_table(counts), axis=1).astype(np.int64)
    return present


def diversity(counts: ArrayLike) -> int | None:
    """The diversity of a table: the fewest distinct values in any class that has a record (Definition 1).

    Returns:
        The largest ell for which the table is ell-diverse, or None for a table without a single record,
        about which there is nothing to say.

    >>> diversity([[1, 1, 0], [0, 0, 0], [2, 1, 1]])
    2
    """
    present = class_diversities(counts)
    present = present[present > 0]
    return int(present.min()) if present.size else None


def k_anonymity(counts: ArrayLike) -> int | None:
    """k: the fewest records in any class that has a record; None for a table without a record."""
    sizes = as_count_table(counts).sum(axis=1)
    sizes = sizes[sizes > 0]
    return int(sizes.min()) if sizes.size else None


def is_diverse(counts: ArrayLike, ell: int) -> bool:
    """Whether every class with a record holds at least ell distinct values."""
    realised = diversity(counts)
    return realised is None or realised >= ell
