"""Use case: what releases of one or several plans promise together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elldelta.core.accountant import ReleaseEvent, profile_of
from elldelta.core.partition import Partition
from elldelta.errors import ParameterError, RefusedError
from elldelta.files import loaded
from elldelta.plan.common_cells import common_cells
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from elldelta.core.accountant import Profile

CONDITIONS = (
    "Each release follows its plan and has at least as many records as the plan asks for.",
    "The records of each release are independent draws from the distribution its plan was made for.",
    "Releases may share people in any way, and may even be copies of each other.",
    "Nobody's quasi-identifiers change between releases, also where a plan allows for it.",
)
"""What must be true for a composed profile."""


@dataclass(frozen=True, eq=False)
class Composed:
    """The profile of all releases together, and what it assumes."""

    profile: Profile
    conditions: tuple[str, ...] = CONDITIONS

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain JSON values."""
        failures = self.profile.failures_upper.tolist()
        return {
            "releases": self.profile.releases,
            "profile": [{"ell": ell, "delta": failure} for ell, failure in enumerate(failures, start=1)],
            "conditions": list(self.conditions),
        }


def compose(releases: Sequence[tuple[Plan | str | os.PathLike[str], int]]) -> Composed:
    """For every ell, how likely linking so many releases of these plans leaves fewer than ell values.

    Plans may have different classes; then the classes of the linkage are the intersections. Only witness
    values count, because a plan tells the probabilities of no others: the result errs upwards.

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
    cells = common_cells(plans[0].schema, [plan.classes for plan in plans])
    made = [
        ReleaseEvent(Partition(class_of), plan.cells(), plan.records, number)
        for plan, (_, number), class_of in zip(plans, releases, cells, strict=True)
    ]
    return Composed(profile_of(made, max(plan.eta for plan in plans)))
