"""Releases, the ledger, and the audit across what is registered."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import JSONResponse

from elldelta.agency.server.api.bodies import Digest, body_of_type, errors, example
from elldelta.agency.server.api.lists import RefusalList, ReleaseList, listed
from elldelta.agency.server.api.requests import JOB
from elldelta.agency.server.api.windows import NumberWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, allow
from elldelta.agency.server.services import audits, ledger, releases
from elldelta.agency.server.services.jobs import JobView

router = APIRouter(prefix="/api/v1", route_class=GuardedRoute, tags=["releases"])

_DIGEST = "sha256:" + "5e" * 32
_RELEASE = {
    "sequence": 1,
    "owner": "hospital-a",
    "content_digest": _DIGEST,
    "hash": "sha256:" + "6f" * 32,
    "records": 8000,
    "classes": 25,
    "diversity": 12,
    "merged_classes": 0,
    "certified": True,
    "registered": "2026-11-15T09:00:00Z",
}
_ACCEPTED = {
    "accepted": True,
    "is_new": True,
    "plan": _DIGEST,
    "owner": "hospital-a",
    "sequence": 1,
    "hash": "sha256:" + "6f" * 32,
    "content_digest": _DIGEST,
    "key_id": "sha256:" + "70" * 32,
    "signature": "c2lnbmF0dXJl",
}
_REFUSED = {
    "accepted": False,
    "error": {
        "problem": "Linked with what is registered already, the release would leave somebody with fewer "
        "than 3 values.",
        "found": "1 of its classes, at worst with 2 values left: gender F, age 20-29.",
        "remedy": "Publish coarser classes, or leave the records of these classes out, and register again.",
    },
}

IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,200}$",
        description="A new text for every registration, the same one when it is sent again. The "
        "answer is kept for 30 days; a release that was admitted is known by its content for ever.",
        examples=["0f8fad5b-d9cb-469f-a165-70867728950e"],
    ),
]


async def _registration(request: Request) -> bytes:
    return await body_of_type(
        request,
        "application/json",
        problem="A registration is sent as JSON.",
        remedy="Let 'elldelta remote register' send it.",
    )


@router.post(
    "/plans/{digest}/releases",
    status_code=201,
    summary="Register a release",
    response_class=JSONResponse,
    responses=errors(401, 403, 404, 408, 413, 415, 422)
    | {
        200: {
            "description": "This owner has registered this content before.",
            "content": {"application/json": {"example": {**_ACCEPTED, "is_new": False}}},
        },
        201: {
            "description": "Admitted: the release has its line in the ledger.",
            "content": {"application/json": {"example": _ACCEPTED}},
        },
        409: {
            "description": "Refused, with the reason.",
            "content": {"application/json": {"example": _REFUSED}},
        },
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The manifest of a release and the counts it shows, as "
            "`elldelta remote register` makes them.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["kind", "format", "manifest", "cells", "digest"],
                        "properties": {
                            "kind": {"const": "elldelta registration"},
                            "format": {"type": "integer", "minimum": 1},
                            "manifest": {"type": "object"},
                            "cells": {
                                "type": "object",
                                "required": ["classes", "values", "counts"],
                                "properties": {
                                    name: {"type": "array", "items": {"type": "integer", "minimum": 0}}
                                    for name in ("classes", "values", "counts")
                                },
                            },
                            "digest": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                        },
                    },
                    "example": {
                        "kind": "elldelta registration",
                        "format": 1,
                        "manifest": {"kind": "elldelta manifest", "format": 1},
                        "cells": {"classes": [0, 0], "values": [0, 1], "counts": [12, 9]},
                        "digest": _DIGEST,
                    },
                }
            },
        }
    },
)
@allow(OWNER, body="registration")
def register(
    agency: CurrentAgency,
    caller: CurrentCaller,
    digest: Digest,
    key: IdempotencyKey,
    content: Annotated[bytes, Depends(_registration)],
) -> Response:
    """Checks everything again and admits the release, or refuses it with the reason; all or nothing."""
    answer = releases.register_release(agency, caller, digest, key, content)
    return JSONResponse(answer.document, answer.status)


@router.get(
    "/plans/{digest}/releases",
    summary="Registered releases",
    responses=errors(401, 404, 422) | example(200, {"releases": [_RELEASE], "previous": None, "next": None}),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def index(agency: CurrentAgency, digest: Digest, window: NumberWindow) -> ReleaseList:
    """Lists what everybody may know about the registered releases of a plan."""
    return listed(ReleaseList, releases.list_releases(agency, digest, window))


@router.get(
    "/plans/{digest}/refusals",
    summary="Refused registrations",
    responses=errors(401, 403, 404, 422)
    | example(
        200,
        {
            "refusals": [
                {
                    "id": 1,
                    "owner": "hospital-b",
                    "problem": "Linked with what is registered already, ...",
                    "found": "1 of its classes, ...",
                    "refused": "2026-11-15T09:00:00Z",
                }
            ],
            "previous": None,
            "next": None,
        },
    ),
)
@allow(AGENCY, OWNER, AUDITOR)
def refusals(
    agency: CurrentAgency, caller: CurrentCaller, digest: Digest, window: NumberWindow
) -> RefusalList:
    """Lists refused registrations with their reasons; an owner sees its own."""
    return listed(RefusalList, releases.list_refusals(agency, caller, digest, window))


@router.get(
    "/plans/{digest}/ledger",
    summary="The ledger file",
    response_class=Response,
    responses=errors(401, 404, 422)
    | {
        200: {
            "description": "One line per release; `elldelta ledger verify` checks it offline.",
            "content": {"application/x-ndjson": {"example": '{"kind":"elldelta ledger", ...}\n'}},
        }
    },
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def export(agency: CurrentAgency, digest: Digest) -> Response:
    """Gives the ledger of a plan, byte for byte a ledger file."""
    return Response(ledger.export_ledger(agency, digest), media_type="application/x-ndjson")


@router.get(
    "/plans/{digest}/audit",
    summary="Link everything that is registered",
    response_model=JobView,
    responses=errors(401, 404, 409, 422)
    | example(200, {**JOB, "kind": "audit", "status": "done", "progress": 1.0, "result": {"audit": {}}})
    | {
        202: {
            "description": "The job that computes it.",
            "content": {"application/json": {"example": {**JOB, "kind": "audit"}}},
        }
    },
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def audit(agency: CurrentAgency, caller: CurrentCaller, digest: Digest, response: Response) -> JobView:
    """Gives the exact linkage audit of what is registered now, or the job that is computing it."""
    found = audits.ask_audit(agency, caller, digest)
    response.status_code = 200 if found.status == "done" else 202
    return found
