"""What a single count table shows: diversity in three senses, k, t-closeness, and how well one can guess."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_whole
from elldelta.core.distribution import frozen
from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def as_count_table(counts: ArrayLike) -> NDArray[np.int64]:
    """Returns a read-only classes x values table of non-negative whole numbers, or raises."""
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
    if table.dtype.kind not in "iu" or table.min() < 0:
        raise DistributionError(
            "A count table must hold whole numbers, none of them negative.",
            found=f"Numbers of type {table.dtype}, {int((table < 0).sum())} of them negative.",
        )
    found: NDArray[np.int64] = frozen(table, np.int64, copy=True)
    return found


def n_groups_left(left: NDArray[np.bool_], groups: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Of how many groups a value is left; along the last axis, whatever comes before it.

    Args:
        left: Whether a value is left.
        groups: The group of every value; None: every value is one.
    """
    if groups is None:
        packed = np.bitwise_count(np.packbits(left, axis=-1))
        counted: NDArray[np.int64] = packed.sum(axis=-1, dtype=np.int64)
        return counted
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    found: NDArray[np.int64] = np.logical_or.reduceat(left[..., order], starts, axis=-1).sum(axis=-1)
    return found


def class_diversities(counts: ArrayLike, groups: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The number of distinct sensitive values in each class, or of groups; 0 for a class without a record."""
    return n_groups_left(as_count_table(counts) > 0, groups)


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


def entropy_diversities(counts: ArrayLike) -> NDArray[np.float64]:
    """exp(H) of each class: the number of equally frequent values that would be as uncertain.

    H is the Shannon entropy in natural logarithms, so a class is entropy-ell-diverse (H >= log ell) exactly
    if this is at least ell. 0 for a class without a record.

    >>> entropy_diversities([[2, 2], [4, 0], [0, 0]]).tolist()
    [2.0, 1.0, 0.0]
    """
    table = as_count_table(counts)
    sizes = table.sum(axis=1)
    shares = table / np.maximum(sizes, 1)[:, np.newaxis]
    entropy = -np.sum(shares * np.log(np.where(table > 0, shares, 1.0)), axis=1)
    return np.where(sizes > 0, np.exp(entropy), 0.0)


def recursive_c(counts: ArrayLike, ell: int) -> NDArray[np.float64]:
    """The c above which each class is recursive (c, ell)-diverse: r_1 / (r_ell + r_(ell+1) + ...).

    With the counts of a class in falling order, it is recursive (c, ell)-diverse if r_1 < c (r_ell + ...).
    So it is for every c above the number returned, and for none up to it; infinity if it shows fewer than ell
    values. NaN for a class without a record.
    """
    table = as_count_table(counts)
    ell = check_whole("ell", ell)
    falling = -np.sort(-table, axis=1)
    tail = falling[:, ell - 1 :].sum(axis=1)
    found = np.full(len(table), np.inf)
    np.divide(falling[:, 0], tail, out=found, where=tail > 0)
    found[falling[:, 0] == 0] = np.nan
    return found


def largest_shares(counts: ArrayLike) -> NDArray[np.float64]:
    """The share of the most frequent value of each class: how often guessing it is right."""
    table = as_count_table(counts)
    shares: NDArray[np.float64] = table.max(axis=1) / np.maximum(table.sum(axis=1), 1)
    return shares


def distances_to_overall(
    counts: ArrayLike, overall: ArrayLike | None = None, *, ordered: bool = False
) -> NDArray[np.float64]:
    """How far the values of each class are from those of the whole table: t-closeness is the largest.

    Args:
        counts: Classes x values.
        overall: Records by value in the whole table; the sum of the classes by default.
        ordered: Whether neighbouring values are alike. Then the distance is the earth mover's, with unit 1
            from the first to the last value; otherwise it is the total variation (half the sum of
            differences).

    Returns:
        One distance per class, between 0 and 1; NaN for a class without a record.
    """
    table = as_count_table(counts)
    whole = table.sum(axis=0) if overall is None else np.asarray(overall)
    sizes = table.sum(axis=1)
    differences = table / np.maximum(sizes, 1)[:, np.newaxis] - whole / max(int(whole.sum()), 1)
    if ordered:
        steps = max(table.shape[1] - 1, 1)
        found = np.abs(np.cumsum(differences, axis=1)[:, :-1]).sum(axis=1) / steps
    else:
        found = np.abs(differences).sum(axis=1) / 2
    return np.where(sizes > 0, found, np.nan)


def t_closeness(
    counts: ArrayLike, overall: ArrayLike | None = None, *, ordered: bool = False
) -> float | None:
    """t: the largest distance of any class with a record to the whole table; None without a record."""
    found = distances_to_overall(counts, overall, ordered=ordered)
    found = found[~np.isnan(found)]
    return float(found.max()) if found.size else None


def beta_likeness(counts: ArrayLike) -> float | None:
    """Basic beta-likeness: the largest relative gain (q - p) / p of any value in any class with a record.

    q is the share of the value in the class, p in the whole table. None without a record.

    >>> beta_likeness([[3, 1], [1, 3]])
    0.5
    """
    gains = _relative_shares(counts)
    return float(gains.max() - 1.0) if gains.size else None


def delta_disclosure(counts: ArrayLike) -> float | None:
    """delta-disclosure: the largest |ln(q / p)| of any value in a class that shows it; None without a record.

    Read literally, a class that lacks a value has infinite delta; such classes are told by their diversity.
    """
    gains = _relative_shares(counts)
    shown = gains[gains > 0]
    return float(np.abs(np.log(shown)).max()) if shown.size else None


def _relative_shares(counts: ArrayLike) -> NDArray[np.float64]:
    """How much more frequent, q / p, every value that occurs is in every class with a record."""
    table = as_count_table(counts)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    overall = table.sum(axis=0) / max(int(table.sum()), 1)
    shares: NDArray[np.float64] = table / table.sum(axis=1, keepdims=True) / overall
    return shares
