"""What the agency's plans may tell: they go to everybody, so no value in them rests on few past records."""

import json

import numpy as np
import pytest
from tests.agency.server.service import POPULATION, WISH, make_model
from tests.agency.server.visitor import visitor

from elldelta.agency.server.services.populations import upload_model
from elldelta.agency.server.services.requests import FEWEST_PAST
from elldelta.model.model import write_model
from elldelta.plan.plan import Plan


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


def fewest_named(service, document):
    """The smallest count that the plan of a request tells, after planning it with this document."""
    number = service.post("client", "/requests", {**WISH, "records": 100_000}, status=201).json()["id"]
    service.post("agency", f"/requests/{number}/plan", document, status=202)
    service.work()
    digest = service.get("client", f"/requests/{number}").json()["plan"]
    plan = Plan.from_dict(json.loads(service.get("owner", f"/plans/{digest}/file").content))
    return round(min(min(cells) for cells in plan.witness_cells) * service.n_past), plan.n_classes


def test_by_default_a_plan_names_no_value_that_few_past_records_had(rare):
    careful, n_careful = fewest_named(rare, None)
    assert careful >= FEWEST_PAST >= 5
    assert fewest_named(rare, {}) == (careful, n_careful)
    careless, n_careless = fewest_named(rare, {"fewest_past": 1})  # the test above can fail, and care costs
    assert careless < FEWEST_PAST
    assert n_careless > n_careful


def test_form_and_interface_offer_the_same_number(rare):
    number = rare.post("client", "/requests", WISH, status=201).json()["id"]
    agency = visitor(rare, "agency")
    [field] = agency.see(f"/requests/{number}").all("input", name="fewest_past")
    agency.__exit__(None, None, None)
    schema = rare.get(None, "/openapi.json").json()["components"]["schemas"]["PlanningWish"]
    assert int(field["value"]) == schema["properties"]["fewest_past"]["default"] == FEWEST_PAST


def test_the_quick_answer_is_about_the_plan_that_would_be_made(rare):
    """It knows the sharp classes from a preview only if that one was as careful as the plan will be."""
    number = rare.post("client", "/requests", WISH, status=201).json()["id"]
    place = f"/populations/{POPULATION}/cost"
    wish = {key: value for key, value in WISH.items() if key != "population"}
    rare.post("agency", f"/requests/{number}/preview", {"fewest_past": 1}, status=202)
    rare.work()
    assert rare.get("client", place, params=wish).json()["sharp_classes"] is None
    job = rare.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
    rare.work()
    planned = rare.get("agency", f"/jobs/{job}").json()["result"]["plan"]["classes"]
    assert rare.get("client", place, params=wish).json()["sharp_classes"] == planned
