"""Progress: what each role sees of it, and nothing more."""

import pytest
from tests.agency.registrations import make_plan

pytestmark = pytest.mark.both_databases


@pytest.fixture
def plan(service):
    for name in ("a", "b", "c"):
        service.add(name, "owner")
    return service.issue()  # asks for 1,000 records


def report(service, plan, who, records, status=200):
    return service.put(who, f"/plans/{plan.digest}/progress", {"records": records}, status=status)


def seen(service, plan, who):
    return service.get(who, f"/plans/{plan.digest}/progress")


def test_the_agency_and_auditors_see_everybody(service, plan):
    for name, records in (("a", 4321), ("b", 999), ("c", 1_000)):
        report(service, plan, name, records)
    for who in ("agency", "auditor"):
        found = seen(service, plan, who).json()
        assert [(item["owner"], item["records"], item["reached"]) for item in found["owners"]] == [
            ("a", 4321, True),
            ("b", 999, False),
            ("c", 1_000, True),
        ]
        assert found["owners_reached"] == 2
        assert found["own_records"] is None


def test_an_owner_sees_its_own_number_and_only_how_many_have_reached_n(service, plan):
    report(service, plan, "a", 4321)
    report(service, plan, "c", 7654)
    answer = report(service, plan, "b", 9)
    for found in (answer, seen(service, plan, "b")):
        assert found.json() == {
            "plan": plan.digest,
            "needed": 1_000,
            "owners_reached": 2,
            "own_records": 9,
            "owners": None,
        }
        assert "4321" not in found.text
        assert "7654" not in found.text


def test_a_client_sees_only_how_many_have_reached_n(service, plan):
    report(service, plan, "a", 4321)
    report(service, plan, "b", 3)
    found = seen(service, plan, "client")
    assert found.json() == {
        "plan": plan.digest,
        "needed": 1_000,
        "owners_reached": 1,
        "own_records": None,
        "owners": None,
    }


def test_an_owner_that_has_not_reported_has_no_number(service, plan):
    assert seen(service, plan, "a").json()["own_records"] is None


def test_a_later_number_replaces_the_earlier_one(service, plan):
    for records in (4, 12, 0):
        assert report(service, plan, "a", records).json()["own_records"] == records
    assert len(seen(service, plan, "agency").json()["owners"]) == 1


def test_numbers_that_are_none_are_refused(service, plan):
    for records in (-1, 10**16, 1.5, "7", None, True, [1]):
        report(service, plan, "a", records, status=422)
    assert seen(service, plan, "agency").json()["owners"] == []


def test_a_plan_that_does_not_exist_has_no_progress(service):
    digest = "sha256:" + "0" * 64
    service.put("owner", f"/plans/{digest}/progress", {"records": 1}, status=404)
    service.get("owner", f"/plans/{digest}/progress", status=404)


def test_a_plan_that_was_withdrawn_takes_no_report(service):
    gone = service.issue(make_plan(records=1_020))
    service.post("agency", f"/plans/{gone.digest}/withdraw", {"reason": "a test"})
    report(service, gone, "owner", 5, status=409)
    assert seen(service, gone, "agency").json()["owners"] == []


def test_many_owners_report_at_the_same_time(service, plan):
    names = [f"owner-{number}" for number in range(12)]
    for name in names:
        service.add(name, "owner")
    sent = [(name, records) for records in (1_005, 1_010, 1_015) for name in names]
    answers = service.send_together(
        ("PUT", f"/plans/{plan.digest}/progress", name, {"records": records}) for name, records in sent
    )
    assert [answer.status_code for answer in answers] == [200] * len(sent)
    assert [answer.json()["own_records"] for answer in answers] == [records for _, records in sent]
    assert seen(service, plan, "agency").json()["owners_reached"] == len(names)
