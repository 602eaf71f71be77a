"""Owners who publish one after the other through the agency's ledger, as many as the plan was made for."""

import contextlib
import json

import pytest
from tests.agency.server.service import POPULATION, WISH
from tests.agency.server.test_protocol import records_of
from tests.agency.server.visitor import visitor

import elldelta as ed
from elldelta.agency.registration import registration_of
from elldelta.plan.plan import Plan

ASKED = {key: value for key, value in WISH.items() if key != "delta"}


@contextlib.contextmanager
def signed_in(service, name):
    browser = visitor(service, name)
    yield browser
    browser.__exit__(None, None, None)


@pytest.fixture
def plan(service):
    """What a client gets who asks for three owners, and says nothing about any chance."""
    digest = service.planned(delta=0.01, owners=3, releases=1, records=300)
    return Plan.from_dict(json.loads(service.get("owner", f"/plans/{digest}/file").content))


def test_each_owner_fits_what_the_others_have_left(service, plan, tmp_path):
    assert plan.owners == 3
    owners = ["owner", "second", "third", "fourth"]  # one more than expected
    for number, owner in enumerate(owners):
        if number:
            service.add(owner, "owner")
        details = service.get(owner, f"/plans/{plan.digest}").json()
        assert (details["owners"], details["owners_admitted"]) == (3, number)
        copy = tmp_path / f"{owner}.ledger"
        copy.write_bytes(service.get(owner, f"/plans/{plan.digest}/ledger").content)
        ledger = ed.Ledger(copy, owner, is_copy=True)
        made = ed.release(records_of(plan, 300, number), plan, ledger=ledger)
        content = registration_of(made, plan).to_bytes()
        headers = {"Content-Type": "application/json"}
        service.ask(
            owner,
            "POST",
            f"/plans/{plan.digest}/releases",
            content=content,
            headers=headers,
            status=201,
        )
        service.publish(owner, plan, made.manifest.content_digest)  # then what it shows is known
    with signed_in(service, "agency") as agency:
        shown = agency.see(f"/plans/{plan.digest}").text
        assert "3 owners who publish one after the other" in shown
        assert "4 have a release in the ledger" in shown
        assert "5 lines" in agency.see(f"/plans/{plan.digest}/ledger").text  # with the first


def test_pages_say_that_nothing_fails(service):
    service.add_model()
    with signed_in(service, "client") as client, signed_in(service, "agency") as agency:
        typed = {"ell": "2", "releases": "2", "owners": "", "records": "2000"}
        place = f"/populations/{POPULATION}/ask"
        assert client.post(place, **typed).status_code == 303
        wishes = service.get("client", "/requests/1").json()["wishes"]
        assert (wishes["delta"], wishes["merge_risk"], wishes["owners"]) == (0.01, None, None)
        service.post("agency", "/requests/1/preview", status=202)
        service.work()
        for page in (agency.see("/requests/1"), client.see("/requests/1"), client.see("/requests")):
            assert "δ" in page.text
            assert "at most 1 " not in page.text
            assert "at most 1." not in page.text
        assert client.post(place, **{**typed, "owners": "4", "releases": ""}).status_code == 303
        wishes = service.get("client", "/requests/2").json()["wishes"]
        assert (wishes["owners"], wishes["releases"]) == (4, 1)
