"""The tables of the service, what callers may see of a row, and which texts fit a column.

Nothing here is about a person in somebody's records, with one exception: a model holds counts of past records
and is nearly records itself. It is kept as the file that was uploaded and never leaves the service.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, ClassVar, Literal

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from elldelta.agency.views import ReleaseState
from elldelta.errors import ParameterError, counted
from elldelta.plan.signature import PlanStatus

Role = Literal["agency", "owner", "client", "auditor"]

AGENCY: Role = "agency"
OWNER: Role = "owner"
CLIENT: Role = "client"
AUDITOR: Role = "auditor"

ROLES: tuple[Role, ...] = (AGENCY, OWNER, CLIENT, AUDITOR)

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"

NAME_LENGTH = 64

DIGEST_LENGTH = 71
"""`sha256:` and 64 hexadecimal digits."""


class Moment(TypeDecorator[dt.datetime]):
    """A moment in UTC; SQLite would forget the time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """To UTC."""
        return None if value is None else value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """From UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class Base(DeclarativeBase):
    """All tables; constraints have names, so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dt.datetime: Moment,
        dict[str, Any]: JSON,
        bytes: LargeBinary,
        float: Double,
    }


def is_name(text: str) -> bool:
    """Whether somebody or something can be called that."""
    return re.fullmatch(NAME_PATTERN.strip("^$"), text) is not None


def check_name(what: str, name: str) -> str:
    """Refuses a name that would need quoting somewhere."""
    if not is_name(name):
        raise ParameterError(
            f"The name of {what} has 1 to 64 letters, digits, dots, hyphens and underscores.",
            found="It is empty, too long, or has other characters.",
            remedy="Choose for example hospital-a.",
        )
    return name


def check_text(what: str, text: str, most: int) -> str:
    """Refuses a text that is too long or has characters that do not print."""
    text = text.strip()
    if len(text) > most or not text.isprintable():
        raise ParameterError(
            f"{what} has at most {counted(most, 'printable character')} on one line.",
            found="It is longer, or has other characters.",
        )
    return text


class Party(Base):
    """Somebody who may call the service."""

    __tablename__ = "parties"
    __table_args__ = (CheckConstraint("role IN ('agency', 'owner', 'client', 'auditor')", name="role"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    folded_name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    role: Mapped[Role] = mapped_column(String(16))
    oidc_subject: Mapped[str | None] = mapped_column(String(255), index=True, unique=True)
    created_at: Mapped[dt.datetime]
    disabled_at: Mapped[dt.datetime | None]


class Token(Base):
    """An API token: only the digest of its secret is kept."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    party_id: Mapped[int] = mapped_column(ForeignKey("parties.id"), index=True)
    digest: Mapped[str] = mapped_column(String(64))
    note: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime]
    revoked_at: Mapped[dt.datetime | None]

    party: Mapped[Party] = relationship()


class Login(Base):
    """A login of the pages, with a token or at the provider: only the digest of the cookie is kept."""

    __tablename__ = "logins"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    party_id: Mapped[int] = mapped_column(ForeignKey("parties.id"), index=True)
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.id"), index=True)
    created_at: Mapped[dt.datetime]
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)


class TrailEntry(Base):
    """Somebody did something, or tried to sign in; the database refuses to change or remove it."""

    __tablename__ = "trail"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[dt.datetime] = mapped_column(index=True)
    party_id: Mapped[int | None] = mapped_column(ForeignKey("parties.id"), index=True)
    action: Mapped[str] = mapped_column(String(100))
    subject: Mapped[str] = mapped_column(String(200))
    address: Mapped[str] = mapped_column(String(64))

    party: Mapped[Party | None] = relationship(lazy="joined")


class Population(Base):
    """A group of people about whom owners publish."""

    __tablename__ = "populations"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    title: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[dt.datetime]
    model_id: Mapped[int | None] = mapped_column(
        ForeignKey("models.id", name="fk_populations_model_id", use_alter=True)
    )

    model: Mapped[ModelFile | None] = relationship(foreign_keys=model_id, post_update=True)


class Secret(Base):
    """What only the agency knows; made with the database. Whoever has the database has the models, too."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    value: Mapped[bytes]


class ModelFile(Base):
    """A model that was uploaded, as its file, with a summary and a frontier that show no count.

    Others know it by its keyed digest (`Agency.keyed`).
    """

    __tablename__ = "models"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    population_id: Mapped[int] = mapped_column(ForeignKey("populations.id"), index=True)
    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    keyed_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    file: Mapped[bytes] = mapped_column(deferred=True)
    summary: Mapped[dict[str, Any]]
    frontier: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    uploaded_by: Mapped[int] = mapped_column(ForeignKey("parties.id"))
    uploaded_at: Mapped[dt.datetime]


class Request(Base):
    """What a client asks for."""

    __tablename__ = "requests"
    __table_args__ = (CheckConstraint("status IN ('filed', 'planned', 'declined')", name="status"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    population_id: Mapped[int] = mapped_column(ForeignKey("populations.id"), index=True)
    client_id: Mapped[int] = mapped_column(ForeignKey("parties.id"), index=True)
    wishes: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(1000))
    plan_digest: Mapped[str | None] = mapped_column(ForeignKey("plans.digest"))
    filed_at: Mapped[dt.datetime]
    decided_at: Mapped[dt.datetime | None]

    population: Mapped[Population] = relationship()
    client: Mapped[Party] = relationship()


class Plan(Base):
    """A plan that was issued: its exact file, its signature, and whether it still counts."""

    __tablename__ = "plans"
    __table_args__ = (CheckConstraint("status IN ('issued', 'superseded', 'withdrawn')", name="status"),)

    digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)
    population_id: Mapped[int] = mapped_column(ForeignKey("populations.id"), index=True)
    file: Mapped[bytes] = mapped_column(deferred=True)
    signature: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    status: Mapped[PlanStatus] = mapped_column(String(16))
    superseded_by: Mapped[str | None] = mapped_column(ForeignKey("plans.digest"))
    reason: Mapped[str | None] = mapped_column(String(1000))
    issued_at: Mapped[dt.datetime]
    ended_at: Mapped[dt.datetime | None]
    ell: Mapped[int]
    delta: Mapped[float]
    releases: Mapped[int]
    records: Mapped[int] = mapped_column(BigInteger)
    n_classes: Mapped[int]
    kind: Mapped[str] = mapped_column(String(16))
    promise: Mapped[str] = mapped_column(Text)
    closeness: Mapped[float | None]

    population: Mapped[Population] = relationship()


class Progress(Base):
    """How many records an owner says it has for a plan."""

    __tablename__ = "progress"

    plan_digest: Mapped[str] = mapped_column(ForeignKey("plans.digest"), primary_key=True)
    party_id: Mapped[int] = mapped_column(ForeignKey("parties.id"), primary_key=True)
    records: Mapped[int] = mapped_column(BigInteger)
    reported_at: Mapped[dt.datetime]


class LedgerLine(Base):
    """A release's line of a plan's ledger, byte for byte; the database refuses to change or remove one.

    The first line of a ledger follows from its plan and is not stored.
    """

    __tablename__ = "ledger_lines"

    plan_digest: Mapped[str] = mapped_column(ForeignKey("plans.digest"), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    hash: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    line: Mapped[bytes]
    added_at: Mapped[dt.datetime]


class Registration(Base):
    """What an owner registered and the ledger admitted; the database refuses to change or remove it.

    Nothing is kept as the owner has written it: the counts, and what follows from them. `grouping` names
    its classes (see `grouping_digest`).
    """

    __tablename__ = "registrations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["plan_digest", "sequence"], ["ledger_lines.plan_digest", "ledger_lines.sequence"]
        ),
        UniqueConstraint("plan_digest", "party_id", "content_digest"),
    )

    plan_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    party_id: Mapped[int] = mapped_column(ForeignKey("parties.id"), index=True)
    content_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), index=True)
    grouping: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    counts: Mapped[bytes] = mapped_column(deferred=True)
    facts: Mapped[dict[str, Any]]

    party: Mapped[Party] = relationship()
    line: Mapped[LedgerLine] = relationship(lazy="joined", innerjoin=True)
    publication: Mapped[Publication | None] = relationship(lazy="joined", viewonly=True)

    @property
    def state(self) -> ReleaseState:
        """Whether its owner has published it, or has said that it never did and never will."""
        return "registered" if self.publication is None else self.publication.state


