"""What a wish asks of every sensitive column, and which of its values count as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import check_ell
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.plan.wish import Wish
    from elldelta.schema.column import Column
    from elldelta.schema.schema import Schema


def plan_groups(schema: Schema, wish: Wish) -> NDArray[np.int64] | None:
    """The groups of values that count as one; None if all count.

    Raises:
        ParameterError: The wish is for a plan that cannot count groups, or for more than there are.
    """
    groups, counted = np.arange(schema.n_values), False
    for place, (column, values) in enumerate(zip(schema.sensitives, schema.value_slices, strict=True)):
        column_wish = wish_for_column(wish, schema, place)
        if column.value_groups is None or column_wish.ell == 1:  # closeness alone covers all groups at once
            continue
        _check_groups(column_wish, column)
        groups[values], counted = column.value_groups + values.start, True
    return groups if counted else None


def _check_groups(wish: Wish, column: Column) -> None:
    """Refuses a wish for more groups of values than there are, or for a plan that cannot count them."""
    if wish.kind == "paper" or wish.closeness is not None:
        raise ParameterError(
            "A plan that counts groups of values is certified or probabilistic, without closeness.",
            found=f"The values of {column.name!r} have groups.",
            remedy="Closeness alone (without ell) covers every group of values at once. Otherwise leave that "
            "out, or the groups.",
        )
    check_ell(wish.ell, column.n_groups)


def wish_for_column(wish: Wish, schema: Schema, index: int) -> Wish:
    """What a wish asks of one of several sensitive columns.

    Raises:
        ParameterError: A number is given for some columns only, or a name is not known.
    """
    names = schema.sensitive_names
    numbers = {
        name: numbers_by_column(name, getattr(wish, name), names)[index] for name in ("ell", "closeness")
    }
    return replace(wish, **numbers, k=wish.least_records if wish.is_certified else None)


def check_several_columns(wish: Wish, names: Sequence[str]) -> None:
    """Refuses a way of planning that is not computed for several sensitive columns."""
    others = {"kind": wish.kind == "paper", "owners": wish.owners is not None}
    if any(others.values()):
        raise ParameterError(
            "For several sensitive columns plans are certified or probabilistic, for a number of releases.",
            found=f"{', '.join(name for name in others if others[name])} asks for something else; "
            f"the sensitive columns are {', '.join(map(repr, names))}.",
            remedy="Leave these choices out, or make a plan for one sensitive column.",
            parameter=tuple(name for name in others if others[name]),
        )


def numbers_by_column(name: str, value: Any, columns: Sequence[str]) -> list[Any]:  # noqa: ANN401 (numbers)
    """What is asked of every sensitive column: one number for all, or one for each by its name."""
    if not isinstance(value, Mapping):
        return [value] * len(columns)
    if set(value) != set(columns):
        raise ParameterError(
            f"Give {name} for every sensitive column by its name, or one number for all.",
            found=f"It is given for {', '.join(map(repr, value)) or 'none'}.",
            remedy=f"The sensitive columns are {', '.join(map(repr, columns))}.",
            parameter=name,
        )
    return [value[column] for column in columns]
