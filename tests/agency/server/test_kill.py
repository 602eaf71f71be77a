"""kill -9 while registrations arrive: what was acknowledged is there, nothing twice, and the chain holds."""

import contextlib
import itertools
import os
import random
import signal
import threading
from dataclasses import dataclass, field

import httpx
import pytest
from tests.agency.registrations import full, make_plan, make_update
from tests.agency.server.real_server import DATABASES, POPULATION, RealServer, own_settings, wait_until
from tests.agency.server.service import WISH, model_file
from tests.agency.server.test_race import check_chain
from tests.switch import quick_or_all

from elldelta.agency.server.services.populations import create_population, upload_model
from elldelta.agency.server.services.requests import begin_job, file_request
from elldelta.agency.server.tables import Job
from elldelta.plan.wish import Wish

N_KILLS = quick_or_all(1, 2)
N_OWNERS = 4
MOST_ADMITTED = 10
"""A kill comes when so many answers have arrived in its round, at the latest."""


@dataclass
class Sent:
    """A registration, and the answer to it if one came."""

    owner: str
    content: bytes
    answer: dict | None = None


@dataclass
class Owners:
    """Owners that publish their tables again and again, and register each, until the server is gone."""

    server: RealServer
    plan: object
    tokens: dict
    numbers: itertools.count = field(default_factory=lambda: itertools.count(3))
    sent: list = field(default_factory=list)
    last: dict = field(default_factory=dict)

    def next_request(self, owner):
        number = next(self.numbers)  # every release has other counts, and updates the one before
        counts, state = full(self.plan, n=number), f"state {number}"
        content = make_update(self.plan, counts, state, self.last.get(owner)).to_bytes()
        self.last[owner] = counts, state
        request = Sent(owner, content)
        self.sent.append(request)
        return request

    def send(self, client, request):
        answer = client.post(
            f"/api/v1/plans/{self.plan.digest}/releases",
            content=request.content,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in (200, 201), answer.text
        return {**answer.json(), "is_new": None}

    def register_until_killed(self, owner):
        with contextlib.suppress(httpx.TransportError), self.server.client(self.tokens[owner]) as client:
            while True:
                request = self.next_request(owner)
                request.answer = self.send(client, request)

    def round_until_kill(self, moment):
        """All owners register; the server is killed at a moment that falls anywhere between two answers."""
        before = self.n_answered
        threads = [
            threading.Thread(target=self.register_until_killed, args=(owner,)) for owner in self.tokens
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.n_answered - before >= moment.randint(1, MOST_ADMITTED))
        threading.Event().wait(moment.random() * 0.05)
        self.server.kill()
        for thread in threads:
            thread.join()

    @property
    def n_answered(self):
        return sum(request.answer is not None for request in self.sent)


@pytest.fixture(params=DATABASES)
def own_server(request, tmp_path):
    def make(**options):
        return RealServer(settings, tmp_path / "server.log", **options)

    with own_settings(request.param, request, tmp_path) as settings:
        yield make


def test_what_was_acknowledged_survives_and_nothing_is_admitted_twice(own_server, tmp_path, record_property):
    moment = random.Random(9)
    unanswered = found_again = 0
    with own_server() as server:
        plan = server.issue(make_plan())
        tokens = {f"owner-{place}": server.add(f"owner-{place}", "owner") for place in range(N_OWNERS)}
        auditor = server.add("auditor", "auditor")
        owners = Owners(server, plan, tokens)
        for kill in range(N_KILLS):
            owners.round_until_kill(moment)
            answered = {request.answer["hash"] for request in owners.sent if request.answer is not None}
            server.start()
            with contextlib.ExitStack() as stack:
                clients = {name: stack.enter_context(server.client(tokens[name])) for name in tokens}
                anybody = stack.enter_context(server.client(auditor))
                path = f"/api/v1/plans/{plan.digest}/releases"
                there = {item["hash"] for item in anybody.get(path).json()["entries"]}
                assert answered <= there, "An acknowledged registration is lost."
                lost = [request for request in owners.sent if request.answer is None]
                unanswered += len(lost)
                for request in owners.sent if kill == N_KILLS - 1 else [*owners.sent[-20:], *lost]:
                    answer = owners.send(clients[request.owner], request)  # once more
                    assert request.answer is None or answer == request.answer
                    found_again += request.answer is None and answer["hash"] in there
                    request.answer = answer
                listed = anybody.get(path).json()["entries"]
            assert {(item["owner"], item["hash"]) for item in listed} == {
                (request.owner, request.answer["hash"]) for request in owners.sent
            }
            assert len(listed) == len(owners.sent)
            assert len({item["content_digest"] for item in listed}) == len(owners.sent)
            lines = check_chain(server, tokens["owner-0"], plan, tmp_path)
            assert len(lines) == len(owners.sent)
        assert server.stop() == 0
    assert unanswered >= 1  # otherwise no kill has hit anything
    record_property(
        "kills", f"{N_KILLS}: {len(owners.sent)} sent, {unanswered} unanswered, {found_again} there"
    )


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "everything"])
def test_a_job_that_was_killed_is_taken_up_again_and_finishes_once(own_server, victim):
    with own_server(does_jobs=True) as server:
        server.add("client", "client")
        token = server.add("agency", "agency")
        create_population(server.agency, POPULATION, "")
        upload_model(server.agency, server.caller("agency"), POPULATION, model_file())
        wait_until(lambda: server.events("job ended"))  # the frontier of the model
        for _ in range(5):  # a job may be done before the signal comes
            job = killed_while_running(server, victim)
            if job is not None:
                break
        else:
            pytest.fail("Every job was finished before its worker could be killed.")
        with server.client(token) as client:
            wait_until(lambda: client.get(f"/api/v1/jobs/{job}").json()["status"] in ("done", "failed"))
            found = client.get(f"/api/v1/jobs/{job}").json()
            assert found["status"] == "done", found["error"]
            planned = [item["plan"] for item in client.get("/api/v1/requests").json()["entries"]]
            assert found["result"]["plan"] in planned
            assert {item["digest"] for item in client.get("/api/v1/plans").json()["entries"]} == set(planned)
        wait_until(lambda: any(entry["job"] == job for entry in server.events("job ended")))
        begun = [entry for entry in server.events("job begun") if entry["job"] == job]
        ended = [entry for entry in server.events("job ended") if entry["job"] == job]
        assert [entry["attempt"] for entry in begun] == [1, 2]
        assert [(entry["ok"], entry["process"]) for entry in ended] == [(True, begun[1]["process"])]


def killed_while_running(server, victim):
    """Starts a job and kills who does it; None if it was finished before."""
    wish = {name: value for name, value in WISH.items() if name != "population"}
    wish["records"] += len(server.events("job begun"))  # another plan every time
    filed = file_request(server.agency, server.caller("client"), POPULATION, Wish(**wish))
    job = begin_job(server.agency, server.caller("agency"), filed.id, "plan").id
    wait_until(lambda: any(entry["job"] == job for entry in server.events("job begun")))
    [begun] = [entry for entry in server.events("job begun") if entry["job"] == job]
    os.kill(begun["process"], signal.SIGSTOP)  # it does nothing more, whatever happens below
    with server.agency.database.reading() as session:
        was_running = session.get_one(Job, job).status == "running"
    if not was_running:
        os.kill(begun["process"], signal.SIGCONT)
        return None
    if victim == "worker":
        server.kill_worker()
        server.start_worker()
    else:
        server.kill()
        server.start()
    return job
