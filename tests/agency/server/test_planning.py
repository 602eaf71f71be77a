"""What the agency's plans may tell: they go to everybody, so no value in them rests on few past records."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.agency.server.service import POPULATION, WISH, make_model
from tests.agency.server.visitor import visitor

from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.services.planning import quick_cost
from elldelta.agency.server.services.populations import upload_model
from elldelta.agency.server.services.requests import FEWEST_PAST, asked_wish, begin_job, file_request
from elldelta.agency.server.worker import run_next
from elldelta.core.sample_size import Mechanism
from elldelta.errors import RefusedError
from elldelta.model.model import Model, write_model
from elldelta.model.noise import protected
from elldelta.model.rounding import ladder
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


def upload(service, tmp_path, model):
    write_model(model, tmp_path / "other.parquet", overwrite=True)
    content = (tmp_path / "other.parquet").read_bytes()
    return upload_model(service.agency, service.caller("agency"), POPULATION, content)


def plan_of(service, wish):
    number = service.post("client", "/requests", wish, status=201).json()["id"]
    job = service.post("agency", f"/requests/{number}/preview", status=202).json()["id"]
    service.post("agency", f"/requests/{number}/plan", status=202)
    service.work()
    digest = service.get("client", f"/requests/{number}").json()["plan"]
    content = service.get("owner", f"/plans/{digest}/file").content
    return Plan.from_dict(json.loads(content)), service.get("agency", f"/jobs/{job}").json()["result"]


def test_a_client_cannot_solve_for_a_count_of_one(rare, tmp_path):
    """The attack: how many records one class needs tells the share of the rarest value, so solve for it.

    One of six diseases occurs once. With exact answers the client finds just that; with those of the service
    it does not, however it asks: all of them come from a count of 0 or 5, and numbers have two digits.
    """
    table = np.random.default_rng(9).integers(20, 60, size=(24, 6))
    table[:, 5] = 0
    table[7, 5] = 1
    model = make_model(table)
    shown = upload(rare, tmp_path, model).model
    assert shown.past_records != model.n_records
    assert 0 <= model.n_records - shown.past_records < 0.1 * model.n_records

    def solved(needed, delta):
        """The count whose share needs about so many records."""
        total, found = model.n_records, []
        for count in range(1, 40):
            marginal = np.array([*table[:, :5].sum(axis=0), count]) / (total - 1 + count)
            wanted = Mechanism.from_beta(marginal, 24, 6, 1.0).records(delta)
            found.append((abs(wanted - needed), count))
        return min(found)[1]

    exact = Mechanism.from_beta(model.to_distribution().value_marginal, 24, 6, 1.0).records(0.05)
    assert solved(exact, 0.05) == 1
    place = f"/populations/{POPULATION}/cost"
    for delta in (0.2, 0.1, 0.05, 0.01):
        wish = {"ell": 6, "delta": delta, "releases": 1, "records": 100_000}
        answer = rare.ask("client", "GET", place, params=wish).json()  # an error says that it is 0
        needed = answer["paper"]["fewest_records"] if "paper" in answer else None
        assert needed is None or solved(needed, delta) > 3


def test_plans_and_frontiers_show_no_exact_count(rare):
    plan, preview = plan_of(rare, {**WISH, "records": 100_000})
    counts = np.array([cell * rare.n_past for cells in plan.witness_cells for cell in cells])
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-6)
    assert set(np.rint(counts).astype(int).tolist()) <= set(ladder(rare.n_past).tolist())
    assert len(preview["frontier"]) == 8
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
    assert rare.get("client", f"/populations/{POPULATION}/cost", params={"ell": 2, "records": 2000}).json()[
        "paper"
    ]["fewest_records"]


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
        lambda: file_request(strict, rare.caller("client"), POPULATION, asked_wish(ell=2, records=2000)),
        lambda: begin_job(strict, rare.caller("agency"), number, "plan"),
        lambda: quick_cost(strict, rare.caller("agency"), POPULATION, asked_wish(ell=2, records=2000)),
    ):
        with pytest.raises(ConflictError, match="any more") as refused:
            ask()
        assert "exact" in refused.value.found
    begin_job(rare.agency, rare.caller("agency"), number, "plan")  # before the service was started again
    assert run_next(strict, "test")
    job = rare.get("agency", f"/requests/{number}").json()["job"]
    assert "protect the past" in rare.get("agency", f"/jobs/{job}").json()["error"]["problem"]


def test_people_who_move_in_any_column_can_be_asked_for(service):
    service.add_model()
    number = service.post("client", "/requests", {**WISH, "movers": "any"}, status=201).json()["id"]
    assert service.get("client", f"/requests/{number}").json()["wishes"]["movers"] == "any"
    plain = service.post("client", "/requests", WISH, status=201).json()
    assert "movers" not in plain["wishes"]
