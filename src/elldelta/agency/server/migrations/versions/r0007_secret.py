"""Others know a model by a digest that is keyed with a secret; no line takes the place of another one."""

from __future__ import annotations

import hmac
import secrets

import sqlalchemy as sa
from alembic import op

from elldelta.agency.server.migrations import refuse_replacing

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Makes the secret, and the names of the models that are there."""
    refuse_replacing("ledger_lines", ("plan_digest", "sequence"))
    refuse_replacing(
        "registrations", ("plan_digest", "sequence"), ("plan_digest", "party_id", "content_digest")
    )
    kept = op.create_table(
        "secrets",
        sa.Column("name", sa.String(16), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    own = secrets.token_bytes(32)
    op.bulk_insert(kept, [{"name": "agency", "value": own}])
    op.add_column("models", sa.Column("keyed_digest", sa.String(71), nullable=False, server_default=""))
    connection = op.get_bind()
    number, digest = sa.column("id", sa.Integer), sa.column("digest", sa.String)
    models = sa.table("models", number, digest, sa.column("keyed_digest", sa.String))
    for row in connection.execute(sa.select(number, digest).select_from(models)).all():
        name = "sha256:" + hmac.new(own, row.digest.encode(), "sha256").hexdigest()
        connection.execute(sa.update(models).where(number == row.id).values(keyed_digest=name))
