"""The words among which a caller chooses, each spelt here and nowhere else.

They stand apart from the code that they steer: the command line shows them in its help, and help should not
wait for anything to be loaded.
"""

from __future__ import annotations

from typing import Literal

Bound = Literal["sharp", "paper"]
"""By which bound a plan is made."""

BOUNDS: tuple[Bound, ...] = ("sharp", "paper")

PlanBound = Literal["sharp", "paper", "union"]
"""By which bound a plan was made: earlier versions knew one more."""

PLAN_BOUNDS: tuple[PlanBound, ...] = ("sharp", "paper", "union")

Guarantee = Literal["certified", "probabilistic"]

GUARANTEES: tuple[Guarantee, ...] = ("certified", "probabilistic")

ShapeName = Literal["runs", "boxes"]
"""The shape of classes."""

CategoryOrder = Literal["given", "profile"]

DateUnit = Literal["day", "month", "year"]

ClosenessTo = Literal["class", "overall"]
"""What beliefs are compared with: the distribution of the person's class, or that of everybody."""

OnFailure = Literal["refuse", "coarsen", "suppress", "coarsen-suppress"]
"""What to do with a table that does not pass."""

Movers = Literal["declared", "any"]
"""Who moves between classes: people whose columns may change as the schema declares, or anybody anywhere."""
