"""Races: many owners at once, over HTTP, against two server processes, where only two can be admitted."""

import asyncio
import contextlib
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy import select
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.real_server import DATABASES, PATIENCE, RealServer, bearer, own_settings
from tests.switch import quick_or_all

from elldelta.agency.server.services.ledger import export_ledger, report_state, show_ledger
from elldelta.agency.server.services.releases import register_release
from elldelta.agency.server.state import Agency
from elldelta.agency.server.tables import LedgerLine
from elldelta.cli.main import execute

_numbers = itertools.count(1)

N_OWNERS = quick_or_all(16, 32)
ROOM = 2


def certified_plan():
    """Together releases may miss four values of a class, and each owner misses two that nobody else misses.

    Any two owners fit, whoever they are, and a third one never does.
    """
    plan = make_plan(n_values=2 * N_OWNERS + 2, ell=2 * N_OWNERS - 2, releases=ROOM)
    return plan, [full(plan, (0, 2 * place), (0, 2 * place + 1)) for place in range(N_OWNERS)]


def probabilistic_plan():
    """A promise about two releases; every release would pass all other checks."""
    plan = make_plan(releases=ROOM, kind="probabilistic", records=72)
    return plan, [full(plan, n=3 + place) for place in range(N_OWNERS)]


@pytest.fixture(scope="module", params=DATABASES)
def server(request, tmp_path_factory):
    """One server for all races on a database: every race has a population of its own."""
    folder = tmp_path_factory.mktemp("race")
    with (
        own_settings(request.param, request, folder) as settings,
        RealServer(settings, folder / "server.log", workers=2) as running,
    ):
        yield running


@pytest.fixture
def own():
    """A name that no other test uses."""
    return f"race-{next(_numbers)}"


def all_at_once(server, requests):
    """Sends requests (token, path, content), each by a client of its own whose connection is open.

    Connections are opened until every process of the server holds some: it is a race between processes, too.
    """

    async def run():
        deadline = time.monotonic() + PATIENCE
        while True:
            async with contextlib.AsyncExitStack() as stack:
                opened = [await stack.enter_async_context(client_of(token)) for token, *_ in requests]
                n_before = len(server.events("request"))
                for client in opened:
                    assert (await client.get("/api/v1/me")).status_code == 200
                holding = {entry["process"] for entry in server.events("request")[n_before:]}
                if len(holding) == server.workers:
                    return await asyncio.gather(
                        *(
                            client.post(
                                path,
                                content=content,
                                headers={"Content-Type": "application/json"},
                            )
                            for client, (_, path, content) in zip(opened, requests, strict=True)
                        )
                    )
            assert time.monotonic() < deadline, f"Only {len(holding)} of the server's processes answer."

    def client_of(token):
        return httpx.AsyncClient(
            base_url=server.url, headers=bearer(token), timeout=PATIENCE, trust_env=False
        )

    return asyncio.run(run())


def check_chain(server, token, plan, folder):
    """Exports ledger and plan and lets the command verify them, offline; returns the lines."""
    with server.client(token) as client:
        for name, path in (("ledger", "ledger"), ("plan.json", "file")):
            answer = client.get(f"/api/v1/plans/{plan.digest}/{path}").raise_for_status()
            (folder / name).write_bytes(answer.content)
    assert execute(["ledger", "verify", str(folder / "ledger"), "--plan", str(folder / "plan.json")]) == 0
    return (folder / "ledger").read_bytes().splitlines()[1:]


@pytest.mark.parametrize("make", [certified_plan, probabilistic_plan])
def test_of_many_at_once_exactly_two_are_admitted(server, own, tmp_path, make):
    plan, counts = make()
    server.issue(plan, own)
    path = f"/api/v1/plans/{plan.digest}/releases"
    requests = [
        (
            server.add(f"{own}-{place}", "owner"),
            path,
            make_registration(plan, table).to_bytes(),
        )
        for place, table in enumerate(counts)
    ]
    answers = all_at_once(server, requests)

    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(201), statuses.count(409)) == (ROOM, N_OWNERS - ROOM), statuses
    accepted = {answer.json()["owner"]: answer.json() for answer in answers if answer.status_code == 201}
    assert {item["sequence"] for item in accepted.values()} == {1, 2}
    for answer in answers:
        if answer.status_code == 409:
            document = answer.json()
            assert document["error"]["problem"]
            assert document["error"]["found"]
    handled = {entry["process"] for entry in server.events("request") if entry["status"] in (201, 409)}
    assert len(handled) == 2  # it was a race between processes, too

    lines = check_chain(server, requests[0][0], plan, tmp_path)
    assert len(lines) == ROOM
    with server.client(server.add(f"{own}-auditor", "auditor")) as client:
        listed = client.get(path).json()["entries"]
    assert {item["owner"]: item["hash"] for item in listed} == {
        owner: item["hash"] for owner, item in accepted.items()
    }
    repeated = all_at_once(server, requests)
    assert [one.json().get("sequence") for one in repeated] == [one.json().get("sequence") for one in answers]
    assert {one.status_code for one in repeated} == {200, 409}
    assert check_chain(server, requests[0][0], plan, tmp_path) == lines


def test_many_repeats_of_one_request_add_one_line(server, own, tmp_path):
    plan = server.issue(make_plan(records=1_001), own)
    token = server.add(own, "owner")
    content = make_registration(plan, full(plan)).to_bytes()
    request = (token, f"/api/v1/plans/{plan.digest}/releases", content)
    answers = all_at_once(server, [request] * N_OWNERS)
    assert sorted(answer.status_code for answer in answers) == [200] * (N_OWNERS - 1) + [201]
    assert {answer.json()["sequence"] for answer in answers} == {1}
    assert len(check_chain(server, token, plan, tmp_path)) == 1


@pytest.mark.both_databases
def test_no_reader_or_owner_among_many_is_told_of_damage(service):
    """Owners register, publish and read at the same time, at two agencies that share a database."""
    plan = service.issue(make_plan(releases=3))
    owners = [f"own-{number}" for number in range(quick_or_all(12, 150))]
    for owner in owners:
        service.add(owner, "owner")

    def work(number, owner):
        agency, caller = agencies[number % 2], service.caller(owner)
        registration = make_registration(plan, full(plan, n=3 + number))
        told = register_release(agency, caller, plan.digest, registration.to_bytes())
        show_ledger(agency, caller, plan.digest)
        state = "published" if number % 3 else "voided"
        report_state(agency, caller, plan.digest, registration.content_digest, state)
        return told.sequence, show_ledger(agency, caller, plan.digest).n_lines

    with contextlib.closing(Agency.open(service.settings)) as other, ThreadPoolExecutor(6) as threads:
        agencies = service.agency, other
        found = list(threads.map(work, range(len(owners)), owners))
    assert len({sequence for sequence, _ in found}) == len(owners)
    chain = show_ledger(service.agency, service.caller("auditor"), plan.digest)
    assert chain.n_releases == sum(number % 3 > 0 for number in range(len(owners)))
    assert chain.n_lines == max(n_lines for _, n_lines in found)


@pytest.mark.both_databases
def test_who_reads_sees_one_state_of_the_database(service):
    """What others commit between two of its statements is not there."""
    plan = service.issue(make_plan(releases=3))
    auditor = service.caller("auditor")
    with service.agency.database.reading() as session:
        before = session.scalars(select(LedgerLine.sequence)).all()
        service.register("owner", plan, full(plan), status=201)
        assert session.scalars(select(LedgerLine.sequence)).all() == before == []
    assert len(export_ledger(service.agency, auditor, plan.digest).splitlines()) == 2
