"""Jobs: what takes longer than a request may. They wait in the database and a worker takes them up.

A job is claimed in one transaction, so several workers never do the same one. Its worker gives signs of life;
a job without them is taken up again, and after a few attempts it counts as failed. Whatever a worker writes
names its claim, so one that was only slow cannot overwrite what its successor does.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from sqlalchemy import and_, func, or_, select, update

from elldelta.agency.server.errors import BusyError, ConflictError, NotFoundError, document_of
from elldelta.agency.server.rights import AGENCY, AUDITOR
from elldelta.agency.server.tables import Job, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.errors import ElldeltaError

JobKind = Literal["preview", "plan", "audit"]

PLANNING: tuple[JobKind, ...] = ("preview", "plan")
AUDITS: tuple[JobKind, ...] = ("audit",)
"""The queues: everybody may ask for an audit, and none of them holds up planning."""


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
    queue = AUDITS if kind in AUDITS else PLANNING
    waiting = select(func.count()).where(Job.status == "queued", Job.kind.in_(queue))
    n_waiting = session.scalar(waiting) or 0
    if n_waiting >= agency.limits.jobs_waiting:
        raise BusyError(f"{n_waiting} jobs are waiting, which is all that may wait.", retry_after=30)
    job = Job(
        id=agency.random(16).hex(),
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
        job = session.get(Job, job_id)
        if job is None:
            raise NotFoundError("job")
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


def claim_job(agency: Agency, worker: str, queue: Sequence[JobKind] = PLANNING + AUDITS) -> Job | None:
    """Takes up the oldest job of a queue that waits, or that a worker has left behind; None if there is none.

    The job, as it is then, is the worker's claim. It holds as long as nobody else takes the job up.
    """
    now = agency.clock()
    lost = now - dt.timedelta(seconds=agency.limits.job_lease_seconds)
    with agency.database.writing() as session:
        while True:
            job = session.scalars(
                select(Job)
                .where(
                    Job.kind.in_(queue),
                    or_(Job.status == "queued", and_(Job.status == "running", Job.heartbeat_at < lost)),
                )
                .order_by(Job.created_at, Job.id)
                .limit(1)
                .with_for_update(skip_locked=True)
            ).first()
            if job is None:
                return None
            if job.attempts < agency.limits.job_attempts:
                break
            job.status, job.finished_at, job.step = "failed", now, "given up"
            job.error = {
                "problem": "The job was begun several times and never finished.",
                "found": f"Its worker disappeared {job.attempts} times.",
                "remedy": "It may need more memory than there is; ask whoever runs the service.",
            }
            session.flush()
        job.status, job.worker, job.heartbeat_at = "running", worker, now
        job.attempts += 1
        job.progress, job.step = 0.0, "beginning"
        return job


def report_job(agency: Agency, claim: Job, progress: float | None = None, step: str | None = None) -> bool:
    """Gives a sign of life, and tells how far the job is; False if the job is no longer this worker's."""
    told: dict[str, Any] = {"heartbeat_at": agency.clock()}
    if progress is not None:
        told |= {"progress": min(1.0, progress), "step": step or ""}
    with agency.database.writing() as session:
        return _changed(session, claim, told)


def finish_job(session: Session, agency: Agency, claim: Job, result: dict[str, Any]) -> bool:
    """Ends a job with its result, in the transaction of what the job has changed; False if it was lost."""
    told = {"status": "done", "progress": 1.0, "step": "done", "finished_at": agency.clock()}
    return _changed(session, claim, told | {"result": result})


def fail_job(agency: Agency, claim: Job, error: ElldeltaError) -> bool:
    """Ends a job with an error."""
    told = {"status": "failed", "step": "failed", "finished_at": agency.clock()} | document_of(error)
    with agency.database.writing() as session:
        return _changed(session, claim, told)


def _changed(session: Session, claim: Job, told: dict[str, Any]) -> bool:
    done = session.execute(
        update(Job)
        .where(
            Job.id == claim.id,
            Job.status == "running",
            Job.worker == claim.worker,
            Job.attempts == claim.attempts,
        )
        .values(**told)
        .execution_options(synchronize_session=False)
    )
    return bool(done.rowcount == 1)  # type: ignore[attr-defined]
