"""Populations, their models and what records buy; the first page."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field

from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.guard import CurrentAgency, CurrentContext, RequestContext, allow
from elldelta.agency.server.paging import FIRST_PAGE, CurrentCursor, Cursor, Page
from elldelta.agency.server.routes.description import ERRORS, Body, Name, file_body
from elldelta.agency.server.routes.rendering import (
    EMPTY_FORM,
    Posted,
    PostedForm,
    Width,
    form_again,
    page,
    picture,
    redirect,
)
from elldelta.agency.server.services import populations
from elldelta.agency.server.services.plans import list_plans, n_issued, show_progress
from elldelta.agency.server.services.populations import PopulationView
from elldelta.agency.server.services.releases import count_series
from elldelta.agency.server.services.requests import list_requests
from elldelta.agency.server.tables import AGENCY, NAME_PATTERN, OWNER, ROLES
from elldelta.pages.charts import draw_frontier

api = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["populations"])
pages = APIRouter(include_in_schema=False)

MOST_OWN = 20
"""Plans, or requests, that the first page shows as waiting, the newest; all are on a page of their own."""

ModelFile = Annotated[
    bytes,
    file_body(
        *("application/octet-stream", "application/vnd.apache.parquet"),
        problem="A model is sent as the file that 'elldelta estimate' writes.",
        remedy="Send the file itself, as application/octet-stream.",
    ),
]


class NewPopulation(Body):
    """A group of people about whom owners publish."""

    name: str = Field(pattern=NAME_PATTERN)
    title: str = Field(default="", max_length=200)


@api.get("/populations", summary="All populations", dependencies=[allow(*ROLES)])
def index(agency: CurrentAgency, cursor: CurrentCursor) -> Page[PopulationView]:
    """Lists all populations, with a summary of their models and no count of them."""
    return populations.list_populations(agency, cursor)


@api.post("/populations", status_code=201, summary="Add a population", dependencies=[allow(AGENCY)])
def create(agency: CurrentAgency, body: NewPopulation) -> PopulationView:
    """Adds a population; it has no model yet."""
    return populations.create_population(agency, body.name, body.title)


@api.get("/populations/{name}", summary="A population", dependencies=[allow(*ROLES)])
def show(agency: CurrentAgency, name: Name) -> PopulationView:
    """Shows a population, with a summary of its model and no count of it."""
    return populations.show_population(agency, name)


@api.put(
    "/populations/{name}/model",
    summary="Upload a model",
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The file that `elldelta estimate` has written.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
    dependencies=[allow(AGENCY)],
)
def upload(context: CurrentContext, name: Name, content: ModelFile) -> PopulationView:
    """Takes a model; requests are planned with it from now on. It never leaves the service again."""
    return populations.upload_model(context.agency, context.caller, name, content)


def _home(
    context: RequestContext, posted: Posted = EMPTY_FORM, cursor: Cursor = FIRST_PAGE, **_: object
) -> dict[str, Any]:
    found, newest = populations.list_populations(context.agency, cursor), Cursor(limit=MOST_OWN)
    is_owner = context.caller.role == OWNER
    plans = list_plans(context.agency, cursor=newest, status="issued") if is_owner else ()
    return {
        "populations": found,
        "n_plans": n_issued(context.agency, [item.name for item in found]),
        "waiting": None
        if is_owner
        else list_requests(context.agency, context.caller, newest, status="filed"),
        "open_plans": [(plan, show_progress(context.agency, context.caller, plan.digest)) for plan in plans],
        "typed": posted.typed,
    }


@pages.get("/", dependencies=[allow(*ROLES)])
def home(context: CurrentContext, cursor: CurrentCursor) -> Response:
    """Populations, and what waits for the caller."""
    return page(context.request, "home.html", **_home(context, cursor=cursor))


@pages.post("/populations", dependencies=[allow(AGENCY)])
@form_again("home.html", _home)
def add(context: CurrentContext, posted: PostedForm) -> Response:
    """Adds a population."""
    wanted = posted.read(NewPopulation)
    added = populations.create_population(context.agency, wanted.name, wanted.title)
    return redirect(f"/populations/{added.name}", "population-added")


def _one(context: RequestContext, name: str, cursor: Cursor = FIRST_PAGE, **_: object) -> dict[str, Any]:
    population = populations.show_population(context.agency, name)
    return {
        "population": population,
        "plans": list_plans(context.agency, name, cursor),
        "series": count_series(context.agency, name),
    }


@pages.get("/populations/{name}", dependencies=[allow(*ROLES)])
def show_page(context: CurrentContext, name: Name, cursor: CurrentCursor) -> Response:
    """A population: its columns and plans, never a count."""
    return page(context.request, "population.html", **_one(context, name, cursor))


@pages.get("/populations/{name}/frontier-{width}.svg", dependencies=[allow(*ROLES)])
def frontier_picture(context: CurrentContext, name: Name, width: Width) -> Response:
    """Gives the picture of the frontier."""
    model = populations.show_population(context.agency, name).model
    if model is None or model.frontier is None:
        raise NotFoundError("picture")
    found = model.frontier
    by_ell = zip(*(row.classes for row in found.rows), strict=True)
    curves = {f"ℓ = {ell}": classes for ell, classes in zip(found.ells, by_ell, strict=True)}
    return picture(draw_frontier([row.records for row in found.rows], curves, ""), width)


@pages.post("/populations/{name}/model", dependencies=[allow(AGENCY)])
@form_again("population.html", _one)
def upload_form(context: CurrentContext, name: Name, posted: PostedForm) -> Response:
    """Takes the model of a population."""
    populations.upload_model(context.agency, context.caller, name, posted.file("model", "the model file"))
    return redirect(f"/populations/{name}", "model-uploaded")
