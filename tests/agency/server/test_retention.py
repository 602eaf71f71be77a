"""What is kept for a time only: forgetting it admits nothing twice, and nothing grows without end."""

import datetime as dt

import pytest
import sqlalchemy as sa
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.real_server import wait_until
from tests.agency.server.test_registration import ROOM_FOR_TWO, rows_of

from elldelta.agency.server.services.ledger import show_ledger
from elldelta.agency.server.services.plans import withdraw_plan
from elldelta.agency.server.services.releases import list_refusals, register_release
from elldelta.agency.server.services.retention import forget_answers
from elldelta.agency.server.state import utc_now
from elldelta.agency.server.tables import Answer
from elldelta.agency.server.worker import JobWorkers

pytestmark = pytest.mark.both_databases


def register(service, plan, counts, key, who="owner"):
    """Registers without a token, which would end before the answer does."""
    content = make_registration(plan, counts).to_bytes()
    return register_release(service.agency, service.caller(who), plan.digest, key, content)


def test_a_repeat_after_its_answer_was_forgotten_is_not_admitted_twice(service):
    plan = service.issue()
    first = register(service, plan, full(plan), "one")
    service.clock.advance(days=29)
    assert forget_answers(service.agency) == 0
    assert register(service, plan, full(plan), "one") == first
    service.clock.advance(days=2)
    assert forget_answers(service.agency) == 1
    assert rows_of(service)["answers"] == 0
    again = register(service, plan, full(plan), "one")
    assert (again.status, again.document) == (200, {**first.document, "is_new": False})
    assert rows_of(service) == {"ledger_lines": 1, "registrations": 1, "answers": 1, "refusals": 0}
    assert show_ledger(service.agency, plan.digest).n_releases == 1


def test_a_repeat_finds_its_line_even_when_the_plan_was_withdrawn(service):
    plan = service.issue()
    first = register(service, plan, full(plan), "one")
    withdraw_plan(service.agency, plan.digest, "A test.")
    again = register(service, plan, full(plan), "two")
    assert (again.status, again.document) == (200, {**first.document, "is_new": False})
    assert register(service, plan, full(plan, n=4), "three").status == 409


def test_a_forgotten_refusal_is_decided_anew_and_a_forgotten_key_may_be_used_again(service):
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    refused = register(service, plan, full(plan, (0, 0), (0, 1), (0, 2)), "one")
    assert refused.status == 409
    service.clock.advance(days=31)
    forget_answers(service.agency)
    assert register(service, plan, full(plan, (0, 0), (0, 1), (0, 2)), "one") == refused
    service.clock.advance(days=31)
    forget_answers(service.agency)
    assert register(service, plan, full(plan), "one").status == 201


def test_of_one_party_only_so_many_answers_are_kept_and_the_oldest_go(make_service):
    service = make_service(answers_kept=3)
    service.add("other", "owner")
    plan = service.issue()
    for number in range(9):
        register(service, plan, full(plan), f"key-{number}")
        service.clock.advance(seconds=1)
    register(service, plan, full(plan, n=4), "key-0", who="other")
    assert forget_answers(service.agency, batch=2) == 6  # several transactions
    with service.agency.database.reading() as session:
        kept = session.execute(sa.select(Answer.party_id, Answer.key)).all()
    own, other = service.caller("owner").id, service.caller("other").id
    assert sorted(kept) == sorted([(own, f"key-{number}") for number in (6, 7, 8)] + [(other, "key-0")])


def test_of_one_owner_only_the_newest_refusals_are_kept(make_service):
    service = make_service(refusals_kept=2)
    service.add("other", "owner")
    plan = service.issue(make_plan(**ROOM_FOR_TWO))
    elsewhere = service.issue(make_plan(starts=(0, 5), **ROOM_FOR_TWO), population="another")
    wrong = ((0, 0), (0, 1), (0, 2))
    assert register(service, plan, full(plan, *wrong), "0", who="other").status == 409
    assert register(service, elsewhere, full(elsewhere, *wrong), "0").status == 409
    for number in range(4):
        assert register(service, plan, full(plan, *wrong, n=3 + number), f"{number + 1}").status == 409
        service.clock.advance(minutes=1)
    kept = list_refusals(service.agency, service.caller("agency"), plan.digest).entries
    assert [item.owner for item in kept] == ["owner", "owner", "other"]
    assert kept[0].refused > kept[1].refused > kept[2].refused
    assert len(list_refusals(service.agency, service.caller("agency"), elsewhere.digest)) == 1


@pytest.mark.both_databases("rarely")
def test_the_worker_of_a_running_service_removes_what_is_old(service):
    owner = service.caller("owner").id
    with service.agency.database.writing() as session:
        for key, moment in (("old", utc_now() - dt.timedelta(days=100)), ("new", utc_now())):
            session.add(
                Answer(
                    party_id=owner, key=key, request_digest="x", status=201, document={}, answered_at=moment
                )
            )

    def keys():
        with service.agency.database.reading() as session:
            return set(session.scalars(sa.select(Answer.key)))

    with JobWorkers(service.settings):
        wait_until(lambda: "old" not in keys())
    assert keys() == {"new"}
