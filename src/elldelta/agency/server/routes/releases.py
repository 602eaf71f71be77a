"""Releases and how an owner registers one, the ledger, and the audit across what is registered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from elldelta.agency.server.errors import ConflictError, NotFoundError
from elldelta.agency.server.guard import CurrentContext, RequestContext, allow
from elldelta.agency.server.paging import CurrentCursor, Page
from elldelta.agency.server.routes.description import (
    DIGEST,
    ERRORS,
    Body,
    Digest,
    Name,
    answer,
    file_body,
)
from elldelta.agency.server.routes.rendering import PostedForm, Width, form_again, page, picture, redirect
from elldelta.agency.server.services import ledger, releases
from elldelta.agency.server.services.jobs import JobView
from elldelta.agency.server.services.plans import show_plan
from elldelta.agency.server.services.releases import RefusalView
from elldelta.agency.server.tables import AGENCY, AUDITOR, DIGEST_PATTERN, NAME_PATTERN, OWNER, ROLES
from elldelta.agency.views import Admitted, ReleaseView, StateView
from elldelta.errors import FileError
from elldelta.pages.charts import curve_words, draw_exposure_curve, draw_histogram, histogram_words

api = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["releases"])
pages = APIRouter(include_in_schema=False)

_REGISTRATION = {
    "required": True,
    "description": "Which classes a release publishes together and the counts it shows, and of a table that "
    "is published again how many records came and went: `elldelta remote register` makes it.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["kind", "format", "plan_digest", "content_digest", "merged", "cells", "digest"],
                "properties": {
                    "kind": {"const": "elldelta registration"},
                    "format": {"type": "integer", "minimum": 1},
                    "plan_digest": {"type": "string", "pattern": DIGEST_PATTERN},
                    "content_digest": {"type": "string", "pattern": DIGEST_PATTERN},
                    "merged": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
                    "cells": {"type": "object"},
                    "update": {"type": "object"},
                    "digest": {"type": "string", "pattern": DIGEST_PATTERN},
                },
            },
            "example": {
                "kind": "elldelta registration",
                "format": 1,
                "plan_digest": DIGEST,
                "content_digest": DIGEST,
                "merged": [[3, 4]],
                "cells": {"classes": [0, 0], "values": [0, 1], "counts": [12, 9]},
                "digest": DIGEST,
            },
        }
    },
}

RegistrationFile = Annotated[
    bytes,
    file_body(
        "application/json",
        problem="A registration is sent as JSON.",
        remedy="Let 'elldelta remote register' send it.",
    ),
]


class NewState(Body):
    """What an owner says about its release."""

    state: Literal["published", "voided"]


@api.post(
    "/plans/{digest}/releases",
    status_code=201,
    summary="Register a release",
    responses={
        200: {"model": Admitted, "description": "This owner has registered this content before."},
    },
    openapi_extra={"requestBody": _REGISTRATION},
    dependencies=[allow(OWNER)],
)
def register(
    context: CurrentContext, digest: Digest, content: RegistrationFile, response: Response
) -> Admitted:
    """Checks everything again and admits the release, or refuses it with the reason; all or nothing.

    A release is known by its content: sent again, it is told its line again.
    """
    admitted = releases.register_release(context.agency, context.caller, digest, content)
    response.status_code = 201 if admitted.is_new else 200
    return admitted


@api.get(
    "/plans/{digest}/releases",
    summary="Registered releases",
    dependencies=[allow(*ROLES)],
)
def index(
    context: CurrentContext,
    digest: Digest,
    cursor: CurrentCursor,
    owner: Annotated[str | None, Query(pattern=NAME_PATTERN, examples=["hospital-a"])] = None,
) -> Page[ReleaseView]:
    """Lists the releases that the caller may see: the published ones and its own; the agency sees all."""
    return releases.list_releases(context.agency, context.caller, digest, cursor, owner=owner)


@api.put(
    "/plans/{digest}/releases/{content}/state",
    summary="Say that my release is published, or never was",
    dependencies=[allow(OWNER)],
)
def report_state(context: CurrentContext, digest: Digest, content: Digest, body: NewState) -> StateView:
    """Takes an owner's word about its release: "published", or "voided", which takes it back for ever."""
    return ledger.report_state(context.agency, context.caller, digest, content, body.state)


@api.get(
    "/plans/{digest}/releases/{content}/receipt",
    summary="The receipt of my release",
    dependencies=[allow(OWNER)],
)
def receipt(context: CurrentContext, digest: Digest, content: Digest) -> Admitted:
    """Gives the receipt of a release that the caller has registered, unless it has taken it back."""
    return releases.show_receipt(context.agency, context.caller, digest, content)


@api.get(
    "/plans/{digest}/refusals",
    summary="Refused registrations",
    dependencies=[allow(AGENCY, OWNER, AUDITOR)],
)
def refusals(context: CurrentContext, digest: Digest, cursor: CurrentCursor) -> Page[RefusalView]:
    """Lists refused registrations with their reasons; an owner sees its own."""
    return releases.list_refusals(context.agency, context.caller, digest, cursor)


@api.get(
    "/plans/{digest}/ledger",
    summary="The ledger file",
    response_class=Response,
    responses={
        200: answer(
            "One line per release; `elldelta ledger verify` checks it offline.",
            '{"kind":"elldelta ledger", ...}\n',
            "application/x-ndjson",
        )
    },
    dependencies=[allow(*ROLES)],
)
def export(context: CurrentContext, digest: Digest) -> Response:
    """Gives the ledger of a plan, byte for byte a ledger file; lines of what is not published are sealed."""
    content = ledger.export_ledger(context.agency, context.caller, digest)
    return Response(content, media_type="application/x-ndjson")


