"""Jobs: what takes longer than a request may. They wait in the database, and the one worker takes them up.

A worker that dies leaves a job that counts as running. The next one begins it anew when it starts, and after
a few attempts the job counts as failed.
"""

from __future__ import annotations

import datetime as dt
import secrets
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from sqlalchemy import func, select, update

from elldelta.agency.server.errors import BusyError, ConflictError, NotFoundError, error_document, required
from elldelta.agency.server.tables import AGENCY, AUDITOR, Job
from elldelta.agency.views import View
from elldelta.errors import counted

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency, Caller
    from elldelta.errors import ElldeltaError

JobKind = Literal["frontier", "preview", "plan", "audit"]

MOST_ATTEMPTS = 3
"""How often a job is begun: one that kills its worker, for want of memory, must not do so for ever."""


class JobView(View):
    """A job as its caller sees it.

    Attributes:
        id: Its number.
        kind: What it does.
        status: Whether it waits, runs or has ended.
        progress: The part that is done, from 0 to 1.
        step: What it does just now, in words.
        result: What came out, once it is done.
        error: What went wrong: problem, found and remedy.
    """

    id: str
    kind: JobKind
    status: Literal["queued", "running", "done", "failed"]
    progress: float
    step: str
    created: dt.datetime = Field(validation_alias="created_at")
    finished: dt.datetime | None = Field(validation_alias="finished_at")
    result: dict[str, Any] | None
    error: dict[str, Any] | None


def enqueue(
    session: Session,
    agency: Agency,
    caller: Caller,
    kind: JobKind,
    subject: str,
    arguments: dict[str, Any],
    *,
    request_id: int | None = None,
    plan_digest: str | None = None,
) -> JobView:
    """Adds a job, or finds the one that is about to do the same.

    Raises:
        ConflictError: A job is about to do it in another way.
        BusyError: Too many wait.
    """
    about_it = select(Job).where(Job.subject == subject, Job.status.in_(("queued", "running")))
    if request_id is not None:
        about_it = about_it.where(Job.request_id == request_id)
    same = session.scalars(about_it).first()
    if same is not None:
        if kind == "plan" and same.arguments != arguments:  # or somebody would get what they did not choose
            raise ConflictError(
                "The plan is being made already, with other choices.",
                found="A job for this request was begun before.",
                remedy="Wait until it has ended. If its plan is not what you want, withdraw it.",
            )
        return JobView.model_validate(same)
    is_like_it = (Job.kind == "audit") == (kind == "audit")  # anybody may ask for audits
    waiting = select(func.count()).where(Job.status == "queued", is_like_it)
    n_waiting = session.scalar(waiting) or 0
    if n_waiting >= agency.limits.jobs_waiting:
        raise BusyError(
            f"{counted(n_waiting, 'job is', 'jobs are')} waiting, which is all that may wait.", retry_after=30
        )
    job = Job(
        id=secrets.token_hex(16),
        kind=kind,
        subject=subject,
        arguments=arguments,
        request_id=request_id,
        plan_digest=plan_digest,
        created_by=caller.id,
        created_at=agency.clock(),
        status="queued",
        progress=0.0,
        step="waiting",
        attempts=0,
    )
    session.add(job)
    session.flush()
    return JobView.model_validate(job)


def show_job(agency: Agency, caller: Caller, job_id: str) -> JobView:
    """A job. The agency sees all; of an audit everybody sees what is published; of the rest their own."""
    with agency.database.reading() as session:
        job = required(session.get(Job, job_id), "job")
        if job.kind == "audit":
            is_seen = caller.role == AUDITOR or bool(job.arguments.get("is_public"))
        else:
            is_seen = job.created_by == caller.id
        if not (is_seen or caller.role == AGENCY):
            raise NotFoundError("job")
        return JobView.model_validate(job)


def last_done(session: Session, subject: str) -> JobView | None:
    """The last job on a subject that ended well."""
    job = session.scalars(
        select(Job)
        .where(Job.subject == subject, Job.status == "done")
        .order_by(Job.finished_at.desc())
        .limit(1)
    ).first()
    return None if job is None else JobView.model_validate(job)


def requeue_abandoned(agency: Agency) -> int:
    """Lets jobs wait again that a worker has left behind, or gives them up; says how many there were."""
    with agency.database.writing() as session:
        left = session.scalars(select(Job).where(Job.status == "running")).all()
        for job in left:
            job.status, job.step = "queued", "waiting"
            if job.attempts >= MOST_ATTEMPTS:
                job.status, job.finished_at, job.step = "failed", agency.clock(), "given up"
                job.error = {
                    "problem": "The job was begun several times and never finished.",
                    "found": f"Its worker disappeared {job.attempts} times.",
                    "remedy": "It may need more memory than there is; ask whoever runs the service.",
                }
        return len(left)


def take_job(agency: Agency) -> Job | None:
    """Takes up the oldest job that waits, audits after all others; None if there is none."""
    with agency.database.writing() as session:
        job = session.scalars(
            select(Job)
            .where(Job.status == "queued")
            .order_by(Job.kind == "audit", Job.created_at, Job.id)
            .limit(1)
        ).first()
        if job is not None:
            job.status, job.progress, job.step = "running", 0.0, "beginning"
            job.attempts += 1
        return job


def report_job(agency: Agency, job: Job, progress: float, step: str) -> None:
    """Tells how far a job is."""
    with agency.database.writing() as session:
        _change(session, job, progress=min(1.0, progress), step=step)


def finish_job(session: Session, agency: Agency, job: Job, result: dict[str, Any]) -> None:
    """Ends a job with its result, in the transaction of what the job has changed."""
    ended = {"status": "done", "progress": 1.0, "step": "done", "finished_at": agency.clock()}
    _change(session, job, **ended, result=result)


def fail_job(agency: Agency, job: Job, error: ElldeltaError) -> None:
    """Ends a job with an error."""
    with agency.database.writing() as session:
        ended = {"status": "failed", "step": "failed", "finished_at": agency.clock()}
        _change(session, job, **ended, **error_document(error))


def _change(session: Session, job: Job, **values: Any) -> None:  # noqa: ANN401 (those of the columns)
    session.execute(
        update(Job).where(Job.id == job.id).values(**values).execution_options(synchronize_session=False)
    )
