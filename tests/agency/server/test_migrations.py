"""The schema: from nothing and from the revision before, on both databases, with data in it."""

import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from tests.agency.registrations import Agency as AgencyInMemory
from tests.agency.registrations import make_plan, make_registration
from tests.agency.server.service import POOL

from elldelta.agency.server.migrations import NewerDatabaseError, head, is_current, migrate
from elldelta.agency.server.rights import Caller
from elldelta.agency.server.services.ledger import export_ledger, show_ledger
from elldelta.agency.server.services.plans import list_plans
from elldelta.agency.server.services.releases import list_refusals, list_releases, register_release
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency, utc_now
from elldelta.agency.server.tables import Base
from elldelta.files import as_bytes, digest

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


@pytest.mark.parametrize("revision", ["0001", "0002", "0003"])
def test_what_an_earlier_revision_has_stored_is_there_afterwards(database, tmp_path, revision):
    migrate(database, revision)
    plan = make_plan()
    registration = make_registration(plan, [[3] * 6] * 4)
    admission = AgencyInMemory(plan).register(plan, registration, "hospital-a")
    insert_before(database, plan, registration, admission)
    migrate(database)
    assert is_current(database)
    assert head() not in ("0001", "0002", "0003")
    url = database.url.render_as_string(hide_password=False)
    agency = Agency.open(Settings(folder=tmp_path, database=url), checks=POOL)
    try:
        [view] = list_plans(agency)
        assert (view.digest, view.classes, view.status) == (plan.digest, plan.n_classes, "issued")
        other = Caller(99, "another", "owner")
        [release] = list_releases(agency, other, plan.digest)
        assert release.state == "published"  # everybody has seen it
        assert (release.owner, release.records) == ("hospital-a", 72)
        assert export_ledger(agency, other, plan.digest).endswith(admission.line)
        assert show_ledger(agency, plan.digest).n_releases == 1
        owner = Caller(1, "hospital-a", "owner")
        content = registration.to_bytes()
        answer = register_release(agency, owner, plan.digest, "before", content)
        assert (answer.status, answer.document["told"]) == (201, "before")
        assert answer.document["key_id"] == agency.key.id
        refusals = list_refusals(agency, owner, plan.digest)
        assert [item.problem for item in refusals] == ([] if revision == "0001" else ["No."])
    finally:
        agency.close()


def insert_before(database, plan, registration, admission):
    """Rows as an earlier revision has them; told by the database, not by the tables of today."""
    entry = admission.entry
    later = {"n_classes": plan.n_classes}
    with database.writing() as session:
        connection = session.connection()
        tables = sa.MetaData()
        tables.reflect(connection)

        def insert(table, **values):
            connection.execute(tables.tables[table].insert().values(**values))

        insert("parties", id=1, name="hospital-a", role="owner", created_at=MOMENT)
        insert("populations", id=1, name="region", title="The region", created_at=MOMENT)
        insert(
            "plans",
            digest=plan.digest,
            population_id=1,
            file=as_bytes(plan.to_dict()),
            signature={"key_id": "sha256:" + "0" * 64},
            status="issued",
            issued_at=MOMENT,
            ell=plan.ell,
            delta=plan.delta,
            releases=plan.releases,
            records=plan.records,
            guarantee=plan.guarantee,
            promise=plan.promise,
            **{name: value for name, value in later.items() if name in tables.tables["plans"].columns},
        )
        insert(
            "ledger_lines",
            plan_digest=plan.digest,
            sequence=entry.sequence,
            hash=entry.hash,
            line=admission.line,
            added_at=MOMENT,
        )
        facts = {"records": 72, "classes": 4, "diversity": 6, "merged_classes": 0, "certified": True}
        insert(
            "registrations",
            plan_digest=plan.digest,
            sequence=entry.sequence,
            party_id=1,
            content_digest=entry.content_digest,
            document=registration.to_bytes(),
            facts=facts,
        )
        insert(
            "answers",
            party_id=1,
            key="before",
            request_digest=digest({"plan": plan.digest, "registration": registration.digest}),
            status=201,
            document={
                "told": "before",
                "plan": plan.digest,
                "owner": "hospital-a",
                "sequence": entry.sequence,
                "hash": entry.hash,
                "content_digest": entry.content_digest,
            },
            answered_at=MOMENT,
        )
        if "refusals" in tables.tables:
            insert(
                "refusals",
                id=1,
                plan_digest=plan.digest,
                party_id=1,
                request_digest=plan.digest,
                problem="No.",
                found="",
                refused_at=MOMENT,
            )


STATEMENTS = [
    "UPDATE ledger_lines SET hash = 'x'",
    "DELETE FROM ledger_lines",
    "UPDATE registrations SET content_digest = 'x'",
    "DELETE FROM registrations",
    "TRUNCATE ledger_lines CASCADE",  # SQLite has no such thing
    "TRUNCATE registrations CASCADE",
]


def test_the_database_itself_refuses_to_change_the_ledger(database):
    migrate(database, "0001")
    plan = make_plan()
    registration = make_registration(plan, [[3] * 6] * 4)
    insert_before(database, plan, registration, AgencyInMemory(plan).register(plan, registration, "a"))
    migrate(database)
    for statement in STATEMENTS[: 4 if database.is_sqlite else 6]:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), database.writing() as session:
            session.execute(sa.text(statement))
    with database.reading() as session:
        for table in ("ledger_lines", "registrations"):
            assert session.scalar(sa.select(sa.func.count()).select_from(sa.table(table))) == 1
