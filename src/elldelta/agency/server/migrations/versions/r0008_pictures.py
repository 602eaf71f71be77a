"""Pictures are drawn by workers and stored: drawing takes long, and those who open a page would wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Adds the table; workers draw what is missing."""
    op.create_table(
        "pictures",
        sa.Column("subject", sa.String(100), nullable=False),
        sa.Column("width", sa.String(8), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("subject", "width", name="pk_pictures"),
    )
