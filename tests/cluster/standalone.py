"""A real Spark cluster on this machine: one master and two workers, each a process of its own."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tests.local_server import free_ports

PATIENCE = 600.0
"""Seconds after which a process that does not answer counts as broken."""


def until(happens, what):
    """Waits for something; what it returns."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = happens()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"In vain: {what}.")


class Process:
    """A process in a group of its own, which dies with everything it has started."""

    def __init__(self, command, log, **environment):
        self.log = log
        with log.open("wb") as file:
            self._run = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **environment},
            )

    @property
    def runs(self):
        return self._run.poll() is None

    @property
    def code(self):
        return self._run.wait(timeout=4 * PATIENCE)

    def said(self):
        return self.log.read_text(errors="replace")

    def kill(self):
        """SIGKILL for the whole group: nobody in it can clean up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._run.pid, signal.SIGKILL)
        self._run.wait()


class StandaloneCluster:
    """Use it in a `with` block."""

    def __init__(self, folder, n_workers=2):
        import pyspark

        self._spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self._folder = folder
        self._n_workers = n_workers
        self.workers = []
        self.drivers = []
        self.master = None
        self.url = ""

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in (*self.drivers, *self.workers, *([self.master] if self.master else ())):
            if process.runs:
                process.kill()

    def _start(self):
        [port] = free_ports(1)
        self.url = f"spark://127.0.0.1:{port}"
        self.master = self._daemon("master.Master", "master", "--port", port)
        until(lambda: "Starting Spark master" in self.master.said(), "the master starts")
        for _ in range(self._n_workers):
            self.add_worker()

    def add_worker(self):
        """Starts one more worker, with one processor."""
        name = f"worker-{len(self.workers)}"
        worker = self._daemon(
            "worker.Worker", name, "--cores", 1, "--memory", "1g", "--work-dir", self._folder / name, self.url
        )
        self.workers.append(worker)
        until(lambda: "Successfully registered with master" in worker.said(), "a worker registers")
        return worker

    def busy_workers(self):
        """The workers in which an executor has been started."""
        return [
            worker for worker in self.workers if worker.runs and "Asked to launch executor" in worker.said()
        ]

    def shuffled(self):
        """What tasks have grouped so far, as files on the disks of the workers."""
        return {
            f"{folder}/{name}"
            for folder, _, names in os.walk(self._folder)
            for name in names
            if name.startswith("shuffle_")
        }

    def ended_applications(self):
        """How many applications have ended, by themselves or otherwise."""
        return len(re.findall(r"Removing app app-", self.master.said()))

    def _daemon(self, name, log, *arguments):
        return Process(
            [
                str(self._spark_class),
                f"org.apache.spark.deploy.{name}",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                *map(str, arguments),
            ],
            self._folder / f"{log}.log",
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_DAEMON_MEMORY="512m",
            SPARK_LOCAL_DIRS=str(self._folder),
        )
