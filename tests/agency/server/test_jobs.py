"""Jobs: taken up one after the other, begun anew when their worker has died, and not for ever."""

import pytest
from tests.agency.registrations import full
from tests.agency.server.service import WISH

from elldelta.agency.server.services.jobs import (
    MOST_ATTEMPTS,
    fail_job,
    finish_job,
    report_job,
    requeue_abandoned,
    show_job,
    take_job,
)
from elldelta.agency.server.worker import _only_worker, run_next
from elldelta.errors import ParameterError, RefusedError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def queued(service):
    """A job that waits."""
    service.add_model()
    service.work()  # the frontier of the model
    number = service.post("client", "/requests", WISH, status=201).json()["id"]
    return service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]


def status(service, job):
    found = show_job(service.agency, service.caller("agency"), job)
    return found.status, found.progress


def test_a_job_tells_how_far_it_is(service, queued):
    job = take_job(service.agency)
    assert (job.id, job.attempts) == (queued, 1)
    assert status(service, queued) == ("running", 0.0)
    report_job(service.agency, job, 0.25, "planning")
    assert status(service, queued) == ("running", 0.25)
    with service.agency.database.writing() as session:
        finish_job(session, service.agency, job, {"x": 1})
    assert status(service, queued) == ("done", 1.0)
    assert service.get("agency", f"/jobs/{queued}").json()["result"] == {"x": 1}
    assert take_job(service.agency) is None


def test_a_job_whose_worker_has_died_is_begun_anew(service, queued):
    take_job(service.agency)
    assert take_job(service.agency) is None
    assert requeue_abandoned(service.agency) == 1
    assert status(service, queued)[0] == "queued"
    assert run_next(service.agency)
    assert status(service, queued)[0] == "done"
    assert requeue_abandoned(service.agency) == 0
    assert len(service.get("agency", "/plans").json()["entries"]) == 1


def test_a_job_that_kills_its_workers_is_given_up(service, queued):
    for _ in range(MOST_ATTEMPTS):
        assert take_job(service.agency).id == queued
        requeue_abandoned(service.agency)
    assert take_job(service.agency) is None
    found = service.get("agency", f"/jobs/{queued}").json()
    assert found["status"] == "failed"
    assert "never finished" in found["error"]["problem"]


def test_a_job_that_fails_says_why(service, queued):
    fail_job(service.agency, take_job(service.agency), RefusedError("It cannot be.", found="Nothing."))
    found = service.get("agency", f"/jobs/{queued}").json()
    assert (found["status"], found["error"]["problem"]) == ("failed", "It cannot be.")


def test_a_plan_and_the_end_of_its_job_are_one_transaction(service, queued, monkeypatch):
    def broken(*_):
        raise RefusedError("The job could not be ended.")

    monkeypatch.setattr("elldelta.agency.server.services.planning.finish_job", broken)
    assert run_next(service.agency)
    assert status(service, queued)[0] == "failed"
    assert service.get("agency", "/plans").json()["entries"] == []


def test_there_is_one_worker(service):
    with (
        _only_worker(service.settings),
        pytest.raises(ParameterError, match="Another worker"),
        _only_worker(service.settings),
    ):
        pass
    with _only_worker(service.settings):  # the lock ends with its holder
        pass


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
