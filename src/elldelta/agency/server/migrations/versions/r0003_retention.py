"""Answers are forgotten after a time: what is old must be found without reading all of them."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the indexes by which old answers, and an owner's refusals, are found."""
    op.create_index("ix_answers_answered_at", "answers", ["answered_at"])
    op.create_index("ix_refusals_party_id", "refusals", ["party_id"])
