"""Requests: what clients ask for, and what the agency makes of it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AliasPath, Field
from sqlalchemy import func, null, select

from elldelta.agency.server.errors import ConflictError, NotFoundError
from elldelta.agency.server.paging import FIRST_PAGE, Cursor, Page, read_page
from elldelta.agency.server.services.jobs import JobView, enqueue
from elldelta.agency.server.services.populations import current_model, find_population
from elldelta.agency.server.tables import CLIENT, Job, Party, Request, check_text
from elldelta.agency.views import View
from elldelta.core.checks import check_ell
from elldelta.files import digest
from elldelta.plan.column_wishes import check_several_columns, numbers_by_column
from elldelta.plan.wish import Wish, check_noisy

if TYPE_CHECKING:
    from sqlalchemy import Row, Select
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency, Caller

MOST_RELEASES = 10_000
"""More would not be a plan but a way to keep the service busy."""

AGENCY_DECIDES = frozenset({"p", "beta"})
"""What of a wish no client decides."""

RequestStatus = Literal["filed", "planned", "declined"]


class RequestView(View):
    """A request.

    Attributes:
        id: Its number.
        population: Which people it is about.
        client: Who asks.
        wishes: What is asked for; see `Wish` for what the words mean.
        status: Whether it was decided.
        reason: Why it was declined.
        plan: The digest of the plan that was issued.
        job: The last job about it; clients do not see it.
    """

    id: int
    population: str = Field(validation_alias=AliasPath("population", "name"))
    client: str = Field(validation_alias=AliasPath("client", "name"))
    wishes: dict[str, Any]
    status: RequestStatus
    reason: str | None
    plan: str | None = Field(validation_alias="plan_digest")
    filed: dt.datetime = Field(validation_alias="filed_at")
    decided: dt.datetime | None = Field(validation_alias="decided_at")
    job: str | None = None


def file_request(agency: Agency, caller: Caller, population: str, wish: Wish) -> RequestView:
    """Files a request about a population that has a model."""
    with agency.database.writing() as session:
        found = find_population(session, population)
        model = current_model(agency, found)
        _check_columns(wish, model.summary)
        if "protection" in model.summary:
            check_noisy(wish)
        _check_open(session, caller, agency.limits.requests_open)
        request = Request(
            population=found,
            client_id=caller.id,
            wishes={name: value for name, value in wish.to_dict().items() if name not in AGENCY_DECIDES},
            status="filed",
            filed_at=agency.clock(),
        )
        session.add(request)
        session.flush()
        return RequestView.model_validate(request)


def _check_columns(wish: Wish, summary: dict[str, Any]) -> None:
    """Refuses numbers that do not fit the sensitive columns of a model."""
    columns = summary["sensitives"]
    names = [column["name"] for column in columns]
    numbers_by_column("closeness", wish.closeness, names)
    for column, ell in zip(columns, numbers_by_column("ell", wish.ell, names), strict=True):
        check_ell(ell, column["values"])
    if len(columns) > 1:
        check_several_columns(wish, names)


def list_requests(
    agency: Agency, caller: Caller, cursor: Cursor = FIRST_PAGE, *, status: RequestStatus | None = None
) -> Page[RequestView]:
    """The requests that the caller may see, the newest first: a client's own, otherwise all."""
    chosen = _visible(caller)
    if status is not None:
        chosen = chosen.where(Request.status == status)
    return read_page(agency, chosen, cursor, Request.id, view=_view, descending=True)


def show_request(agency: Agency, caller: Caller, request_id: int) -> RequestView:
    """One request, if the caller may see it."""
    with agency.database.reading() as session:
        row = session.execute(_visible(caller).where(Request.id == request_id)).one_or_none()
        if row is None:
            raise NotFoundError("request")
        return _view(row)


def decline_request(agency: Agency, request_id: int, reason: str) -> RequestView:
    """Declines a request, with a reason that the client sees."""
    with agency.database.writing() as session:
        request = open_request(session, request_id)
        request.status, request.reason = "declined", check_text("A reason", reason, 1000)
        request.decided_at = agency.clock()
        return RequestView.model_validate(request)


def begin_job(
    agency: Agency,
    caller: Caller,
    request_id: int,
    kind: Literal["preview", "plan"],
) -> JobView:
    """Begins a job for a request that is open.

    Args:
        agency: The service.
        caller: Who asks for it.
        request_id: The request.
        kind: "preview": the plan that it would get. "plan": the plan, which the job
            issues.
    """
    with agency.database.writing() as session:
        request = open_request(session, request_id)
        model = current_model(agency, request.population)
        arguments = {
            "request": request_id,
            "model": model.id,
            "wishes": request.wishes,
        }
        subject = _preview_subject(model.digest, request.wishes)
        if kind == "plan":
            subject = digest({"kind": "plan", "request": request_id})
        return enqueue(session, agency, caller, kind, subject, arguments, request_id=request_id)


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


def _preview_subject(model_digest: str, wishes: dict[str, Any]) -> str:
    """What a preview is about: the same for the same model and wishes, whoever asks."""
    return digest({"kind": "preview", "model": model_digest, "wishes": wishes})


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


def _visible(caller: Caller) -> Select[Request, str | None]:
    """The requests that a caller may see, each with the last job about it, which clients do not see."""
    if caller.role == CLIENT:
        return select(Request, null().label("job")).where(Request.client_id == caller.id)
    last = select(Job.id).where(Job.request_id == Request.id).order_by(Job.created_at.desc(), Job.id.desc())
    return select(Request, last.limit(1).scalar_subquery().label("job"))


def _view(row: Row[Request, str | None]) -> RequestView:
    return RequestView.model_validate(row.Request).model_copy(update={"job": row.job})