class Publication(Base):
    """What an owner says about a release that it has registered; the database refuses to change or remove it.

    The line that takes a release back stands in the ledger, too.
    """

    __tablename__ = "publications"
    __table_args__ = (
        ForeignKeyConstraint(
            ["plan_digest", "sequence"], ["registrations.plan_digest", "registrations.sequence"]
        ),
        CheckConstraint("state IN ('published', 'voided')", name="state"),
    )

    plan_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    state: Mapped[ReleaseState] = mapped_column(String(16))
    stated_at: Mapped[dt.datetime]


class Refusal(Base):
    """A registration that was refused, and why. It holds nothing of what was sent but its digest."""

    __tablename__ = "refusals"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    plan_digest: Mapped[str] = mapped_column(ForeignKey("plans.digest"), index=True)
    party_id: Mapped[int] = mapped_column(ForeignKey("parties.id"), index=True)
    registration_digest: Mapped[str] = mapped_column(String(DIGEST_LENGTH))
    problem: Mapped[str] = mapped_column(Text)
    found: Mapped[str] = mapped_column(Text)
    refused_at: Mapped[dt.datetime]

    party: Mapped[Party] = relationship()


class Job(Base):
    """Work that takes longer than a request may."""

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint("kind IN ('frontier', 'preview', 'plan', 'audit')", name="kind"),
        CheckConstraint("status IN ('queued', 'running', 'done', 'failed')", name="status"),
        Index("ix_jobs_status_created_at", "status", "created_at"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    subject: Mapped[str] = mapped_column(String(DIGEST_LENGTH), index=True)
    arguments: Mapped[dict[str, Any]]
    request_id: Mapped[int | None] = mapped_column(ForeignKey("requests.id"), index=True)
    plan_digest: Mapped[str | None] = mapped_column(ForeignKey("plans.digest"))
    created_by: Mapped[int] = mapped_column(ForeignKey("parties.id"))
    created_at: Mapped[dt.datetime]
    status: Mapped[str] = mapped_column(String(16))
    progress: Mapped[float]
    step: Mapped[str] = mapped_column(String(100))
    attempts: Mapped[int]
    finished_at: Mapped[dt.datetime | None]
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True), deferred=True)
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
