"""Plans, the agency's key, and owners' progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from elldelta.agency.server.api.bodies import Digest, NewProgress, Reason, Successor, errors, example
from elldelta.agency.server.api.lists import PlanList, listed
from elldelta.agency.server.api.windows import DigestWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute, current_caller
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, allow, allow_anybody
from elldelta.agency.server.services import plans, progress
from elldelta.agency.server.services.names import NAME_PATTERN
from elldelta.agency.server.services.plans import PlanDetails, PlanView
from elldelta.agency.server.services.progress import Batcher, ProgressView, Report
from elldelta.files import PublicKey

router = APIRouter(prefix="/api/v1", route_class=GuardedRoute, tags=["plans"])

_DIGEST = "sha256:" + "5e" * 32
_PLAN = {
    "digest": _DIGEST,
    "population": "region",
    "status": "issued",
    "superseded_by": None,
    "reason": None,
    "issued": "2026-11-15T09:00:00Z",
    "ended": None,
    "ell": 3,
    "delta": 0.01,
    "releases": 2,
    "records": 8000,
    "classes": 25,
    "guarantee": "certified",
    "promise": "Any 2 releases that pass the certificate of this plan, linked together, leave ...",
}
_PROGRESS = {
    "plan": _DIGEST,
    "needed": 8000,
    "owners_reached": 1,
    "own": 6400,
    "owners": None,
}


_KEY = {
    "id": _DIGEST,
    "algorithm": "Ed25519",
    "public_key": "-----BEGIN PUBLIC KEY-----\n...\n-----END PUBLIC KEY-----\n",
}


@dataclass(frozen=True)
class KeyView:
    """The key with which everybody can check the agency's signatures."""

    id: str
    algorithm: Literal["Ed25519"]
    public_key: str


@router.get(
    "/key",
    summary="The agency's public key",
    responses=errors() | example(200, _KEY),
)
@allow_anybody()
async def key(agency: CurrentAgency) -> KeyView:
    """Shows the key. Compare its id by another way than this one before you trust it."""
    return _key_view(agency.key.public_key)


def _key_view(key: PublicKey) -> KeyView:
    return KeyView(key.id, "Ed25519", key.to_pem().decode("ascii"))


@router.get(
    "/plans",
    summary="Plans",
    responses=errors(401, 422) | example(200, {"plans": [_PLAN], "previous": None, "next": _DIGEST}),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def index(
    agency: CurrentAgency,
    window: DigestWindow,
    population: Annotated[str | None, Query(pattern=NAME_PATTERN, examples=["region"])] = None,
) -> PlanList:
    """Lists plans, the newest first."""
    return listed(PlanList, plans.list_plans(agency, population, window))


@router.get(
    "/plans/{digest}",
    summary="A plan",
    responses=errors(401, 404, 422)
    | example(
        200,
        {
            "plan": _PLAN,
            "conditions": ["Every linked release passes the certificate of this plan; ..."],
            "notes": [],
            "quasi_identifiers": ["postal_code", "gender", "age"],
            "sensitive": "disease",
            "key_id": _DIGEST,
        },
    ),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def show(agency: CurrentAgency, digest: Digest) -> PlanDetails:
    """Shows a plan: whether it counts, what it promises, and under which conditions."""
    return plans.show_plan(agency, digest)


@router.get(
    "/plans/{digest}/file",
    summary="The plan file",
    response_class=Response,
    responses=errors(401, 404, 422)
    | {
        200: {
            "description": "The exact file; its digest is its name.",
            "content": {"application/json": {"example": {"kind": "elldelta plan", "format": 1}}},
        }
    },
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
async def file(agency: CurrentAgency, digest: Digest) -> Response:
    """Gives the plan file, byte for byte as it was issued and signed."""
    content = agency.plan_files.peek(digest)
    if content is None:
        content = await run_in_threadpool(plans.plan_file, agency, digest)
    return Response(content, media_type="application/json", headers={"ETag": f'"{digest}"'})


@router.get(
    "/plans/{digest}/signature",
    summary="The signature of a plan",
    responses=errors(401, 404, 422)
    | example(
        200,
        {
            "kind": "elldelta plan signature",
            "format": 1,
            "algorithm": "Ed25519",
            "key_id": _DIGEST,
            "plan_digest": _DIGEST,
            "signature": "c2lnbmF0dXJl",
        },
    ),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def signature(agency: CurrentAgency, digest: Digest) -> dict[str, Any]:
    """Gives the signature, which can be checked offline with the agency's public key."""
    return plans.plan_signature(agency, digest)


@router.get(
    "/plans/{digest}/key",
    summary="The key that has signed a plan",
    responses=errors(401, 404, 422) | example(200, _KEY),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def signing_key(agency: CurrentAgency, digest: Digest) -> KeyView:
    """Shows the agency's key of that time. It is another one than today's if the agency has a new key."""
    return _key_view(plans.plan_key(agency, digest))


@router.post(
    "/plans/{digest}/supersede",
    summary="Put another plan in its place",
    responses=errors(401, 403, 404, 408, 409, 413, 422)
    | example(200, {**_PLAN, "status": "superseded", "superseded_by": "sha256:" + "6f" * 32}),
)
@allow(AGENCY)
def supersede(agency: CurrentAgency, digest: Digest, body: Successor) -> PlanView:
    """Ends a plan in favour of another one about the same population."""
    return plans.supersede_plan(agency, digest, body.by)


@router.post(
    "/plans/{digest}/withdraw",
    summary="Withdraw a plan",
    responses=errors(401, 403, 404, 408, 409, 413, 422)
    | example(200, {**_PLAN, "status": "withdrawn", "reason": "The model has been replaced."}),
)
@allow(AGENCY)
def withdraw(agency: CurrentAgency, digest: Digest, body: Reason) -> PlanView:
    """Ends a plan. What it admitted stays in its ledger and still counts."""
    return plans.withdraw_plan(agency, digest, body.reason)


@router.put(
    "/plans/{digest}/progress",
    summary="Report how many records I have",
    responses=errors(401, 403, 404, 408, 409, 413, 422) | example(200, _PROGRESS),
)
@allow(OWNER)
async def report(request: Request, digest: Digest, body: NewProgress) -> ProgressView:
    """Takes an owner's own number; a later one replaces it."""
    # Owners report often, and each would need a thread and the database for itself.
    reports: Batcher[Report, ProgressView] = request.app.state.reports
    caller = await current_caller(request)  # a dependency would take longer
    return await reports.submit(Report(caller, digest, body.records))


@router.get(
    "/plans/{digest}/progress",
    summary="How far owners are",
    responses=errors(401, 404, 422) | example(200, _PROGRESS),
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def show_progress(agency: CurrentAgency, caller: CurrentCaller, digest: Digest) -> ProgressView:
    """Shows every owner to the agency and to auditors, and to others only how many have reached N."""
    return progress.show_progress(agency, caller, digest)
