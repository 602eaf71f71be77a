"""A session of Spark: started here or by somebody else, and how actions run on it.

Actions tell how far their jobs are, hear Ctrl-C, and when they fail say what to do without quoting a cell.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from elldelta.engines.spark.silence import silence
from elldelta.engines.table import Progress, withheld
from elldelta.engines.task import Task
from elldelta.errors import DataError, ElldeltaError, FileError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Result = TypeVar("Result")

CONNECT = "sc://"
"""How the address of a Spark Connect server begins."""

_JAVA = 17
_SECONDS_TO_REACH = 5.0
_LOG = "spark.log"
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""Spark Connect sets this for the process and its children, in which Spark itself then does not start."""

MEANING: dict[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    # A text is what stands between its quotes: a backslash is written as two, two quotes are one, and no
    # ${...} is replaced by what this machine knows.
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Counts are stored in as many parts as they need, and not in 200, most of them empty.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}
"""Settings on which it depends what our SQL means and takes; given back when a given session is left."""


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
        "Py4JNetworkError", "ConnectionResetError", "SparkContext was shut down", "stopped SparkContext",
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


@dataclass(frozen=True)
class Session:
    """A Spark session and how to leave it.

    Attributes:
        spark: The session.
        is_connect: Whether it is a session of Spark Connect: no JVM in this process tree.
        is_local: Whether Spark runs on this machine only, so that it sees every file of it.
        leave: Stops what was started, gives back what was changed.
    """

    spark: Any
    is_connect: bool
    is_local: bool
    leave: Callable[[], None]


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
            problem = _translated(error if self._answers_after(error) else ConnectionResetError())
        raise problem  # outside of the handler: nothing of the engine's error hangs on to it

    def _answers_after(self, error: Exception) -> bool:
        """Whether Spark still answers after an error of Py4J that tells neither this nor anything else.

        Py4J says nothing more where the connection was reset while it waited for an answer.
        """
        if self._session.is_connect or type(error).__name__ != "Py4JError":
            return True
        try:
            self._session.spark.sparkContext.defaultParallelism  # noqa: B018 (asks the JVM)
        except Exception:  # noqa: BLE001 (Py4J raises this or that, as the connection ended)
            return False
        return True


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


def given_session(spark: Any) -> Session:  # noqa: ANN401 (classic or Connect)
    """Uses a session that somebody else has started, and will stop."""
    is_connect = ".connect." in type(spark).__module__
    is_local = False if is_connect else str(spark.sparkContext.master).startswith("local")
    before = {key: spark.conf.get(key, None) for key in MEANING}
    for key, value in MEANING.items():
        spark.conf.set(key, value)

    def leave() -> None:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)

    return Session(spark, is_connect, is_local, leave)


def start_session(master: str | None, conf: Mapping[str, str], folder: Path) -> Session:
    """Starts Spark.

    Args:
        master: `local[2]`, `spark://host:port` or `sc://host:port`; this machine by default.
        conf: More settings of Spark.
        folder: A private folder for what Spark writes on this machine.
    """
    # Its Python is ours: the workers of another version would refuse.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None and master.startswith(CONNECT):
        return _connect(master, conf)
    master = master or "local[*]"
    if not re.fullmatch(r"local(\[(\*|[0-9]+)(,[0-9]+)?\])?|(spark|k8s|yarn)(://.+)?", master):
        raise ParameterError(
            "The master of Spark is not understood.",
            found=f"It is {master!r}.",
            remedy="Use local[2], spark://HOST:PORT, or sc://HOST:PORT for Spark Connect.",
        )
    if master.startswith("spark://"):
        _check_reachable(master.removeprefix("spark://").split(","), 7077)
    _check_java()
    return _start(master, conf, folder)


