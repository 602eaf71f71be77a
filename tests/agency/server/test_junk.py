"""Owners who register as much as they can, of what nobody needs: it does not stay, and nobody waits."""

import pytest
import sqlalchemy as sa
from tests.agency.registrations import forged, full, make_plan, make_registration
from tests.agency.server.service import POOL
from tests.agency.server.test_registration import ROOM_FOR_TWO, rows_of

from elldelta.agency.admission import PlanState
from elldelta.agency.server.services.jobs import AUDITS, PLANNING, claim_job
from elldelta.agency.server.services.ledger import run_audit
from elldelta.agency.server.services.releases import register_release
from elldelta.agency.server.state import Agency
from elldelta.files import as_bytes

MIB = 1 << 20


def send(service, who, plan, document, key):
    return service.ask(
        who,
        "POST",
        f"/plans/{plan.digest}/releases",
        content=as_bytes(document),
        headers={"Idempotency-Key": key, "Content-Type": "application/json"},
    )


def junk(size):
    """Numbers under names, as a manifest may say how much information a release keeps; by the megabyte."""
    return {f"{number:0190d}": 0.5 for number in range(size // 200)}


def bytes_stored(service):
    """What the database holds about releases."""
    query = "SELECT line, counts, facts FROM registrations JOIN ledger_lines USING (plan_digest, sequence)"
    with service.agency.database.reading() as session:
        rows = session.execute(sa.text(query)).all()
    return sum(len(row.line) + len(row.counts) + len(str(row.facts)) for row in rows)


def test_a_registration_is_no_larger_than_its_plan_allows(service):
    plan = service.issue()
    honest = make_registration(plan, full(plan))
    for field in ("utility", "coarsening"):
        answer = send(service, "owner", plan, forged(honest, manifest={field: junk(MIB)}), field)
        assert answer.status_code == 413
    assert rows_of(service)["ledger_lines"] == 0


@pytest.mark.parametrize(
    "lie",
    [
        {"utility": junk(50_000)},
        {"coarsening": junk(50_000)},
        {"software": "x" * 200, "ledger": {"sequence": 1, "hash": "x" * 200, "owner": "x" * 200}},
        {"nulls": {"age": 10**4000}, "unknown": {"region": 10**4000}},
        {"records_read": 72 + 10**4000, "records_suppressed": 10**4000},
    ],
)
def test_what_only_the_owner_knows_is_not_stored(service, lie):
    plan = service.issue()
    service.add("liar", "owner")
    service.register("owner", plan, full(plan), key="1", status=201)
    before = bytes_stored(service)
    document = forged(make_registration(plan, full(plan, n=4)), manifest=lie)
    send(service, "liar", plan, document, "2")
    assert bytes_stored(service) < 2.1 * before


def test_the_largest_honest_registration_fits(service):
    """Every count as large as it can be, every class and value shown."""
    plan = service.issue(make_plan(n_values=8, starts=tuple(range(12)), releases=1))
    counts = full(plan, n=(2**53 - 1) // (12 * 8))
    service.register("owner", plan, counts, key="1", status=201)


@pytest.mark.parametrize("quota", [{"owner_releases": 2}, {"owner_bytes": 40}])
def test_an_owner_has_a_quota_and_others_have_their_own(make_service, quota):
    service = make_service(**quota)
    plans = [service.issue(make_plan(records=10 + n), population=f"people-{n}") for n in range(1, 5)]
    service.add("other", "owner")
    answers = [service.register("owner", plan, full(plan, n=9), key=plan.digest) for plan in plans]
    assert answers[0].status_code == 201
    assert answers[-1].status_code == 409
    assert "as much as one owner may" in answers[-1].json()["error"]["problem"]
    service.register("owner", plans[0], full(plans[0], n=9), key="again", status=200)
    service.register("other", plans[0], full(plans[0], n=8), key="1", status=201)


@pytest.fixture
def statements(service):
    """The number of statements that the database was asked since it was last looked at."""
    found = []
    sa.event.listen(
        service.agency.database.engine,
        "before_cursor_execute",
        lambda conn, cursor, statement, parameters, context, many: found.append(statement),
    )

    def count():
        n = len(found)
        found.clear()
        return n

    return count


@pytest.mark.parametrize("n_plans", [1, 2])
def test_a_decision_reads_no_more_after_many_releases(service, statements, monkeypatch, n_plans):
    """The same statements after many releases as after a few; and no process reads the lines again."""
    plans = [service.issue(), service.issue(make_plan(starts=(0, 6)))][:n_plans]
    asked = []
    for number in range(14 if n_plans == 1 else 8):
        service.add(f"owner-{number}", "owner")
        for plan in plans:
            statements()
            counts = full(plan, n=3 + number)
            service.register(f"owner-{number}", plan, counts, key=plan.digest[:20], status=201)
        asked.append(statements())
    assert max(asked[-3:]) == asked[3]

    def never(*_):
        pytest.fail("A state that is stored is made again.")

    monkeypatch.setattr(PlanState, "of", never)
    fresh = Agency.open(service.settings, checks=POOL)
    try:
        content = make_registration(plans[0], full(plans[0], n=99)).to_bytes()
        answer = register_release(fresh, service.caller("owner"), plans[0].digest, "fresh", content)
        assert answer.status == 201
    finally:
        fresh.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM ledger_states",
        "UPDATE ledger_states SET head = 'x'",
        "UPDATE ledger_states SET content = :x",
    ],
)
def test_a_state_that_does_not_fit_its_line_is_made_again(service, damage):
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    for name in ("b", "c"):
        service.add(name, "owner")
    service.register("owner", plan, full(plan, (0, 0), (0, 1)), key="1", status=201)
    with service.agency.database.writing() as session:
        session.execute(sa.text(damage), {"x": b"junk"} if ":x" in damage else {})
    fresh = Agency.open(service.settings, checks=POOL)
    try:

        def register(who, counts):
            content = make_registration(plan, counts).to_bytes()
            return register_release(fresh, service.caller(who), plan.digest, "1", content)

        assert register("b", full(plan, (0, 2), (0, 3))).document["sequence"] == 2
        assert register("c", full(plan, (0, 4), (0, 5))).status == 409
    finally:
        fresh.close()


def test_audits_wait_in_a_queue_of_their_own(make_service):
    service = make_service(jobs_waiting=2)
    plans = [service.issue(make_plan(records=10 + number), population="elsewhere") for number in range(3)]
    for number, plan in enumerate(plans):
        service.register("owner", plan, full(plan, n=2 + number), key=str(number), status=201)
    asked = [service.get("auditor", f"/plans/{plan.digest}/audit", None).status_code for plan in plans]
    assert asked == [202, 202, 503]
    service.add_model()
    wish = {"population": "region", "ell": 2, "delta": 0.05, "releases": 2, "records": 2000}
    number = service.post("client", "/requests", wish, status=201).json()["id"]
    service.post("agency", f"/requests/{number}/plan", status=202)
    assert claim_job(service.agency, "planner", PLANNING).kind == "plan"
    assert claim_job(service.agency, "planner", PLANNING) is None
    assert claim_job(service.agency, "auditor", AUDITS).kind == "audit"


def test_an_audit_links_a_limited_number_of_releases(make_service):
    service = make_service(audit_releases=2)
    plan = service.issue()
    for number in range(1, 5):
        service.add(f"owner-{number}", "owner")
        service.register(f"owner-{number}", plan, full(plan, n=2 + number), key="1", status=201)
    found = run_audit(service.agency, plan.digest, [3, 4], 4)
    assert (found["releases"], found["registered"]) == (2, 4)
    assert [item["name"] for item in found["audit"]["releases"]] == ["owner-3 (3)", "owner-4 (4)"]
