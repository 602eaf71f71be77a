"""Registrations: known by their content, atomic, refused with the reason; the ledger only grows."""

import json
import threading
from dataclasses import replace

import pytest
import sqlalchemy as sa
from tests.agency.registrations import (
    FIRST_AND_REST,
    HALVES,
    forged,
    full,
    make_plan,
    make_registration,
    plain,
)

from elldelta.agency.receipt import Receipt
from elldelta.agency.server.services.plans import withdraw_plan
from elldelta.agency.server.services.releases import list_refusals, register_release
from elldelta.errors import RefusedError
from elldelta.ledger.ledger import verify_ledger

pytestmark = pytest.mark.both_databases

ROOM_FOR_TWO = {"ell": 2, "releases": 2, "n_values": 6}


def exported(service, plan, tmp_path):
    path = tmp_path / "ledger"
    path.write_bytes(service.get("auditor", f"/plans/{plan.digest}/ledger").content)
    return verify_ledger(path, plan_digest=plan.digest)


def rows_of(service):
    with service.agency.database.reading() as session:
        return {
            table: session.scalar(sa.select(sa.func.count()).select_from(sa.table(table)))
            for table in ("ledger_lines", "registrations", "refusals")
        }


def test_an_admission_is_signed_by_the_agency(service):
    plan = service.issue()
    for status in (201, 200):
        told = service.register("owner", plan, full(plan), status=status).json()
        receipt = Receipt(
            server="", owner="owner", plan_digest=plan.digest, content_digest=told["content_digest"],
            registration_digest=plan.digest, sequence=told["sequence"], hash=told["hash"],
            key_id=told["key_id"], signature=told["signature"],
            population=told["population"],
        )  # fmt: skip
        receipt.verify(service.agency.key.public_key)
        with pytest.raises(RefusedError):
            replace(receipt, sequence=2).verify(service.agency.key.public_key)


def test_the_same_content_finds_its_line(service, tmp_path):
    plan = service.issue()
    first = service.register("owner", plan, full(plan), status=201).json()
    second = service.register("owner", plan, full(plan), status=200).json()
    assert second == {**first, "is_new": False}
    assert rows_of(service) == {"ledger_lines": 1, "registrations": 1, "refusals": 0}
    assert exported(service, plan, tmp_path).n_releases == 1


def registered(service, who, plan, counts):
    """Registers a release and publishes it."""
    service.publish(who, plan, service.register(who, plan, counts, status=201).json()["content_digest"])


def test_a_release_that_would_take_a_class_below_ell_is_refused_with_the_reason(service, tmp_path):
    """Six witnesses, ell 2, t 2: each release may miss two of a class, three of them would leave none."""
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    for name in ("b", "c"):
        service.add(name, "owner")
    registered(service, "owner", plan, full(plan, (0, 0), (0, 1)))
    registered(service, "b", plan, full(plan, (0, 2), (0, 3)))
    before = rows_of(service)
    refused = service.register("c", plan, full(plan, (0, 4), (0, 5)), status=409).json()
    assert refused["error"]["problem"]
    after = rows_of(service)
    assert after["ledger_lines"] == before["ledger_lines"] == 2
    assert after["registrations"] == 2
    assert exported(service, plan, tmp_path).owners == ("b", "owner")
    assert service.register("c", plan, full(plan, (0, 4), (0, 5)), status=409).json() == refused
    kept = service.get("agency", f"/plans/{plan.digest}/refusals").json()["entries"]
    assert [(item["owner"], item["problem"]) for item in kept] == [("c", refused["error"]["problem"])] * 2
    assert service.get("b", f"/plans/{plan.digest}/refusals").json()["entries"] == []
    service.register("c", plan, full(plan, (0, 2), (0, 3), n=4), status=201)  # what is missing anyway


