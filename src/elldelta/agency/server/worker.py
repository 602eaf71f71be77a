"""The worker: a process of its own that takes up jobs, one after the other, until its parent is gone."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import secrets
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from elldelta.agency.server import logs
from elldelta.agency.server.errors import BusyError
from elldelta.agency.server.services.jobs import (
    AUDITS,
    PLANNING,
    claim_job,
    fail_job,
    finish_job,
    report_job,
)
from elldelta.agency.server.services.ledger import run_audit
from elldelta.agency.server.services.pictures import draw_charts, draw_map, draw_missing
from elldelta.agency.server.services.planning import plan_and_issue, preview
from elldelta.agency.server.state import Agency
from elldelta.agency.server.tables import Job
from elldelta.errors import ElldeltaError, InternalError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from elldelta.agency.server.services.jobs import JobKind
    from elldelta.agency.server.settings import Settings

PAUSE_SECONDS = 0.5
"""How long a worker without a job waits before it looks again."""

TIDY_SECONDS = 600.0
"""How often a worker removes what is kept for a time only."""

TIMED_OUT = 75
"""The exit code of a worker whose job took too long."""


class JobWorkers:
    """Starts the workers, replaces those that end, and ends them all; use it as a context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = multiprocessing.get_context("spawn")
        self._stopping = threading.Event()
        self._queues = [PLANNING] * settings.job_workers + [AUDITS]
        self._processes: list[tuple[BaseProcess, Connection]] = []
        self._thread = threading.Thread(target=self._watch, name="job workers", daemon=True)

    def __enter__(self) -> JobWorkers:
        self._processes = [self._started(queue) for queue in self._queues]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for process, life_line in self._processes:
            life_line.close()  # a worker that waits ends by itself
            process.join(2.0)
            if process.is_alive():
                process.terminate()
                process.join(5.0)
            if process.is_alive():
                process.kill()
                process.join()

    def _started(self, queue: Sequence[JobKind]) -> tuple[BaseProcess, Connection]:
        receiving, sending = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=work, args=(self._settings, receiving, queue), name="elldelta job worker"
        )
        process.start()
        receiving.close()
        return process, sending

    def _watch(self) -> None:
        while not self._stopping.wait(1.0):
            for place, (process, life_line) in enumerate(self._processes):
                if not process.is_alive():
                    logs.log("job worker ended", level=logging.WARNING, exit_code=process.exitcode)
                    life_line.close()
                    self._processes[place] = self._started(self._queues[place])


def work(settings: Settings, life_line: Connection, queue: Sequence[JobKind]) -> None:
    """What a worker process does: the jobs of one queue."""
    # Ctrl-C goes to all processes of a terminal: the parent decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.nice(5)  # whoever waits for a page comes first
    logs.configure(settings.log_level)
    threading.Thread(target=_end_with, args=(life_line,), daemon=True).start()
    agency = Agency.open(settings)
    worker = f"{os.getpid()}-{secrets.token_hex(4)}"
    logs.log("job worker ready")
    next_tidying = time.monotonic()
    while True:
        try:
            if time.monotonic() >= next_tidying:
                next_tidying = time.monotonic() + TIDY_SECONDS
                if queue == PLANNING and (n_drawn := draw_missing(agency)):
                    logs.log("pictures drawn", subjects=n_drawn)
            is_idle = not run_next(agency, worker, queue)
        except ElldeltaError as error:  # the database is busy or away; the job stays where it is
            logs.log_bug("job worker waits", error)
            is_idle = True
        if is_idle:
            time.sleep(PAUSE_SECONDS)


def run_next(agency: Agency, worker: str, queue: Sequence[JobKind] = PLANNING + AUDITS) -> bool:
    """Does the next job of a queue; False if there is none."""
    claim = claim_job(agency, worker, queue)
    if claim is None:
        return False
    logs.log("job begun", job=claim.id, kind=claim.kind, attempt=claim.attempts)
    begun = time.monotonic()
    with _signs_of_life(agency, claim):
        error = run_claim(agency, claim)
    if error is not None:
        fail_job(agency, claim, error)
    seconds = round(time.monotonic() - begun, 3)
    logs.log("job ended", job=claim.id, kind=claim.kind, ok=error is None, seconds=seconds)
    return True


def run_claim(agency: Agency, claim: Job) -> ElldeltaError | None:
    """Does a job; returns what went wrong, in words for whoever asked for it."""

    def tell(progress: float, step: str) -> None:
        report_job(agency, claim, progress, step)

    try:
        if claim.kind == "plan":
            draw_map(agency, plan_and_issue(agency, claim, tell))
            return None
        result: dict[str, Any]
        if claim.kind == "preview":
            result = preview(agency, claim, tell)
        else:
            tell(0.05, "linking the releases")
            asked = claim.arguments
            result = run_audit(agency, asked["plan"], asked["linked"], asked["releases"])
        draw_charts(agency, claim.id, result)  # before anybody is told that it is done
        with agency.database.writing() as session:
            finish_job(session, agency, claim, result)
    except BusyError:
        raise
    except ElldeltaError as error:
        if isinstance(error, InternalError):
            logs.log_bug("job met a bug", error, job=claim.id)
        return error
    except MemoryError:
        return RefusedError(
            "The job needs more memory than there is.", remedy="Ask for fewer classes or coarser values."
        )
    except Exception as error:  # noqa: BLE001 (its text might quote a model; a job must end somehow)
        logs.log_bug("job met a bug", error, job=claim.id)
        return InternalError(
            "The job met a situation that the service does not understand. This is a bug of ours.",
            remedy="Please tell whoever runs the service the number of the job.",
        )
    return None


@contextlib.contextmanager
def _signs_of_life(agency: Agency, claim: Job) -> Iterator[None]:
    """Tells the database now and then that a job is being worked on; ends the process if it takes too long.

    Compiled code cannot be interrupted in any other way.
    """
    done, limits = threading.Event(), agency.limits
    deadline = time.monotonic() + limits.job_seconds

    def tell() -> None:
        while not done.wait(limits.job_lease_seconds / 4):
            with contextlib.suppress(ElldeltaError):
                report_job(agency, claim)
            if time.monotonic() > deadline:
                too_long = RefusedError(
                    "The job took too long and was ended.",
                    found=f"Jobs may take {limits.job_seconds:g} seconds.",
                    remedy="Ask for fewer records or a coarser population, or for a longer limit.",
                )
                with contextlib.suppress(ElldeltaError):
                    fail_job(agency, claim, too_long)
                logs.log("job took too long", level=logging.WARNING, job=claim.id)
                os._exit(TIMED_OUT)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _end_with(life_line: Connection) -> None:
    """Ends this process when its parent is gone, however that came about."""
    with contextlib.suppress(EOFError, OSError):
        life_line.recv()
    os._exit(0)
