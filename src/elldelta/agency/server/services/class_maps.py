"""The map of a plan's classes: which people were put together, drawn over two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from elldelta.agency.server.services.plans import find_plan, load_plan
from elldelta.agency.server.services.populations import load_model
from elldelta.agency.server.tables import ModelFile
from elldelta.errors import ParameterError
from elldelta.plan.picture import picture_of_classes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from elldelta.agency.server.state import Agency

MOST_POSITIONS = 100_000
"""More pairs of values than this make a picture that takes long to draw and shows nothing."""


def can_draw(agency: Agency, plan_digest: str) -> bool:
    """Whether there is a map: it needs two quasi-identifiers, and not too many values."""
    sizes = sorted(load_plan(agency, plan_digest).schema.sizes, reverse=True)
    return len(sizes) >= 2 and sizes[0] * sizes[1] <= MOST_POSITIONS


def draw_classes(agency: Agency, plan_digest: str) -> Figure:
    """The map of a plan's classes; it shows how much of a population a class holds, and no count.

    Raises:
        ParameterError: There is none; see `can_draw`.
    """
    with agency.database.reading() as session:
        row = find_plan(session, plan_digest)
        plan = load_plan(agency, plan_digest)
        model_id = session.scalars(
            select(ModelFile.id)
            .where(ModelFile.population_id == row.population_id, ModelFile.digest == plan.model_digest)
            .order_by(ModelFile.id.desc())
            .limit(1)
        ).one_or_none()
    if model_id is None or not can_draw(agency, plan_digest):
        raise ParameterError("The classes of this plan cannot be drawn.")
    return picture_of_classes(plan, load_model(agency, model_id))
