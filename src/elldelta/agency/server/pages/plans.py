"""Plans: what is promised, the pictures, how far owners are, and the files to take along."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.api.bodies import Digest
from elldelta.agency.server.api.windows import DigestWindow, NumberWindow
from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.pages.forms import PostedForm
from elldelta.agency.server.pages.pictures import Width, frontier_figure, frontier_words, picture
from elldelta.agency.server.pages.rendering import ForTheForm, form_again, page, see
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, Caller, allow, allow_anybody
from elldelta.agency.server.services.class_maps import can_draw, draw_classes
from elldelta.agency.server.services.frontiers import ask_frontier, show_frontier
from elldelta.agency.server.services.ledger import count_releases
from elldelta.agency.server.services.paging import BEGINNING, Window
from elldelta.agency.server.services.plans import list_plans, plan_key, show_plan
from elldelta.agency.server.services.progress import Report, report_progress, show_progress
from elldelta.agency.server.services.releases import list_refusals, list_releases
from elldelta.agency.server.state import Agency
from elldelta.errors import ElldeltaError
from elldelta.files import PublicKey

MOST_REFUSALS = 10
"""Refusals on the page of a plan, the newest; all are on a page of their own."""

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/key.pem")
@allow_anybody()
async def key(agency: CurrentAgency) -> Response:
    """Gives the agency's public key as a file."""
    return _key_file(agency.key.public_key)


@router.get("/plans/{digest}/key.pem")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def signing_key(agency: CurrentAgency, digest: Digest) -> Response:
    """Gives the key that has signed a plan, which may be a former one."""
    return _key_file(plan_key(agency, digest))


@router.get("/plans")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def index(request: Request, agency: CurrentAgency, window: DigestWindow) -> Response:
    """Lists plans."""
    return page(request, "plans.html", plans=list_plans(agency, window=window))


@router.get("/plans/{digest}")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def show(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, digest: Digest, window: NumberWindow
) -> Response:
    """Shows a plan."""
    return _plan(request, agency, caller, digest, window=window)


@router.get("/plans/{digest}/refusals")
@allow(AGENCY, OWNER, AUDITOR)
def refusals(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, digest: Digest, window: NumberWindow
) -> Response:
    """Lists registrations that were refused; an owner sees its own."""
    plan = show_plan(agency, digest).plan
    return page(request, "refusals.html", plan=plan, refusals=list_refusals(agency, caller, digest, window))


@router.post("/plans/{digest}/progress")
@allow(OWNER)
def progress(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, digest: Digest, posted: PostedForm
) -> Response:
    """Takes an owner's number."""
    try:
        records = posted.whole("records", "The number of records")
        report_progress(agency, Report(caller, digest, records))
    except ForTheForm as error:
        return _plan(request, agency, caller, digest, error, posted.text("records"))
    return see(f"/plans/{digest}", "reported")


@router.post("/plans/{digest}/frontier")
@allow(AGENCY)
def compute_frontier(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, digest: Digest
) -> Response:
    """Begins to compute the frontier of a plan that was issued without a preview."""
    try:
        ask_frontier(agency, caller, digest)
    except ForTheForm as error:
        return _plan(request, agency, caller, digest, error)
    return see(f"/plans/{digest}")


@router.get("/plans/{digest}/frontier-{width}.svg")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def frontier(request: Request, agency: CurrentAgency, digest: Digest, width: Width) -> Response:
    """Draws the frontier."""
    rows = show_frontier(agency, digest).rows
    if not rows:
        raise NotFoundError("picture")
    return picture(request, f"frontier {digest}", width, lambda: frontier_figure(rows))


@router.get("/plans/{digest}/classes-{width}.svg")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def classes(request: Request, agency: CurrentAgency, digest: Digest, width: Width) -> Response:
    """Draws the map of classes."""
    show_plan(agency, digest)
    if not can_draw(agency, digest):
        raise NotFoundError("picture")
    return picture(request, f"classes {digest}", width, lambda: draw_classes(agency, digest), is_map=True)


def _key_file(key: PublicKey) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="agency-key.pem"'}
    return Response(key.to_pem(), media_type="application/x-pem-file", headers=headers)


def _plan(
    request: Request,
    agency: Agency,
    caller: Caller,
    digest: str,
    error: ElldeltaError | None = None,
    typed: str = "",
    *,
    window: Window = BEGINNING,
) -> Response:
    details = show_plan(agency, digest)
    found = show_frontier(agency, digest)
    content: dict[str, Any] = {
        "details": details,
        "plan": details.plan,
        "progress": show_progress(agency, caller, digest),
        "frontier": found,
        "frontier_words": frontier_words(found.rows) if found.rows else "",
        "has_map": can_draw(agency, digest),
        "releases": list_releases(agency, digest, window),
        "n_releases": count_releases(agency, digest),
        "refusals": None
        if caller.role == CLIENT
        else list_refusals(agency, caller, digest, Window(most=MOST_REFUSALS)),
        "typed": typed,
    }
    if error is not None:
        return form_again(request, "plan.html", error, **content)
    return page(request, "plan.html", error=None, **content)
