"""Alembic runs this file for every command; it works inside the transaction of `migrate`."""

from __future__ import annotations

from alembic import context

from elldelta.agency.server.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transactional_ddl=False,  # the transaction is the caller's
)
context.run_migrations()
