"""Use case: what releases of one or several plans promise together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.accountant import ReleaseEvent, profile_of
from elldelta.core.closeness import distances_between
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError, RefusedError
from elldelta.files import loaded
from elldelta.plan.closeness import Closeness
from elldelta.plan.columns import APART
from elldelta.plan.common_cells import common_cells
from elldelta.plan.plan import Plan, read_plan
from elldelta.plan.words import in_one_sentence

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from elldelta.core.accountant import Profile

CONDITIONS = (
    "Each release follows its plan and has at least as many records as the plan asks for.",
    "The records of each release are independent draws from the distribution its plan was made for.",
    "Releases may share people in any way, and may even be copies of each other, but no release minus "
    "another may isolate a group that shows fewer values than are promised.",
    "Nobody's quasi-identifiers change between releases, also where a plan allows for it.",
)
"""What must be true for a composed profile."""

UNCHECKED = (
    "Nobody has checked the releases: the probabilities count also those that the certificate of their plan "
    "refuses."
)
"""Of certified plans: what the probabilities are about."""


@dataclass(frozen=True)
class LinkedCloseness:
    """How far all releases together can lead from what one of the plans says (Theorem G).

    Attributes:
        plan: The digest of the plan whose references are meant.
        promised: What the plan promises by itself, for as many releases as it was made for.
        distance_upper: The bound for all releases, in the class where it is largest; None if there is none,
            because it would be 1 or more, or because another plan promises no closeness.
    """

    plan: str
    promised: float
    distance_upper: float | None


@dataclass(frozen=True, eq=False)
class ComposedColumn:
    """What all releases together leave of one sensitive column.

    Attributes:
        column: Its name.
        profile: For every ell the failure of all releases together.
        closeness: How close they stay to what each plan says.
    """

    column: str
    profile: Profile
    closeness: tuple[LinkedCloseness, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain JSON values."""
        failures = self.profile.failures_upper.tolist()
        return {
            "column": self.column,
            "profile": [{"ell": ell, "delta": failure} for ell, failure in enumerate(failures, start=1)],
            "closeness": [asdict(item) for item in self.closeness],
        }


@dataclass(frozen=True, eq=False)
class Composed:
    """What all releases together leave of every sensitive column, and what that assumes.

    Attributes:
        releases: How many releases there are.
        columns: What they leave of every sensitive column.
        conditions: What must be true.
    """

    releases: int
    columns: tuple[ComposedColumn, ...]
    conditions: tuple[str, ...] = CONDITIONS

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain JSON values."""
        return {
            "releases": self.releases,
            "columns": [column.to_dict() for column in self.columns],
            "conditions": list(self.conditions),
        }


def compose(releases: Sequence[tuple[Plan | str | os.PathLike[str], int]]) -> Composed:
    """For every ell, how likely linking so many releases of these plans leaves fewer than ell values.

    Plans may have different classes; then the classes of the linkage are the intersections. Only witness
    values count, because a plan tells the probabilities of no others: the result errs upwards.

    Closeness adds up: each release costs what its plan allows it by itself, and a release of another plan
    also the distance between the references of the two plans.

    Args:
        releases: Pairs of a plan, or its file, and the number of its releases.
    """
    if not releases:
        raise ParameterError("At least one plan is needed.", found="None was given.")
    plans = [loaded(plan, Plan, read_plan) for plan, _ in releases]
    if len({plan.schema.digest for plan in plans}) > 1:
        raise ParameterError(
            "Only plans with the same schema can be composed.",
            found="The plans describe their columns differently.",
            remedy="Make the plans from models that use one schema.",
        )
    if any(plan.past for plan in plans):
        raise RefusedError(
            "Plans from models with noise are not composed.",
            found="How likely releases miss values would be computed from numbers that noise has changed.",
            remedy="Rely on certificates, which add up without any model, or on a ledger.",
        )
    numbers = [number for _, number in releases]
    conditions: tuple[str, ...] = CONDITIONS
    if any(plan.is_certified for plan in plans):
        conditions = (f"{UNCHECKED}{_if_checked(plans, numbers)}", *conditions)
    if any(plan.promises_closeness for plan in plans):
        conditions = (*conditions, Closeness.CONDITION)
    if len(plans[0].columns) > 1:
        conditions = (*conditions, APART)
    cells = common_cells(plans[0].schema, [plan.classes for plan in plans])
    columns = tuple(_composed_column(plans, numbers, cells, index) for index in range(len(plans[0].columns)))
    return Composed(sum(numbers), columns, conditions)


def _if_checked(plans: Sequence[Plan], numbers: Sequence[int]) -> str:
    """What a certified plan promises of so many releases that pass; nothing of several plans, or of more."""
    if len(plans) > 1 or (plans[0].owners is None and numbers[0] > plans[0].releases):
        return ""
    [plan] = plans
    near = (None if column.closeness is None else column.closeness.limit for column in plan.columns)
    promised = in_one_sentence(
        zip(map(repr, plan.schema.sensitive_names), plan.ells, near, strict=True),
        releases=plan.releases,
        failure_upper=None,
        by_ledger=plan.owners is not None,
    )
    return f" Of those that pass it: {promised[0].lower()}{promised[1:]}"


def _composed_column(
    plans: Sequence[Plan], numbers: Sequence[int], cells: Sequence[NDArray[np.int64]], index: int
) -> ComposedColumn:
    """What so many releases of each plan leave of one sensitive column."""
    sensitive = plans[0].schema.sensitives[index]
    events = [
        ReleaseEvent(Partition(class_of), plan.columns[index].cells(sensitive.size), plan.records, number)
        for plan, number, class_of in zip(plans, numbers, cells, strict=True)
    ]
    closeness = tuple(_linked_closeness(plans, numbers, cells, index))
    return ComposedColumn(sensitive.name, profile_of(events), closeness)


def _linked_closeness(
    plans: Sequence[Plan], numbers: Sequence[int], cells: Sequence[NDArray[np.int64]], index: int
) -> Iterator[LinkedCloseness]:
    """For every plan with references: what each release may use, and the way between references, added up."""
    each = [plan.columns[index].closeness for plan in plans]
    for plan, near, class_of in zip(plans, each, cells, strict=True):
        if near is None:
            continue
        total: NDArray[np.float64] = np.zeros(len(class_of))
        for other, made_with, number, other_of in zip(each, plans, numbers, cells, strict=True):
            if other is None:
                total += np.inf
                continue
            between = distances_between(
                near.class_shares(plan.n_classes)[class_of],
                other.class_shares(made_with.n_classes)[other_of],
            )
            total += number * (float(other.exact_limit / made_with.releases) + between)
        distance = float(total.max()) * (1.0 + 1e-12)
        yield LinkedCloseness(plan.digest, near.limit, distance if distance < 1.0 else None)
