"""What the agency's plans may tell: they go to everybody, so no value in them rests on few past records."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa
from tests.agency.server.service import POPULATION, WISH, make_model, model_file
from tests.agency.server.visitor import visitor

from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.services.populations import upload_model
from elldelta.agency.server.services.requests import begin_job, file_request
from elldelta.agency.server.worker import run_next
from elldelta.errors import RefusedError
from elldelta.model.model import Model, write_model
from elldelta.model.noise import protected
from elldelta.model.rounding import ladder, rounded
from elldelta.plan.plan import Plan
from elldelta.plan.wish import Wish


@pytest.fixture
def rare(service, tmp_path):
    """The service with a model in which most values were seen once to seven times in a combination."""
    model = make_model(np.random.default_rng(8).integers(1, 8, size=(24, 6)))
    write_model(model, tmp_path / "rare.parquet")
    service.add_population()
    content = (tmp_path / "rare.parquet").read_bytes()
    upload_model(service.agency, service.caller("agency"), POPULATION, content)
    service.n_past = model.n_records
    return service


def test_a_plan_names_no_value_that_few_past_records_had(rare):
    plan, _ = plan_of(rare, {**WISH, "records": 100_000})
    assert plan.columns[0].past_counts.min() >= 5


def upload(service, tmp_path, model):
    write_model(model, tmp_path / "other.parquet", overwrite=True)
    content = (tmp_path / "other.parquet").read_bytes()
    return upload_model(service.agency, service.caller("agency"), POPULATION, content)


def frontier_of(service):
    return service.get("client", f"/populations/{POPULATION}").json()["model"]["frontier"]


def test_a_frontier_is_computed_once_and_shown_to_everybody(rare):
    upload_model(rare.agency, rare.caller("agency"), POPULATION, model_file())
    assert frontier_of(rare) is None
    client, place = visitor(rare, "client"), f"/populations/{POPULATION}"
    assert "not ready yet" in client.see(f"{place}/ask").text
    rare.work()
    found = frontier_of(rare)
    assert found["ells"] == [2, 3, 5]
    for number in range(3):  # more records, and a smaller ell, buy more classes
        classes = [row["classes"][number] or 0 for row in found["rows"]]
        assert classes == sorted(classes)
    assert all((row["classes"][0] or 0) >= (row["classes"][2] or 0) for row in found["rows"])
    assert client.see(place).all("img", src=f"{place}/frontier-wide.svg")
    assert client.send("GET", f"{place}/frontier-wide.svg").content.startswith(b"<?xml")
    assert f"30,000 {found['rows'][-1]['classes'][0]:,} " in client.see(f"{place}/ask").words
    client.__exit__(None, None, None)


def test_two_models_that_are_rounded_alike_have_the_same_frontier(rare, tmp_path):
    """Whoever knows all records but one cannot tell from it which value the last one has."""
    with rare.agency.database.writing() as session:
        session.execute(sa.text("UPDATE secrets SET value = :value"), {"value": bytes(range(32))})
    rare.agency.__dict__.pop("secret", None)
    table = np.random.default_rng(5).integers(20, 60, size=(24, 6))
    found, drawn = [], {}
    for value in range(6):
        other = table.copy()
        other[3, value] += 1
        model = make_model(other)
        near = rounded(model, np.random.default_rng(list(rare.agency.secret))).digest
        upload(rare, tmp_path, model)
        rare.work()
        found.append((near, frontier_of(rare)))
        drawn[near] = found[-1][1]
    assert len(drawn) < 6
    assert all(frontier == drawn[near] for near, frontier in found)


def plan_of(service, wish):
    number = service.post("client", "/requests", wish, status=201).json()["id"]
    job = service.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
    service.post("agency", f"/requests/{number}/plan", status=202)
    service.work()
    digest = service.get("client", f"/requests/{number}").json()["plan"]
    content = service.get("owner", f"/plans/{digest}/file").content
    return Plan.from_dict(json.loads(content)), service.get("agency", f"/jobs/{job}").json()["result"]


def test_plans_and_frontiers_show_no_exact_count(rare):
    plan, preview = plan_of(rare, {**WISH, "records": 100_000})
    counts = plan.columns[0].past_counts
    assert set(counts.tolist()) <= set(ladder(rare.n_past).tolist())
    assert "conditions" in preview["plan"]


def test_a_model_with_noise_is_taken_and_nothing_needs_rounding(rare, tmp_path):
    counts, protection = protected(make_model().counts, 5.0)
    shown = upload(rare, tmp_path, Model(counts, (protection,))).model
    assert shown.past_records == protection.records
    assert "epsilon 5" in shown.protection
    plan, _ = plan_of(rare, WISH)
    assert plan.past == (protection,)
    assert (
        "probabilistic"
        in rare.post("client", "/requests", {**WISH, "kind": "probabilistic"}, status=409).text
    )
    assert frontier_of(rare)["rows"][-1]["classes"][0] > 1


def test_a_service_may_insist_on_noise(rare, tmp_path):
    settings = rare.agency.settings.model_copy(update={"require_epsilon": 1.0})
    strict = replace(rare.agency, settings=settings)
    write_model(make_model(), tmp_path / "exact.parquet")
    counts, protection = protected(make_model().counts, 5.0)
    write_model(Model(counts, (protection,)), tmp_path / "loud.parquet")
    for name, words in (("exact", "exact"), ("loud", "epsilon is 5")):
        with pytest.raises(RefusedError, match=words):
            upload_model(
                strict, rare.caller("agency"), POPULATION, (tmp_path / f"{name}.parquet").read_bytes()
            )


def test_nothing_is_planned_from_models_that_were_there_before(rare):
    """The model is exact, and was uploaded when nobody demanded anything."""
    settings = rare.agency.settings.model_copy(update={"require_epsilon": 1.0})
    number = rare.post("client", "/requests", WISH, status=201).json()["id"]
    strict = replace(rare.agency, settings=settings)
    for ask in (
        lambda: file_request(
            strict, rare.caller("client"), POPULATION, Wish(ell=2, releases=1, records=2000)
        ),
        lambda: begin_job(strict, rare.caller("agency"), number, "plan"),
    ):
        with pytest.raises(ConflictError, match="any more") as refused:
            ask()
        assert "exact" in refused.value.found
    begin_job(rare.agency, rare.caller("agency"), number, "plan")  # before the service was started again
    assert run_next(strict)  # the frontier
    assert run_next(strict)
    job = rare.get("agency", f"/requests/{number}").json()["job"]
    assert "protect the past" in rare.get("agency", f"/jobs/{job}").json()["error"]["problem"]


def test_people_who_move_in_any_column_can_be_asked_for(service):
    service.add_model()
    number = service.post("client", "/requests", {**WISH, "movers": "any"}, status=201).json()["id"]
    assert service.get("client", f"/requests/{number}").json()["wishes"]["movers"] == "any"
    plain = service.post("client", "/requests", WISH, status=201).json()
    assert plain["wishes"]["movers"] == "declared"


def test_an_error_names_the_fields_it_is_about(service):
    service.add_model()
    for body, parameter in (
        ({**WISH, "ell": 0}, ["ell"]),
        ({**WISH, "kind": "circles"}, ["kind"]),
        ({**WISH, "releases": None}, ["releases", "owners"]),
        ({**WISH, "merge_risk": 0.1, "kind": "paper"}, ["merge_risk", "kind"]),
        ({**WISH, "colour": "red"}, []),
    ):
        answer = service.post("client", "/requests", body, status=422).json()
        assert answer["error"]["parameter"] == parameter, answer