def test_releases_of_other_plans_for_the_same_people_are_linked_too(service):
    """Two plans with other classes: neither ledger sees it, the exact linkage leaves only the sixth value."""
    fine = service.issue(make_plan(**ROOM_FOR_TWO))
    coarse = service.issue(make_plan(boxes=HALVES, **ROOM_FOR_TWO))
    service.add("b", "owner")
    service.add("c", "owner")
    registered(service, "owner", fine, full(fine, (0, 0), (0, 1)))
    told = service.register("b", fine, full(fine, (0, 1), (0, 2)), status=201).json()
    waits = service.register("c", coarse, full(coarse, (0, 3), (0, 4)), status=409).json()
    assert "1 release of other owners is not published yet" in waits["error"]["found"]
    service.publish("b", fine, told["content_digest"])
    refused = service.register("c", coarse, full(coarse, (0, 3), (0, 4)), status=409).json()
    assert refused["error"]["found"] == "Fewer than 2 values of 'disease'."
    elsewhere = service.issue(make_plan(boxes=FIRST_AND_REST, **ROOM_FOR_TWO), population="another")
    service.register("c", elsewhere, full(elsewhere, (0, 3), (0, 4)), status=201)


LIES = (
    {"content_digest": "sha256:" + "0" * 64},
    {"merged": [[2, 3]]},
    {"merged": "all"},
    {"cells": {"classes": [0], "values": [0], "counts": [1]}},
    {"cells": {"classes": [0], "values": [0], "counts": "many"}},
    {"extra": 1},
)
NO_REGISTRATIONS = (b"", b"{}", b"[]", b"null", b"{", b"\xff", b'{"kind": 1}', b"[" * 60_000)


