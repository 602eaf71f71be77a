"""The protocol from beginning to end, over HTTP: ask, plan, broadcast, report, register, account."""

import json
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from tests.agency.registrations import full
from tests.agency.server.service import POPULATION, WISH, make_model, model_file

from elldelta.agency.registration import registration_of
from elldelta.agency.server.services.populations import upload_model
from elldelta.errors import ElldeltaError
from elldelta.files import TrustedKeys
from elldelta.ledger.ledger import verify_ledger
from elldelta.ledger.publish import release
from elldelta.plan.plan import Plan
from elldelta.plan.signature import verified_signature

pytestmark = pytest.mark.both_databases


def records_of(plan, n_records, seed, *, without=()):
    """A table that an owner might have: everybody can have everything, except for some diseases."""
    rng = np.random.default_rng(seed)
    diseases = [f"disease {number}" for number in range(6) if number not in without]
    return pa.table(
        {
            "age": rng.integers(30, 42, n_records),
            "gender": rng.choice(["f", "m"], n_records),
            "disease": rng.choice(diseases, n_records),
        }
    )


def fetched(service, who, digest):
    """What an owner does with a plan: fetch it, and check the signature with the agency's key."""
    content = service.get(who, f"/plans/{digest}/file").content
    plan = Plan.from_dict(json.loads(content))
    key = TrustedKeys.from_pem(service.get(None, "/key").json()["public_keys"].encode())
    assert (
        verified_signature(service.get(who, f"/plans/{digest}/signature").json(), key).plan_digest
        == plan.digest
    )
    return plan


def register(service, who, plan, table):
    content = registration_of(release(table, plan), plan).to_bytes()
    headers = {"Content-Type": "application/json"}
    return service.ask(who, "POST", f"/plans/{plan.digest}/releases", content=content, headers=headers)


def test_the_whole_protocol(service, tmp_path):
    service.add("other-owner", "owner")
    service.post("agency", "/populations", {"name": POPULATION, "title": "The region"}, status=201)
    service.post("client", "/requests", WISH, status=409)  # there is no model yet
    uploaded = service.ask(
        "agency",
        "PUT",
        f"/populations/{POPULATION}/model",
        status=200,
        content=model_file(),
        headers={"Content-Type": "application/octet-stream"},
    ).json()
    assert 0 <= make_model().n_records - uploaded["model"]["past_records"] < 100  # two digits
    assert [column["values"] for column in uploaded["model"]["sensitives"]] == [6]

    number = service.post("client", "/requests", WISH, status=201).json()["id"]
    preview = service.post("agency", f"/requests/{number}/preview", status=202).json()
    assert preview["status"] == "queued"
    service.work()
    seen = service.get("agency", f"/jobs/{preview['id']}").json()
    assert (seen["status"], seen["progress"]) == ("done", 1.0)
    classes = seen["result"]["plan"]["classes"]
    service.get("client", f"/jobs/{preview['id']}", status=404)

    frontier = service.get("client", f"/populations/{POPULATION}").json()["model"]["frontier"]
    assert frontier["rows"][-1]["classes"][0] >= classes > 1

    job = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    again = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    assert job == again  # asking twice plans once
    service.work()
    digest = service.get("agency", f"/jobs/{job}").json()["result"]["plan"]
    assert service.get("client", f"/requests/{number}").json()["plan"] == digest
    service.post("agency", f"/requests/{number}/plan", status=409)

    plan = fetched(service, "owner", digest)
    assert plan.n_classes == classes
    assert plan.digest == digest
    details = service.get("auditor", f"/plans/{digest}").json()
    assert details["plan"]["promise"] == plan.promise
    assert details["sensitive"] == "disease"

    service.put("owner", f"/plans/{digest}/progress", {"records": plan.records})
    service.get("agency", f"/plans/{digest}/audit", status=409)  # nothing is registered
    first = register(service, "owner", plan, records_of(plan, 3000, 1))
    assert first.status_code == 201, first.text
    second = register(service, "other-owner", plan, records_of(plan, 3000, 2))
    assert second.status_code == 201, second.text
    assert service.get("client", f"/plans/{digest}/releases").json()["entries"] == []
    for who, told in (("owner", first), ("other-owner", second)):
        service.publish(who, plan, told.json()["content_digest"])
    assert [
        item["owner"] for item in service.get("client", f"/plans/{digest}/releases").json()["entries"]
    ] == [
        "owner",
        "other-owner",
    ]

    ledger = tmp_path / "exported.ledger"
    ledger.write_bytes(service.get("auditor", f"/plans/{digest}/ledger").content)
    report = verify_ledger(ledger, plan_digest=digest, head=first.json()["hash"])
    assert report.owners == ("other-owner", "owner")
    assert report.head == second.json()["hash"]

    asked = service.get("auditor", f"/plans/{digest}/audit", status=202).json()
    service.work()
    audit = service.get("owner", f"/plans/{digest}/audit").json()
    assert audit["id"] == asked["id"]
    assert audit["result"]["audit"]["holds"]
    assert audit["result"]["audit"]["diversity_min_any"] >= plan.columns[0].ell
    assert [item["name"] for item in audit["result"]["audit"]["releases"]] == ["owner (1)", "other-owner (2)"]


