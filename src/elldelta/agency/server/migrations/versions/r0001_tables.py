"""All tables, what the database itself refuses to change in them, and the agency's secret.

Nothing has been published yet, so the first tables are those of today. The first step after a published
version freezes them here, one by one.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

from elldelta.agency.server.migrations import make_append_only
from elldelta.agency.server.tables import Base, Secret

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    copies = sa.MetaData(naming_convention=Base.metadata.naming_convention)
    for table in Base.metadata.tables.values():  # making tables on PostgreSQL would change the originals
        table.to_metadata(copies)
    copies.create_all(op.get_bind(), checkfirst=False)
    make_append_only("ledger_lines", ("plan_digest", "sequence"))
    make_append_only(
        "registrations", ("plan_digest", "sequence"), ("plan_digest", "party_id", "content_digest")
    )
    make_append_only("publications", ("plan_digest", "sequence"))
    make_append_only("trail", ("id",))
    op.execute(sa.insert(Secret).values(name="agency", value=secrets.token_bytes(32)))
