"""What somebody who runs the service can choose, checked as a whole before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from elldelta.agency.http import is_loopback
from elldelta.errors import ParameterError

KIB = 1 << 10
MIB = 1 << 20

ENVIRONMENT_PREFIX = "ELLDELTA_SERVER_"
"""A limit can be changed by a variable of this prefix and its name in capitals."""


class Limits(BaseSettings):
    """What one caller, one request and one job may use; each can be changed by an environment variable.

    Attributes:
        body_bytes: The largest body of an ordinary request.
        registration_bytes: The largest registration: classes and counts.
        model_bytes: The largest model file.
        model_cells: The largest table of a model: combinations with a record x sensitive values.
        database_seconds: How long a request waits for the database, or for others who write.
        job_seconds: How long planning or an audit may take.
        jobs_waiting: How many jobs may wait; audits apart from all others.
        audit_releases: How many releases of a plan an audit links, the newest.
        requests_open: How many requests of one client may wait for the agency.
        session_hours: How long a login lasts.
        token_days: The longest time that an API token may be valid.
        signature_days: How long the signature of a plan may be used; None for ever.
        refusals_daily: How many registrations of one owner under one plan may be refused or taken back within
            24 hours.
        refusals_kept: The most refusals, older than that, that are kept of one owner about one population.
        page_size: The most entries that one answer lists.
    """

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, frozen=True)

    body_bytes: PositiveInt = 64 * KIB
    registration_bytes: PositiveInt = 16 * MIB
    model_bytes: PositiveInt = 64 * MIB
    model_cells: PositiveInt = 20_000_000
    database_seconds: PositiveFloat = 15.0
    job_seconds: PositiveFloat = 3600.0
    jobs_waiting: PositiveInt = 50
    audit_releases: PositiveInt = 100
    requests_open: PositiveInt = 50
    session_hours: PositiveFloat = 8.0
    token_days: PositiveInt = 366
    signature_days: PositiveInt | None = None
    refusals_daily: PositiveInt = 20
    refusals_kept: PositiveInt = 200
    page_size: PositiveInt = 500


class Provider(BaseSettings):
    """An identity provider, at which people can sign in; from variables that begin with ELLDELTA_OIDC_.

    Attributes:
        issuer: Its address, as it names itself.
        client_id: The name under which it knows this service.
        client_secret: The secret of this service.
    """

    model_config = SettingsConfigDict(env_prefix="ELLDELTA_OIDC_", frozen=True)

    issuer: str = ""
    client_id: str = ""
    client_secret: SecretStr = SecretStr("")


class Settings(BaseModel):
    """Where the service keeps things, where it listens, and its limits.

    Attributes:
        folder: The folder for the agency's key and, unless `database` says otherwise, the database.
        database: A database URL, `sqlite:///...` or `postgresql://...`; empty for a file in the folder.
        host: The address to listen on.
        port: The port; 0 for any free one.
        workers: Processes that answer requests.
        behind_proxy: The address, https://..., at which a proxy in front ends TLS and names the caller's
            address; empty if there is none. With one, cookies are sent over https only.
        oidc: An identity provider at which people can sign in (OpenID Connect); None if there is none.
        is_demo: Whether this is the demonstration, with well-known tokens.
        log_level: "debug", "info", "warning" or "error".
        require_epsilon: Only models that protect their past records with at most this epsilon are taken.
        limits: What one caller, one request and one job may use.
    """

    model_config = ConfigDict(frozen=True)

    folder: Path
    database: str = ""
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=64)
    behind_proxy: str = ""
    oidc: Provider | None = None
    is_demo: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    require_epsilon: float | None = Field(default=None, gt=0.0, le=100.0)
    limits: Limits = Field(default_factory=Limits)

    @field_validator("behind_proxy")
    @classmethod
    def _is_address(cls, url: str) -> str:
        """Only an address is one; hosts and cookies depend on it."""
        if url and not re.fullmatch(r"https://[\w.-]+(:\d+)?/?", url):
            raise ParameterError(
                "The address at which a proxy stands in front cannot be used.",
                found="It is no address of https, or more than that.",
                remedy="Write it as people type it, such as https://agency.example",
                parameter="behind_proxy",
            )
        return url

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the service over https: a proxy ends it."""
        return bool(self.behind_proxy)

    def answers_for(self, host: str) -> bool:
        """Whether a `Host` names this service: this machine, or its public address.

        Pages of other sites can have their own names lead here (DNS rebinding), and would be our own pages.
        """
        found = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d+)?", host, re.ASCII | re.IGNORECASE)
        name = (found[1] or found[2]).lower() if found else ""
        return is_loopback(name) or (name != "" and name == urlsplit(self.behind_proxy).hostname)

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
        """Public keys that the agency has signed with before, one after the other in a PEM file."""
        return self.folder / "former-keys.pem"


def read_settings(**chosen: Any) -> Settings:  # noqa: ANN401 (the fields of Settings)
    """The settings, with limits from the environment.

    Raises:
        ParameterError: One of them cannot be used.
    """
    try:
        return Settings(**chosen, limits=Limits(), oidc=_provider())
    except ValidationError as error:
        wrong = error.errors()[0]
    name = str(wrong["loc"][0])
    if name in Limits.model_fields:
        name = f"environment variable {ENVIRONMENT_PREFIX}{name.upper()}"
    else:
        name = f"option --{name.replace('_', '-')}"
    raise ParameterError(f"The {name} cannot be used.", found=f"{wrong['msg']}.")


def _provider() -> Provider | None:
    """The identity provider, if there is one."""
    found = Provider()
    missing = [name for name in Provider.model_fields if not getattr(found, name)]
    if len(missing) == len(Provider.model_fields):
        return None
    if missing:
        raise ParameterError(
            "Signing in at an identity provider needs three variables.",
            found=f"Not set: {', '.join('ELLDELTA_OIDC_' + name.upper() for name in missing)}.",
            remedy="Set all of them, or none.",
        )
    return found
