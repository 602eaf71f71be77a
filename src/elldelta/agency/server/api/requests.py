"""Requests of clients, and the jobs that the agency starts for them."""

from __future__ import annotations

from fastapi import APIRouter

from elldelta.agency.server.api.bodies import JobId, NewRequest, Number, PlanningWish, Reason, errors, example
from elldelta.agency.server.api.lists import RequestList, listed
from elldelta.agency.server.api.windows import NumberWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, allow
from elldelta.agency.server.services import jobs, requests
from elldelta.agency.server.services.jobs import JobView
from elldelta.agency.server.services.requests import RequestView, Wishes

router = APIRouter(prefix="/api/v1", route_class=GuardedRoute, tags=["requests"])

_REQUEST = {
    "id": 1,
    "population": "region",
    "client": "university",
    "wishes": {
        "ell": 3,
        "records": 8000,
        "delta": 0.01,
        "releases": 2,
        "shape": None,
        "guarantee": "certified",
        "bound": "sharp",
        "eta": 0.0,
        "waiting_risk": None,
        "min_records": 1,
        "shared_records": None,
    },
    "status": "filed",
    "reason": None,
    "plan": None,
    "filed": "2026-11-15T09:00:00Z",
    "decided": None,
    "job": None,
}
JOB = {
    "id": "0123456789abcdef" * 2,
    "kind": "plan",
    "status": "running",
    "progress": 0.4,
    "step": "planning",
    "created": "2026-11-15T09:00:00Z",
    "finished": None,
    "result": None,
    "error": None,
}


@router.post(
    "/requests",
    status_code=201,
    summary="Ask for a plan",
    responses=errors(401, 403, 404, 408, 409, 413, 422) | example(201, _REQUEST),
)
@allow(CLIENT)
def create(agency: CurrentAgency, caller: CurrentCaller, body: NewRequest) -> RequestView:
    """Files a request; the agency decides about it."""
    wishes = Wishes(**body.model_dump(exclude={"population"}))
    return requests.file_request(agency, caller, body.population, wishes)


@router.get(
    "/requests",
    summary="Requests",
    responses=errors(401, 403, 422) | example(200, {"requests": [_REQUEST], "previous": None, "next": "1"}),
)
@allow(CLIENT, AGENCY, AUDITOR)
def index(agency: CurrentAgency, caller: CurrentCaller, window: NumberWindow) -> RequestList:
    """Lists a client's own requests; the agency and auditors see all."""
    return listed(RequestList, requests.list_requests(agency, caller, window))


@router.get(
    "/requests/{id}", summary="A request", responses=errors(401, 403, 404, 422) | example(200, _REQUEST)
)
@allow(CLIENT, AGENCY, AUDITOR)
def show(agency: CurrentAgency, caller: CurrentCaller, id: Number) -> RequestView:  # noqa: A002
    """Shows a request."""
    return requests.show_request(agency, caller, id)


@router.post(
    "/requests/{id}/preview",
    status_code=202,
    summary="See what a request would get",
    responses=errors(401, 403, 404, 408, 409, 413, 422) | example(202, {**JOB, "kind": "preview"}),
)
@allow(AGENCY)
def preview(
    agency: CurrentAgency,
    caller: CurrentCaller,
    id: Number,  # noqa: A002
    body: PlanningWish | None = None,
) -> JobView:
    """Starts a job; its result holds the frontier and the plan at the records asked for."""
    return requests.begin_job(agency, caller, id, "preview", (body or PlanningWish()).fewest_past)


@router.post(
    "/requests/{id}/plan",
    status_code=202,
    summary="Plan and issue",
    responses=errors(401, 403, 404, 408, 409, 413, 422) | example(202, JOB),
)
@allow(AGENCY)
def plan(
    agency: CurrentAgency,
    caller: CurrentCaller,
    id: Number,  # noqa: A002
    body: PlanningWish | None = None,
) -> JobView:
    """Starts a job that makes the plan, signs it and issues it; its result names the digest."""
    return requests.begin_job(agency, caller, id, "plan", (body or PlanningWish()).fewest_past)


@router.post(
    "/requests/{id}/decline",
    summary="Decline a request",
    responses=errors(401, 403, 404, 408, 409, 413, 422)
    | example(200, {**_REQUEST, "status": "declined", "reason": "The population is too small."}),
)
@allow(AGENCY)
def decline(agency: CurrentAgency, id: Number, body: Reason) -> RequestView:  # noqa: A002
    """Declines a request, with a reason that the client sees."""
    return requests.decline_request(agency, id, body.reason)


@router.get("/jobs/{id}", summary="A job", responses=errors(401, 404, 422) | example(200, JOB))
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def job(agency: CurrentAgency, caller: CurrentCaller, id: JobId) -> JobView:  # noqa: A002
    """Shows how far a job is, and what came out of it."""
    return jobs.show_job(agency, caller, id)
