"""Use case: how many classes how many records buy, in certified plans and by the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import MOST_RECORDS, check_whole
from elldelta.core.generalize.boxes import EFFORT
from elldelta.engines.task import computed, part
from elldelta.errors import RefusedError, counted
from elldelta.files import loaded
from elldelta.model import Past, RegionalModel, read_past
from elldelta.pages.page import Displayed
from elldelta.parameters import with_keywords
from elldelta.plan.planner import Planner
from elldelta.plan.wish import FrontierWish, Wish

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from elldelta.engines import Progress
    from elldelta.parameters import PlanKind


MOST_CELLS = 1 << 17
"""Cells of the model, times numbers of records, that are searched thoroughly without being asked to."""


@dataclass(frozen=True)
class FrontierRow:
    """What each kind of plan can promise for so many records; None where it can promise nothing.

    Attributes:
        records: The number of records.
        classes: The classes of the plan, by kind.
    """

    records: int
    classes: Mapping[PlanKind, int | None]


@dataclass(frozen=True, repr=False)
class Frontier(Displayed):
    """Classes against records for one model, ell, delta and number of releases.

    Attributes:
        ell: Sensitive values to be left.
        delta: Failure probability of one release.
        releases: How many releases may be linked.
        exact: Whether the numbers of classes are those of plans, or nearly so.
        rows: One for each number of records.
    """

    ell: int
    delta: float
    releases: int
    exact: bool
    rows: tuple[FrontierRow, ...]

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {"ell": self.ell, "releases": self.releases, "delta": self.delta}

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """The classes for each number of records, by kind of plan."""
        kinds = tuple(self.rows[0].classes) if self.rows else ()
        return ("records", *kinds), [(row.records, *map(row.classes.get, kinds)) for row in self.rows]

    def plot(self) -> Figure:
        """Classes against records."""
        from elldelta.pages.charts import draw_frontier

        curves = {str(kind): [row.classes[kind] for row in self.rows] for kind in self.rows[0].classes}
        title = (
            f"Classes against records: ℓ = {self.ell}, {counted(self.releases, 'linked release')}, "
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
            "exact": self.exact,
            "points": points,
        }


@dataclass(frozen=True, kw_only=True)
class FrontierArguments(FrontierWish):
    """The keywords of `frontier`: what it is about, and what does not belong to it.

    Attributes:
        n_points: How many numbers of records to try if none are given.
        progress: Is told how far the work is.
    """

    n_points: int = 12
    progress: Progress | None = None


def _frontier(model: Past | str | os.PathLike[str], arguments: FrontierArguments) -> Frontier:
    """Classes of certified plans, and of the paper, for several numbers of records."""
    given = arguments.records
    tried = [check_whole("the number of records", number, 1, MOST_RECORDS) for number in given or ()]
    wish = Wish(ell=arguments.ell, delta=arguments.delta, releases=arguments.releases, records=1)
    past = loaded(model, Past, read_past, "Model")  # type: ignore[type-abstract]

    def rows(tell: Progress) -> tuple[Planner, list[FrontierRow]]:
        planner = Planner(past, wish)
        numbers = tried
        if given is None:
            fewest = planner.fewest_records()
            most = 10 * max(past.n_records, fewest)
            numbers = np.unique(np.geomspace(fewest, most, arguments.n_points).astype(int)).tolist()
        if not arguments.exact:
            planner.effort = frontier_effort(past, len(numbers))
        return planner, list(_rows(planner, numbers, tell))

    planner, found = computed(rows, arguments.progress)
    return Frontier(wish.largest_ell, wish.delta, wish.n_linked, planner.effort > 0, tuple(found))


frontier = with_keywords(FrontierArguments, _frontier)
"""Classes of certified plans, and of the paper, for several numbers of records.

It takes a model, its file or its folder, and as keywords the fields of `FrontierWish` and
`FrontierArguments`.
"""


def frontier_effort(model: Past, n_plans: int) -> int:
    """How much is searched for each of so many plans: as usual, or, where that takes long, much less."""
    return EFFORT if model.n_combinations * model.schema.n_values * n_plans <= MOST_CELLS else 0


def _rows(planner: Planner, records: Sequence[int], progress: Progress) -> Iterator[FrontierRow]:
    """What each kind of plan gives for each number of records, one after the other: it may take a while."""
    # The paper has one sensitive column, nobody who moves, and no regions.
    is_plain = (
        planner.movers is None and planner.n_columns == 1 and not isinstance(planner.model, RegionalModel)
    )
    kinds: tuple[PlanKind, ...] = ("paper", "certified") if is_plain else ("certified",)
    n_plans = len(records) * len(kinds)
    for place, n_records in enumerate(records):
        classes: dict[PlanKind, int | None] = {}
        for n_before, kind in enumerate(kinds, start=place * len(kinds)):
            planner.progress = part(progress, n_before / n_plans, (n_before + 1) / n_plans)
            try:
                classes[kind] = planner.plan(kind, n_records).n_classes
            except RefusedError:
                classes[kind] = None
        yield FrontierRow(n_records, classes)
