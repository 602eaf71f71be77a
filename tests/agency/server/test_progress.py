"""Progress: what each role sees of it, and nothing more."""

import asyncio
import threading

import pytest
from tests.agency.registrations import make_plan

from elldelta.agency.server.errors import BusyError, ConflictError, NotFoundError
from elldelta.agency.server.services.progress import MOST_IN_BATCH, Batcher, Report, report_batch

pytestmark = pytest.mark.both_databases


@pytest.fixture
def plan(service):
    for name in ("a", "b", "c"):
        service.add(name, "owner")
    return service.issue()  # asks for 10 records


def report(service, plan, who, records, status=200):
    return service.put(who, f"/plans/{plan.digest}/progress", {"records": records}, status=status)


def seen(service, plan, who):
    return service.get(who, f"/plans/{plan.digest}/progress")


def test_the_agency_and_auditors_see_everybody(service, plan):
    for name, records in (("a", 4321), ("b", 9), ("c", 10)):
        report(service, plan, name, records)
    for who in ("agency", "auditor"):
        found = seen(service, plan, who).json()
        assert [(item["owner"], item["records"], item["reached"]) for item in found["owners"]] == [
            ("a", 4321, True),
            ("b", 9, False),
            ("c", 10, True),
        ]
        assert found["owners_reached"] == 2
        assert found["own"] is None


def test_an_owner_sees_its_own_number_and_only_how_many_have_reached_n(service, plan):
    report(service, plan, "a", 4321)
    report(service, plan, "c", 7654)
    answer = report(service, plan, "b", 9)
    for found in (answer, seen(service, plan, "b")):
        assert found.json() == {
            "plan": plan.digest,
            "needed": 10,
            "owners_reached": 2,
            "own": 9,
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
        "needed": 10,
        "owners_reached": 1,
        "own": None,
        "owners": None,
    }


def test_an_owner_that_has_not_reported_has_no_number(service, plan):
    assert seen(service, plan, "a").json()["own"] is None


def test_a_later_number_replaces_the_earlier_one(service, plan):
    for records in (4, 12, 0):
        assert report(service, plan, "a", records).json()["own"] == records
    assert len(seen(service, plan, "agency").json()["owners"]) == 1


def test_numbers_that_are_none_are_refused(service, plan):
    for records in (-1, 10**16, 1.5, "7", None, True, [1]):
        report(service, plan, "a", records, status=422)
    assert seen(service, plan, "agency").json()["owners"] == []


def test_a_plan_that_does_not_exist_has_no_progress(service):
    digest = "sha256:" + "0" * 64
    service.put("owner", f"/plans/{digest}/progress", {"records": 1}, status=404)
    service.get("owner", f"/plans/{digest}/progress", status=404)


def test_reports_that_come_together_are_answered_one_by_one(service, plan):
    gone, unknown = service.issue(make_plan(records=20)), "sha256:" + "0" * 64
    service.post("agency", f"/plans/{gone.digest}/withdraw", {"reason": "a test"})
    a, b, c = (service.caller(name) for name in ("a", "b", "c"))
    answers = report_batch(
        service.agency,
        [
            Report(b, plan.digest, 12),
            Report(a, unknown, 1),
            Report(a, plan.digest, 3),
            Report(c, gone.digest, 5),
            Report(a, plan.digest, 11),
        ],
    )
    assert [answers[place].own for place in (0, 2, 4)] == [12, 3, 11]
    assert answers[0].owners_reached == 2
    assert isinstance(answers[1], NotFoundError)
    assert isinstance(answers[3], ConflictError)
    kept = [(item["owner"], item["records"]) for item in seen(service, plan, "agency").json()["owners"]]
    assert kept == [("a", 11), ("b", 12)]
    assert seen(service, gone, "agency").json()["owners"] == []


def test_many_owners_report_at_the_same_time(service, plan):
    names = [f"owner-{number}" for number in range(12)]
    for name in names:
        service.add(name, "owner")
    sent = [(name, records) for records in (15, 20, 25) for name in names]
    answers = service.send_together(
        ("PUT", f"/plans/{plan.digest}/progress", name, {"records": records}) for name, records in sent
    )
    assert [answer.status_code for answer in answers] == [200] * len(sent)
    assert [answer.json()["own"] for answer in answers] == [records for _, records in sent]
    assert seen(service, plan, "agency").json()["owners_reached"] == len(names)


def test_whoever_comes_meanwhile_is_served_next_in_one_batch():
    begun, go_on, taken = threading.Event(), threading.Event(), []

    def do(asked):
        taken.append(len(asked))
        begun.set()
        assert go_on.wait(300)
        return [number + 1 for number in asked]

    async def main():
        batcher = Batcher(do)
        tasks = [asyncio.create_task(batcher.submit(0))]
        while not begun.is_set():
            await asyncio.sleep(0)
        tasks += [asyncio.create_task(batcher.submit(number)) for number in range(1, MOST_IN_BATCH + 3)]
        await asyncio.sleep(0)
        tasks[5].cancel()  # its sender has gone
        go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(main())
    assert isinstance(answers.pop(5), asyncio.CancelledError)
    assert answers == [number for number in range(1, MOST_IN_BATCH + 4) if number != 6]
    assert taken == [1, MOST_IN_BATCH, 2]


def test_what_goes_wrong_for_all_is_told_to_all_and_the_next_ones_are_served():
    calls = []

    def do(asked):
        calls.append(asked)
        if len(calls) == 1:
            raise BusyError
        return [NotFoundError("plan") if number == 1 else number for number in asked]

    async def main():
        batcher = Batcher(do)
        first = await asyncio.gather(batcher.submit(0), batcher.submit(1), return_exceptions=True)
        return first, await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)

    first, second = asyncio.run(main())
    assert [type(answer) for answer in first] == [BusyError, BusyError]
    assert isinstance(second[0], NotFoundError)
    assert second[1] == 2
