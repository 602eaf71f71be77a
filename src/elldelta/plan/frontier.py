"""Use case: classes and loss of the plans of one wish, and of the paper's, by number of records."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.checks import MOST_RECORDS, check_whole
from elldelta.engines.task import computed, part
from elldelta.errors import RefusedError, counted
from elldelta.files import loaded
from elldelta.model import Past, RegionalModel, read_past
from elldelta.pages.page import Displayed
from elldelta.parameters import with_keywords
from elldelta.plan.planner import Planner
from elldelta.plan.wish import FrontierWish, Terms

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from elldelta.engines import Progress
    from elldelta.parameters import PlanKind


@dataclass(frozen=True)
class FrontierRow:
    """What the plan of each kind keeps with so many records; None where it can promise nothing.

    Attributes:
        records: The number of records.
        classes: The classes of the plan, by kind.
        losses: How much information a release of it would lose, by kind.
    """

    records: int
    classes: Mapping[PlanKind, int | None]
    losses: Mapping[PlanKind, float | None]


@dataclass(frozen=True, repr=False)
class Frontier(Displayed):
    """Classes and loss against records, for one model and the same terms: just those of the plans made so.

    Attributes:
        terms: What every plan promises.
        rows: One for each number of records.
    """

    terms: FrontierWish
    rows: tuple[FrontierRow, ...]

    @property
    def title(self) -> str:
        """What the plans promise, in a few words."""
        terms = self.terms
        asked = [] if terms.closeness is None else ["closeness"]
        if not asked or terms.largest_ell > 1:
            asked.insert(0, f"ℓ = {terms.largest_ell}")
        whom = (
            counted(terms.n_linked, "linked release")
            if terms.owners is None
            else counted(terms.owners, "owner")
        )
        return f"{' and '.join(asked)}, {whom}, δ = {terms.delta:g}"

    def facts(self) -> dict[str, object]:
        """What is worth knowing at a glance."""
        return {"plans": self.title}

    def listing(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Classes and loss for each number of records, by kind of plan."""
        kinds = tuple(self.rows[0].classes) if self.rows else ()
        header = [name for kind in kinds for name in (f"{kind}: classes", "loss")]
        return ("records", *header), [
            (row.records, *(cell for kind in kinds for cell in (row.classes[kind], row.losses[kind])))
            for row in self.rows
        ]

    def plot(self) -> Figure:
        """Classes against records."""
        from elldelta.pages.charts import draw_frontier

        curves = {str(kind): [row.classes[kind] for row in self.rows] for kind in self.rows[0].classes}
        return draw_frontier(
            [row.records for row in self.rows], curves, f"Classes against records: {self.title}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The frontier as plain JSON values."""
        points = [
            {"records": row.records, "classes": dict(row.classes), "loss": dict(row.losses)}
            for row in self.rows
        ]
        terms = self.terms
        return {
            "ell": terms.largest_ell,
            "delta": terms.delta,
            "releases": terms.releases,
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
    """Classes and loss of the plans for several numbers of records."""
    given = arguments.records
    tried = [check_whole("the number of records", number, 1, MOST_RECORDS) for number in given or ()]
    past = loaded(model, Past, read_past, "Model")  # type: ignore[type-abstract]
    wish = arguments.for_records(1)

    def rows(tell: Progress) -> list[FrontierRow]:
        planner, numbers = Planner(past, wish), tried
        if given is None:
            fewest = planner.fewest_records()
            most = 10 * max(past.n_records, fewest)
            numbers = np.unique(np.geomspace(fewest, most, arguments.n_points).astype(int)).tolist()
        return list(_rows(planner, numbers, tell))

    return Frontier(arguments, tuple(computed(rows, arguments.progress)))


frontier = with_keywords(FrontierArguments, _frontier)
"""Classes and loss of the plans with the same terms, and of the paper's, for several numbers of records.

It takes a model, its file or its folder, and as keywords the fields of `FrontierWish` and
`FrontierArguments`.
"""


def _rows(planner: Planner, records: Sequence[int], progress: Progress) -> Iterator[FrontierRow]:
    """What each kind of plan gives for each number of records, one after the other: it may take a while."""
    kinds: dict[PlanKind, None] = {"paper": None} if _has_paper(planner) else {}
    kinds[planner.wish.kind] = None
    n_plans = len(records) * len(kinds)
    for place, n_records in enumerate(records):
        classes: dict[PlanKind, int | None] = {}
        losses: dict[PlanKind, float | None] = {}
        for n_before, kind in enumerate(kinds, start=place * len(kinds)):
            planner.progress = part(progress, n_before / n_plans, (n_before + 1) / n_plans)
            try:
                made = planner.plan(kind, n_records)
                classes[kind], losses[kind] = made.plan.n_classes, made.loss(planner.model)
            except RefusedError:
                classes[kind] = losses[kind] = None
        yield FrontierRow(n_records, classes, losses)


def _has_paper(planner: Planner) -> bool:
    """Whether the paper has such plans: independent records, one sensitive column, nobody who moves."""
    wish, model = planner.wish, planner.model
    plain = Terms(ell=wish.ell, releases=wish.releases, delta=wish.delta, kind=wish.kind)
    is_plain = all(getattr(wish, field.name) == getattr(plain, field.name) for field in fields(Terms))
    is_independent = not (isinstance(model, RegionalModel) or model.noise or model.accounting.n_further)
    return is_plain and is_independent and planner.movers is None and planner.n_columns == 1
