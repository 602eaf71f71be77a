"""The words among which a caller chooses, each spelt here and nowhere else.

They stand apart from the code that they steer: the command line shows them in its help, and help should not
wait for anything to be loaded.
"""

from __future__ import annotations

from typing import Literal

PlanKind = Literal["certified", "probabilistic", "paper"]
"""What kind of plan: boxes by the sharp bound, with releases that are checked; the same published at N
records without looking; or the paper as it stands: runs, its bound and its N."""

PLAN_KINDS: tuple[PlanKind, ...] = ("certified", "probabilistic", "paper")

DateUnit = Literal["day", "month", "year"]

ClosenessTo = Literal["class", "overall"]
"""What shares are compared with: the distribution of the person's class, or that of everybody."""

Movers = Literal["declared", "any"]
"""Who moves between classes: people whose columns may change as the schema declares, or anybody anywhere."""