def _start(master: str, conf: Mapping[str, str], folder: Path) -> Session:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise ParameterError(
            "There is already a Spark session in this process.",
            found="A process can have one only.",
            remedy="Give it to the engine: connect('spark', session=...).",
        )
    is_local = master.startswith("local")
    settings = {
        "spark.master": master,
        "spark.app.name": "elldelta",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # Without its memory the driver would go on for ever and do nothing.
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:+ExitOnOutOfMemoryError",
        "spark.driver.memory": f"{_memory_mib()}m",
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if is_local else {}),
        **conf,
        **MEANING,
    }
    described = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        described.set(key, value)
    handler = signal.getsignal(signal.SIGINT)
    problem: ElldeltaError | None = None
    gateway = context = None
    restore_logging: Callable[[], None] = lambda: None  # noqa: E731 (until there is something to restore)
    try:
        # What it and its JVM say may quote cells, and would disturb the terminal.
        with (folder / _LOG).open("wb") as log:
            gateway = launch_gateway(described, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        context = SparkContext(conf=described, gateway=gateway)
        restore_logging = silence(context)
        spark = SparkSession(context)
    except Exception:  # noqa: BLE001 (Py4J and Spark raise whatever Java raises; its texts stay here)
        problem = _not_started()
    finally:
        _restore(handler)

    def leave() -> None:
        try:
            if context is not None:
                context.stop()
        finally:  # also where Spark is gone and does not stop any more
            if gateway is not None:
                _end(gateway)
            restore_logging()

    if problem is not None:
        leave()
        raise problem
    return Session(spark, is_connect=False, is_local=is_local, leave=leave)


def _memory_mib() -> int:
    """A quarter of this machine's memory for the driver, at least what Spark gives it."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        size = 0
    return max(1024, (size >> 20) // 4)


def _end(gateway: Any) -> None:  # noqa: ANN401 (a gateway of Py4J)
    """Ends the JVM, so that the next session in this process does not find the folders of this one."""
    from pyspark import SparkContext

    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM ends when it cannot read from us any more
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


def _restore(handler: Any) -> None:  # noqa: ANN401 (whatever was installed)
    # Spark installs its own answer to Ctrl-C; we cancel our jobs ourselves.
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)


def _connect(master: str, conf: Mapping[str, str]) -> Session:
    problem: ElldeltaError
    address = master.removeprefix(CONNECT).partition("/")[0]
    _check_reachable([address], 15002)
    before = os.environ.get(_CONNECT_MODE)

    def restore() -> None:
        if before is None:
            os.environ.pop(_CONNECT_MODE, None)

    try:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(master).create()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a setting is old: what it is set to is what we rely on
            for key, value in {**conf, **MEANING}.items():
                spark.conf.set(key, value)
    except ImportError:
        problem = ParameterError(
            "Spark Connect is not installed.",
            found="A package that it needs is missing.",
            remedy="pip install 'elldelta[spark]'",
        )
    except Exception:  # noqa: BLE001 (gRPC and Spark; their texts stay here)
        problem = ParameterError(
            "Spark Connect refuses the session.",
            found="The server answers, but does not accept the address or a setting.",
            remedy="Check the master and the settings; versions of server and client must fit.",
        )
    else:

        def leave() -> None:
            try:
                spark.stop()
            finally:
                restore()

        return Session(spark, is_connect=True, is_local=False, leave=leave)
    restore()
    raise problem


def _check_reachable(addresses: list[str], usual_port: int) -> None:
    """Refuses at once where Spark would try for minutes."""
    for address in addresses:
        host, _, port = address.rpartition(":") if ":" in address else (address, "", str(usual_port))
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_REACH).close()
        except (OSError, ValueError, OverflowError):
            continue
        return
    raise ParameterError(
        "Spark cannot be reached.",
        found="Nobody answers at the address of the master.",
        remedy="Check host and port, and that the cluster runs.",
    )


def _check_java() -> None:
    if _java() is None:
        raise ParameterError(
            "Spark needs Java, which is missing.",
            found="There is no program java, and JAVA_HOME does not name one.",
            remedy=f"Install Java {_JAVA} (apt install openjdk-{_JAVA}-jre-headless), or set JAVA_HOME.",
        )


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _not_started() -> ElldeltaError:
    found = subprocess.run(  # noqa: S603 (the program that Spark runs)
        [_java() or "java", "-version"], capture_output=True, text=True, check=False
    )
    version = re.search(r'version "(?:1\.)?([0-9]+)', found.stderr)
    if version and int(version[1]) < _JAVA:
        return ParameterError(
            f"Spark needs Java {_JAVA} or newer.",
            found=f"The program java is version {version[1]}.",
            remedy=f"Install Java {_JAVA} (apt install openjdk-{_JAVA}-jre-headless), or set JAVA_HOME.",
        )
    return ParameterError(
        "Spark cannot be started.",
        found="It ended while it started, or did not accept a setting.",
        remedy="Check the master, the settings, the memory that is left, and the temporary folder.",
    )


def _translated(error: BaseException) -> BaseException:
    """An error that says what to do; the text of Spark's is looked at, never passed on."""
    words = f"{type(error).__name__} {error}"
    if any(sign in words for sign in _CANCELLED):
        return KeyboardInterrupt()
    for signs, (kind, what, found, remedy) in _MEANINGS.items():
        if any(sign in words for sign in signs):
            return kind(what, found=found, remedy=remedy)
    return withheld(error)