def test_a_registration_that_is_not_what_it_says_is_refused(service):
    plan = service.issue()
    honest = make_registration(plan, full(plan))
    contents = [json.dumps(forged(honest, **change)).encode() for change in LIES]
    for content in (*contents, *NO_REGISTRATIONS):
        answer = service.ask(
            "owner",
            "POST",
            f"/plans/{plan.digest}/releases",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 422, (content[:100], answer.text)
    assert rows_of(service) == {"ledger_lines": 0, "registrations": 0, "refusals": 0}


def test_a_registration_of_another_plan_is_refused(service):
    plan, other = service.issue(), make_plan(ell=3)
    service.ask(
        "owner",
        "POST",
        f"/plans/{plan.digest}/releases",
        status=422,
        json=plain(make_registration(other, full(other))),
    )


def test_of_many_at_once_only_those_that_fit_are_admitted(service, tmp_path):
    """Room for two that miss different pairs: whoever comes first; the chain is intact, nobody twice."""
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    misses = [((0, 0), (0, 1)), ((0, 2), (0, 3)), ((0, 4), (0, 5))]
    names = [f"owner-{number}" for number in range(9)]
    for name in names:
        service.add(name, "owner")
    answers = {}

    def run(name, number):
        content = make_registration(plan, full(plan, *misses[number % 3], n=3 + number)).to_bytes()
        caller = service.caller(name)
        for _ in range(2):  # everybody sends it twice
            try:
                told = register_release(service.agency, caller, plan.digest, content).sequence
            except RefusedError:
                told = None
            answers.setdefault(name, []).append(told)

    threads = [threading.Thread(target=run, args=(name, number)) for number, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(first == second for first, second in answers.values())
    accepted = [name for name, [first, _] in answers.items() if first is not None]
    report = exported(service, plan, tmp_path)
    assert sorted(report.owners) == sorted(accepted)
    # Nobody has published: each of them counts as if it missed other values, whatever it misses.
    assert len(accepted) == 2
    # Whoever misses the same pair as one that is published needs no more room: two of the three pairs.
    pairs = set()
    for number, name in sorted(enumerate(names), key=lambda item: item[1] not in accepted):
        answer = service.register(name, plan, full(plan, *misses[number % 3], n=3 + number))
        assert (answer.status_code < 300) == (len(pairs | {number % 3}) <= 2)
        if answer.status_code < 300:
            pairs.add(number % 3)
            service.publish(name, plan, answer.json()["content_digest"])
    assert len(pairs) == 2


def test_a_line_that_somebody_has_tampered_with_stops_everything(service):
    """Not even a triggerless database can lie: the chain is checked before a line is added."""
    plan = service.issue()
    service.add("other", "owner")
    service.register("owner", plan, full(plan), status=201)
    with service.agency.database.writing() as session:
        if service.agency.database.is_sqlite:
            session.execute(sa.text("DROP TRIGGER ledger_lines_no_update"))
        else:
            session.execute(sa.text("ALTER TABLE ledger_lines DISABLE TRIGGER ledger_lines_no_change"))
        line = session.scalar(sa.text("SELECT line FROM ledger_lines"))
        changed = bytes(line).replace(b'"owner":"owner"', b'"owner":"other"')
        session.execute(sa.text("UPDATE ledger_lines SET line = :line"), {"line": changed})
    answer = service.register("other", plan, full(plan, n=4), status=500)
    assert "owner" not in answer.text
    assert rows_of(service)["ledger_lines"] == 1


def test_a_repeat_finds_its_line_even_when_the_plan_was_withdrawn(service):
    plan = service.issue()
    first = service.register("owner", plan, full(plan), status=201).json()
    withdraw_plan(service.agency, plan.digest, "A test.")
    assert service.register("owner", plan, full(plan), status=200).json() == {**first, "is_new": False}
    service.register("owner", plan, full(plan, n=4), status=409)


def test_whoever_is_refused_too_often_has_to_wait_and_leaves_no_trace(make_service):
    service = make_service(refusals_daily=3)
    service.add("other", "owner")
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    told = service.register("owner", plan, full(plan, n=9), status=201).json()
    wrong = ((0, 0), (0, 1), (0, 2))
    for number in range(3):
        service.register("owner", plan, full(plan, *wrong, n=3 + number), status=409)

    def traces():
        with service.agency.database.reading() as session:
            tables = ("refusals", "trail", "ledger_lines", "registrations")
            return [session.scalar(sa.text(f"SELECT count(*) FROM {table}")) for table in tables]  # noqa: S608

    before = traces()
    for counts in (full(plan, *wrong, n=20), full(plan, n=30)):  # also what would be admitted
        answer = service.register("owner", plan, counts, status=429)
        assert 86_000 < int(answer.headers["Retry-After"]) <= 86_400
        assert "3 within 24 hours" in answer.json()["error"]["found"]
    assert service.register("owner", plan, full(plan, n=9), status=200).json()["hash"] == told["hash"]
    assert traces() == before
    service.register("other", plan, full(plan), status=201)
    service.clock.advance(days=1)
    service.register("owner", plan, full(plan, *wrong, n=4), status=409)


def test_taking_back_counts_as_an_attempt(make_service):
    service = make_service(refusals_daily=2)
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    for number in range(2):
        told = service.register("owner", plan, full(plan, n=3 + number), status=201).json()
        place = f"/plans/{plan.digest}/releases/{told['content_digest']}/state"
        service.put("owner", place, {"state": "voided"})
    service.register("owner", plan, full(plan, n=9), status=429)


def test_of_one_owner_only_the_newest_refusals_are_kept(make_service):
    service = make_service(refusals_kept=2)
    service.add("other", "owner")
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    elsewhere = service.issue(make_plan(boxes=FIRST_AND_REST, **ROOM_FOR_TWO), population="another")
    wrong = ((0, 0), (0, 1), (0, 2))
    service.register("other", plan, full(plan, *wrong), status=409)
    service.register("owner", elsewhere, full(elsewhere, *wrong), status=409)
    for number in range(4):
        service.register("owner", plan, full(plan, *wrong, n=3 + number), status=409)
        service.clock.advance(days=1, minutes=1)
    kept = list_refusals(service.agency, service.caller("agency"), plan.digest).entries
    assert [item.owner for item in kept] == ["owner", "owner", "other"]
    assert kept[0].refused > kept[1].refused > kept[2].refused
    assert len(list_refusals(service.agency, service.caller("agency"), elsewhere.digest)) == 1
