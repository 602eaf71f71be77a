"""Like values: diversity counts groups of values ("all cancers are one"), while releases show the values.

Counting groups in each release by itself would not do. One release may show lung cancer where another shows
stomach cancer: both show a cancer, and linked they leave none, because nobody has both. So witnesses stay
values, and a class has at most one witness of each group. What certificates, ledgers and Theorem H leave are
then ell values of ell different groups, word for word. The statement is in `docs/theory/values.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution, SparseRows, frozen, kept_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray


def one_of_each(distribution: JointDistribution, groups: NDArray[np.int64]) -> JointDistribution:
    """P with the most probable value of every group alone; the mass of the rows stays what it was.

    Args:
        distribution: P.
        groups: The group of every value.
    """
    marginal = distribution.value_marginal
    order = np.lexsort((np.arange(groups.size), -marginal, groups))
    is_first = np.diff(groups[order], prepend=-1) != 0
    keeps = np.zeros(groups.size, dtype=np.bool_)
    keeps[order[is_first]] = True
    table, rows = distribution.mass, distribution.quasi_identifier_marginal
    if not isinstance(table, SparseRows):
        return JointDistribution(
            frozen(np.where(keeps, table, 0)), distribution.total, rows, distribution.slices
        )
    kept = kept_cells(table, keeps[table.values])
    return JointDistribution(kept, distribution.total, rows, distribution.slices)


def largest_of_each(classes: JointDistribution, groups: NDArray[np.int64]) -> JointDistribution:
    """P of classes with the largest cell of every group alone, class by class; ties by index.

    Args:
        classes: P of the classes.
        groups: The group of every value.
    """
    table = classes.mass
    if isinstance(table, SparseRows):
        rows = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets))
        group_of = groups[table.values]
        order = np.lexsort((table.values, -table.cells, group_of, rows))
        is_first = (np.diff(rows[order], prepend=-1) != 0) | (np.diff(group_of[order], prepend=-1) != 0)
        keeps = np.zeros(rows.size, dtype=np.bool_)
        keeps[order[is_first]] = True
        return JointDistribution(kept_cells(table, keeps), classes.total, slices=classes.slices)
    kept = np.zeros_like(table)
    every = np.arange(table.shape[0])
    for group in np.unique(groups):
        values = np.flatnonzero(groups == group)
        best = values[table[:, values].argmax(axis=1)]
        kept[every, best] = table[every, best]
    return JointDistribution(frozen(kept), classes.total, slices=classes.slices)
