"""The worker: one process that takes up jobs, one after the other, until somebody ends it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from elldelta.agency.server import logs
from elldelta.agency.server.errors import BusyError
from elldelta.agency.server.services.jobs import fail_job, finish_job, report_job, requeue_abandoned, take_job
from elldelta.agency.server.services.ledger import run_audit
from elldelta.agency.server.services.planning import plan_and_issue, preview, store_frontier
from elldelta.agency.server.state import Agency, prepare
from elldelta.errors import ElldeltaError, InternalError, ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elldelta.agency.server.settings import Settings
    from elldelta.agency.server.tables import Job

PAUSE_SECONDS = 0.5
"""How long a worker without a job waits before it looks again."""

TIMED_OUT = 75
"""The exit code of a worker whose job took too long."""


def work(settings: Settings) -> None:
    """Does jobs until somebody ends the process; those that another one has left behind first.

    Raises:
        ParameterError: Another worker is at work.
    """
    logs.configure(settings.log_level)
    with contextlib.suppress(OSError):
        os.nice(5)  # whoever waits for a page comes first
    prepare(settings)
    with _only_worker(settings), contextlib.closing(Agency.open(settings)) as agency:
        n_left = requeue_abandoned(agency)
        logs.log("job worker ready", left=n_left)
        while True:
            try:
                is_idle = not run_next(agency)
            except ElldeltaError as error:  # the database is busy or away; the job stays where it is
                logs.log_bug("job worker waits", error)
                is_idle = True
            if is_idle:
                time.sleep(PAUSE_SECONDS)


def run_next(agency: Agency) -> bool:
    """Does the next job; False if there is none."""
    job = take_job(agency)
    if job is None:
        return False
    logs.log("job begun", job=job.id, kind=job.kind, attempt=job.attempts)
    begun = time.monotonic()
    with _deadline(agency, job):
        error = run_job(agency, job)
    if error is not None:
        fail_job(agency, job, error)
    seconds = round(time.monotonic() - begun, 3)
    logs.log("job ended", job=job.id, kind=job.kind, ok=error is None, seconds=seconds)
    return True


def run_job(agency: Agency, job: Job) -> ElldeltaError | None:
    """Does a job; returns what went wrong, in words for whoever asked for it."""

    def tell(progress: float, step: str) -> None:
        report_job(agency, job, progress, step)

    try:
        if job.kind == "plan":
            plan_and_issue(agency, job, tell)
        elif job.kind == "frontier":
            store_frontier(agency, job, tell)
        else:
            asked = job.arguments
            if job.kind == "preview":
                result = preview(agency, job, tell)
            else:
                tell(0.05, "linking the releases")
                result = run_audit(agency, asked["plan"], asked["linked"], asked["releases"])
            with agency.database.writing() as session:
                finish_job(session, agency, job, result)
    except BusyError:
        raise
    except ElldeltaError as error:
        if isinstance(error, InternalError):
            logs.log_bug("job met a bug", error, job=job.id)
        return error
    except MemoryError:
        return RefusedError(
            "The job needs more memory than there is.", remedy="Ask for fewer classes or coarser values."
        )
    except Exception as error:  # noqa: BLE001 (its text might quote a model; a job must end somehow)
        logs.log_bug("job met a bug", error, job=job.id)
        return InternalError(
            "The job met a situation that the service does not understand. This is a bug of ours.",
            remedy="Please tell whoever runs the service the number of the job.",
        )
    return None


@contextlib.contextmanager
def _only_worker(settings: Settings) -> Iterator[None]:
    """Holds the lock of the one worker; the system gives it back however this process ends."""
    with (settings.folder / "worker.lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ParameterError(
                "Another worker of this agency is at work.",
                found=f"It holds the lock {file.name}.",
                remedy="One is enough. End the other one first if this one is to take its place.",
            ) from None
        yield


@contextlib.contextmanager
def _deadline(agency: Agency, job: Job) -> Iterator[None]:
    """Ends the process if a job takes too long: compiled code cannot be interrupted in any other way."""
    seconds = agency.limits.job_seconds

    def end() -> None:
        too_long = RefusedError(
            "The job took too long and was ended.",
            found=f"Jobs may take {seconds:g} seconds.",
            remedy="Ask for fewer records or a coarser population, or for a longer limit.",
        )
        with contextlib.suppress(ElldeltaError):
            fail_job(agency, job, too_long)
        logs.log("job took too long", level=logging.WARNING, job=job.id)
        os._exit(TIMED_OUT)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
