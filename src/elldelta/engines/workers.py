"""Jobs that do not need each other: one after the other, on several processes, or on an engine's workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from elldelta.core.checks import check_whole
from elldelta.engines.task import WAIT_SECONDS, part
from elldelta.errors import InputError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

    from elldelta.engines.table import Engine, Progress


class Job(Protocol):
    """One kind of job: picklable, and called with the number of each."""

    def __call__(self, number: int, progress: Progress | None = None) -> Any:  # noqa: ANN401 (any result)
        """Does one of the jobs."""


@dataclass(frozen=True)
class Workers:
    """Where jobs are done; the results are the same everywhere.

    Attributes:
        processes: On so many processes, each in memory of its own; with 1, in this one.
        engine: The engine on whose workers they are done instead.
    """

    processes: int = 1
    engine: Engine | None = None

    def __post_init__(self) -> None:
        check_whole("the number of processes", self.processes, 1, parameter="processes")
        if self.engine is not None and self.processes > 1:
            raise processes_and_engine(self.processes, self.engine.name)

    def run(self, job: Job, n_jobs: int, progress: Progress | None = None) -> Iterator[Any]:
        """The results of jobs 0, 1, 2, ... in their order."""
        if self.engine is not None:
            yield from self.engine.run_each(job, n_jobs, progress)
        elif min(self.processes, n_jobs) > 1:
            yield from _on_processes(job, n_jobs, min(self.processes, n_jobs), progress)
        else:
            for number in range(n_jobs):
                yield job(number, part(progress, number / n_jobs, (number + 1) / n_jobs))


HERE = Workers()


def processes_and_engine(processes: int, engine: str) -> ParameterError:
    """The refusal of both; an engine need not be started to find out."""
    return ParameterError(
        "Regions are planned on processes or on an engine, not on both.",
        found=f"{processes} processes and the engine {engine} are asked for.",
        remedy="Give one of the two.",
        parameter=("processes", "engine"),
    )


def single_threaded() -> None:
    """Keeps compiled code that is loaded from now on to one thread, because others work beside it."""
    os.environ["NUMBA_NUM_THREADS"] = "1"


def exit_with_parent(parent: int) -> None:
    """Ends this process when the one that started it is gone, however and however early that came about."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


class _Process(SpawnProcess):
    """A process that loads this package, and not the script that plans: that would run once more in it."""

    @staticmethod
    def _Popen(process: BaseProcess) -> Any:  # noqa: ANN401, N802 (as the library has it)
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process)
        finally:
            sys.modules["__main__"] = script


class _Context(SpawnContext):
    Process = _Process


_job: Callable[[int], Any]
"""What a worker process does."""


def _begin(job: Job, parent: int) -> None:
    global _job  # noqa: PLW0603 (the process is for this job alone)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one hears it, and ends us
    threading.Thread(target=exit_with_parent, args=(parent,), daemon=True).start()
    single_threaded()
    _job = job


def _do(number: int) -> Any:  # noqa: ANN401
    return _job(number)


def _on_processes(job: Job, n_jobs: int, n_processes: int, progress: Progress | None) -> Iterator[Any]:
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(n_processes, _Context(), _begin, (job, os.getpid())) as pool:
        try:
            pending = [pool.submit(_do, number) for number in range(n_jobs)]
            for number, future in enumerate(pending):
                while not future.done():
                    try:
                        future.exception(WAIT_SECONDS)
                    except TimeoutError:
                        if progress is not None:  # which raises an interrupt here
                            progress(number / n_jobs)
                yield future.result()
        except BaseException as problem:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)  # which waits until they have ended
            if isinstance(problem, BrokenProcessPool):
                raise InputError(
                    "A process that planned a region has ended.",
                    found="The system has ended it, or there was not enough memory.",
                    remedy="Use fewer processes, or smaller regions.",
                    parameter="processes",
                ) from None
            raise
