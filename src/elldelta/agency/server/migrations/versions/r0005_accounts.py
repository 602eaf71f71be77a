"""Accounts: second factors, sign-ins elsewhere, what a token may do, and the trail of who did what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from elldelta.agency.server.migrations import make_append_only

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds columns and the trail; a token from before may do what its party may."""
    op.add_column("parties", sa.Column("totp_secret", sa.String(64)))
    op.add_column("parties", sa.Column("totp_step", sa.BigInteger))
    op.add_column("parties", sa.Column("oidc_subject", sa.String(255)))
    op.create_index("ix_parties_oidc_subject", "parties", ["oidc_subject"], unique=True)
    op.add_column("tokens", sa.Column("scopes", sa.String(200)))
    op.add_column("logins", sa.Column("is_strong", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "trail",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("party_id", sa.Integer),
        sa.Column("action", sa.String(100), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trail"),
        sa.ForeignKeyConstraint(["party_id"], ["parties.id"], name="fk_trail_party_id"),
    )
    op.create_index("ix_trail_at", "trail", ["at"])
    op.create_index("ix_trail_party_id", "trail", ["party_id"])
    make_append_only("trail")
