"""The first page, and the page of a population."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from elldelta.agency.server.api.bodies import Name
from elldelta.agency.server.api.windows import DigestWindow, NameWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.pages.forms import Posted, PostedForm
from elldelta.agency.server.pages.rendering import ForTheForm, form_again, page, see
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, Caller, allow
from elldelta.agency.server.services.paging import BEGINNING, Window
from elldelta.agency.server.services.plans import list_plans, n_issued
from elldelta.agency.server.services.populations import (
    create_population,
    list_populations,
    show_population,
    upload_model,
)
from elldelta.agency.server.services.progress import show_progress
from elldelta.agency.server.services.requests import list_requests
from elldelta.agency.server.state import Agency
from elldelta.errors import ElldeltaError

MOST_OWN = 20
"""Plans, or requests, that the first page shows as waiting, the newest; all are on a page of their own."""

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def home(request: Request, agency: CurrentAgency, caller: CurrentCaller, window: NameWindow) -> Response:
    """Populations, and what waits for the caller."""
    return _home(request, agency, caller, window=window)


@router.post("/populations")
@allow(AGENCY)
def add(request: Request, agency: CurrentAgency, caller: CurrentCaller, posted: PostedForm) -> Response:
    """Adds a population."""
    try:
        added = create_population(agency, posted.text("name").strip(), posted.text("title"))
    except ForTheForm as error:
        return _home(request, agency, caller, error, posted)
    return see(f"/populations/{added.name}", "population-added")


@router.get("/populations/{name}")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def population(request: Request, agency: CurrentAgency, name: Name, window: DigestWindow) -> Response:
    """A population: its columns and plans, never a count."""
    return page(request, "population.html", error=None, **_about(agency, name, window))


@router.post("/populations/{name}/model")
@allow(AGENCY, body="model")
def model(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, name: Name, posted: PostedForm
) -> Response:
    """Takes the model of a population."""
    try:
        upload_model(agency, caller, name, posted.file("model", "the model file"))
    except ForTheForm as error:
        return form_again(request, "population.html", error, **_about(agency, name))
    return see(f"/populations/{name}", "model-uploaded")


def _about(agency: Agency, name: str, window: Window = BEGINNING) -> dict[str, Any]:
    return {"population": show_population(agency, name), "plans": list_plans(agency, name, window)}


def _home(
    request: Request,
    agency: Agency,
    caller: Caller,
    error: ElldeltaError | None = None,
    posted: Posted | None = None,
    *,
    window: Window = BEGINNING,
) -> HTMLResponse:
    populations = list_populations(agency, window)
    newest = Window(most=MOST_OWN)
    is_owner = caller.role == OWNER
    plans = list_plans(agency, window=newest, status="issued") if is_owner else ()
    content: dict[str, Any] = {
        "populations": populations,
        "n_plans": n_issued(agency, [item.name for item in populations]),
        "waiting": None if is_owner else list_requests(agency, caller, newest, status="filed"),
        "own": [(plan, show_progress(agency, caller, plan.digest)) for plan in plans],
        "typed": posted.typed if posted else {},
    }
    if error is not None:
        return form_again(request, "home.html", error, **content)
    return page(request, "home.html", error=None, **content)