def test_a_tampered_plan_or_signature_is_noticed_by_its_owner(service):
    digest = service.planned()
    signature = service.get("owner", f"/plans/{digest}/signature").json()
    key = TrustedKeys.from_pem(service.get(None, "/key").json()["public_keys"].encode())
    other = service.planned(ell=3)
    assert verified_signature(signature, key).plan_digest == fetched(service, "owner", digest).digest
    assert verified_signature(signature, key).plan_digest != fetched(service, "owner", other).digest
    forged = {**signature, "signature": signature["signature"].swapcase()}
    with pytest.raises(ElldeltaError):
        verified_signature(forged, key)


def test_a_request_that_cannot_be_planned_ends_with_the_reason(service):
    service.add_model()
    wish = {**WISH, "ell": 6, "records": 6, "delta": 0.001}
    number = service.post("client", "/requests", wish, status=201).json()["id"]
    for kind in ("preview", "plan"):
        job = service.post("agency", f"/requests/{number}/{kind}", status=202).json()["id"]
        service.work()
        done = service.get("agency", f"/jobs/{job}").json()
        if kind == "preview":
            assert done["status"] == "done"
            assert done["result"]["plan"] is None
            assert done["result"]["refusal"]["problem"]
        else:
            assert done["status"] == "failed"
            assert done["error"]["problem"]
    assert service.get("client", f"/requests/{number}").json()["status"] == "filed"
    service.post("agency", f"/requests/{number}/decline", {"reason": "Too few records."})
    seen = service.get("client", f"/requests/{number}").json()
    assert (seen["status"], seen["reason"]) == ("declined", "Too few records.")
    service.post("agency", f"/requests/{number}/decline", {"reason": "Again."}, status=409)


def test_clients_see_their_own_requests_only(service):
    service.add_model()
    service.add("rival", "client")
    mine = service.post("client", "/requests", WISH, status=201).json()["id"]
    theirs = service.post("rival", "/requests", WISH, status=201).json()["id"]
    for who, own, other in (("client", mine, theirs), ("rival", theirs, mine)):
        assert [item["id"] for item in service.get(who, "/requests").json()["entries"]] == [own]
        service.get(who, f"/requests/{other}", status=404)
    for who in ("agency", "auditor"):
        assert {item["id"] for item in service.get(who, "/requests").json()["entries"]} == {mine, theirs}


NONSENSE = (
    {"ell": 7},
    {"ell": 0},
    {"delta": 0.0},
    {"delta": 1.0},
    {"delta": 0.6, "releases": 2},
    {"records": 0},
    {"records": 10**13},
    {"releases": 10**9},
    {"kind": "perhaps"},
    {"merge_risk": 0.1, "kind": "probabilistic"},
    {"ell": "2"},
    {"ell": 2.5},
    {"ell": True},
    {"unknown": 1},
)


def test_wishes_that_make_no_sense_are_refused_when_they_are_filed(service):
    service.add_model()
    for change in NONSENSE:
        answer = service.ask("client", "POST", "/requests", json={**WISH, **change})
        assert answer.status_code == 422, (change, answer.text)
    assert service.get("client", "/requests").json()["entries"] == []


