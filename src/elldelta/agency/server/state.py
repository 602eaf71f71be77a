"""What every service works with: settings, database, keys, clock, limits, and who calls."""

from __future__ import annotations

import contextlib
import datetime as dt
import hmac
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.engine import make_url

from elldelta.agency.server.database import Database
from elldelta.agency.server.migrations import is_empty, migrate
from elldelta.agency.server.tables import Secret
from elldelta.agency.server.trail import write_audit_entry
from elldelta.errors import FileError
from elldelta.files import (
    AtomicFiles,
    PrivateKey,
    PublicKey,
    TrustedKeys,
    read_private_key,
    read_public_keys,
    write_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.agency.admission import KnownLedger
    from elldelta.agency.server.settings import Limits, Settings
    from elldelta.agency.server.tables import Role


def utc_now() -> dt.datetime:
    """The moment."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class Caller:
    """Somebody who is known: by a token, or by a login.

    Attributes:
        id: The number of the party.
        name: Its name.
        role: What it may do.
        has_login: Whether it is known by a login, which it can end.
        token_id: The token that it is known by, if not by a login.
    """

    id: int
    name: str
    role: Role
    has_login: bool = False
    token_id: str | None = None


@dataclass(frozen=True, eq=False)
class Agency:
    """One running service.

    Attributes:
        settings: What whoever runs it has chosen.
        database: Where it keeps everything.
        key: What it signs plans and receipts with.
        public_keys: The public part of its key, and those that it signed with before.
        clock: The moment, in UTC; an argument, so that tests need not wait.
        ledgers: What this process has read of the ledgers of plans, see `follow_ledger`.
    """

    settings: Settings
    database: Database
    key: PrivateKey
    public_keys: TrustedKeys
    clock: Callable[[], dt.datetime]
    ledgers: dict[str, KnownLedger] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: Settings, *, clock: Callable[[], dt.datetime] = utc_now) -> Agency:
        """Opens the database and reads the key, or makes one."""
        limits, key = settings.limits, _key(settings)
        return cls(
            settings=settings,
            database=Database(
                settings.database_url, timeout=limits.database_seconds, before_commit=write_audit_entry
            ),
            key=key,
            public_keys=TrustedKeys((key.public_key, *_former_keys(settings))),
            clock=clock,
        )

    @property
    def limits(self) -> Limits:
        """What one caller, one request and one job may use."""
        return self.settings.limits

    def close(self) -> None:
        """Gives the database's connections back."""
        self.database.close()

    @cached_property
    def secret(self) -> bytes:
        """What only this agency knows, for as long as it has its database."""
        with self.database.reading() as session:
            return session.scalars(select(Secret.value).where(Secret.name == "agency")).one()

    def keyed(self, model_digest: str) -> str:
        """A name for a model that others may see: whoever guesses a record cannot confirm it by the name."""
        return "sha256:" + hmac.new(self.secret, model_digest.encode(), "sha256").hexdigest()


def prepare(settings: Settings) -> None:
    """Makes the folder, the key and the database, or brings them up to date; says what is wrong with them."""
    with contextlib.closing(Agency.open(settings)) as agency:
        migrate(agency.database)


def starts_empty(settings: Settings) -> bool:
    """Whether an agency that has a key would start with an empty database: as if it had promised nothing."""
    if not settings.key_file.exists() or settings.is_demo:
        return False
    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return True
    with contextlib.closing(Database(settings.database_url)) as database:
        return is_empty(database)


def renew_key(settings: Settings) -> tuple[PublicKey, PublicKey]:
    """Makes another key; what is signed from the next start on is signed with it.

    The public part of the old key is kept, so that what it has signed can still be checked; its private part
    is gone afterwards.

    Returns:
        The old key and the new one.

    Raises:
        FileError: There is no key yet, or the files cannot be written; then the old key stays.
    """
    if not settings.key_file.exists():
        raise FileError(
            "There is no key to put another one in its place.",
            found=f"There is no file {settings.key_file}.",
            remedy="Check the folder. The first start makes a key.",
            parameter="data",
        )
    old, new = read_private_key(settings.key_file).public_key, PrivateKey.create()
    kept = TrustedKeys((old, *_former_keys(settings)))
    with AtomicFiles(overwrite=True) as files:
        files.stage(settings.former_keys).write_bytes(kept.to_pem())  # first: the old key must not be lost
        files.stage(settings.key_file, private=True).write_bytes(new.to_pem())
    return old, new.public_key


def _former_keys(settings: Settings) -> tuple[PublicKey, ...]:
    """Keys that the agency has signed with before; whoever removes one from the file takes it back."""
    return read_public_keys(settings.former_keys).keys if settings.former_keys.exists() else ()


def _key(settings: Settings) -> PrivateKey:
    """The agency's key; a new one if there is none yet."""
    path = settings.key_file
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        raise FileError(
            f"The folder {path.parent} cannot be made.",
            found=f"The system says: {problem.strerror}.",
            remedy="Choose another one.",
            parameter="data",
        ) from None
    if not path.exists():
        try:
            write_key(PrivateKey.create(), path)
        except FileError:
            if not path.exists():  # otherwise another process was faster
                raise
    return read_private_key(path)
