"""The frontier of a plan: what more or fewer records would have given; a preview has computed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.services.jobs import JobView, enqueue, job_view, last_done
from elldelta.agency.server.services.plans import find_plan, load_plan
from elldelta.agency.server.services.requests import preview_subject
from elldelta.agency.server.tables import Job, Request

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency


@dataclass(frozen=True)
class FrontierView:
    """The frontier of a plan.

    Attributes:
        rows: Numbers of records, and the classes that every bound gives for them; as a preview tells them.
        job: The job that is computing it, as long as there are no rows.
    """

    rows: tuple[dict[str, Any], ...]
    job: JobView | None


def show_frontier(agency: Agency, plan_digest: str) -> FrontierView:
    """The frontier of a plan, if it has been computed; otherwise the job that does it, if there is one."""
    with agency.database.reading() as session:
        find_plan(session, plan_digest)
        for subject, _ in _subjects(session, agency, plan_digest):
            done = last_done(session, subject)
            if done is not None and done.result is not None:
                return FrontierView(tuple(done.result["frontier"]), None)
            last = session.scalars(
                select(Job).where(Job.subject == subject).order_by(Job.created_at.desc()).limit(1)
            ).first()
            if last is not None:
                return FrontierView((), job_view(last))
    return FrontierView((), None)


def ask_frontier(agency: Agency, caller: Caller, plan_digest: str) -> JobView:
    """Begins to compute the frontier of a plan that was issued without a preview.

    Raises:
        ConflictError: Nobody knows any more what the plan was asked for with.
    """
    with agency.database.writing() as session:
        find_plan(session, plan_digest)
        for subject, arguments in _subjects(session, agency, plan_digest):
            return job_view(
                enqueue(session, agency, caller, "preview", subject, arguments, plan_digest=plan_digest)
            )
    raise ConflictError(
        "The frontier of this plan cannot be computed.", found="It was not issued for a request."
    )


def last_preview(agency: Agency, request_id: int) -> JobView | None:
    """The last preview of a request that ended well; for the agency."""
    with agency.database.reading() as session:
        job = session.scalars(
            select(Job)
            .where(Job.request_id == request_id, Job.kind == "preview", Job.status == "done")
            .order_by(Job.created_at.desc())
            .limit(1)
        ).first()
        return None if job is None else job_view(job)


def _subjects(session: Session, agency: Agency, plan_digest: str) -> list[tuple[str, dict[str, Any]]]:
    """What previews of the requests that led to a plan are about, and the arguments of their jobs."""
    model_digest = load_plan(agency, plan_digest).model_digest
    jobs = session.scalars(
        select(Job)
        .join(Request, Request.id == Job.request_id)
        .where(Request.plan_digest == plan_digest, Job.kind == "plan", Job.status == "done")
        .order_by(Job.created_at, Job.id)
    )
    return [
        (preview_subject(model_digest, job.arguments["wishes"], job.arguments["fewest_past"]), job.arguments)
        for job in jobs
    ]
