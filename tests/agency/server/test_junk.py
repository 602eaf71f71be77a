"""Owners who register as much as they can, of what nobody needs: it does not stay, and nobody waits."""

from tests.agency.registrations import SINGLE, forged, full, make_plan, make_registration
from tests.agency.server.test_registration import rows_of

from elldelta.agency.server.services.jobs import take_job
from elldelta.agency.server.services.ledger import run_audit


def test_classes_that_there_are_not_are_no_registration(service):
    plan = service.issue()
    junk = [[number, number + 1] for number in range(10**6, 10**6 + 2000)]
    document = forged(make_registration(plan, full(plan)), merged=junk)
    service.post("owner", f"/plans/{plan.digest}/releases", document, status=422)
    assert rows_of(service)["ledger_lines"] == 0


def test_the_largest_honest_registration_fits(service):
    """Every count as large as it can be, every class and value shown."""
    plan = service.issue(make_plan(n_values=8, boxes=SINGLE, releases=1))
    counts = full(plan, n=(2**53 - 1) // (12 * 8))
    service.register("owner", plan, counts, status=201)


def test_audits_wait_until_everything_else_is_done(make_service):
    service = make_service(jobs_waiting=2)
    plans = [service.issue(make_plan(records=1_000 + number), population="elsewhere") for number in range(3)]
    for number, plan in enumerate(plans):
        service.register("owner", plan, full(plan, n=2 + number), status=201)
    asked = [service.get("auditor", f"/plans/{plan.digest}/audit", None).status_code for plan in plans]
    assert asked == [202, 202, 503]
    service.add_model()
    wish = {"population": "region", "ell": 2, "delta": 0.05, "releases": 2, "records": 2000}
    number = service.post("client", "/requests", wish, status=201).json()["id"]
    service.post("agency", f"/requests/{number}/plan", status=202)
    assert [take_job(service.agency).kind for _ in range(3)] == ["frontier", "plan", "audit"]


def test_an_audit_links_a_limited_number_of_releases(make_service):
    service = make_service(audit_releases=2)
    plan = service.issue()
    for number in range(1, 5):
        service.add(f"owner-{number}", "owner")
        service.register(f"owner-{number}", plan, full(plan, n=2 + number), status=201)
    found = run_audit(service.agency, plan.digest, [3, 4], 4)
    assert (found["releases"], found["registered"]) == (2, 4)
    assert [item["name"] for item in found["audit"]["releases"]] == ["owner-3 (3)", "owner-4 (4)"]