@api.get(
    "/plans/{digest}/audit",
    summary="Link everything that is registered",
    responses={
        202: {"model": JobView, "description": "The job that computes it."},
    },
    dependencies=[allow(*ROLES)],
)
def audit(context: CurrentContext, digest: Digest, response: Response) -> JobView:
    """Gives the exact linkage audit of what is registered now, or the job that is computing it."""
    found = ledger.ask_audit(context.agency, context.caller, digest)
    response.status_code = 200 if found.status == "done" else 202
    return found


def _registering(context: RequestContext, digest: str, **_: object) -> dict[str, Any]:
    details = show_plan(context.agency, digest)
    return {"plan": details.plan, "owners": details.owners}


@pages.get("/plans/{digest}/register", dependencies=[allow(OWNER)])
def register_page(context: CurrentContext, digest: Digest) -> Response:
    """Shows both ways: by the command line, or by uploading the registration that it has made."""
    return page(context.request, "register.html", **_registering(context, digest))


@pages.post("/plans/{digest}/register", dependencies=[allow(OWNER)])
@form_again("register.html", _registering)
def register_form(context: CurrentContext, digest: Digest, posted: PostedForm) -> Response:
    """Registers a release. A form that is sent twice registers once."""
    content = posted.file("registration", "the registration file")
    admitted = releases.register_release(context.agency, context.caller, digest, content)
    return redirect(f"/plans/{digest}", "registered" if admitted.is_new else "registered-before")


@pages.post("/plans/{digest}/releases/{content}/state", dependencies=[allow(OWNER)])
def state_form(context: CurrentContext, digest: Digest, content: Digest, posted: PostedForm) -> Response:
    """Takes an owner's word about its release."""
    state = posted.read(NewState).state
    reported = ledger.report_state(context.agency, context.caller, digest, content, state)
    return redirect(f"/plans/{digest}", f"release-{reported.state}")


@pages.get("/plans/{digest}/series/{name}", dependencies=[allow(*ROLES)])
def series_page(context: CurrentContext, digest: Digest, name: Name, cursor: CurrentCursor) -> Response:
    """Shows how an owner has published its table again and again: what changed, waits and is withheld."""
    found = releases.list_releases(context.agency, context.caller, digest, cursor, owner=name)
    return page(
        context.request,
        "series.html",
        plan=show_plan(context.agency, digest).plan,
        owner=name,
        releases=found,
    )


@pages.get("/plans/{digest}/refusals", dependencies=[allow(AGENCY, OWNER, AUDITOR)])
def refusals_page(context: CurrentContext, digest: Digest, cursor: CurrentCursor) -> Response:
    """Lists registrations that were refused; an owner sees its own."""
    found = releases.list_refusals(context.agency, context.caller, digest, cursor)
    return page(context.request, "refusals.html", plan=show_plan(context.agency, digest).plan, refusals=found)


@pages.get("/plans/{digest}/ledger", dependencies=[allow(*ROLES)])
def ledger_page(context: CurrentContext, digest: Digest, cursor: CurrentCursor) -> Response:
    """Shows the ledger, line by line, after checking every line of it."""
    problem, room = None, None
    conditions: tuple[str, ...] = ()
    try:
        chain = ledger.show_ledger(context.agency, context.caller, digest)
        conditions = tuple(chain.conditions)
        if chain.room is not None:
            full = int((chain.room == 0).sum())
            room = {"least": int(chain.room.min()), "full": full, "of": chain.room.size}
    except FileError as error:  # the page must say so, and still show what there is
        problem = error
    return page(
        context.request,
        "ledger.html",
        plan=show_plan(context.agency, digest).plan,
        first=ledger.first_line(context.agency, digest),
        n_lines=1 + ledger.count_lines(context.agency, digest),
        conditions=conditions,
        lines=ledger.list_lines(context.agency, context.caller, digest, cursor),
        releases={
            item.sequence: item
            for item in releases.list_releases(context.agency, context.caller, digest, cursor)
        },
        problem=problem,
        room=room,
    )


@pages.get("/plans/{digest}/audit", dependencies=[allow(*ROLES)])
def audit_page(context: CurrentContext, digest: Digest) -> Response:
    """Shows what linking everything that is registered gives away; or that it is being computed."""
    details = show_plan(context.agency, digest)
    content: dict[str, Any] = {
        "plan": details.plan,
        "moves": details.merge_risk is not None,
        "job": None,
        "audit": None,
    }
    try:
        job = content["job"] = ledger.ask_audit(context.agency, context.caller, digest)
    except ConflictError:  # nothing is registered yet
        return page(context.request, "audit.html", **content)
    if job.result is not None:
        found = content["audit"] = job.result["audit"]
        content["registered"] = _n_registered(job.result)
        content["curve_words"] = curve_words(found["curve"], found["ell"])
        content["histogram_words"] = histogram_words(found["histogram"], found["ell"])
    return page(context.request, "audit.html", **content)


@pages.get("/plans/{digest}/audit/{number}/{what}-{width}.svg", dependencies=[allow(*ROLES)])
def audit_picture(
    context: CurrentContext, digest: Digest, number: int, what: Literal["histogram", "curve"], width: Width
) -> Response:
    """Gives a chart of the caller's audit of so many releases."""
    job = ledger.ask_audit(context.agency, context.caller, digest)
    if job.result is None or _n_registered(job.result) != number:
        raise NotFoundError("picture")
    found = job.result["audit"]
    if what == "histogram":
        return picture(draw_histogram(found["histogram"], found["ell"]), width)
    return picture(draw_exposure_curve(found["curve"], found["ell"]), width)


def _n_registered(result: dict[str, Any]) -> int:
    """How many releases were registered at the time of an audit, which may have linked fewer of them."""
    return int(result.get("registered", result["releases"]))
