"""Secrets: random ones, which need no slow function, and passwords, which people choose and others guess."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from elldelta.agency.server.limits import ConcurrencyLimit
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.agency.server.state import Agency

SECRET_BYTES = 32
FEWEST_CHARACTERS = 12
MOST_CHARACTERS = 200
FEWEST_POINTS = 3
"""Of the 4 that zxcvbn gives: more than a hundred million guesses, also for somebody who knows the name."""

_HASHING = ConcurrencyLimit(2, 10.0)
"""Each takes 64 MiB and a processor, on purpose."""


def new_secret(agency: Agency) -> str:
    """A new secret of 256 bits, as text that fits a cookie."""
    return base64.urlsafe_b64encode(agency.random(SECRET_BYTES)).rstrip(b"=").decode("ascii")


def digest_of_secret(secret: str) -> str:
    """What is kept of a secret of 256 bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_password_hash(agency: Agency, password: str, *known: str) -> str:
    """What is kept of a new password.

    Args:
        agency: The service; the demonstration's passwords are known anyway.
        password: The password.
        known: Words that everybody would try first, such as the name.

    Raises:
        ParameterError: It is too short, too long, or easy to guess.
    """
    from argon2 import PasswordHasher

    if not FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise ParameterError(
            f"A password has {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters.",
            found=f"It has {len(password)}.",
            remedy="Use a few words, or what a password manager makes.",
        )
    if not agency.settings.is_demo and _points(password, known) < FEWEST_POINTS:
        raise ParameterError(
            "The password is easy to guess.",
            found="It is a common word or pattern, or close to the name.",
            remedy="Use several words that do not belong together, or what a password manager makes.",
        )
    with _HASHING.slot():
        return PasswordHasher().hash(password)


def is_password(password: str, kept: str | None) -> bool:
    """Whether a password is the one that is kept; takes as long if none is kept."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    if len(password) > MOST_CHARACTERS:
        return False
    with _HASHING.slot():
        if kept is None:
            PasswordHasher().hash(password)
            return False
        try:
            return PasswordHasher().verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False


def _points(password: str, known: tuple[str, ...]) -> int:
    from zxcvbn_rs_py import zxcvbn

    words = [part for text in known for part in (text, *text.replace("-", " ").replace(".", " ").split())]
    return int(zxcvbn(password, [*words, "elldelta", "agency"]).score)
