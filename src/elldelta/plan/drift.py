"""Use case: is a model still good? How newer records differ from it, and what that means for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.occupancy import count_chances
from elldelta.errors import counted
from elldelta.files import loaded
from elldelta.model import Model, read_model, reordered
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

N_DRAWS = 99
"""How often both models are drawn again from what they have in common: alarms by chance are 1 in 100."""

WORSE = 1.25
"""By what factor more classes must be expected to fail before a plan is called old."""

MORE_REFUSED = 0.05
"""And by how much more besides, where one class that fails is enough for a refusal; one class otherwise."""

MOST_SHOWN = 10
"""Classes that are listed."""


@dataclass(frozen=True)
class ColumnDrift:
    """How a column, together with the sensitive one, is distributed now.

    Attributes:
        name: The column.
        distance: Total variation between past and newer records: 0 is the same, 1 nothing in common.
        by_chance: What samples of these sizes from one distribution reach in 1 of 100 cases.
    """

    name: str
    distance: float
    by_chance: float

    @property
    def has_changed(self) -> bool:
        """Whether it differs by more than chance."""
        return self.distance > self.by_chance


@dataclass(frozen=True)
class PlanDrift:
    """What newer records mean for a plan.

    Attributes:
        classes: The classes of the plan.
        is_fixed: Whether a class that does not pass means that the release is refused; otherwise it moves up.
        failing_before: Classes that are expected not to pass, if an owner's records are like the past.
        failing_now: The same if they are like the newer ones.
        passing_before: The chance that all classes pass by themselves, if they are like the past.
        passing_now: The same if they are like the newer ones.
        worst: Labels of the classes that have become most likely to fail, with both chances.
    """

    classes: int
    is_fixed: bool
    failing_before: float
    failing_now: float
    passing_before: float
    passing_now: float
    worst: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class Drift:
    """A model beside a newer one.

    Attributes:
        columns: Every quasi-identifier with the sensitive column, and that by itself.
        plan: What it means for a plan, if one was given.
    """

    columns: tuple[ColumnDrift, ...]
    plan: PlanDrift | None = None

    @property
    def has_changed(self) -> bool:
        """Whether some column differs by more than chance."""
        return any(column.has_changed for column in self.columns)

    @property
    def is_old(self) -> bool:
        """Whether a new model is needed: people have changed and, where there is a plan, it suffers."""
        if self.plan is None:
            return self.has_changed
        more = MORE_REFUSED if self.plan.is_fixed else 1.0
        return self.has_changed and self.plan.failing_now > WORSE * self.plan.failing_before + more

    @property
    def words(self) -> str:
        """The verdict, in a sentence."""
        if not self.has_changed:
            return "The model is still good: nothing differs by more than chance."
        if not self.is_old:
            return "People have changed, and the plan still fits them: about as many classes will pass."
        if self.plan is None:
            return "People have changed by more than chance. Estimate again before the next plan."
        found = (
            f"a release will be refused with a chance of about {1.0 - self.plan.passing_now:.0%}, and "
            f"{1.0 - self.plan.passing_before:.0%} was expected"
            if self.plan.is_fixed
            else f"about {self.plan.failing_now:,.0f} of "
            f"{counted(self.plan.classes, 'class', 'classes')} will move up, "
            f"and {self.plan.failing_before:,.0f} were expected"
        )
        return (
            f"The model is out of date: {found}. Estimate again, and plan anew. What certified releases "
            "promise does not depend on it."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain JSON values."""
        return {
            "columns": [{**vars(column), "changed": column.has_changed} for column in self.columns],
            "changed": self.has_changed,
            "old": self.is_old,
            "plan": None
            if self.plan is None
            else {**vars(self.plan), "worst": [*map(list, self.plan.worst)]},
        }

    def plot(self) -> Figure:
        """How far every column is from the past, beside what chance explains."""
        from elldelta.pages.charts import draw_drift

        return draw_drift(
            [column.name for column in self.columns],
            [column.distance for column in self.columns],
            [column.by_chance for column in self.columns],
        )


