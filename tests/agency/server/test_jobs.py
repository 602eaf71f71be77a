"""Jobs: taken up once, given back when their worker dies, never finished by somebody who lost them."""

import multiprocessing
import os
import signal
import threading

import pytest
from tests.agency.registrations import full
from tests.agency.server.real_server import wait_until
from tests.agency.server.service import WISH, make_overdue

from elldelta.agency.server.services.jobs import claim_job, fail_job, finish_job, report_job, show_job
from elldelta.agency.server.worker import JobWorkers, run_claim
from elldelta.errors import RefusedError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def queued(service):
    """A job that waits."""
    service.add_model()
    number = service.post("client", "/requests", WISH, status=201).json()["id"]
    return service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]


def finish(service, claim, result):
    with service.agency.database.writing() as session:
        return finish_job(session, service.agency, claim, result)


def status(service, job):
    found = show_job(service.agency, service.caller("agency"), job)
    return found.status, found.progress


def test_of_many_workers_one_gets_the_job(service, queued):
    claims = []
    threads = [
        threading.Thread(target=lambda name=str(n): claims.append(claim_job(service.agency, name)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [claim] = [claim for claim in claims if claim is not None]
    assert (claim.id, claim.attempts) == (queued, 1)
    assert status(service, queued) == ("running", 0.0)


def test_a_job_tells_how_far_it_is(service, queued):
    claim = claim_job(service.agency, "w")
    assert report_job(service.agency, claim, 0.25, "planning")
    assert status(service, queued) == ("running", 0.25)
    assert finish(service, claim, {"x": 1})
    assert status(service, queued) == ("done", 1.0)
    assert service.get("agency", f"/jobs/{queued}").json()["result"] == {"x": 1}
    assert claim_job(service.agency, "w") is None


def test_a_job_whose_worker_is_silent_goes_to_another_one(service, queued):
    lease = service.settings.limits.job_lease_seconds
    first = claim_job(service.agency, "first")
    service.clock.advance(seconds=lease - 5)
    assert claim_job(service.agency, "second") is None
    assert report_job(service.agency, first)
    service.clock.advance(seconds=lease - 5)
    assert claim_job(service.agency, "second") is None  # it has given a sign of life
    service.clock.advance(seconds=10)
    second = claim_job(service.agency, "second")
    assert (second.id, second.attempts) == (queued, 2)
    assert not report_job(service.agency, first, 0.9, "late")
    assert not finish(service, first, {"late": True})
    assert not fail_job(service.agency, first, RefusedError("late"))
    assert finish(service, second, {"late": False})
    assert service.get("agency", f"/jobs/{queued}").json()["result"] == {"late": False}


def test_a_job_that_kills_its_workers_is_given_up(service, queued):
    for _ in range(service.settings.limits.job_attempts):
        assert claim_job(service.agency, "w") is not None
        service.clock.advance(seconds=service.settings.limits.job_lease_seconds + 1)
    assert claim_job(service.agency, "w") is None
    found = service.get("agency", f"/jobs/{queued}").json()
    assert found["status"] == "failed"
    assert "never finished" in found["error"]["problem"]


def test_a_plan_of_a_worker_that_lost_its_job_is_not_issued(service, queued):
    """The plan and the end of its job are one transaction: both happen, or neither."""
    lost = claim_job(service.agency, "slow")
    service.clock.advance(seconds=service.settings.limits.job_lease_seconds + 1)
    held = claim_job(service.agency, "fast")
    assert run_claim(service.agency, lost) is not None
    assert service.get("agency", "/plans").json()["entries"] == []
    assert run_claim(service.agency, held) is None
    assert len(service.get("agency", "/plans").json()["entries"]) == 1


@pytest.mark.both_databases("rarely")
def test_a_worker_that_is_killed_is_replaced_and_its_job_taken_up_again(service):
    service.add_model()
    before = set(multiprocessing.active_children())
    with JobWorkers(service.settings):
        workers = set(multiprocessing.active_children()) - before
        number = service.post("client", "/requests", WISH, status=201).json()["id"]
        preview = service.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
        wait_until(lambda: status(service, preview)[0] != "queued")
        for process in workers:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        make_overdue(service.agency, preview)
        wait_until(lambda: set(multiprocessing.active_children()) - before - workers)
        wait_until(lambda: status(service, preview)[0] == "done")
        planning = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
        wait_until(lambda: status(service, planning)[0] == "done")
    assert set(multiprocessing.active_children()) == before
    digest = service.get("agency", f"/jobs/{planning}").json()["result"]["plan"]
    assert service.get("owner", f"/plans/{digest}/file").status_code == 200


def test_of_many_who_ask_for_an_audit_one_begins_it(service):
    plan = service.issue()
    told = service.register("owner", plan, full(plan), status=201).json()
    service.publish("owner", plan, told["content_digest"])
    path = f"/plans/{plan.digest}/audit"
    answers = service.send_together(("GET", path, who, None) for who in ("owner", "client", "auditor") * 6)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    service.work()
    assert service.get("client", path).json()["id"] == answers[0].json()["id"]
