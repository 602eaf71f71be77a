"""Plans: what is promised, the files to take along, how far owners are, and the end of a plan."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.guard import (
    CurrentAgency,
    CurrentContext,
    RequestContext,
    allow,
    allow_anybody,
)
from elldelta.agency.server.paging import FIRST_PAGE, CurrentCursor, Cursor, Page
from elldelta.agency.server.routes.description import DIGEST, ERRORS, Body, Digest, answer
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
from elldelta.agency.server.services import plans
from elldelta.agency.server.services.ledger import count_releases
from elldelta.agency.server.services.plans import (
    MOST_RECORDS,
    report_progress,
    show_progress,
)
from elldelta.agency.server.services.populations import can_draw, draw_classes
from elldelta.agency.server.services.releases import list_refusals, list_releases
from elldelta.agency.server.tables import AGENCY, CLIENT, DIGEST_PATTERN, NAME_PATTERN, OWNER, ROLES
from elldelta.agency.views import KeyView, PlanDetails, PlanView, ProgressView

api = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["plans"])
pages = APIRouter(include_in_schema=False)

MOST_REFUSALS = 10
"""Refusals on the page of a plan, the newest; all are on a page of their own."""


class Reason(Body):
    """Why."""

    reason: str = Field(min_length=1, max_length=1000)


class Successor(Body):
    """The plan that takes the place of another."""

    by: str = Field(pattern=DIGEST_PATTERN)


class NewProgress(Body):
    """How many records an owner has."""

    records: int = Field(ge=0, le=MOST_RECORDS)


@api.get("/key", summary="The agency's public keys", dependencies=[allow_anybody()])
async def key(agency: CurrentAgency) -> KeyView:
    """Shows the agency's keys. Compare their ids by another way than this one before you trust them."""
    return KeyView(id=agency.key.id, public_keys=agency.public_keys.to_pem().decode("ascii"))


@api.get("/plans", summary="Plans", dependencies=[allow(*ROLES)])
def index(
    agency: CurrentAgency,
    cursor: CurrentCursor,
    population: Annotated[str | None, Query(pattern=NAME_PATTERN, examples=["region"])] = None,
) -> Page[PlanView]:
    """Lists plans, the newest first."""
    return plans.list_plans(agency, population, cursor)


@api.get("/plans/{digest}", summary="A plan", dependencies=[allow(*ROLES)])
def show(agency: CurrentAgency, digest: Digest) -> PlanDetails:
    """Shows a plan: whether it counts, what it promises, and under which conditions."""
    return plans.show_plan(agency, digest)


@api.get(
    "/plans/{digest}/file",
    summary="The plan file",
    response_class=Response,
    responses={
        200: answer("The exact file; its digest is its name.", {"kind": "elldelta plan", "format": 1})
    },
    dependencies=[allow(*ROLES)],
)
def file(agency: CurrentAgency, digest: Digest) -> Response:
    """Gives the plan file, byte for byte as it was issued and signed."""
    content = plans.plan_file(agency, digest)
    return Response(content, media_type="application/json", headers={"ETag": f'"{digest}"'})


@api.get(
    "/plans/{digest}/signature",
    summary="The signature of a plan",
    responses={
        200: answer(
            "The signature document.",
            {"kind": "elldelta plan signature", "format": 1, "key_id": DIGEST, "signature": "c2lnbmF0dXJl"},
        )
    },
    dependencies=[allow(*ROLES)],
)
def signature(agency: CurrentAgency, digest: Digest) -> dict[str, Any]:
    """Gives the signature, which can be checked offline with the agency's public key.

    It names the population, whether the plan still counts and, where signatures expire, its last day.
    """
    return plans.plan_signature(agency, digest)


@api.post("/plans/{digest}/supersede", summary="Put another plan in its place", dependencies=[allow(AGENCY)])
def supersede(agency: CurrentAgency, digest: Digest, body: Successor) -> PlanView:
    """Ends a plan in favour of another one about the same population."""
    return plans.supersede_plan(agency, digest, body.by)


@api.post("/plans/{digest}/withdraw", summary="Withdraw a plan", dependencies=[allow(AGENCY)])
def withdraw(agency: CurrentAgency, digest: Digest, body: Reason) -> PlanView:
    """Ends a plan. What it admitted stays in its ledger and still counts."""
    return plans.withdraw_plan(agency, digest, body.reason)


