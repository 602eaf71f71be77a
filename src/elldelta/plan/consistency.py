"""Whether the numbers of a plan follow from each other: whoever seals a plan again can write any into it.

Of a certified plan only what its promise is made of is looked at whenever it is read; that its chance of
passing follows from its witnesses, `elldelta.plan.failure` computes for whoever asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.witnesses import Witnesses
from elldelta.errors import FileError, counted

if TYPE_CHECKING:
    from elldelta.plan.columns import ColumnPlan
    from elldelta.plan.plan import Plan
    from elldelta.schema.column import Column

SLACK = 1e-6
"""How far numbers may be from what they are when they are computed again, relatively."""


def contradiction(plan: Plan, *, recompute: bool = True) -> str | None:
    """What in a plan does not follow from the rest, in words; None if all of it does.

    Args:
        plan: The plan.
        recompute: Whether to compute again how probably it fails, also where it is certified.
    """
    wrong = _wrong_terms(plan)
    for column, sensitive in zip(plan.columns, plan.schema.sensitives, strict=True):
        wrong = wrong or _wrong_witnesses(column, sensitive) or _wrong_closeness(plan, column)
    if wrong is not None:
        return wrong
    from elldelta.plan.movers import has_common_witnesses

    if not all(has_common_witnesses(plan, column) for column in plan.columns):
        return "Classes among which people move do not have their witnesses in common."
    if recompute or not plan.is_certified:
        from elldelta.plan.failure import wrong_failure

        for index in range(len(plan.columns)):
            wrong = wrong or wrong_failure(plan, index)
    for column in plan.columns:
        wrong = wrong or _wrong_budget(plan, column)
    return wrong


def _wrong_budget(plan: Plan, column: ColumnPlan) -> str | None:
    """A failure that is larger than what was asked for."""
    failure = column.failure_upper
    if failure <= plan.n_planned * plan.delta * (1.0 + SLACK):
        return None
    return (
        f"Its failure probability is {failure:.4g}, more than {counted(plan.n_planned, 'release')} of "
        f"{plan.delta:g} each allow."
    )


def _wrong_witnesses(column: ColumnPlan, sensitive: Column) -> str | None:
    """Witnesses that no distribution and no count of groups has."""
    total = column.past_counts.sum(dtype=np.float64) / column.past_records
    if total > 1.0 + SLACK:
        return f"Its witness cells add up to {total:.4g}, and probabilities to at most 1."
    groups = sensitive.value_groups
    if groups is None or column.ell == 1:
        return None
    if Witnesses(column.witnesses.counts, groups[column.witnesses.values]).repeat_any():
        return "A class counts two values of one group."
    return None


def _wrong_terms(plan: Plan) -> str | None:
    """Terms that no plan of this kind has: nothing would be computed from them."""
    terms = {
        "That classes move": plan.moving is not None,
        "More than one record per witness": plan.min_records > 1,
        "A past that noise protects": bool(plan.past),
        "That people move": plan.movers is not None,
        "A number of owners": plan.owners is not None,
        "Its closeness": plan.promises_closeness,
    }
    for words, is_there in terms.items():
        if is_there and not plan.is_certified:
            return f"{words} belongs to a certified plan."
    if plan.movers is not None and (plan.owners is not None or plan.promises_closeness):
        return "That people move belongs to a plan without a number of owners and without closeness."
    if plan.owners is not None and (plan.owners < 1 or plan.releases > 1):
        return "A number of owners belongs to a plan for one release."
    if plan.is_certified and plan.k < max(plan.ells) * plan.min_records:
        return "Its classes may hold fewer records than the values that they must show."
    return None


def _wrong_closeness(plan: Plan, column: ColumnPlan) -> str | None:
    """A closeness that no certified plan has."""
    if column.closeness is None:
        return None
    if plan.owners is not None:
        return "Its closeness belongs to a plan for a number of releases."
    if column.closeness.past_sizes.sum(dtype=np.float64) > column.past_records * (1.0 + SLACK):
        return "The shares of its classes add up to more than 1."
    if plan.moving is not None and plan.records < plan.k:
        return f"A release of {counted(plan.records, 'record')} cannot show {plan.k}."
    return None


def check_numbers(plan: Plan, source: str = "The plan") -> Plan:
    """Returns a plan all of whose numbers follow from each other; its failure is computed again.

    Raises:
        FileError: One of them does not follow.
    """
    problem = contradiction(plan)
    if problem is not None:
        raise contradicting(source, problem)
    return plan


def contradicting(source: str, problem: str) -> FileError:
    """The error for a plan whose numbers do not follow from each other."""
    return FileError(
        f"{source} contradicts itself.",
        found=problem,
        remedy="Do not rely on it; fetch the original from whoever made it.",
    )
