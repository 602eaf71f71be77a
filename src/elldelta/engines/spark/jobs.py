"""Running actions on Spark: how far their jobs are, how to cancel them, and what to say when they fail."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from elldelta.engines.spark.errors import translated
from elldelta.engines.task import PATIENCE, Task
from elldelta.errors import ElldeltaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from elldelta.engines.spark.session import Session
    from elldelta.engines.table import Progress

    Result = TypeVar("Result")


class Runner:
    """Runs actions on a session so that Ctrl-C is heard and no message quotes a cell."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def watched(
        self, action: Callable[[], Result], progress: Progress | None = None, writing: Path | None = None
    ) -> Result:
        """Runs an action that may take long; tells how far it is, and hears Ctrl-C."""
        jobs = Jobs(self._session.spark, is_connect=self._session.is_connect)

        def watch() -> None:
            if progress:
                progress(self.run(jobs.done))

        # Nobody waits long for what only reads; what writes must have stopped before its files are removed.
        patience = None if writing is not None else PATIENCE
        task = Task(lambda: jobs.follow(action))
        result = self.run(lambda: task.run(jobs.cancel, watch=watch, patience=patience), writing)
        if progress:
            progress(1.0)
        return result

    def run(self, action: Callable[[], Result], writing: Path | None = None) -> Result:
        """Runs an action; what Spark raises is replaced, because its texts quote cells."""
        problem: BaseException
        try:
            return action()
        except ElldeltaError:
            raise
        except Exception as error:  # noqa: BLE001 (Py4J, gRPC, Arrow and Spark have no common class)
            problem = translated(error, writing)
        raise problem  # outside of the handler: nothing of the engine's error hangs on to it


class Jobs:
    """The jobs of one action: how far they are, and how to cancel them."""

    def __init__(self, spark: Any, *, is_connect: bool) -> None:  # noqa: ANN401 (classic or Connect)
        self._spark = spark
        self._is_connect = is_connect
        self._tag = f"elldelta_{secrets.token_hex(8)}"
        self._done = 0.0

    def follow(self, action: Callable[[], Result]) -> Result:
        """Runs an action so that its jobs can be found; in a thread of its own."""
        if not self._is_connect:
            self._spark.sparkContext.setJobGroup(self._tag, "elldelta", interruptOnCancel=True)
            return action()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._hear)
        try:
            return action()
        finally:
            self._spark.removeProgressHandler(self._hear)
            self._spark.removeTag(self._tag)

    def cancel(self) -> None:
        """Cancels the jobs that run now."""
        if self._is_connect:
            self._spark.interruptTag(self._tag)
        else:
            self._spark.sparkContext.cancelJobGroup(self._tag)

    def done(self) -> float:
        """The share of their tasks that are done, from 0 to 1; it never falls."""
        if not self._is_connect:
            tracker = self._spark.sparkContext.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._tag)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
            known = [stage for stage in stages if stage]
            self._add(sum(stage.numTasks for stage in known), sum(stage.numCompletedTasks for stage in known))
        return self._done

    def _hear(self, stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:  # noqa: ANN401
        stages = stages or ()
        self._add(
            sum(stage.num_tasks for stage in stages), sum(stage.num_completed_tasks for stage in stages)
        )

    def _add(self, n_tasks: int, n_done: int) -> None:
        if n_tasks > 0:
            self._done = max(self._done, min(n_done / n_tasks, 1.0))
