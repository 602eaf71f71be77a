"""Processes: brings the database up to date, starts the web server, and ends it in order."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING

from elldelta.agency.http import is_loopback
from elldelta.agency.server import logs
from elldelta.agency.server.main import create_app
from elldelta.agency.server.services.parties import NewToken, create_party, create_token
from elldelta.agency.server.state import Agency, prepare
from elldelta.agency.server.trail import audited_action
from elldelta.agency.server.worker import work
from elldelta.engines.workers import exit_with_parent
from elldelta.errors import InputError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi import FastAPI
    from uvicorn import Config

    from elldelta.agency.server.settings import Settings

FIRST_TOKEN_DAYS = 90
BACKLOG = 1024
SHUTDOWN_SECONDS = 20
IDLE_SECONDS = 15
MOST_CONNECTIONS = 1000
START_SECONDS = 60
"""A process that answers requests is replaced if it is silent for so long; slow machines start slowly."""


def create_admin(settings: Settings, name: str) -> NewToken:
    """Adds a member of the agency's staff, with a first token."""
    prepare(settings)
    opened = Agency.open(settings)
    with contextlib.closing(opened), audited_action(opened, None, "serve --create-admin", "", ""):
        create_party(opened, name, "agency")
        return create_token(opened, name, "The first one", FIRST_TOKEN_DAYS)


def serve(settings: Settings, *, ready: Callable[[str], None]) -> None:
    """Serves until somebody ends it with Ctrl-C or SIGTERM; requests that have begun are finished.

    Args:
        settings: What whoever runs the service has chosen.
        ready: Is told the address as soon as connections are accepted.

    Raises:
        InputError: The address cannot be listened on, or needs a proxy, or a process did not start.
    """
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    if not settings.is_https and not is_loopback(settings.host):
        raise ParameterError(
            "Other machines would reach the service without https and without limits.",
            found=f"It would listen on {settings.host}, and no proxy stands in front of it.",
            remedy="Put a web server in front of it (deploy/nginx.conf) and name its address, "
            "or listen on this machine only.",
            parameter=("behind_proxy", "host"),
        )
    prepare(settings)
    logs.configure(settings.log_level)
    with _listening(settings) as sockets, _demo_worker(settings), _restored_signals():
        config = _configuration(settings)
        port = sockets[0].getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready(f"http://{host}:{port}")
        if settings.workers > 1:
            Multiprocess(config, sockets=sockets).run()
            return
        server = uvicorn.Server(config)
        with contextlib.suppress(KeyboardInterrupt):  # how the server says that a signal has ended it
            server.run(sockets=sockets)
        if not server.started:
            raise InputError("The service did not start.", remedy="Its log says why.")


def application(settings: Settings, parent: int) -> FastAPI:
    """The application of one process that answers requests, and that ends with the one that started it."""
    logs.configure(settings.log_level)
    if settings.workers > 1:
        threading.Thread(target=exit_with_parent, args=(parent,), daemon=True).start()
    return create_app(settings)


def _configuration(settings: Settings) -> Config:
    import uvicorn

    return uvicorn.Config(
        partial(application, settings, os.getpid()),
        factory=True,
        workers=settings.workers,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.is_https,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_worker_healthcheck=START_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        limit_concurrency=MOST_CONNECTIONS,
    )


@contextlib.contextmanager
def _demo_worker(settings: Settings) -> Iterator[None]:
    """The demonstration brings its worker along; whoever runs a service starts one (`elldelta worker`)."""
    if not settings.is_demo:
        yield
        return
    process = multiprocessing.get_context("spawn").Process(
        target=_work_for_demo, args=(settings, os.getpid()), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _work_for_demo(settings: Settings, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal
    threading.Thread(target=exit_with_parent, args=(parent,), daemon=True).start()
    work(settings)


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[list[socket.socket]]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (settings.host, settings.port), family=family, backlog=BACKLOG, reuse_port=False
        )
    except OSError as problem:
        reason = problem.strerror or "the address is not known"
        raise ParameterError(
            f"The service cannot listen on {settings.host}, port {settings.port}.",
            found=f"The system says: {reason}.",
            remedy="Choose another port or address; port 0 is any free one.",
            parameter=("port", "host"),
        ) from None
    with listener:
        listener.set_inheritable(True)
        # Connections inherit it. Otherwise an answer's body waits 40 ms until its head is confirmed.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield [listener]


@contextlib.contextmanager
def _restored_signals() -> Iterator[None]:
    """The web server takes over signals; afterwards they are ours again."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
