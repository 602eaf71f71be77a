"""The service as processes of the operating system: started by its command, ended by signals, killed."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.agency.server.service import Clock, Service

from elldelta.agency.server.services.parties import create_party, create_token, find_party
from elldelta.agency.server.services.plans import issue_plan
from elldelta.agency.server.services.populations import create_population, find_population
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency, Caller, prepare

COMMAND = (sys.executable, "-c", "from elldelta.cli.main import run; run()")
POPULATION = "region"

DATABASES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))
"""The databases that a real server is tried on."""

PATIENCE = 240.0
"""Seconds after which a server that does not start or end fails its test; never a measurement."""


@contextlib.contextmanager
def own_settings(kind, request, folder):
    """Settings for an empty database of a kind, for as long as a module's server needs it."""
    if kind == "sqlite":
        yield Settings(folder=folder / "data", database=f"sqlite:///{folder / 'agency.sqlite'}")
        return
    with request.getfixturevalue("postgres_server").new_database() as url:
        yield Settings(folder=folder / "data", database=url)


@contextlib.contextmanager
def lasting_service(request, folder, **limits):
    """A service without a network, for tests of a module that only look; on the database of a parameter."""
    with own_settings(request.param, request, folder) as settings:
        prepare(settings)
        with Service(settings, Clock(), **limits) as running:
            yield running


class RealServer:
    """`elldelta serve` in a process group of its own; can be killed and started again."""

    def __init__(self, settings, log, *, workers=1, limits=None, more=(), does_jobs=False):
        self.settings = settings
        self.log = log
        self.workers = workers
        self._arguments = [
            *COMMAND,
            "serve",
            "--port=0",
            f"--data={settings.folder}",
            f"--database={settings.database}",
            f"--workers={workers}",
            *more,
        ]
        self._does_jobs = does_jobs
        self._worker = None
        self._environment = {**os.environ, **(limits or {})}
        self._process = None
        self.url = None

    def __enter__(self):
        prepare(self.settings)
        self.agency = Agency.open(self.settings)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.kill()
        self.agency.close()

    def start(self):
        """Starts the processes and waits until requests are answered."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self.url = self._address()
        wait_until(self._is_ready)
        if self._does_jobs:
            self.start_worker()

    def start_worker(self):
        """Starts `elldelta worker` beside it."""
        places = [f"--data={self.settings.folder}", f"--database={self.settings.database}"]
        with self.log.open("ab") as log:
            self._worker = subprocess.Popen(
                [*COMMAND, "worker", *places],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=self._environment,
            )

    def kill_worker(self):
        """kill -9 of the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            self._worker = None

    def kill(self):
        """kill -9 of the whole group and of the worker; nobody can say goodbye."""
        self.kill_worker()
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        group = self._process.pid
        self._process = None
        wait_until(lambda: not _is_alive(group))

    def stop(self):
        """The orderly end; returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(PATIENCE)
        self.kill()
        return code

    @property
    def pid(self):
        return self._process.pid

    def events(self, name):
        """Lines of the log about one event."""
        found = []
        for line in self.log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("event") == name:
                    found.append(entry)
        return found

    def add(self, name, role):
        """Lets somebody in; returns a token."""
        create_party(self.agency, name, role)
        return create_token(self.agency, name, "test", 30).token

    def caller(self, name):
        with self.agency.database.reading() as session:
            party = find_party(session, name)
            return Caller(party.id, party.name, party.role)

    def issue(self, plan, population=POPULATION):
        """Issues a plan that was made by hand."""
        create_population(self.agency, population, "The region")
        with self.agency.database.writing() as session:
            issue_plan(session, self.agency, find_population(session, population).id, plan)
        return plan

    def client(self, token=None, **options):
        """A client that sends this token."""
        headers = {} if token is None else bearer(token)
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False, **options)

    def _address(self):
        """Reads the line that tells the address; a server that says nothing has not started."""
        lines = queue.Queue()
        out = self._process.stdout
        threading.Thread(target=lambda: lines.put(out.readline().decode()), daemon=True).start()
        try:
            line = lines.get(timeout=PATIENCE)
        except queue.Empty:
            line = ""
        found = re.search(r"http://\S+", line)
        assert found, f"The server did not start: {line!r}\n{self.log.read_text()[-2000:]}"
        return found[0]

    def _is_ready(self):
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        with contextlib.suppress(httpx.TransportError), self.client() as client:
            return client.get("/ready").status_code == 200
        return False


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def wait_until(condition, patience=PATIENCE):
    """Waits for something that must happen; returns what was found."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, "It did not happen."
        time.sleep(0.02)
    return found


def _is_alive(group):
    """Whether a process of the group is still there; zombies that nobody has collected do not count."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, own_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(own_group) == group and state not in "ZX":
                return True
    return False
