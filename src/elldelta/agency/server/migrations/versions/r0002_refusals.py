"""Refusals are kept with their reason; plans know their number of classes, so lists need not parse files."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the table and the column, and fills the column from the plans that are there."""
    op.create_table(
        "refusals",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("plan_digest", sa.String(71), nullable=False),
        sa.Column("party_id", sa.Integer, nullable=False),
        sa.Column("request_digest", sa.String(71), nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("found", sa.Text, nullable=False),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refusals"),
        sa.ForeignKeyConstraint(["plan_digest"], ["plans.digest"], name="fk_refusals_plan_digest"),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_refusals_party_id"),
    )
    op.create_index("ix_refusals_plan_digest", "refusals", ["plan_digest"])
    op.add_column("plans", sa.Column("n_classes", sa.Integer, nullable=False, server_default="0"))
    connection = op.get_bind()
    digest, n_classes = sa.column("digest", sa.String), sa.column("n_classes", sa.Integer)
    plans = sa.table("plans", digest, sa.column("file", sa.LargeBinary), n_classes)
    for row in connection.execute(sa.select(plans.c.digest, plans.c.file)).all():
        document: dict[str, Any] = json.loads(row.file)
        connection.execute(
            sa.update(plans).where(plans.c.digest == row.digest).values(n_classes=len(document["witnesses"]))
        )
