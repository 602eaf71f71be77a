"""Plans may promise closeness: lists of plans say so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds the column; plans that were issued before promise none."""
    op.add_column("plans", sa.Column("closeness", sa.Double, nullable=True))