@api.put("/plans/{digest}/progress", summary="Report how many records I have", dependencies=[allow(OWNER)])
def report(context: CurrentContext, digest: Digest, body: NewProgress) -> ProgressView:
    """Takes an owner's own number; a later one replaces it."""
    return report_progress(context.agency, context.caller, digest, body.records)


@api.get("/plans/{digest}/progress", summary="How far owners are", dependencies=[allow(*ROLES)])
def progress(context: CurrentContext, digest: Digest) -> ProgressView:
    """Shows every owner to the agency and to auditors, and to others only how many have reached N."""
    return show_progress(context.agency, context.caller, digest)


@pages.get("/key.pem", dependencies=[allow_anybody()])
async def key_file(agency: CurrentAgency) -> Response:
    """Gives the agency's public keys as a file."""
    headers = {"Content-Disposition": 'attachment; filename="agency.pem"'}
    return Response(agency.public_keys.to_pem(), media_type="application/x-pem-file", headers=headers)


@pages.get("/plans", dependencies=[allow(*ROLES)])
def index_page(context: CurrentContext, cursor: CurrentCursor) -> Response:
    """Lists plans."""
    return page(context.request, "plans.html", plans=plans.list_plans(context.agency, cursor=cursor))


def _one(
    context: RequestContext,
    digest: str,
    posted: Posted = EMPTY_FORM,
    cursor: Cursor = FIRST_PAGE,
    **_: object,
) -> dict[str, Any]:
    details = plans.show_plan(context.agency, digest)
    newest = Cursor(limit=MOST_REFUSALS)
    return {
        "details": details,
        "plan": details.plan,
        "progress": show_progress(context.agency, context.caller, digest),
        "has_map": can_draw(context.agency, digest),
        "releases": list_releases(context.agency, context.caller, digest, cursor),
        "n_releases": count_releases(context.agency, digest),
        "refusals": None
        if context.caller.role == CLIENT
        else list_refusals(context.agency, context.caller, digest, newest),
        "successors": _successors(context, details.plan) if context.caller.role == AGENCY else (),
        "typed": posted.typed,
    }


@pages.get("/plans/{digest}", dependencies=[allow(*ROLES)])
def show_page(context: CurrentContext, digest: Digest, cursor: CurrentCursor) -> Response:
    """Shows a plan."""
    return page(context.request, "plan.html", **_one(context, digest, cursor=cursor))


@pages.post("/plans/{digest}/progress", dependencies=[allow(OWNER)])
@form_again("plan.html", _one)
def report_form(context: CurrentContext, digest: Digest, posted: PostedForm) -> Response:
    """Takes an owner's number."""
    report_progress(context.agency, context.caller, digest, posted.read(NewProgress).records)
    return redirect(f"/plans/{digest}", "reported")


@pages.get("/plans/{digest}/classes-{width}.svg", dependencies=[allow(*ROLES)])
def classes_picture(context: CurrentContext, digest: Digest, width: Width) -> Response:
    """Gives the map of classes."""
    if not can_draw(context.agency, digest):
        raise NotFoundError("picture")
    return picture(draw_classes(context.agency, digest), width, is_map=True)


def _successors(context: RequestContext, plan: PlanView) -> list[PlanView]:
    """Plans that could take the place of one."""
    issued = plans.list_plans(context.agency, plan.population, status="issued")
    return [other for other in issued if other.digest != plan.digest]


@pages.post("/plans/{digest}/withdraw", dependencies=[allow(AGENCY)])
@form_again("plan.html", _one)
def withdraw_form(context: CurrentContext, digest: Digest, posted: PostedForm) -> Response:
    """Withdraws a plan."""
    plans.withdraw_plan(context.agency, digest, posted.read(Reason).reason)
    return redirect(f"/plans/{digest}", "withdrawn")


@pages.post("/plans/{digest}/supersede", dependencies=[allow(AGENCY)])
@form_again("plan.html", _one)
def supersede_form(context: CurrentContext, digest: Digest, posted: PostedForm) -> Response:
    """Supersedes a plan."""
    plans.supersede_plan(context.agency, digest, posted.read(Successor).by)
    return redirect(f"/plans/{digest}", "superseded")
