"""Several sensitive columns on their whole way through the service: each has its promise and is judged."""

import json

import numpy as np
import pyarrow as pa
import pytest
from tests.agency.server.service import POPULATION, WISH
from tests.agency.server.test_protocol import fetched, register
from tests.agency.server.visitor import Page, visitor

import elldelta as ed
from elldelta.agency.registration import registration_of
from elldelta.agency.server.services.populations import upload_model
from elldelta.files import seal
from elldelta.ledger import verify_ledger
from elldelta.model import write_model
from elldelta.schema.schema import Categories, Column, Integers, Schema

pytestmark = pytest.mark.both_databases("rarely")

SCHEMA = Schema(
    (Column("age", Integers(30, 41)),),
    Column("disease", Categories(("flu", "gout", "HIV", "burn"))),
    also_sensitive=(Column("income", Categories(("low", "middle", "high"))),),
)
ASKED = {**WISH, "ell": {"disease": 3, "income": 2}, "releases": 1, "records": 300}
del ASKED["delta"]


def drawn(seed, n=600, incomes=("low", "middle", "high"), ages=(30, 42)):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(*ages, n),
            "disease": rng.choice(["flu", "gout", "HIV", "burn"], n),
            "income": rng.choice(incomes, n),
        }
    )


@pytest.fixture
def planned(service, tmp_path):
    """A plan for both columns, as an owner fetches it."""
    service.add("other-owner", "owner")
    service.add_population()
    write_model(ed.estimate(drawn(1, 4000), SCHEMA), tmp_path / "model.parquet")
    content = (tmp_path / "model.parquet").read_bytes()
    upload_model(service.agency, service.caller("agency"), POPULATION, content)
    number = service.post("client", "/requests", ASKED, status=201).json()["id"]
    preview = service.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
    service.work()
    seen = service.get("agency", f"/jobs/{preview}").json()
    assert seen["status"] == "done", seen
    assert "2 values of 'income'" in seen["result"]["plan"]["promise"]
    job = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    service.work()
    return fetched(service, "owner", service.get("agency", f"/jobs/{job}").json()["result"]["plan"])


def test_every_column_has_its_promise_and_is_judged(service, planned, tmp_path):
    told = service.get("client", f"/populations/{POPULATION}").json()["model"]
    assert [(column["name"], column["values"]) for column in told["sensitives"]] == [
        ("disease", 4),
        ("income", 3),
    ]
    assert planned.ells == (3, 2)
    assert "2 values of 'income'" in planned.promise
    details = service.get("client", f"/plans/{planned.digest}").json()
    assert details["plan"]["ell"] == 2
    first = register(service, "owner", planned, drawn(2))
    assert first.status_code == 201, first.text
    # What the file ledger says of these releases is what the agency says.
    ledger = tmp_path / "exported.ledger"
    ledger.write_bytes(service.get("auditor", f"/plans/{planned.digest}/ledger").content)
    chain = verify_ledger(ledger, plan_digest=planned.digest, promises=planned.promises)
    assert "2 values of 'income'" in chain.promise
    assert service.get("auditor", f"/plans/{planned.digest}/releases").json()["entries"][0]["records"] == 600
    assert register(service, "other-owner", planned, drawn(3)).status_code == 201
    service.get("auditor", f"/plans/{planned.digest}/audit", status=202)
    service.work()
    audit = service.get("auditor", f"/plans/{planned.digest}/audit").json()["result"]["audit"]
    assert audit["holds"]
    assert audit["sensitive"] == "disease"
    assert audit["also"][0]["sensitive"] == "income"
    assert audit["also"][0]["ell"] == 2


def test_the_second_column_alone_refuses_a_registration(service, planned):
    """Each passes by itself; what they show of incomes in common is one."""
    for who, incomes in (("owner", ("low", "middle")), ("other-owner", ("low", "high"))):
        answer = register(service, who, planned, drawn(2, incomes=incomes))
        if answer.status_code == 201:
            service.publish(who, planned, answer.json()["content_digest"])
    assert answer.status_code == 409
    assert "Too few of the values of 'income'" in answer.json()["error"]["found"]
    lines = service.get("agency", f"/plans/{planned.digest}/ledger").content.splitlines()
    assert len(lines) == 2


