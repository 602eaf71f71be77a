"""A request for closeness on its whole way: asked for, previewed, planned, registered, refused, audited."""

from dataclasses import fields

import numpy as np
import pytest
from tests.agency.registrations import make_plan
from tests.agency.server.service import WISH
from tests.agency.server.test_protocol import fetched, records_of, register
from tests.agency.server.visitor import Page

from elldelta.ledger.ledger import verify_ledger
from elldelta.plan.wish import Wish

CLOSE = {name: value for name, value in WISH.items() if name not in ("ell", "delta")}


def test_a_request_for_closeness_alone_goes_the_whole_way(service, tmp_path):
    service.add("other-owner", "owner")
    service.add_model()
    asked = service.post("client", "/requests", {**CLOSE, "closeness": 0.4}, status=201).json()
    assert asked["wishes"]["closeness"] == 0.4
    assert asked["wishes"]["ell"] == 1
    number = asked["id"]
    preview = service.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
    service.work()
    seen = service.get("agency", f"/jobs/{preview}").json()
    promise = seen["result"]["plan"]["promise"]
    assert "40 percentage points" in promise
    headers = {"Authorization": f"Bearer {service.tokens['agency']}"}
    words = Page(service.send("GET", f"/requests/{number}", headers=headers).text).words
    assert promise in words
    assert words.count("chance of at most 0.") == promise.count("chance of at most 0.") == 1
    assert "one in a million" not in words, "how often it passes is estimated, and the promise says so"
    job = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    service.work()
    digest = service.get("agency", f"/jobs/{job}").json()["result"]["plan"]
    plan = fetched(service, "owner", digest)
    assert plan.columns[0].closeness.limit == 0.4
    details = service.get("auditor", f"/plans/{digest}").json()["plan"]
    assert details["closeness"] == 0.4
    first = register(service, "owner", plan, records_of(plan, 3000, 1))
    assert first.status_code == 201, first.text
    second = register(service, "other-owner", plan, records_of(plan, 3000, 2))
    assert second.status_code == 201, second.text
    ledger = tmp_path / "exported.ledger"
    ledger.write_bytes(service.get("auditor", f"/plans/{digest}/ledger").content)
    chain = verify_ledger(ledger, plan_digest=digest, promises=plan.promises, head=first.json()["hash"])
    assert chain.n_releases == 2
    assert "40 percentage points" in chain.promise
    # Others see neither whose releases these are nor what they show.
    sealed = service.get("client", f"/plans/{digest}/ledger").content
    assert b"counts" not in sealed
    ledger.write_bytes(sealed)
    assert len(verify_ledger(ledger, plan_digest=digest, promises=plan.promises).sealed) == 2
    service.get("auditor", f"/plans/{digest}/audit", status=202)
    service.work()
    audit = service.get("auditor", f"/plans/{digest}/audit").json()["result"]["audit"]
    assert audit["holds"]
    assert audit["closeness"]["distance"] <= audit["closeness"]["bound"] <= 0.4
    assert "in shares" in audit["verdict"]


def test_counts_that_pass_ell_but_not_closeness_are_refused_and_change_nothing(service):
    plan = service.issue(make_plan(closeness=(0.4, [[10] * 6] * 4), records=2000))
    skewed = np.full((4, 6), 10)
    skewed[2] = [950, 10, 10, 10, 10, 10]
    refused = service.register("owner", plan, skewed, status=409)
    assert "certificate" in refused.json()["error"]["problem"]
    low = np.full((4, 6), 10)
    low[0] += [-10, 0, 0, 10, 0, 0]
    told = service.register("owner", plan, low, status=201).json()
    service.publish("owner", plan, told["content_digest"])
    for place, owner in enumerate(("one", "two")):
        service.add(owner, "owner")
        other = np.full((4, 6), 10 + place)
        other[0, 1] -= 10 + place
        other[0, 4] += 10 + place
        told = service.register(owner, plan, other, status=201).json()
        service.publish(owner, plan, told["content_digest"])
    service.add("three", "owner")
    third = np.full((4, 6), 10)
    third[0] += [0, 0, -10, 0, 0, 10]  # its certificate holds; with the others it would be 0.5
    before = service.get("agency", f"/plans/{plan.digest}/ledger").content
    refused = service.register("three", plan, third, status=409)
    assert "away from the reference" in refused.json()["error"]["found"]
    assert service.get("agency", f"/plans/{plan.digest}/ledger").content == before
    assert len(before.splitlines()) == 1 + 3
    elsewhere = service.register("three", plan, third[[1, 0, 2, 3]])
    assert elsewhere.status_code == 201, elsewhere.text


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"closeness": 0.0}, 422),
        ({"closeness": 1.0}, 422),
        ({"closeness": "x"}, 422),
        ({"closeness_to": "nobody", "closeness": 0.2}, 422),
        ({}, 422),
        ({"closeness": 0.2, "kind": "probabilistic"}, 422),
        ({"closeness": 0.2}, 201),
        ({"closeness": 0.2, "ell": 2, "merge_risk": 0.1}, 201),
    ],
)
def test_wishes_for_closeness_are_checked_when_they_are_filed(service, wish, status):
    service.add_model()
    answer = service.ask("client", "POST", "/requests", json={**CLOSE, **wish})
    assert answer.status_code in ({400, 422} if status == 422 else {status}), answer.text


def test_a_wish_is_stored_whole_but_for_what_the_agency_decides(service):
    service.add_model()
    asked = service.post("client", "/requests", WISH, status=201).json()["wishes"]
    assert asked.keys() == {field.name for field in fields(Wish)} - {"p", "beta"}
    assert (asked["ell"], asked["closeness"]) == (WISH["ell"], None)
