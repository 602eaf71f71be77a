"""How probably a plan fails, computed again from what it says: its witnesses and their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution, SparseRows
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.occupancy import class_failures_upper, count_chances, shortfalls_upper
from elldelta.core.sample_size import union_bound
from elldelta.core.witnesses import Witnesses
from elldelta.plan.consistency import SLACK
from elldelta.plan.movers import common_of
from elldelta.plan.root import root_failure_upper
from elldelta.plan.wish import asked_k, checked_by
from elldelta.plan.words import rounded_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable
    from elldelta.plan.columns import ColumnPlan
    from elldelta.plan.plan import Plan

_RAISED = 2.0
"""What is told of counts is at most so many times smaller: 9 records are told as 5, and fewer as none."""

_LAST_DIGIT = 0.011
"""How much the last of three digits is at most, relatively."""

_MOST_DENSE = 1 << 20
"""Cells of a table that are written out; of larger ones only those of witnesses."""


def stated_failure(plan: Plan, index: int) -> float:
    """The failure of a plan in one sensitive column, by what the plan itself tells; at most what is allowed.

    It is a bound: past counts are told rounded down, and classes were made to keep what was allowed by the
    counts themselves. So the number tells nothing of these that the plan does not tell anyway. In three
    digits, rounded up, it is the same on every machine.
    """
    column, allowed = plan.columns[index], plan.n_planned * plan.delta
    if column.closeness is not None:
        return allowed  # how often shares are too far is estimated, from more than a plan tells
    if plan.kind == "paper":
        n_classes = min(plan.schema.n_combinations, 1.0 / (column.ell * (column.p or 1.0)))
        failure = plan.releases * union_bound(n_classes, column.ell, column.p or 1.0, plan.records)
    else:
        failure, _ = sharp_failures(plan, index, _k_besides(plan))
    return min(float(rounded_up(failure)), allowed)


def wrong_failure(plan: Plan, index: int) -> str | None:
    """What is wrong with the failure that a plan states for a column; None if it follows from the rest."""
    column, follows = plan.columns[index], stated_failure(plan, index)
    if plan.kind == "paper" and not _reaches_p(column):
        return f"A class has fewer than {column.ell} witness cells of at least p."
    least, worst = _least_failures(plan, index)
    if least > plan.n_planned * plan.delta * (1.0 + SLACK):
        return f"Its failure probability would be at least {least:.4g}, more than was asked for."
    if not abs(column.failure_upper - follows) <= _LAST_DIGIT * follows:
        stated = f"Its failure probability is {column.failure_upper:.4g}"
        return f"{stated}; from its witness cells follows {follows:.4g}."
    if plan.moving is not None and worst > plan.moving.merge_risk * (1.0 + SLACK):
        return f"A class fails with {worst:.4g}; its merge risk is {plan.moving.merge_risk:g}."
    return None


def _least_failures(plan: Plan, index: int) -> tuple[float, float]:
    """What a plan and its worst class fail with at least, whatever the counts are that it tells rounded."""
    column = plan.columns[index]
    if plan.kind == "paper":
        return plan.releases * float(((1.0 - _largest_cells(column)) ** plan.records).sum()), 0.0
    return sharp_failures(plan, index, _k_besides(plan), raised=plan.is_certified and not plan.past)


def _k_besides(plan: Plan) -> int:
    """The fewest records of a class, where no column implies it."""
    return asked_k(plan.k, max(plan.ells), plan.min_records)


def sharp_failures(plan: Plan, index: int = 0, k: int = 1, *, raised: bool = False) -> tuple[float, float]:
    """What the numbers of a plan say of its failure and of that of its worst class, without closeness.

    A plan fails if one of its classes does; if they move up its tree, if all of them together do. Of k
    records all classes together, which hold everybody, are sure.

    Args:
        plan: The plan.
        index: The sensitive column.
        k: The fewest records of a class.
        raised: Whether to compute with the most that cells can be instead of what is told.
    """
    column, parts, n_releases = plan.columns[index], plan.min_records, plan.n_planned
    cells = _raised(column.witness_cells) if raised else column.witness_cells
    short = np.zeros(1)
    if k > 1:
        masses = column.masses_lower if column.closeness is not None else column.witnesses.sums(cells)
        short = shortfalls_upper(np.minimum(masses, 1.0), plan.records // parts * parts, k)
    total, failures = _values_failures(plan, index, cells)
    if plan.moving is None:
        total += n_releases * float(short.sum())
    times = 1 if checked_by(plan) == "owner" else n_releases
    return min(1.0, total), float((failures * parts + times * short).max())


def _values_failures(plan: Plan, index: int, cells: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """What the sharp bound says of the witness cells of a plan: its failure, and that of every class."""
    column, n_values = plan.columns[index], plan.schema.sensitives[index].size
    if not column.promises_values:
        return 0.0, np.zeros(1)
    # r records of a value are one in each of r parts of a release, as in planning.
    bound = SharpBound(
        column.ell,
        plan.records // plan.min_records,
        plan.n_planned * plan.min_records,
        checked_by=checked_by(plan),
    )
    witnesses, common = column.witnesses, common_of(plan, column)
    if common is not None:
        made = common.evaluate(JointDistribution(_table(witnesses, n_values, cells), 1.0), bound)
        total, failures = made.failure_upper, made.classes.failures_upper
    else:
        step = max(1, _MOST_DENSE // n_values)
        blocks = []
        for start in range(0, len(witnesses), step):
            counts = witnesses.counts[start : start + step]
            shown = slice(witnesses.offsets[start], witnesses.offsets[start + counts.size])
            blocks.append(
                _failures(Witnesses(counts, witnesses.values[shown]), n_values, cells[shown], bound)
            )
        failures = np.concatenate(blocks)
        total = bound.total(failures)
    if plan.moving is not None:
        total = root_failure_upper(column, n_values, bound)
    return total, failures


def _failures(
    witnesses: Witnesses, n_values: int, cells: NDArray[np.float64], bound: SharpBound
) -> NDArray[np.float64]:
    """What the sharp bound says of every class with these witness cells."""
    table = witnesses.table(n_values, cells)
    found = class_failures_upper(
        table, bound.ell, bound.n_records, bound.releases, checked_by=bound.checked_by
    )
    failures = found.failures_upper.copy()
    if bound.checked_by == "owner":
        # The best witnesses may be fewer than the plan has; what a release must show is what it says.
        sizes = witnesses.counts
        differs = found.witnesses.counts != sizes
        for size in np.unique(sizes[differs]).tolist():
            rows = np.flatnonzero(differs & (sizes == size))
            places = witnesses.offsets[rows] + np.arange(size)[:, np.newaxis]
            failures[rows] = _failures_as_written(cells[places], bound)
    return failures


def _failures_as_written(cells: NDArray[np.float64], bound: SharpBound) -> NDArray[np.float64]:
    """Upper bounds on the chances that a release misses more witnesses than it may (Theorem E).

    E(W - k)^+ / (b + 1 - k), the best k, where W adds up values that are missing independently.

    Args:
        cells: P(c, s), a row for every witness and a column for every class.
        bound: What is promised.
    """
    allowance = (len(cells) - bound.ell) // bound.releases
    counts = count_chances((1.0 - cells) ** bound.n_records, len(cells))  # of W = 0, 1, ...
    over = np.arange(len(counts))
    tails = [np.maximum(0, over - k) @ counts / (allowance + 1 - k) for k in range(allowance + 1)]
    failures: NDArray[np.float64] = np.min(tails, axis=0)
    return failures


def _reaches_p(column: ColumnPlan) -> bool:
    """Whether every class has ell witnesses as probable as a paper plan says."""
    return column.p is not None and 0.0 < column.p * (1.0 - SLACK) <= _largest_cells(column).min()


def _largest_cells(column: ColumnPlan) -> NDArray[np.float64]:
    """The ell most probable witnesses of every class."""
    falling = column.witness_cells[column.witnesses.most_probable_first(column.witness_cells)]
    largest: NDArray[np.float64] = falling[column.witnesses.offsets[:-1, np.newaxis] + np.arange(column.ell)]
    return largest


def _raised(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that cells can be: what is told as none is rarer than what is told as something."""
    least = cells[cells > 0.0].min(initial=1.0)
    raised: NDArray[np.float64] = np.minimum(np.maximum(_RAISED * cells, least), 1.0)
    return raised


def _table(witnesses: Witnesses, n_values: int, cells: NDArray[np.float64]) -> MassTable:
    """P(c, s) of witnesses; other values count as impossible, as everywhere."""
    shape = (len(witnesses), n_values)
    if shape[0] * shape[1] <= _MOST_DENSE:
        return witnesses.table(n_values, cells)
    from scipy.sparse import csr_array

    table = csr_array((cells, witnesses.values, witnesses.offsets), shape=shape, copy=True)
    table.eliminate_zeros()
    table.sort_indices()
    return SparseRows(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data, table.shape)
