"""What somebody who runs the service can choose, checked as a whole before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Self

from elldelta.errors import ParameterError

KIB = 1 << 10
MIB = 1 << 20

ENVIRONMENT_PREFIX = "ELLDELTA_SERVER_"
"""A limit can be changed by a variable of this prefix and its name in capitals."""


@dataclass(frozen=True)
class Limits:
    """What one caller, one request and one job may use.

    Attributes:
        body_bytes: The largest body of an ordinary request.
        registration_bytes: The largest registration: a manifest and class counts.
        model_bytes: The largest model file.
        model_cells: The largest table of a model: combinations with a record x sensitive values.
        body_seconds: How long an ordinary body may take to arrive.
        model_seconds: How long a model may take to arrive.
        pause_seconds: How long a body may pause.
        principal_rate: Requests a second that one party may make in the long run.
        principal_burst: Requests that it may make at once.
        address_rate: The same for one network address, whoever calls from there.
        address_burst: Requests that one address may make at once.
        login_rate: Logins, and wrong tokens, a second from one address.
        login_burst: Logins that one address may try at once.
        database_seconds: How long a request waits for the database, or for others who write.
        job_seconds: How long planning or an audit may take.
        job_lease_seconds: After so long without a sign of life a job is taken from its worker.
        job_attempts: How often a job is begun before it counts as failed.
        jobs_waiting: How many jobs may wait.
        requests_open: How many requests of one client may wait for the agency.
        session_hours: How long a login lasts.
        token_days: The longest time that an API token may be valid.
        answer_days: How long the answer to an Idempotency-Key is kept, to be given again.
        answers_kept: The most answers that are kept for one party; the oldest go first.
        refusals_kept: The most refusals that are kept of one owner about one population.
        page_size: The most entries that one answer lists.
    """

    body_bytes: int = 64 * KIB
    registration_bytes: int = 16 * MIB
    model_bytes: int = 64 * MIB
    model_cells: int = 20_000_000
    body_seconds: float = 20.0
    model_seconds: float = 300.0
    pause_seconds: float = 10.0
    principal_rate: float = 50.0
    principal_burst: float = 200.0
    address_rate: float = 200.0
    address_burst: float = 600.0
    login_rate: float = 0.2
    login_burst: float = 10.0
    database_seconds: float = 15.0
    job_seconds: float = 3600.0
    job_lease_seconds: float = 30.0
    job_attempts: int = 3
    jobs_waiting: int = 50
    requests_open: int = 50
    session_hours: float = 8.0
    token_days: int = 366
    answer_days: int = 30
    answers_kept: int = 10_000
    refusals_kept: int = 200
    page_size: int = 500

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) <= 0:
                raise ParameterError(
                    f"The limit {item.name} must be positive.",
                    found=f"It is {getattr(self, item.name)}.",
                    remedy="Leave it out, or choose a larger one.",
                )

    @classmethod
    def from_environment(cls) -> Self:
        """The limits, with those that environment variables change."""
        chosen: dict[str, int | float] = {}
        for item in fields(cls):
            name = ENVIRONMENT_PREFIX + item.name.upper()
            text = os.environ.get(name)
            if text is None:
                continue
            try:
                chosen[item.name] = int(text) if item.type == "int" else float(text)
            except ValueError:
                raise ParameterError(
                    f"The environment variable {name} must be a number.", remedy="Correct it, or remove it."
                ) from None
        return cls(**chosen)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Settings:
    """Where the service keeps things, where it listens, and its limits.

    Attributes:
        folder: The folder for the agency's key and, unless `database` says otherwise, the database.
        database: A database URL, `sqlite:///...` or `postgresql://...`; empty for a file in the folder.
        host: The address to listen on.
        port: The port; 0 for any free one.
        workers: Processes that answer requests.
        job_workers: Processes that plan and audit.
        behind_proxy: Whether a proxy in front ends TLS and names the caller's address. Cookies are then sent
            over https only.
        is_demo: Whether this is the demonstration, with well-known passwords.
        log_level: "debug", "info", "warning" or "error".
        limits: What one caller, one request and one job may use.
    """

    folder: Path
    database: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    job_workers: int = 1
    behind_proxy: bool = False
    is_demo: bool = False
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError("The port must lie between 0 and 65535.", found=f"It is {self.port}.")
        for name in ("workers", "job_workers"):
            if not 1 <= getattr(self, name) <= 64:
                raise ParameterError(
                    f"The number of {name.replace('_', ' ')} must lie between 1 and 64.",
                    found=f"It is {getattr(self, name)}.",
                )
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise ParameterError(
                "The log level must be one of debug, info, warning and error.",
                found=f"It is {self.log_level!r}.",
            )

    @property
    def database_url(self) -> str:
        """The database, as SQLAlchemy spells it; PostgreSQL always with psycopg."""
        url = self.database or f"sqlite:///{self.folder / 'agency.sqlite'}"
        for prefix in ("postgresql://", "postgres://"):
            if url.startswith(prefix):
                return "postgresql+psycopg://" + url.removeprefix(prefix)
        if url.startswith(("sqlite:///", "postgresql+psycopg://")):
            return url
        raise ParameterError(
            "The database must be SQLite or PostgreSQL.",
            found="Its URL begins with neither sqlite:/// nor postgresql://.",
            remedy="Write for example postgresql://user:password@host/name, or leave it out.",
        )

    @property
    def key_file(self) -> Path:
        """The agency's private key."""
        return self.folder / "agency-key.pem"

    @property
    def former_keys(self) -> Path:
        """The folder of public keys that the agency has signed with before."""
        return self.folder / "former-keys"

    def with_limits(self, **limits: float) -> Settings:
        """The same settings with some limits changed."""
        return replace(self, limits=replace(self.limits, **limits))  # type: ignore[arg-type]