def test_releases_of_another_plan_are_linked_in_every_column(service, planned):
    """Under one plan nothing was missed that it counts; under the other somebody would be left with less."""
    told = register(service, "owner", planned, drawn(2, incomes=("low", "middle"))).json()
    service.publish("owner", planned, told["content_digest"])
    number = service.post(
        "client", "/requests", {**ASKED, "ell": {"disease": 2, "income": 2}, "records": 200}, status=201
    ).json()["id"]
    job = service.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
    service.work()
    other = fetched(service, "owner", service.get("agency", f"/jobs/{job}").json()["result"]["plan"])
    assert other.digest != planned.digest
    answer = register(service, "other-owner", other, drawn(3, incomes=("low", "high")))
    assert answer.status_code == 409
    assert answer.json()["error"]["found"] == "Fewer than 2 values of 'income'."
    assert register(service, "other-owner", other, drawn(4)).status_code == 201


def test_more_records_in_one_column_than_in_another_are_no_registration(service, planned):
    made = registration_of(ed.release(drawn(2), planned), planned)
    document = made.to_dict()
    cells = {name: list(numbers) for name, numbers in document["cells"].items()}
    place = next(n for n, value in enumerate(cells["values"]) if value >= 4)
    cells["counts"][place] += 1
    content = {name: value for name, value in document.items() if name not in ("kind", "format", "digest")}
    forged = seal("registration", 1, {**content, "cells": cells})
    answer = service.ask(
        "owner",
        "POST",
        f"/plans/{planned.digest}/releases",
        content=json.dumps(forged).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422, answer.text
    assert "other records in one of the sensitive columns" in answer.json()["error"]["found"]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"ell": {"disease": 3}}, "by its name"),
        ({"ell": {"disease": 3, "income": 4}}, "ell"),
        ({"ell": 2, "owners": 3, "releases": 1}, "several sensitive columns"),
    ],
)
def test_wishes_that_do_not_fit_the_columns_are_refused_when_they_are_filed(service, planned, wish, words):
    answer = service.post("client", "/requests", {**ASKED, **wish}, status=422)
    assert words in answer.json()["error"]["problem"]


def test_the_frontier_is_about_every_column(service, planned):
    """One ell for all columns: none is larger than the smallest of them has values."""
    found = service.get("client", f"/populations/{POPULATION}").json()["model"]["frontier"]
    assert found["ells"] == [2, 3]
    assert found["rows"][-1]["classes"][0] > 1


def test_pages_name_every_column(service, planned):
    assert register(service, "owner", planned, drawn(2)).status_code == 201
    service.get("auditor", f"/plans/{planned.digest}/audit", status=202)
    service.work()
    client, agency, auditor = (visitor(service, name) for name in ("client", "agency", "auditor"))
    form = client.see(f"/populations/{POPULATION}/ask")
    assert "disease=3,income=3" in form.words
    wish = {"ell": "disease=3,income=2", "releases": "1", "records": "300"}
    again = client.post(f"/populations/{POPULATION}/ask", **{**wish, "ell": "disease=3"})
    assert again.status_code == 422
    assert "by its name" in Page(again.text).words
    filed = client.post(f"/populations/{POPULATION}/ask", **wish)
    assert filed.status_code == 303, filed.text
    pages = {
        "form": form,
        "population": client.see(f"/populations/{POPULATION}"),
        "request": agency.see("/requests/1"),
        "requests": agency.see("/requests"),
        "plan": client.see(f"/plans/{planned.digest}"),
        "plans": client.see("/plans"),
        "ledger": auditor.see(f"/plans/{planned.digest}/ledger"),
        "audit": auditor.see(f"/plans/{planned.digest}/audit"),
    }
    said = {
        "population": "They must not learn the disease or the income.",
        "request": "disease 3, income 2",
        "requests": "Values left: disease 3, income 2",
        "plan": "ℓ, values of income left for everybody 2",
        "plans": "At least 2 values left",
        "ledger": "ℓ 3 of disease, ℓ 2 of income,",
        "audit": "Of income at least 3 values are left; 2 were promised",
    }
    for name, words in said.items():
        assert words in pages[name].words, (name, pages[name].words)
    for browser in (client, agency, auditor):
        browser.__exit__(None, None, None)
