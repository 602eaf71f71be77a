"""Whether the numbers of a plan follow from each other: whoever seals a plan again can write any into it.

What the promise says is computed from the witnesses and their cells, as it was when the plan was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import JointDistribution, SparseRows
from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.occupancy import class_failures_upper, count_chances, shortfalls_upper
from elldelta.core.sample_size import union_bound
from elldelta.errors import ParameterError
from elldelta.plan.movers import common_of
from elldelta.plan.root import root_failure_upper
from elldelta.plan.wish import asked_k, checked_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.distribution import MassTable
    from elldelta.plan.plan import Plan

_SLACK = 1e-6
"""How far numbers may be from what they are when they are computed again, relatively."""
_UP = 1.0 + _SLACK

_RAISED = 2.0
"""What is told of counts is at most so many times smaller: 9 records are told as 5, and fewer as none."""

_IN_THREE_DIGITS = 1.011
"""By how much a number grows at most that is rounded up to three digits."""

_MOST_DENSE = 1 << 22
"""Cells of a table that are written out; of larger ones only those of witnesses."""


def contradiction(plan: Plan, k: int | None = None) -> str | None:
    """What in a plan does not follow from the rest, in words; None if all of it does.

    Args:
        plan: The plan.
        k: The fewest records of a class, where no column implies it; by default as the plan says.
    """
    k = asked_k(plan.k, max(plan.ells), plan.min_records) if k is None else k
    if plan.schema.also_sensitive:  # every sensitive column by itself
        return next((wrong for face in plan.faces if (wrong := contradiction(face, k)) is not None), None)
    total = float(plan.witness_arrays[2].sum())
    if total > 1.0 + _SLACK:
        return f"Its witness cells add up to {total:.4g}, and probabilities to at most 1."
    try:
        common_of(plan)
    except ParameterError:
        return "Classes among which people move do not have their witnesses in common."
    if _has_like_witnesses(plan):
        return "A class counts two values of one group."
    wrong = (
        _wrong_terms(plan)
        or _wrong_closeness(plan)
        or (_by_cells(plan) if plan.kind == "paper" else _sharp(plan, k))
    )
    failure = plan.failure_upper
    if plan.closeness is not None:
        failure += plan.n_planned * plan.closeness.risk
    if wrong is None and failure > plan.n_planned * plan.delta * _UP:
        return (
            f"Its failure probability is {failure:.4g}, more than {plan.n_planned} releases of "
            f"{plan.delta:g} each allow."
        )
    return wrong


def _wrong_terms(plan: Plan) -> str | None:
    """Terms that no plan of this kind has: nothing would be computed from them."""
    terms = {
        "That classes move": plan.moving is not None,
        "More than one record per witness": plan.min_records > 1,
        "A past that noise protects": bool(plan.past),
        "That people move": plan.movers is not None,
        "A number of owners": plan.owners is not None,
        "Its closeness": plan.closeness is not None,
    }
    for words, is_there in terms.items():
        if is_there and not plan.is_certified:
            return f"{words} belongs to a certified plan."
    if plan.movers is not None and (plan.owners is not None or plan.closeness is not None):
        return "That people move belongs to a plan without a number of owners and without closeness."
    if plan.owners is not None and (plan.owners < 1 or plan.releases > 1):
        return "A number of owners belongs to a plan for one release."
    if plan.is_certified and plan.k < max(plan.ells) * plan.min_records:
        return "Its classes may hold fewer records than the values that they must show."
    return None


def _wrong_closeness(plan: Plan) -> str | None:
    """A closeness that no certified plan has."""
    if plan.closeness is None:
        return None
    if plan.owners is not None:
        return "Its closeness belongs to a plan for a number of releases."
    if sum(plan.closeness.masses) > 1.0 + _SLACK:
        return "The shares of its classes add up to more than 1."
    if plan.moving is not None and plan.records < plan.k:
        return f"A release of {plan.records} records cannot show {plan.k}."
    return None


def sharp_failures(plan: Plan, k: int = 1, *, raised: bool = False) -> tuple[float, float]:
    """What the numbers of a plan say of its failure and of that of its worst class, without closeness.

    A plan fails if one of its classes does; if they move up its tree, if all of them together do. Of k
    records all classes together, which hold everybody, are sure.

    Args:
        plan: The plan.
        k: The fewest records of a class.
        raised: Whether to compute with the most that cells can be instead of what is told.
    """
    parts, n_releases = plan.min_records, plan.n_planned
    cells = _raised(plan.witness_arrays[2]) if raised else plan.witness_arrays[2]
    masses = plan.masses_lower if plan.closeness is not None else np.minimum(plan.by_class(cells), 1.0)
    short = shortfalls_upper(masses, plan.records // parts * parts, k)
    total, failures = _values_failures(plan, cells)
    if plan.moving is None:
        total += n_releases * float(short.sum())
    times = 1 if checked_by(plan) == "owner" else n_releases
    return min(1.0, total), float((failures * parts + times * short).max())


def _values_failures(plan: Plan, cells: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """What the sharp bound says of the witness cells of a plan: its failure, and that of every class."""
    if not plan.promises_values:
        return 0.0, np.zeros(1)
    # r records of a value are one in each of r parts of a release, as in planning.
    bound = SharpBound(
        plan.ell,
        plan.records // plan.min_records,
        plan.n_planned * plan.min_records,
        checked_by=checked_by(plan),
    )
    common = common_of(plan)
    if common is not None:
        made = common.evaluate(JointDistribution(_table(plan, cells), 1.0), bound)
        total = made.failure_upper if plan.moving is None else root_failure_upper(plan, bound)
        return total, made.classes.failures_upper
    found = class_failures_upper(
        _table(plan, cells), bound.ell, bound.n_records, bound.releases, checked_by=bound.checked_by
    )
    failures = found.failures_upper.copy()
    if bound.checked_by == "owner":
        # The best witnesses may be fewer than the plan has; what a release must show is what it says.
        n_written = np.array([len(values) for values in plan.witnesses])
        for row in np.flatnonzero(found.n_witnesses != n_written).tolist():
            start, stop = plan.witness_arrays[0][row : row + 2]
            failures[row] = _failure_as_written(cells[start:stop], bound)
    total = bound.total(failures) if plan.moving is None else root_failure_upper(plan, bound)
    return total, failures


def _failure_as_written(cells: NDArray[np.float64], bound: SharpBound) -> float:
    """Upper bound on the chance that a release misses more of these witnesses than it may (Theorem E).

    E(W - k)^+ / (b + 1 - k), the best k, where W adds up values that are missing independently.
    """
    allowance = (len(cells) - bound.ell) // bound.releases
    counts = count_chances((1.0 - cells) ** bound.n_records, len(cells))  # of W = 0, 1, ...
    over = np.arange(len(counts))
    return min(
        float((np.maximum(0, over - k) * counts).sum()) / (allowance + 1 - k) for k in range(allowance + 1)
    )


def _sharp(plan: Plan, k: int) -> str | None:
    failure, worst = sharp_failures(plan, k)
    least = failure
    if plan.is_certified and not plan.past:  # computed from counts that are not told
        least, worst = sharp_failures(plan, k, raised=True)
        least = failure if plan.moving is not None else least
    most = failure * (_IN_THREE_DIGITS if plan.is_certified else 1.0)
    if not _is_about(plan.failure_upper, least, most):
        return _wrong(plan, f"{failure:.4g}" if least == failure else f"{least:.4g} to {failure:.4g}")
    if plan.moving is not None and worst > plan.moving.merge_risk * _UP:
        return f"A class fails with {worst:.4g}; its merge risk is {plan.moving.merge_risk:g}."
    return None


def _by_cells(plan: Plan) -> str | None:
    """The paper asks for particular values: each is missing with (1 - P)^N; its bound is larger."""
    rows = np.sort([sorted(cells)[-plan.ell :] for cells in plan.witness_cells], axis=1)
    least = plan.releases * float(((1.0 - rows) ** plan.records).sum())
    if plan.p is None or plan.p <= 0.0 or rows[:, 0].min() < plan.p * (1.0 - _SLACK):
        return f"A class has fewer than {plan.ell} witness cells of at least p."
    n_classes = min(plan.schema.n_combinations, 1.0 / (plan.ell * plan.p))
    most = max(least, plan.releases * union_bound(n_classes, plan.ell, plan.p, plan.records))
    if not _is_about(plan.failure_upper, min(least, 1.0), min(most, 1.0)):
        return _wrong(plan, f"{least:.4g}" if least == most else f"{least:.4g} to {most:.4g}")
    return None


def _is_about(number: float, least: float, most: float) -> bool:
    return least * (1.0 - _SLACK) <= number <= most * (1.0 + _SLACK)


def _wrong(plan: Plan, follows: str) -> str:
    return f"Its failure probability is {plan.failure_upper:.4g}; from its witness cells follows {follows}."


def _raised(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that cells can be: what is told as none is rarer than what is told as something."""
    least = cells[cells > 0.0].min(initial=1.0)
    raised: NDArray[np.float64] = np.minimum(np.maximum(_RAISED * cells, least), 1.0)
    return raised


def _table(plan: Plan, cells: NDArray[np.float64]) -> MassTable:
    """P(c, s) of the witnesses; other values count as impossible, as everywhere."""
    offsets, values, _ = plan.witness_arrays
    if plan.n_classes * plan.schema.n_values <= _MOST_DENSE:
        dense = np.zeros((plan.n_classes, plan.schema.n_values))
        dense[np.repeat(np.arange(plan.n_classes), np.diff(offsets)), values] = cells
        return dense
    from scipy.sparse import csr_array

    table = csr_array((cells, values, offsets), shape=(plan.n_classes, plan.schema.n_values), copy=True)
    table.eliminate_zeros()
    table.sort_indices()
    return SparseRows(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data, table.shape)


def _has_like_witnesses(plan: Plan) -> bool:
    """Whether a class of a plan counts two values of one group."""
    groups = plan.schema.sensitive.value_groups
    if groups is None or plan.ell == 1:
        return False
    own = groups.tolist()
    return any(len({own[value] for value in values}) < len(values) for values in set(plan.witnesses))
