"""The schema: from nothing and from the revision before, on both databases, with data in it."""

import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from tests.agency.registrations import make_plan

from elldelta.agency.server.migrations import NewerDatabaseError, is_current, migrate
from elldelta.agency.server.state import utc_now
from elldelta.agency.server.tables import Base

MOMENT = utc_now()


def test_from_nothing_the_schema_is_what_the_tables_say(database):
    assert not is_current(database)
    migrate(database)
    assert is_current(database)
    with database.reading() as session:
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_a_second_time_nothing_happens(migrated):
    migrate(migrated)
    assert is_current(migrated)


def test_several_processes_that_start_together_all_find_the_newest_schema(database):
    problems = []

    def run():
        try:
            migrate(database)
        except Exception as problem:  # noqa: BLE001 (whatever it is, the test must see it)
            problems.append(problem)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert is_current(database)


def test_a_database_of_a_newer_version_is_refused_and_left_alone(migrated):
    with migrated.writing() as session:
        session.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabaseError):
        migrate(migrated)
    with migrated.reading() as session:
        assert session.scalar(sa.text("SELECT version_num FROM alembic_version")) == "9999"
    assert not is_current(migrated)


STATEMENTS = [
    "UPDATE ledger_lines SET hash = 'x'",
    "DELETE FROM ledger_lines",
    "UPDATE registrations SET content_digest = 'x'",
    "DELETE FROM registrations",
    "TRUNCATE ledger_lines CASCADE",  # SQLite has no such thing
    "TRUNCATE registrations CASCADE",
]


@pytest.mark.both_databases
def test_the_database_itself_refuses_to_change_the_ledger(service):
    plan = service.issue(make_plan())
    service.register("owner", plan, [[3] * 6] * 4, status=201)
    database = service.agency.database
    for statement in STATEMENTS[: 4 if database.is_sqlite else 6]:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), database.writing() as session:
            session.execute(sa.text(statement))
    with database.reading() as session:
        for table in ("ledger_lines", "registrations"):
            assert session.scalar(sa.select(sa.func.count()).select_from(sa.table(table))) == 1
