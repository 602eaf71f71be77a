"""What ell, delta and the number of releases cost, quickly: for the form in which a client types them.

Only what is cheap is computed: how many records the paper's bound needs for one class, and how many classes
it gives for the records that were named. What the sharp bound gives is told if a preview has computed it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from elldelta.agency.server.services.jobs import last_done
from elldelta.agency.server.services.populations import current_model_id, find_population, load_model
from elldelta.agency.server.services.requests import FEWEST_PAST, Wishes, preview_subject
from elldelta.errors import RefusedError
from elldelta.plan.planner import Planner
from elldelta.plan.wish import Wish

if TYPE_CHECKING:
    from elldelta.agency.server.state import Agency
    from elldelta.model.model import Model

MANY_CELLS = 1 << 21
"""Tables above this are not searched while somebody types."""


@dataclass(frozen=True)
class PaperCost:
    """What the paper's bound says.

    Attributes:
        fewest_records: The records that one class for everybody needs; None if no number is enough.
        classes: The classes that the records named give; None if none, or if it takes too long to tell.
        is_searched: Whether the classes were looked for at all.
    """

    fewest_records: int | None
    classes: int | None
    is_searched: bool


@dataclass(frozen=True)
class Cost:
    """What a wish costs.

    Attributes:
        population: Which people it is about.
        ell: Sensitive values to be left.
        delta: Failure probability of one release.
        releases: How many releases may be linked.
        records: The records that every owner can wait for.
        failure_after_linkage: releases x delta, which a plan promises at most.
        paper: What the paper's bound says.
        sharp_classes: The classes of the sharp plan, if a preview has computed it; otherwise None.
    """

    population: str
    ell: int
    delta: float
    releases: int
    records: int
    failure_after_linkage: float
    paper: PaperCost
    sharp_classes: int | None


def quick_cost(agency: Agency, population: str, wishes: Wishes) -> Cost:
    """What a wish costs, from what is cheap to compute or known already."""
    with agency.database.reading() as session:
        model_id = current_model_id(session, find_population(session, population))
    model = load_model(agency, model_id)
    with agency.database.reading() as session:
        known = last_done(session, preview_subject(model.digest, asdict(wishes)))
        result = known.result if known is not None else None
    return Cost(
        population=population,
        ell=wishes.ell,
        delta=wishes.delta,
        releases=wishes.releases,
        records=wishes.records,
        failure_after_linkage=wishes.releases * wishes.delta,
        paper=agency.costs.get((model_id, wishes), lambda: _paper(model, wishes)),
        sharp_classes=result["plan"]["classes"] if result and result["plan"] else None,
    )


def _paper(model: Model, wishes: Wishes) -> PaperCost:
    is_searched = len(model.ranks) * model.schema.n_values <= MANY_CELLS
    options = {"ell": wishes.ell, "delta": wishes.delta, "releases": wishes.releases}
    try:
        request = Wish(
            **options,  # type: ignore[arg-type]
            beta=1.0,
            bound="paper",
            shape="runs",
            fewest_past=FEWEST_PAST,
        )
        planner = Planner(model, request)
        fewest: int | None = planner.records()
    except RefusedError:
        return PaperCost(None, None, is_searched)
    if not is_searched or fewest is None:
        return PaperCost(fewest, None, is_searched)
    try:
        return PaperCost(fewest, planner.plan("paper", wishes.records).n_classes, is_searched)
    except RefusedError:
        return PaperCost(fewest, None, is_searched)
