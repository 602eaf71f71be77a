"""The linkage audit of what is registered under a plan, in plain words."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.api.bodies import Digest
from elldelta.agency.server.errors import ConflictError, NotFoundError
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.pages.pictures import Width, curve_figure, histogram_figure, picture
from elldelta.agency.server.pages.rendering import page
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, Caller, allow
from elldelta.agency.server.services.audits import ask_audit
from elldelta.agency.server.services.plans import show_plan
from elldelta.agency.server.state import Agency
from elldelta.pages.charts import curve_words, histogram_words

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/plans/{digest}/audit")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def show(request: Request, agency: CurrentAgency, caller: CurrentCaller, digest: Digest) -> Response:
    """Shows what linking everything that is registered gives away; or that it is being computed."""
    plan = show_plan(agency, digest).plan
    try:
        job = ask_audit(agency, caller, digest)
    except ConflictError:
        return page(request, "audit.html", plan=plan, job=None, audit=None)
    if job.result is None:
        return page(request, "audit.html", plan=plan, job=job, audit=None)
    audit = job.result["audit"]
    return page(
        request,
        "audit.html",
        plan=plan,
        job=job,
        audit=audit,
        curve_words=curve_words(audit["curve"], audit["ell"]),
        histogram_words=histogram_words(audit["histogram"], audit["ell"]),
    )


@router.get("/plans/{digest}/audit/{number}/{what}-{width}.svg")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def drawing(
    request: Request,
    agency: CurrentAgency,
    caller: CurrentCaller,
    digest: Digest,
    number: int,
    what: Literal["histogram", "curve"],
    width: Width,
) -> Response:
    """Draws a chart of the audit of so many releases."""
    audit = _done(agency, caller, digest, number)
    draw = histogram_figure if what == "histogram" else curve_figure
    return picture(request, f"{what} {digest} {number}", width, lambda: draw(audit))


def _done(agency: Agency, caller: Caller, digest: str, number: int) -> dict[str, Any]:
    result = ask_audit(agency, caller, digest).result
    if result is None or result["releases"] != number:
        raise NotFoundError("picture")
    audit: dict[str, Any] = result["audit"]
    return audit
