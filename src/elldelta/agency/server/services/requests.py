"""Requests: what clients ask for, and what the agency makes of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from sqlalchemy import func, select

from elldelta.agency.server.errors import ConflictError, NotFoundError
from elldelta.agency.server.rights import CLIENT
from elldelta.agency.server.services.jobs import JobView, enqueue, job_view
from elldelta.agency.server.services.names import check_text
from elldelta.agency.server.services.paging import BEGINNING, Order, Window, read_part
from elldelta.agency.server.services.populations import current_model_id, find_population
from elldelta.agency.server.tables import Job, ModelFile, Party, Request
from elldelta.core.checks import check_ell, check_whole
from elldelta.errors import ParameterError
from elldelta.files import digest
from elldelta.plan.wish import Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.services.paging import Part
    from elldelta.agency.server.state import Agency

MOST_RECORDS = 10**12
MOST_RELEASES = 10_000
"""More would not be a plan but a way to keep the service busy."""

FEWEST_PAST = 5
"""Past records behind every value that a plan names, unless the agency says otherwise: everybody gets it."""

RequestJob = Literal["preview", "plan"]
RequestStatus = Literal["filed", "planned", "declined"]


@dataclass(frozen=True)
class Wishes:
    """What a client asks for; see `Wish` for what the words mean.

    Attributes:
        ell: Sensitive values to be left for everybody.
        records: The records that every owner can wait for.
        delta: Failure probability of one release.
        releases: How many releases may be linked.
        shape: "boxes" or "runs"; None for what suits the population.
        guarantee: "certified" or "probabilistic".
        bound: "sharp", "union" or "paper".
        eta: An error of the model that the promise must survive.
        waiting_risk: Instead of delta: the chance that a class needs merging.
        min_records: A value counts as present only with so many records.
        shared_records: Promise only for releases that share at most so many records.
    """

    ell: int
    records: int
    delta: float = 0.01
    releases: int = 1
    shape: Literal["boxes", "runs"] | None = None
    guarantee: Literal["certified", "probabilistic"] = "certified"
    bound: Literal["sharp", "union", "paper"] = "sharp"
    eta: float = 0.0
    waiting_risk: float | None = None
    min_records: int = 1
    shared_records: int | None = None

    def __post_init__(self) -> None:
        check_whole("ell", self.ell)
        check_whole("the number of records", self.records)
        for name, most in (
            ("records", MOST_RECORDS),
            ("releases", MOST_RELEASES),
            ("min_records", MOST_RELEASES),
        ):
            if getattr(self, name) > most:
                raise ParameterError(
                    f"The service plans with at most {most} for {name}.",
                    found=f"{getattr(self, name)} were asked for.",
                )
        self.plan_request()

    def plan_request(self, fewest_past: int = FEWEST_PAST) -> Wish:
        """The same for the planner; checks everything that can be checked without a model."""
        return Wish(**asdict(self), fewest_past=fewest_past)


@dataclass(frozen=True)
class RequestView:
    """A request.

    Attributes:
        id: Its number.
        population: Which people it is about.
        client: Who asks.
        wishes: What is asked for.
        status: "filed", "planned" or "declined".
        reason: Why it was declined.
        plan: The digest of the plan that was issued.
        job: The last job about it; only the agency sees it.
    """

    id: int
    population: str
    client: str
    wishes: Wishes
    status: RequestStatus
    reason: str | None
    plan: str | None
    filed: dt.datetime
    decided: dt.datetime | None
    job: str | None


def file_request(agency: Agency, caller: Caller, population: str, wishes: Wishes) -> RequestView:
    """Files a request about a population that has a model."""
    with agency.database.writing() as session:
        found = find_population(session, population)
        model = session.get_one(ModelFile, current_model_id(session, found))
        check_ell(wishes.ell, model.summary["sensitive"]["values"])
        _check_open(session, caller, agency.limits.requests_open)
        request = Request(
            population_id=found.id,
            client_id=caller.id,
            wishes=asdict(wishes),
            status="filed",
            filed_at=agency.clock(),
        )
        session.add(request)
        session.flush()
        return _view(request)


def list_requests(
    agency: Agency, caller: Caller, window: Window = BEGINNING, *, status: RequestStatus | None = None
) -> Part[RequestView]:
    """The requests that the caller may see, the newest first: a client's own, otherwise all."""
    chosen = select(Request)
    if status is not None:
        chosen = chosen.where(Request.status == status)
    if caller.role == CLIENT:
        chosen = chosen.where(Request.client_id == caller.id)
    with agency.database.reading() as session:
        found = read_part(
            session,
            chosen,
            Order(Request.id, is_descending=True),
            window,
            most=agency.limits.page_size,
            view=lambda row: row.Request,
        )
        jobs = {} if caller.role == CLIENT else _last_jobs(session, [request.id for request in found])
        return found.seen(lambda request: _view(request, jobs.get(request.id)))


