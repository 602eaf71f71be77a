"""Use case: draw a plan's classes over two quasi-identifiers, so that a person sees what was merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.errors import ParameterError, counted
from elldelta.pages.charts import draw_class_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from elldelta.plan.plan import Plan
    from elldelta.schema.schema import Schema


def picture_of_classes(plan: Plan, columns: Sequence[str] | None = None) -> Figure:
    """Draws the classes over two quasi-identifiers, by what the plan itself tells: no colour tells a count.

    The others are held at values of the class in which the plan expects the most records.

    Args:
        plan: The plan.
        columns: The two quasi-identifiers, horizontal first; by default those with most positions.
    """
    schema = plan.schema
    across, up = _places_to_draw(schema, columns)
    others = [place for place in range(len(schema.names)) if place not in (across, up)]
    mass = plan.columns[0].masses_lower
    lows = plan.hulls[0][int(mass.argmax())]
    held = {place: max(plan.seen[place][0], int(lows[place])) for place in others}
    shape = (schema.sizes[up], schema.sizes[across])
    positions = np.zeros((shape[0] * shape[1], len(schema.names)), dtype=np.int64)
    for place, position in held.items():
        positions[:, place] = position
    grid_up, grid_across = np.divmod(np.arange(len(positions)), shape[1])
    positions[:, up], positions[:, across] = grid_up, grid_across
    class_of = plan.class_of(schema.ranks(positions))
    spread = np.bincount(class_of, minlength=plan.n_classes)
    shares = mass[class_of] / np.maximum(1, spread[class_of])
    named = [schema.quasi_identifiers[place] for place in (across, up)]
    rest = ", ".join(
        f"{schema.quasi_identifiers[place].name} = {schema.quasi_identifiers[place].value_labels[position]}"
        for place, position in held.items()
    )
    return draw_class_map(
        class_of.reshape(shape),
        shares.reshape(shape),
        (named[0].name, named[1].name),
        (named[0].value_labels, named[1].value_labels),
        f"{counted(plan.n_classes, 'class', 'classes')}" + (f"\nshown for {rest}" if rest else ""),
    )


def _places_to_draw(schema: Schema, columns: Sequence[str] | None) -> tuple[int, int]:
    """The two quasi-identifiers to draw, horizontal first."""
    if len(schema.names) < 2:
        raise ParameterError(
            "A picture of classes needs two quasi-identifiers.", found="The plan has only one."
        )
    if columns is None:
        across, up = sorted(range(len(schema.names)), key=lambda place: -schema.sizes[place])[:2]
    else:
        if len(set(columns)) != 2 or not set(columns) <= set(schema.names):
            raise ParameterError(
                "Name two different quasi-identifiers to draw.",
                found=f"{counted(len(columns), 'name was', 'names were')} given.",
                remedy=f"Choose from: {', '.join(schema.names)}.",
            )
        across, up = (schema.names.index(name) for name in columns)
    return across, up
