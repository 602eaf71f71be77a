"""The trail: who did what and signed in, in the transaction in which it happened, and never changed."""

import pytest
import sqlalchemy as sa
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.expected_rights import API
from tests.agency.server.service import POPULATION, WISH, model_file
from tests.agency.server.visitor import visitor

from elldelta.agency.server.errors import NotLoggedInError
from elldelta.agency.server.paging import Cursor
from elldelta.agency.server.services.parties import list_trail, log_in


def test_who_did_what_is_written_down(service):
    with pytest.raises(NotLoggedInError):
        log_in(service.agency, "secret-in-the-wrong-field", address="198.51.100.8")
    log_in(service.agency, service.tokens["client"], address="192.0.2.1")
    token = service.post("agency", "/parties/owner/tokens", {}, status=201).json()["id"]
    service.ask("agency", "DELETE", f"/tokens/{token}", status=200)
    plan = service.issue()
    service.post("agency", f"/plans/{plan.digest}/withdraw", {"reason": "why"})
    service.post("agency", "/parties", {"name": "paul", "role": "owner"}, status=201)
    service.post("agency", "/parties", {"name": "paul", "role": "owner"}, status=409)  # nothing was done
    told = service.get("auditor", "/trail").json()["entries"]
    found = [(item["party"], item["action"], item["subject"], item["address"]) for item in told]
    here = "192.0.2.7"
    assert found == [
        ("agency", "POST /api/v1/parties", "paul owner", here),
        ("agency", "POST /api/v1/plans/{digest}/withdraw", plan.digest, here),
        ("agency", "DELETE /api/v1/tokens/{id}", token, here),
        ("agency", "POST /api/v1/parties/{name}/tokens", f"owner owner {token}", here),
        ("client", "signed in", service.tokens["client"].split("_")[1], "192.0.2.1"),
    ]
    assert "secret-in-the-wrong-field" not in str(told)
    for who in ("owner", "client"):
        service.get(who, "/trail", status=403)
    for who in ("agency", "auditor"):
        browser = visitor(service, who)
        assert "signed in" in browser.see("/trail").words
        browser.__exit__(None, None, None)


def test_every_route_that_changes_something_leaves_one_entry(service):
    """Whatever its body: registrations and models come another way than the rest."""
    found = set()

    def change(who, method, path, **options):
        n_before = len(list_trail(service.agency, Cursor(limit=500)))
        answer = service.ask(who, method, path, **options)
        assert answer.status_code < 300, answer.text
        entries = list_trail(service.agency, Cursor(limit=500)).entries
        assert len(entries) == n_before + 1, (method, path)
        assert entries[0].party == who
        found.add(tuple(entries[0].action.split(" ")))
        return answer.json()

    change("agency", "POST", "/parties", json={"name": "paul", "role": "owner"})
    token = change("agency", "POST", "/parties/paul/tokens", json={})["id"]
    change("agency", "DELETE", f"/tokens/{token}")
    change("agency", "DELETE", "/parties/paul")
    change("agency", "POST", "/populations", json={"name": POPULATION, "title": "The region"})
    binary = {"Content-Type": "application/octet-stream"}
    change("agency", "PUT", f"/populations/{POPULATION}/model", content=model_file(), headers=binary)
    numbers = [change("client", "POST", "/requests", json=WISH)["id"] for _ in range(2)]
    change("agency", "POST", f"/requests/{numbers[0]}/decline", json={"reason": "no"})
    change("agency", "POST", f"/requests/{numbers[1]}/preview")
    change("agency", "POST", f"/requests/{numbers[1]}/plan")
    old, new = service.issue(make_plan(releases=3)), service.issue(make_plan(releases=2))
    headers = {"Content-Type": "application/json"}
    content = make_registration(old, full(old)).to_bytes()
    path = f"/plans/{old.digest}/releases"
    told = change("owner", "POST", path, content=content, headers=headers)
    own = f"{path}/{told['content_digest']}/state"
    change("owner", "PUT", own, json={"state": "published"})
    n_before = len(list_trail(service.agency, Cursor(limit=500)))
    service.put("owner", own, {"state": "published"})  # said before: nothing happens
    assert len(list_trail(service.agency, Cursor(limit=500))) == n_before
    change("agency", "POST", f"/plans/{old.digest}/supersede", json={"by": new.digest})
    change("agency", "POST", f"/plans/{new.digest}/withdraw", json={"reason": "no"})
    changing = {route for route in API if route[0] not in ("GET", "HEAD")}
    # Owners report their progress every few minutes, and a later number replaces it.
    assert found == changing - {("PUT", "/api/v1/plans/{digest}/progress")}


def test_nothing_of_it_can_be_changed(service):
    log_in(service.agency, service.tokens["client"], address="198.51.100.7")
    n_before = len(list_trail(service.agency))
    for statement in (
        "UPDATE trail SET address = 'elsewhere'",
        "DELETE FROM trail",
        "UPDATE trail SET party_id = NULL",
    ):
        with pytest.raises(Exception, match="append-only"), service.agency.database.writing() as session:
            session.execute(sa.text(statement))
    assert len(list_trail(service.agency)) == n_before


def test_what_does_not_happen_leaves_no_entry_and_no_entry_nothing_that_happens(service):
    """The entry is written in the transaction of what it is about."""
    n_before = len(list_trail(service.agency))
    service.post("agency", "/populations", {"name": "bad name"}, status=422)
    assert len(list_trail(service.agency)) == n_before
    with service.agency.database.writing() as session:
        session.execute(sa.text("CREATE TABLE apart AS SELECT * FROM trail"))
        session.execute(sa.text("ALTER TABLE trail RENAME TO trail_away"))
    answer = service.ask("agency", "POST", "/populations", json={"name": "unseen"})
    assert answer.status_code >= 500
    with service.agency.database.writing() as session:
        session.execute(sa.text("ALTER TABLE trail_away RENAME TO trail"))
    service.get("agency", "/populations/unseen", status=404)
