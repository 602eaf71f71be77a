"""Registered is not published: owners say when they have published, or that they never did.

What was registered before was shown to everybody, so it counts as published.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from elldelta.agency.server.migrations import make_append_only

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the table, and what is known about the releases that are there."""
    op.create_table(
        "publications",
        sa.Column("plan_digest", sa.String(71), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("plan_digest", "sequence", name="pk_publications"),
        sa.ForeignKeyConstraint(
            ["plan_digest", "sequence"],
            ["registrations.plan_digest", "registrations.sequence"],
            name="fk_publications_plan_digest_sequence",
        ),
        sa.CheckConstraint("state IN ('published', 'voided')", name=op.f("ck_publications_state")),
    )
    op.execute(
        "INSERT INTO publications (plan_digest, sequence, state, told_at) "
        "SELECT r.plan_digest, r.sequence, 'published', l.added_at FROM registrations r "
        "JOIN ledger_lines l ON l.plan_digest = r.plan_digest AND l.sequence = r.sequence"
    )
    make_append_only("publications")