def test_a_plan_that_ended_admits_nothing_and_takes_no_progress(service):
    first = service.planned()
    second = service.planned(ell=3)
    plan = fetched(service, "owner", first)
    service.post("agency", f"/plans/{first}/supersede", {"by": first}, status=409)
    service.post("agency", f"/plans/{first}/supersede", {"by": "sha256:" + "5e" * 32}, status=404)
    ended = service.post("agency", f"/plans/{first}/supersede", {"by": second}).json()
    assert (ended["status"], ended["superseded_by"]) == ("superseded", second)
    service.post("agency", f"/plans/{first}/withdraw", {"reason": "late"}, status=409)
    service.post("agency", f"/plans/{second}/supersede", {"by": first}, status=409)
    service.put("owner", f"/plans/{first}/progress", {"records": 1}, status=409)
    refused = register(service, "owner", plan, records_of(plan, 3000, 1))
    assert refused.status_code == 409
    assert service.get("owner", f"/plans/{first}/releases").json()["entries"] == []
    service.post("agency", f"/plans/{second}/withdraw", {"reason": "The model was wrong."})
    assert {item["status"] for item in service.get("owner", "/plans").json()["entries"]} == {
        "superseded",
        "withdrawn",
    }


def test_a_plan_that_was_withdrawn_is_not_issued_again(service):
    digest = service.planned()
    service.post("agency", f"/plans/{digest}/withdraw", {"reason": "no"})
    number = service.post("client", "/requests", WISH, status=201).json()["id"]
    job = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    service.work()
    assert service.get("agency", f"/jobs/{job}").json()["status"] == "failed"
    assert service.get("client", f"/requests/{number}").json()["status"] == "filed"


def test_the_same_wish_of_two_clients_gets_the_same_plan(service):
    assert service.planned() == service.planned()
    assert len(service.get("client", "/plans").json()["entries"]) == 1


def test_a_model_goes_in_and_never_out(service):
    """No answer to anybody holds a count of the model: they are told apart by being unusual numbers."""
    digest = service.planned()
    model = make_model()
    cells = {str(n) for n in model.counts.n.tolist()}
    shown = service.get("client", f"/populations/{POPULATION}").json()["model"]
    assert set(shown) == {
        "digest",
        "frontier",
        "quasi_identifiers",
        "sensitives",
        "combinations",
        "combinations_with_records",
        "past_records",
        "protection",
        "uploaded",
    }
    assert len(cells) > 20
    assert digest in service.get("client", "/plans").text
    for path in (f"/populations/{POPULATION}/model", f"/populations/{POPULATION}/file"):
        assert service.ask("agency", "GET", path).status_code in (404, 405)


def test_what_is_no_model_is_refused_without_naming_our_folders(service):
    service.add_population()
    headers = {"Content-Type": "application/octet-stream"}
    whole = model_file()
    for content in (b"", b"PAR1", b"x" * 1000, whole[:-20], whole[:500] + b"\xff" * 20 + whole[520:]):
        answer = service.ask(
            "agency", "PUT", f"/populations/{POPULATION}/model", status=422, content=content, headers=headers
        )
        assert tempfile.gettempdir() not in answer.text
    service.ask(
        "agency",
        "PUT",
        f"/populations/{POPULATION}/model",
        status=415,
        content=whole,
        headers={"Content-Type": "text/csv"},
    )
    assert service.get("owner", f"/populations/{POPULATION}").json()["model"] is None


def test_a_model_with_other_columns_is_refused_once_releases_are_registered(service):
    """Otherwise nothing could be linked with what is registered, and every registration would be refused."""
    plan = service.issue()  # made by hand, with other columns than the model
    service.add_model()
    service.register("owner", plan, full(plan), status=201)
    headers = {"Content-Type": "application/octet-stream"}
    path = f"/populations/{POPULATION}/model"
    service.ask("agency", "PUT", path, status=409, content=model_file(), headers=headers)
    service.add_population("another")
    path = "/populations/another/model"
    service.ask("agency", "PUT", path, status=200, content=model_file(), headers=headers)


def test_a_plan_has_one_population(service):
    """Populations with the same model would share a ledger; their other releases would not be linked."""
    digest = service.planned()
    service.add_population("elsewhere")
    upload_model(service.agency, service.caller("agency"), "elsewhere", model_file())
    number = service.post("client", "/requests", {**WISH, "population": "elsewhere"}, status=201).json()["id"]
    job = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    service.work()
    done = service.get("agency", f"/jobs/{job}").json()
    assert done["status"] == "failed"
    assert "another population" in done["error"]["problem"]
    assert service.get("client", f"/requests/{number}").json()["status"] == "filed"
    assert service.get("client", f"/plans/{digest}").json()["plan"]["population"] == POPULATION
