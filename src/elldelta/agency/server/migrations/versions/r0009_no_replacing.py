"""No entry of the trail, and no word of an owner, takes the place of another one."""

from __future__ import annotations

from elldelta.agency.server.migrations import refuse_replacing

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds the triggers."""
    refuse_replacing("trail", ("id",))
    refuse_replacing("publications", ("plan_digest", "sequence"))
