"""Brings a database to the newest schema, step by step, and tells where it stands.

Every step is one file in `versions`. Steps are never edited once they are released; a new one is added.
Alembic is imported where it is used: most processes of a service never need it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text

from elldelta.agency.server.errors import HttpError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

    from elldelta.agency.server.database import Database

_LOCK = 0x656C6C64
"""PostgreSQL's advisory lock that whoever migrates holds."""


class NewerDatabaseError(HttpError):
    """The database was migrated by a newer elldelta."""


def migrate(database: Database) -> None:
    """Brings the database to the newest revision; everything, or nothing.

    Raises:
        NewerDatabaseError: It is of a revision that is not known here.
    """
    from alembic import command
    from alembic.script import ScriptDirectory

    with database.writing() as session:
        connection = session.connection()
        if not database.is_sqlite:  # of several processes that start together one migrates
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config = _config(connection)
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        current = _revision(connection)
        if current is not None and current not in known:
            raise NewerDatabaseError(
                "The database was made by a newer elldelta.",
                found=f"Its revision {current} is not known here.",
                remedy="Update elldelta.",
            )
        command.upgrade(config, "head")


def make_append_only(table: str, *keys: tuple[str, ...]) -> None:
    """Adds the triggers that refuse to change, remove or replace a row.

    Args:
        table: The table.
        keys: The columns by which a row is known. SQLite's REPLACE removes the old row without asking
            the triggers of DELETE, unless whoever is connected has chosen otherwise.
    """
    from alembic import op

    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        same = " OR ".join("(" + " AND ".join(f"{name} = NEW.{name}" for name in key) + ")" for key in keys)
        there = f"SELECT 1 FROM {table} WHERE {same}"  # noqa: S608 (names of ours)
        op.execute(
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN EXISTS ({there}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
        return
    op.execute(
        "CREATE OR REPLACE FUNCTION elldelta_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION elldelta_append_only()"
    )
    op.execute(
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION elldelta_append_only()"
    )


def is_current(database: Database) -> bool:
    """Whether the database is at the newest revision."""
    with database.reading() as session:
        return _revision(session.connection()) == head()


def is_empty(database: Database) -> bool:
    """Whether the database has never been used by a service."""
    with database.reading() as session:
        return _revision(session.connection()) is None


def _revision(connection: Connection) -> str | None:
    from alembic.runtime.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_revision()


@cache
def head() -> str:
    """The newest revision; looked for once, because anybody may ask whether the service is ready."""
    from alembic.script import ScriptDirectory

    return str(ScriptDirectory.from_config(_config(None)).get_current_head())


def _config(connection: Connection | None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
