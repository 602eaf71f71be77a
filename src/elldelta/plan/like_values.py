"""Plans that count groups of like values as one: at most one witness of each group in a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.core.checks import check_ell
from elldelta.core.like_values import one_of_each
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elldelta.core.distribution import JointDistribution
    from elldelta.model import Model
    from elldelta.plan.plan import Plan
    from elldelta.plan.wish import Wish


def plan_groups(model: Model, wish: Wish) -> tuple[JointDistribution, NDArray[np.int64] | None]:
    """What classes are planned with, and the groups of values that count as one; None if all count.

    Raises:
        ParameterError: The wish is for a plan that cannot count groups, or for more than there are.
    """
    past, groups = model.to_distribution(), model.schema.value_groups
    if groups is None or wish.ell == 1:  # closeness alone covers all groups at once
        return past, None
    if wish.bound != "sharp" or wish.closeness is not None or wish.history_confidence is not None:
        raise ParameterError(
            "A plan that counts groups of values uses the sharp bound, without closeness or a confidence in "
            "the history.",
            found=f"The values of {model.schema.sensitive.name!r} have groups.",
            remedy="Closeness alone (without ell) covers every group of values at once. Otherwise leave that "
            "out, or the groups.",
        )
    check_ell(wish.ell, model.schema.n_groups)
    return one_of_each(past, groups), groups


def has_like_witnesses(plan: Plan) -> bool:
    """Whether a class of a plan counts two values of one group."""
    groups = plan.schema.value_groups
    if groups is None or plan.ell == 1:
        return False
    own = groups.tolist()
    return any(len({own[value] for value in values}) < len(values) for values in set(plan.witnesses))
