"""Plans for people who move: which classes share their witnesses, and what is said about it (Theorem H)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.movers import CommonWitnesses, ranges_of
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.parameters import Movers
    from elldelta.plan.classes import Classes
    from elldelta.plan.columns import ColumnPlan
    from elldelta.plan.plan import Plan
    from elldelta.plan.wish import Wish
    from elldelta.schema.schema import Schema


def movers_of(wish: Wish, schema: Schema) -> Movers | None:
    """Who moves in a plan: as the wish says, or as the schema declares; None if nobody does.

    Raises:
        ParameterError: People move, and the wish is for a plan that cannot allow for it.
    """
    movers = wish.movers
    if movers == "declared" and not schema.changing:
        return None
    if wish.closeness is not None:
        raise ParameterError(
            "A plan does not promise closeness to people who move.",
            found="A closeness is asked for, and people move among classes with references of their own.",
            remedy="Ask for ell alone, or replace what changes by what does not, such as a birth year.",
        )
    if not wish.is_certified or wish.owners is not None:
        raise ParameterError(
            "A plan for people who move is certified, and not for owners.",
            found="Anything may change about people."
            if movers == "any"
            else f"The schema says what may change: {', '.join(map(repr, schema.changing))}.",
            remedy="Ask for such a plan, with the number of releases that may be linked. Or replace what "
            "changes by what does not, such as a birth year, and remove 'changes = true'.",
        )
    return movers


def range_numbers(schema: Schema, classes: Classes, movers: Movers | None) -> NDArray[np.int64] | None:
    """Per class the number of the classes among which somebody there may move; None if nobody moves."""
    if movers is None:
        return None
    if movers == "any":
        return np.zeros(classes.n_classes, dtype=np.int64)
    stays = [place for place, column in enumerate(schema.quasi_identifiers) if not column.changes]
    return ranges_of(*classes.hulls(schema), stays)


def has_common_witnesses(plan: Plan, column: ColumnPlan) -> bool:
    """Whether classes among which people move have their witnesses in common."""
    common = common_of(plan, column)
    return common is None or column.witnesses.same_sets(common.witnesses.at(common.range_of))


def common_of(plan: Plan, column: ColumnPlan) -> CommonWitnesses | None:
    """The witnesses of a column that classes of a plan have in common; None if nobody moves."""
    ranges = range_numbers(plan.schema, plan.classes, plan.movers)
    if ranges is None:
        return None
    _, firsts = np.unique(ranges, return_index=True)
    return CommonWitnesses(ranges, column.witnesses.at(firsts))
