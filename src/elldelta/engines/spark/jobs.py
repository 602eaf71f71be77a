"""Running actions on Spark: how far their jobs are, how to cancel them, and what to say when they fail."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from elldelta.engines.table import Progress, withheld
from elldelta.engines.task import Task
from elldelta.errors import DataError, ElldeltaError, FileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.engines.spark.session import Session

    Result = TypeVar("Result")


_CANCELLED = ("cancelled part of cancelled job group", "OPERATION_CANCELED", "was canceled", "was cancelled")
_MEANINGS: dict[tuple[str, ...], tuple[type[ElldeltaError], str, str, str]] = {
    ("OutOfMemoryError", "No space left", "File too large", "Disk quota exceeded"): (
        FileError,
        "There is not enough memory or temporary space for this table.",
        "Spark reached its limits.",
        "Make room, or give it more: set spark.driver.memory, and as much for the executors.",
    ),
    ("maxResultSize",): (
        FileError,
        "The counts are too large for the driver of Spark.",
        "They pass its limit for results.",
        "Raise it: set spark.driver.maxResultSize to 4g, say in spark-defaults.conf.",
    ),
    (
        "Py4JNetworkError", "SparkContext was shut down", "stopped SparkContext",
        "Answer from Java side is empty", "StatusCode.UNAVAILABLE", "has been stopped", "Connection refused",
        "INVALID_HANDLE.SESSION", "All masters are unresponsive", "Application was killed",
    ): (
        FileError,
        "Spark ended, or the connection to it was lost.",
        "It does not answer any more.",
        "Check that the cluster runs and has enough memory, then try again: nothing was written.",
    ),
    (
        "FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER", "is not a Parquet file", "ParquetDecodingException",
        "Could not read footer", "FileNotFoundException", "FILE_NOT_EXIST", "could not read page",
        "EOFException", "can not read class org.apache.parquet", "corrupt", "Unknown compression",
        "PATH_NOT_FOUND", "ParquetCryptoRuntimeException", "Could not verify CRC",
    ): (
        FileError,
        "A file of the table cannot be read.",
        "It is damaged, incomplete, was changed meanwhile, or not every worker sees it.",
        "Check that the files are whole and lie where driver and workers find them.",
    ),
    (
        "CAST_INVALID_INPUT", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "ARITHMETIC_OVERFLOW",
        "DATATYPE_MISMATCH", "INCOMPATIBLE_COLUMN_TYPE", "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
        "PARQUET_TYPE_ILLEGAL", "PARQUET_TYPE_NOT_SUPPORTED", "CANNOT_MERGE", "ArrowInvalid",
        "UNSUPPORTED_DATA_TYPE", "DATETIME_OVERFLOW", "INVALID_UTF8_STRING",
    ): (
        DataError,
        "The table holds values that cannot be converted.",
        "A column has a type that Spark does not know, or other types in other files.",
        "Give all parts of a table the same types; convert strange ones.",
    ),
}  # fmt: skip


class Runner:
    """Runs actions on a session so that Ctrl-C is heard and no message quotes a cell."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def watched(self, action: Callable[[], Result], progress: Progress | None = None) -> Result:
        """Runs an action that may take long; tells how far it is, and hears Ctrl-C."""
        jobs = Jobs(self._session.spark, is_connect=self._session.is_connect)

        def watch() -> None:
            if progress:
                progress(self.run(jobs.done))

        task = Task(lambda: jobs.follow(action))
        result = self.run(lambda: task.run(jobs.cancel, watch=watch))
        if progress:
            progress(1.0)
        return result

    def run(self, action: Callable[[], Result]) -> Result:
        """Runs an action; what Spark raises is replaced, because its texts quote cells."""
        problem: BaseException
        try:
            return action()
        except ElldeltaError:
            raise
        except Exception as error:  # noqa: BLE001 (Py4J, gRPC, Arrow and Spark have no common class)
            problem = _translated(error)
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


def _translated(error: BaseException) -> BaseException:
    """An error that says what to do; the text of Spark's is looked at, never passed on."""
    words = f"{type(error).__name__} {error}"
    if any(sign in words for sign in _CANCELLED):
        return KeyboardInterrupt()
    for signs, (kind, what, found, remedy) in _MEANINGS.items():
        if any(sign in words for sign in signs):
            return kind(what, found=found, remedy=remedy)
    return withheld()
