"""Populations, their models, and what a wish costs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from elldelta.agency.server.api.bodies import LARGEST, Name, NewPopulation, body_of_type, errors, example
from elldelta.agency.server.api.lists import PopulationList, listed
from elldelta.agency.server.api.windows import NameWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, allow
from elldelta.agency.server.services import costs, populations
from elldelta.agency.server.services.costs import Cost
from elldelta.agency.server.services.populations import PopulationView
from elldelta.agency.server.services.requests import MOST_RECORDS, MOST_RELEASES, Wishes

router = APIRouter(prefix="/api/v1", route_class=GuardedRoute, tags=["populations"])

MODEL_TYPES = ("application/octet-stream", "application/vnd.apache.parquet")

_COLUMN = {"name": "age", "kind": "integers", "values": 100, "has_hierarchy": False}
_POPULATION = {
    "name": "region",
    "title": "Patients of the region",
    "created": "2026-11-15T09:00:00Z",
    "model": {
        "digest": "sha256:" + "5e" * 32,
        "quasi_identifiers": [_COLUMN],
        "sensitive": {"name": "disease", "kind": "categories", "values": 20, "has_hierarchy": False},
        "combinations": 3000,
        "combinations_with_records": 2100,
        "past_records": 100000,
        "uploaded": "2026-11-15T09:00:00Z",
    },
}


async def _model_file(request: Request) -> bytes:
    return await body_of_type(
        request,
        *MODEL_TYPES,
        problem="A model is sent as the file that 'elldelta estimate' writes.",
        remedy="Send the file itself, as application/octet-stream.",
    )


@router.get(
    "/populations",
    summary="All populations",
    responses=errors(401, 422) | example(200, {"populations": [_POPULATION], "previous": None, "next": None}),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def index(agency: CurrentAgency, window: NameWindow) -> PopulationList:
    """Lists all populations, with a summary of their models and no count of them."""
    return listed(PopulationList, populations.list_populations(agency, window))


@router.post(
    "/populations",
    status_code=201,
    summary="Add a population",
    responses=errors(401, 403, 408, 409, 413, 422) | example(201, {**_POPULATION, "model": None}),
)
@allow(AGENCY)
def create(agency: CurrentAgency, body: NewPopulation) -> PopulationView:
    """Adds a population; it has no model yet."""
    return populations.create_population(agency, body.name, body.title)


@router.get(
    "/populations/{name}",
    summary="A population",
    responses=errors(401, 404, 422) | example(200, _POPULATION),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def show(agency: CurrentAgency, name: Name) -> PopulationView:
    """Shows a population, with a summary of its model and no count of it."""
    return populations.show_population(agency, name)


@router.put(
    "/populations/{name}/model",
    summary="Upload a model",
    responses=errors(401, 403, 404, 408, 413, 415, 422) | example(200, _POPULATION),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The file that `elldelta estimate` has written.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
@allow(AGENCY, body="model")
def upload(
    agency: CurrentAgency,
    caller: CurrentCaller,
    name: Name,
    content: Annotated[bytes, Depends(_model_file)],
) -> PopulationView:
    """Takes a model; requests are planned with it from now on. It never leaves the service again."""
    return populations.upload_model(agency, caller, name, content)


@router.get(
    "/populations/{name}/cost",
    summary="What a wish costs",
    responses=errors(401, 403, 404, 409, 422)
    | example(
        200,
        {
            "population": "region",
            "ell": 3,
            "delta": 0.01,
            "releases": 2,
            "records": 8000,
            "failure_after_linkage": 0.02,
            "paper": {"fewest_records": 143, "classes": 21, "is_searched": True},
            "sharp_classes": None,
        },
    ),
)
@allow(CLIENT, AGENCY)
def cost(
    agency: CurrentAgency,
    name: Name,
    ell: Annotated[int, Query(ge=1, le=LARGEST, examples=[3])],
    records: Annotated[int, Query(ge=1, le=MOST_RECORDS, examples=[8000])],
    delta: Annotated[float, Query(gt=0.0, lt=1.0, examples=[0.01])] = 0.01,
    releases: Annotated[int, Query(ge=1, le=MOST_RELEASES, examples=[2])] = 1,
) -> Cost:
    """Tells what is cheap to compute, or known already: for a form that answers while somebody types."""
    wishes = Wishes(ell=ell, records=records, delta=delta, releases=releases)
    return costs.quick_cost(agency, name, wishes)
