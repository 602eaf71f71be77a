"""Secrets: how they are made, shown once, and kept only as digests.

A token and the cookie of a login are 256 random bits, so their digest needs no salt and no slow function. A
password is chosen by a person, so it is kept by argon2id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elldelta.agency.server.limits import ConcurrencyLimit
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    Random = Callable[[int], bytes]

SECRET_BYTES = 32
FEWEST_PASSWORD_CHARACTERS = 12
MOST_PASSWORD_CHARACTERS = 200

_HASHING = ConcurrencyLimit(2, 10.0)
"""Each takes 64 MiB and a processor, on purpose."""

_TOKEN = re.compile(r"elldelta_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")


@dataclass(frozen=True, repr=False)
class TokenSecret:
    """A token as its holder knows it: `elldelta_`, its public id, and the secret."""

    id: str
    secret: str

    @classmethod
    def create(cls, random: Random = secrets.token_bytes) -> TokenSecret:
        """A new token."""
        return cls(random(6).hex(), _text(random(SECRET_BYTES)))

    @classmethod
    def parse(cls, text: str) -> TokenSecret | None:
        """Reads a token; None for anything else."""
        found = _TOKEN.match(text)
        return cls(found[1], found[2]) if found else None

    @property
    def text(self) -> str:
        """The token, to be shown once."""
        return f"elldelta_{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """What is kept of it."""
        return digest_of_secret(self.secret)


def new_secret(random: Random = secrets.token_bytes) -> str:
    """A new secret of 256 bits, as text that fits a cookie."""
    return _text(random(SECRET_BYTES))


def digest_of_secret(secret: str) -> str:
    """What is kept of a secret of 256 bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Compares secrets in a time that tells nothing about them."""
    return hmac.compare_digest(one.encode(), other.encode())


def check_new_password(password: str) -> str:
    """Refuses a password that is too short, or too long to be one."""
    if not FEWEST_PASSWORD_CHARACTERS <= len(password) <= MOST_PASSWORD_CHARACTERS:
        raise ParameterError(
            f"A password has {FEWEST_PASSWORD_CHARACTERS} to {MOST_PASSWORD_CHARACTERS} characters.",
            found=f"It has {len(password)}.",
            remedy="Use a few words, or what a password manager makes.",
        )
    return password


def hash_password(password: str) -> str:
    """What is kept of a password."""
    from argon2 import PasswordHasher

    with _HASHING.slot():
        return PasswordHasher().hash(password)


def is_password(password: str, kept: str | None) -> bool:
    """Whether a password is the one that is kept; takes as long if none is kept."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    hasher = PasswordHasher()
    if len(password) > MOST_PASSWORD_CHARACTERS:
        return False
    with _HASHING.slot():
        if kept is None:
            hasher.hash(password)
            return False
        try:
            return hasher.verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")