def drift(
    past: Model | str | os.PathLike[str],
    newer: Model | str | os.PathLike[str],
    plan: Plan | str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
) -> Drift:
    """Compares a model with a newer one of the same schema.

    Args:
        past: The model that plans were made from, or its file.
        newer: A model of newer records, or its file.
        plan: A plan, to see what it means for its classes.
        seed: Of the draws that say what chance explains.
    """
    first = loaded(past, Model, read_model)
    second = reordered(loaded(newer, Model, read_model), first.schema)
    columns = tuple(_column_drift(first, second, np.random.default_rng(seed)))
    if plan is None:
        return Drift(columns)
    known = loaded(plan, Plan, read_plan)
    return Drift(columns, _plan_drift(known, *(reordered(model, known.schema) for model in (first, second))))


def _column_drift(first: Model, second: Model, random: np.random.Generator) -> list[ColumnDrift]:
    schema, found = first.schema, []
    sizes = [model.n_records for model in (first, second)]
    for place, name in enumerate((*schema.names, schema.sensitive.name)):
        one, other = (_table(model, place) for model in (first, second))
        pooled = (one * sizes[0] + other * sizes[1]) / sum(sizes)
        drawn = [random.multinomial(size, pooled / pooled.sum(), N_DRAWS) / size for size in sizes]
        by_chance = np.abs(drawn[0] - drawn[1]).sum(axis=1) / 2.0
        found.append(ColumnDrift(name, float(np.abs(one - other).sum() / 2.0), float(by_chance.max())))
    return found


def _table(model: Model, place: int) -> NDArray[np.float64]:
    """Shares of a column with the sensitive values; of these by themselves after the last column."""
    counts, n_values = model.counts, model.schema.n_values
    if place == len(model.schema.sizes):
        return np.asarray(np.bincount(counts.values, counts.n, n_values) / counts.n.sum())
    index = counts.positions[counts.rows, place] * n_values + counts.values
    table = np.bincount(index, counts.n, model.schema.sizes[place] * n_values)
    return np.asarray(table / counts.n.sum())


def _plan_drift(plan: Plan, *models: Model) -> PlanDrift:
    before, now = (
        _failing_in_any(
            failing_chances(plan, index, _witness_cells(plan, model, index), plan.records, model.n_records)
            for index in range(len(plan.columns))
        )
        for model in models
    )
    worst = np.argsort(before - now, kind="stable")[:MOST_SHOWN].tolist()
    labels = plan.labels
    return PlanDrift(
        plan.n_classes,
        plan.moving is None,
        float(before.sum()),
        float(now.sum()),
        float(np.prod(1.0 - before)),
        float(np.prod(1.0 - now)),
        tuple(
            (", ".join(labels[row]), float(before[row]), float(now[row]))
            for row in worst
            if now[row] > before[row]
        ),
    )


def _failing_in_any(chances: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The chance of every class to fail in any sensitive column, about."""
    passing = np.prod([1.0 - failing for failing in chances], axis=0)
    return np.asarray(1.0 - passing)


def _witness_cells(plan: Plan, model: Model, index: int) -> NDArray[np.float64]:
    counts, witnesses = model.counts, plan.columns[index].witnesses
    table = plan.schema.by_column(counts.by_class(plan.class_of(counts.ranks), plan.n_classes))[index]
    cells: NDArray[np.float64] = table[witnesses.classes, witnesses.values] / table.sum()
    return cells


def failing_chances(
    plan: Plan, index: int, cells: NDArray[np.float64], n_records: int, n_past: int | None = None
) -> NDArray[np.float64]:
    """The chance of every class to miss more witnesses than it may, about: values as if independent.

    Args:
        plan: The plan.
        index: The sensitive column.
        cells: The share of each witness.
        n_records: The records of the owner.
        n_past: How many records the shares come from: they are a sample, and a value that occurred five times
            in it may be rarer (the predictive distribution, with Jeffreys' prior). None: they are exact.
    """
    from scipy.stats import binom, nbinom

    column, chances, fewest = plan.columns[index], np.zeros(plan.n_classes), plan.min_records - 1
    if n_past is None:
        missing = np.asarray(binom.cdf(fewest, n_records, cells))
    else:
        missing = np.asarray(nbinom.cdf(fewest, cells * n_past + 0.5, n_past / (n_past + n_records)))
    allowances = np.maximum(0, column.witnesses.counts - column.ell) // plan.releases
    for row, (start, stop) in enumerate(pairwise(column.witnesses.offsets.tolist())):
        some = count_chances(missing[start:stop], int(allowances[row]))
        chances[row] = max(0.0, 1.0 - float(some.sum()))
    return chances
