"""The service under load: 32 clients fetch a plan and report progress; an empty FastAPI route beside it.

One process serves and one, this one, asks: over raw connections that stay open, with requests that are spelt
once, so that it is never the slower one. Every phase is measured several times in turn with the empty route,
and the ratio is the median over the rounds. Whoever else uses the machine disturbs both, and the one that
has more to do more than that; the processor time of the two servers tells what it would be alone.
"""

import asyncio
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from elldelta.agency.server.demo import POPULATION, fill
from elldelta.agency.server.services.parties import create_party, create_token
from elldelta.agency.server.services.plans import list_plans
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency

N_CLIENTS = 32
N_REQUESTS = 3000
N_ROUNDS = 5
SLOWEST = 1 / 0.3
"""At least 0.3 of the throughput of an empty route."""
LONGEST_TAIL = 10.0

EMPTY = """
import socket
import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/")
async def empty():
    return {}


listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what uvicorn does for a socket of its own
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
config = uvicorn.Config(app, log_level="error", access_log=False)
uvicorn.Server(config).run(sockets=[listener])
"""
SERVE = "from elldelta.cli.main import run; run()"
PATIENCE = 120.0


@dataclass(frozen=True)
class Measured:
    """What a phase took: requests a second, the time of each, and the server's processor time for one."""

    rate: float
    seconds: list
    errors: int
    processor: float = 0.0

    @property
    def tail(self):
        """The 99th percentile in medians."""
        return statistics.quantiles(self.seconds, n=100)[98] / statistics.median(self.seconds)


class Connection(asyncio.Protocol):
    """Sends the next request as soon as the answer to the last one is complete."""

    def __init__(self, requests, left, seconds, done):
        self._requests = requests
        self._left = left
        self._seconds = seconds
        self._done = done
        self._buffer = b""
        self._place = 0
        self.errors = 0

    def connection_made(self, transport):
        self._transport = transport
        self._send()

    def data_received(self, data):
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1])
        if len(body) < length:
            return
        self._seconds.append(time.perf_counter() - self._begun)
        self.errors += not head.startswith(b"HTTP/1.1 200 ")
        self._buffer = body[length:]
        self._send()

    def connection_lost(self, _):
        if not self._done.done():
            self.errors += 1
            self._done.set_result(None)

    def _send(self):
        if self._left[0] <= 0:
            if not self._done.done():
                self._done.set_result(None)
            self._transport.close()
            return
        self._left[0] -= 1
        self._begun = time.perf_counter()
        self._transport.write(self._requests[self._place % len(self._requests)])
        self._place += 1


async def _load(address, clients, n_requests):
    loop = asyncio.get_running_loop()
    left, seconds, opened = [n_requests], [], []
    begun = time.perf_counter()
    for requests in clients:
        done = loop.create_future()
        _, connection = await loop.create_connection(
            lambda own=requests, done=done: Connection(own, left, seconds, done), *address
        )
        opened.append((connection, done))
    await asyncio.gather(*(done for _, done in opened))
    elapsed = time.perf_counter() - begun
    return Measured(len(seconds) / elapsed, seconds, sum(connection.errors for connection, _ in opened))


def measured(server, clients, n_requests=N_REQUESTS):
    """Loads a server; every client is a list of requests that it sends in turn."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    before = server.processor_seconds
    found = asyncio.run(_load((host, int(port)), clients, n_requests))
    return replace(found, processor=(server.processor_seconds - before) / n_requests)


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    url: str
    pid: int

    @property
    def processor_seconds(self):
        """What it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spelt(method, path, token=None, body=b""):
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    if body:
        lines.append("Content-Type: application/json")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@contextlib.contextmanager
def serving(code, *arguments, log, ready):
    """A server in a process of its own, once it answers."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        line = process.stdout.readline().decode()
        server = Server(re.search(r"http://\S+", line)[0], process.pid)
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                if not measured(server, [[spelt("GET", ready)]], 1).errors:
                    break
            if time.monotonic() > deadline:
                raise TimeoutError(log.read_text())
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def prepared(folder):
    """The demonstration's plan and 32 owners; returns their tokens and the plan's digest."""
    settings = Settings(folder=folder, is_demo=True)
    fill(settings)
    agency = Agency.open(settings)
    try:
        tokens = []
        for number in range(N_CLIENTS):
            create_party(agency, f"owner-{number}", "owner")
            tokens.append(create_token(agency, f"owner-{number}", "load", 1).token)
        return tokens, list_plans(agency, POPULATION).entries[0].digest
    finally:
        agency.close()


def run():
    rows = []
    with tempfile.TemporaryDirectory(prefix="elldelta-load-") as name:
        folder = Path(name)
        tokens, digest = prepared(folder / "agency")
        path = f"/api/v1/plans/{digest}"
        phases = {
            "plan download": [[spelt("GET", f"{path}/file", token)] for token in tokens],
            "progress report": [
                [spelt("PUT", f"{path}/progress", token, b'{"records": %d}' % n) for n in range(100, 200)]
                for token in tokens
            ],
        }
        empty = [[spelt("GET", "/")]] * N_CLIENTS
        with (
            serving(EMPTY, log=folder / "empty.log", ready="/") as empty_server,
            serving(
                SERVE,
                "serve",
                "--port=0",
                f"--data={folder / 'agency'}",
                log=folder / "agency.log",
                ready="/ready",
            ) as server,
        ):
            for clients in phases.values():
                measured(server, clients, N_REQUESTS // 4)  # a warm-up
            measured(empty_server, empty, N_REQUESTS // 4)
            for what, clients in phases.items():
                ratios, shares, tails, errors = [], [], [], 0
                for _ in range(N_ROUNDS):
                    bare = measured(empty_server, empty)
                    own = measured(server, clients)
                    ratios.append(bare.rate / own.rate)
                    shares.append(own.processor / bare.processor)
                    tails.append(own.tail)
                    errors += own.errors
                rows.append(
                    (
                        f"{what}, {N_CLIENTS} clients, time of a request against an empty FastAPI route",
                        statistics.median(ratios),
                        SLOWEST,
                    )
                )
                rows.append(
                    (
                        f"{what}, processor time of a request against an empty FastAPI route",
                        statistics.median(shares),
                        SLOWEST,
                    )
                )
                rows.append(
                    (f"{what}, 99th percentile against the median", statistics.median(tails), LONGEST_TAIL)
                )
                rows.append((f"{what}, errors", float(errors), 0.0))
    return rows