def show_request(agency: Agency, caller: Caller, request_id: int) -> RequestView:
    """One request, if the caller may see it."""
    with agency.database.reading() as session:
        request = session.get(Request, request_id)
        if request is None or (caller.role == CLIENT and request.client_id != caller.id):
            raise NotFoundError("request")
        jobs = {} if caller.role == CLIENT else _last_jobs(session, [request_id])
        return _view(request, jobs.get(request_id))


def decline_request(agency: Agency, request_id: int, reason: str) -> RequestView:
    """Declines a request, with a reason that the client sees."""
    with agency.database.writing() as session:
        request = open_request(session, request_id)
        request.status, request.reason = "declined", check_text("A reason", reason, 1000)
        request.decided_at = agency.clock()
        return _view(request)


def begin_job(
    agency: Agency, caller: Caller, request_id: int, kind: RequestJob, fewest_past: int = FEWEST_PAST
) -> JobView:
    """Begins a job for a request that is open.

    Args:
        agency: The service.
        caller: Who asks for it.
        request_id: The request.
        kind: "preview": the frontier, and the plan at the records asked for. "plan": the plan, which the job
            issues.
        fewest_past: A plan names a value of a class only if so many past records had it there.
    """
    check_whole("the number of past records per witness", fewest_past)
    with agency.database.writing() as session:
        request = open_request(session, request_id)
        model_id = current_model_id(session, request.population)
        model_digest = session.scalars(select(ModelFile.digest).where(ModelFile.id == model_id)).one()
        subject = preview_subject(model_digest, request.wishes, fewest_past)
        arguments = {
            "request": request_id,
            "model": model_id,
            "wishes": request.wishes,
            "fewest_past": fewest_past,
        }
        if kind == "plan":
            subject = digest({"kind": "plan", "request": request_id})
        return job_view(enqueue(session, agency, caller, kind, subject, arguments, request_id=request_id))


def open_request(session: Session, request_id: int) -> Request:
    """A request that nothing has been decided about, locked for whoever decides.

    Raises:
        ConflictError: It was planned or declined.
    """
    request = session.scalars(
        select(Request).where(Request.id == request_id).with_for_update(of=Request)
    ).one_or_none()
    if request is None:
        raise NotFoundError("request")
    if request.status != "filed":
        raise ConflictError(
            "The request has been decided already.",
            found=f"It is {request.status}.",
            remedy="The client files another one.",
        )
    return request


def preview_subject(model_digest: str, wishes: dict[str, Any], fewest_past: int = FEWEST_PAST) -> str:
    """What a preview is about: the same for the same model and wishes, whoever asks."""
    return digest({"kind": "preview", "model": model_digest, "wishes": wishes, "fewest_past": fewest_past})


def _check_open(session: Session, caller: Caller, most: int) -> None:
    """Refuses a client that has filed more than the agency could look at."""
    session.execute(select(Party.id).where(Party.id == caller.id).with_for_update(key_share=True))
    chosen = select(func.count()).where(Request.client_id == caller.id, Request.status == "filed")
    if (session.scalar(chosen) or 0) >= most:
        raise ConflictError(
            "You have too many open requests.",
            found=f"{most} wait for the agency, which is all that one client may have.",
            remedy="Wait until the agency has decided about some of them.",
        )


def _last_jobs(session: Session, request_ids: Sequence[int]) -> dict[int, str]:
    chosen = select(Job.request_id, Job.id).where(Job.request_id.in_(request_ids))
    rows = session.execute(chosen.order_by(Job.created_at, Job.id)).all()
    return {cast("int", row.request_id): row.id for row in rows}


def _view(request: Request, job: str | None = None) -> RequestView:
    return RequestView(
        id=request.id,
        population=request.population.name,
        client=request.client.name,
        wishes=Wishes(**request.wishes),
        status=cast("RequestStatus", request.status),
        reason=request.reason,
        plan=request.plan_digest,
        filed=request.filed_at,
        decided=request.decided_at,
        job=job,
    )
