"""Theorem W: mean weights of records that no single weight can be read from.

Every record weighs more than 0 and at most a step. Records are put into groups of at least so many, which
depend on published counts only; of every group its total weight is shown in whole steps, never 0 and never as
many as it has records. So whatever somebody weighs, the same numbers could have been shown of any group with
that person in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNITS = 10**9
"""So many units are a step: weights are added up as whole numbers, so that their order does not matter."""


@dataclass(frozen=True, eq=False)
class MeanWeights:
    """What a release shows of the weights of its records.

    Attributes:
        group_of: The group of every class and value, or only of every class; -1 where there is no record.
        records: The records of every group.
        steps: The total weight of every group, in whole steps.
        step: The largest weight of a record.
    """

    group_of: NDArray[np.int64]
    records: NDArray[np.int64]
    steps: NDArray[np.int64]
    step: float

    def __post_init__(self) -> None:
        for name in ("group_of", "records", "steps"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64, copy=True))
        if ((self.steps < 1) | (self.steps > np.maximum(1, self.records - 1))).any():
            raise InternalError("A total weight would tell the weights of single records.")

    @classmethod
    def groups_of(cls, counts: NDArray[np.int64], fewest: int, step: float) -> MeanWeights:
        """The groups that counts lead to, as if every group weighed one step."""
        group_of = weight_groups(counts, fewest)
        filled = group_of >= 0
        records = np.zeros(int(group_of.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(records, group_of[filled], counts[filled])
        return cls(group_of, records, np.ones_like(records), step)

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """The mean weight of every group."""
        return self.step * self.steps / self.records

    def groups(self, classes: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group of every pair of a class and a value."""
        found: NDArray[np.int64] = self.group_of[classes, values if self.group_of.shape[1] > 1 else 0]
        return found


def mean_weights(
    counts: NDArray[np.int64], units: NDArray[np.int64], step: float, fewest: int
) -> MeanWeights:
    """The mean weights that may be shown beside counts (Theorem W).

    Args:
        counts: Records by class and value.
        units: Their weights, added up, in units of which `UNITS` are a step.
        step: The largest weight of a record.
        fewest: So many records at least share a mean.
    """
    groups = MeanWeights.groups_of(counts, fewest, step)
    filled = groups.group_of >= 0
    totals = np.zeros_like(groups.records)
    np.add.at(totals, groups.group_of[filled], units[filled])
    steps = np.clip((totals + UNITS // 2) // UNITS, 1, np.maximum(1, groups.records - 1))
    return replace(groups, steps=steps)


def weight_groups(counts: NDArray[np.int64], fewest: int) -> NDArray[np.int64]:
    """Which values of which classes share a mean weight; -1 where there is no record.

    Class by class, and in each from the rarest value to the most frequent: a group is closed as soon as it
    holds enough records. What is left at the end of a class joins its last group, or, if it has none, goes on
    to the next class; what is left at the very end joins the last group of all.
    """
    classes, values = np.nonzero(counts)
    n = counts[classes, values]
    order = np.lexsort((values, n, classes))
    number = np.zeros(n.size, dtype=np.int64)
    held, start, n_groups, last_class, closed_in = 0, 0, 0, -1, -1
    for place, (each_class, records) in enumerate(
        zip(classes[order].tolist(), n[order].tolist(), strict=True)
    ):
        if each_class != last_class:
            if closed_in == last_class:
                number[start:place] = n_groups - 1
                start, held = place, 0
            last_class = each_class
        held += records
        if held >= fewest:
            number[start : place + 1] = n_groups
            start, held, n_groups, closed_in = place + 1, 0, n_groups + 1, each_class
    number[start:] = max(n_groups - 1, 0)
    group_of = np.full(counts.shape, -1, dtype=np.int64)
    group_of[classes[order], values[order]] = number
    return group_of
