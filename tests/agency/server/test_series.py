"""Tables that are published again, over HTTP: one wins, nothing is kept of people, pages tell what waits."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from tests.agency.server.visitor import Page

from elldelta.agency.server.services.releases import register_release
from elldelta.errors import RefusedError
from elldelta.ledger import parse_chain

pytestmark = pytest.mark.both_databases


@pytest.fixture
def owners(living_owners):
    return living_owners


@pytest.fixture
def served(service, owners):
    """A service that has issued the plan, and owners whom it knows."""
    for name in ("a", "b"):
        service.add(name, "owner")
    service.issue(owners.plan)
    return service


def send(service, owners, name, *, status=201):
    """Registers a table; that of the other owner is published, or everything would have to wait for it."""
    registration = owners.fork if name == "fork" else owners.sent[name]
    who = "b" if name == "b0" else "a"
    told = service.ask(
        who,
        "POST",
        f"/plans/{owners.plan.digest}/releases",
        status=status,
        content=registration.to_bytes(),
        headers={"Content-Type": "application/json"},
    ).json()
    if who == "b":
        service.publish(who, owners.plan, registration.content_digest)
    return told


def see(service, who, path):
    """What a page says to somebody."""
    answer = service.send("GET", path, headers={"Authorization": f"Bearer {service.tokens[who]}"})
    assert answer.status_code == 200
    page = Page(answer.text)
    assert not page.unbalanced
    return page.words


def test_a_series_is_admitted_line_by_line(served, owners):
    answers = [send(served, owners, name) for name in ("a0", "b0", "a1")]
    assert [answer["sequence"] for answer in answers] == [1, 2, 3]
    assert send(served, owners, "a1", status=200)["hash"] == answers[2]["hash"]
    refused = send(served, owners, "fork", status=409)
    assert "not that of the last release" in refused["error"]["problem"]
    assert send(served, owners, "a2")["sequence"] == 4
    assert send(served, owners, "a3")["sequence"] == 5
    exported = served.get("agency", f"/plans/{owners.plan.digest}/ledger").content
    assert exported.splitlines()[1:] != []
    assert len(parse_chain(exported, "It").totals.missed[0].series.updates["a"]) == 3
    hidden = parse_chain(served.get("b", f"/plans/{owners.plan.digest}/ledger").content, "It")
    assert (len(hidden.sealed), len(hidden.active)) == (4, 1)


def test_of_two_updates_at_once_exactly_one_wins(served, owners):
    send(served, owners, "a0")
    caller, plan = served.caller("a"), owners.plan.digest
    contents = [registration.to_bytes() for registration in (owners.sent["a1"], owners.fork)] * 3

    def register(place):
        try:
            return 201 if register_release(served.agency, caller, plan, contents[place]).is_new else 200
        except RefusedError:
            return 409

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(register, range(6)))
    assert sorted(statuses) == [200, 200, 201, 409, 409, 409]
    exported = served.get("agency", f"/plans/{plan}/ledger").content
    assert len(parse_chain(exported, "It").active) == 2


def test_what_was_compared_with_is_not_taken_back(served, owners):
    for name in ("a0", "a1"):
        send(served, owners, name)
    path = f"/plans/{owners.plan.digest}/releases/{{}}/state"
    first, second = (owners.sent[name].content_digest for name in ("a0", "a1"))
    refused = served.put("a", path.format(first), {"state": "voided"}, status=409).json()
    assert "compared with this one" in refused["error"]["problem"]
    served.put("a", path.format(second), {"state": "voided"})
    send(served, owners, "fork")  # the state before counts again
    served.put("a", path.format(first), {"state": "published"})


def test_nothing_about_people_is_kept(served, owners):
    for name in ("a0", "a1", "a2"):
        send(served, owners, name)
    with served.agency.database.reading() as session:
        for table in ("registrations", "ledger_lines", "refusals", "trail"):
            kept = str(session.execute(text(f"SELECT * FROM {table}")).all())  # noqa: S608 (names of ours)
            assert "canary" not in kept
            assert "came" not in kept


def test_pages_show_what_waits(served, owners):
    for name in ("a0", "b0", "a1", "a2"):
        send(served, owners, name)
    plan = f"/plans/{owners.plan.digest}"
    told = served.get("a", f"{plan}/releases", params={"owner": "a"}).json()["entries"]
    assert [item["updates"] for item in told] == [None, 1, 3]
    assert told[2]["update"]["classes_withheld"] == 1
    [seen] = served.get("client", f"{plan}/releases").json()["entries"]
    assert seen["owner"] == "b"
    series = see(served, "agency", f"{plan}/series/a")
    assert "Planned classes withheld 1" in series
    assert "updates line 3" in see(served, "agency", f"{plan}/ledger")
    assert "published no table again" in see(served, "client", f"{plan}/series/a")
    for item in told:
        served.put("a", f"{plan}/releases/{item['content_digest']}/state", {"state": "published"})
    assert "1 owner has published a table again" in see(served, "client", "/populations/region")
