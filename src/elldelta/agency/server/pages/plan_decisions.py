"""Withdrawing and superseding a plan: a page that says what follows, and asks once more."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.api.bodies import Digest
from elldelta.agency.server.guarded_route import CurrentAgency, GuardedRoute
from elldelta.agency.server.pages.forms import PostedForm
from elldelta.agency.server.pages.rendering import ForTheForm, form_again, page, see
from elldelta.agency.server.rights import AGENCY, allow
from elldelta.agency.server.services.plans import list_plans, show_plan, supersede_plan, withdraw_plan
from elldelta.agency.server.state import Agency
from elldelta.errors import ParameterError

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/plans/{digest}/withdraw")
@allow(AGENCY)
def withdraw_form(request: Request, agency: CurrentAgency, digest: Digest) -> Response:
    """Says what withdrawing means, and asks for the reason."""
    plan = show_plan(agency, digest).plan
    return page(request, "withdraw.html", error=None, plan=plan, typed={})


@router.post("/plans/{digest}/withdraw")
@allow(AGENCY)
def withdraw(request: Request, agency: CurrentAgency, digest: Digest, posted: PostedForm) -> Response:
    """Withdraws a plan."""
    try:
        withdraw_plan(agency, digest, posted.reason())
    except ForTheForm as error:
        plan = show_plan(agency, digest).plan
        return form_again(request, "withdraw.html", error, plan=plan, typed=posted.typed)
    return see(f"/plans/{digest}", "withdrawn")


@router.get("/plans/{digest}/supersede")
@allow(AGENCY)
def supersede_form(request: Request, agency: CurrentAgency, digest: Digest) -> Response:
    """Says what superseding means, and asks for the plan that takes the place."""
    return page(request, "supersede.html", error=None, typed={}, **_choice(agency, digest))


@router.post("/plans/{digest}/supersede")
@allow(AGENCY)
def supersede(request: Request, agency: CurrentAgency, digest: Digest, posted: PostedForm) -> Response:
    """Supersedes a plan."""
    about = _choice(agency, digest)
    try:
        by = posted.text("by")
        if not by:
            raise ParameterError("Choose the plan that takes the place.", found="None was chosen.")
        supersede_plan(agency, digest, by)
    except ForTheForm as error:
        return form_again(request, "supersede.html", error, typed=posted.typed, **about)
    return see(f"/plans/{digest}", "superseded")


def _choice(agency: Agency, digest: str) -> dict[str, Any]:
    plan = show_plan(agency, digest).plan
    others = [
        other for other in list_plans(agency, plan.population, status="issued") if other.digest != digest
    ]
    return {"plan": plan, "others": others}
