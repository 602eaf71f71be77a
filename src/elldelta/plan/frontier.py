"""Use case: how many classes how many records buy, under each bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.engines.task import computed, part
from elldelta.errors import RefusedError
from elldelta.files import loaded
from elldelta.model import Model, read_model
from elldelta.pages.page import Shown
from elldelta.plan.planner import Planner
from elldelta.plan.wish import Wish

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from elldelta.choices import PlanBound, ShapeName
    from elldelta.engines import Progress


MOST_CELLS = 1 << 17
"""Cells of the model, times numbers of records, that are searched thoroughly without being asked to."""


@dataclass(frozen=True)
class FrontierRow:
    """What each bound can promise for so many records; None where it can promise nothing.

    Attributes:
        records: The number of records.
        classes: The classes of the plan, by bound.
        failures_upper: The failure after linkage that it promises at most, by bound.
    """

    records: int
    classes: Mapping[PlanBound, int | None]
    failures_upper: Mapping[PlanBound, float | None]

    def to_list(self) -> list[dict[str, Any]]:
        """One entry per bound, as plain JSON values."""
        return [
            {
                "bound": bound,
                "classes": n_classes,
                "records": self.records,
                "failure_upper": self.failures_upper[bound],
            }
            for bound, n_classes in self.classes.items()
        ]


@dataclass(frozen=True, repr=False)
class Frontier(Shown):
    """Classes against records for one model, ell, delta and number of releases.

    Attributes:
        ell: Sensitive values to be left.
        delta: Failure probability of one release.
        releases: How many releases may be linked.
        shape: The shape of the classes.
        exact: Whether the numbers of classes are those of plans, or nearly so.
        rows: One for each number of records.
    """

    ell: int
    delta: float
    releases: int
    shape: ShapeName
    exact: bool
    rows: tuple[FrontierRow, ...]

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {"ell": self.ell, "releases": self.releases, "delta": self.delta, "shape": self.shape}

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """The classes for each number of records, by bound."""
        bounds = tuple(self.rows[0].classes) if self.rows else ()
        return ("records", *bounds), [(row.records, *map(row.classes.get, bounds)) for row in self.rows]

    def plot(self) -> Figure:
        """Classes against records."""
        from elldelta.pages.charts import draw_frontier

        curves = {str(bound): [row.classes[bound] for row in self.rows] for bound in self.rows[0].classes}
        title = (
            f"Classes against records: ℓ = {self.ell}, {self.releases} linked releases, "
            f"δ = {self.delta:g} each"
        )
        return draw_frontier([row.records for row in self.rows], curves, title)

    def to_dict(self) -> dict[str, Any]:
        """The frontier as plain JSON values."""
        points = [{"records": row.records, **row.classes} for row in self.rows]
        return {
            "ell": self.ell,
            "delta": self.delta,
            "releases": self.releases,
            "shape": self.shape,
            "exact": self.exact,
            "points": points,
        }


def frontier(
    model: Model | str | os.PathLike[str],
    *,
    ell: int,
    delta: float = 0.01,
    releases: int = 1,
    records: Sequence[int] | None = None,
    eta: float = 0.0,
    shape: ShapeName | None = None,
    n_points: int = 12,
    exact: bool = False,
    progress: Progress | None = None,
) -> Frontier:
    """Classes under each bound for several numbers of records.

    Args:
        model: The model, or its file.
        ell: Sensitive values to be left.
        delta: Failure probability of one release.
        releases: How many releases may be linked.
        records: The numbers of records to try; by default `n_points` of them, from the fewest that promise
            anything to ten times the records of the model.
        eta: An error of the model in total variation.
        shape: The shape of the classes; as for a plan by default.
        n_points: How many numbers of records to try by default.
        exact: Whether boxes are searched as thoroughly as for a plan even where that takes long. Without it
            models with many combinations are searched ten times as fast, or faster, and a plan may have
            about a tenth more or fewer classes than is told here.
        progress: Is told how far the work is.
    """
    wish = Wish(ell=ell, delta=delta, releases=releases, eta=eta, shape=shape, classes=1)
    tried = [replace(wish, classes=None, records=number).records or 0 for number in records or ()]
    past = loaded(model, Model, read_model)

    def rows(tell: Progress) -> tuple[Planner, list[FrontierRow]]:
        planner = Planner(past, wish)
        numbers = tried
        if records is None:
            fewest = planner.records()
            most = 10 * max(past.n_records, fewest)
            numbers = np.unique(np.geomspace(fewest, most, n_points).astype(int)).tolist()
        n_cells = len(past.ranks) * past.schema.n_values * len(numbers)
        planner.is_draft = planner.shape == "boxes" and n_cells > MOST_CELLS and not exact
        return planner, list(frontier_rows(planner, numbers, tell))

    planner, found = computed(rows, progress)
    drafted = planner.is_draft
    return Frontier(
        wish.largest_ell, wish.release_failure, wish.releases, planner.shape, not drafted, tuple(found)
    )


def frontier_rows(
    planner: Planner, records: Sequence[int], progress: Progress | None = None
) -> Iterator[FrontierRow]:
    """What each bound gives for each number of records, one after the other: it may take a while."""
    n_plans = len(records) * len(planner.bounds)
    for place, n_records in enumerate(records):
        classes: dict[PlanBound, int | None] = {}
        failures: dict[PlanBound, float | None] = {}
        for turn, bound in enumerate(planner.bounds):
            n_before = place * len(planner.bounds) + turn
            planner.progress = part(progress, n_before / n_plans, (n_before + 1) / n_plans)
            try:
                made = planner.plan(bound, n_records)
            except RefusedError:
                classes[bound] = failures[bound] = None
            else:
                classes[bound], failures[bound] = made.n_classes, made.failure_upper
        yield FrontierRow(n_records, classes, failures)
