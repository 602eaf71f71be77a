"""Names and texts that people choose: short, printable, and safe in an address."""

from __future__ import annotations

import re

from elldelta.errors import ParameterError

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"

_NAME = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z")


def check_name(what: str, name: str) -> str:
    """Refuses a name that would need quoting somewhere."""
    if not _NAME.match(name):
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
            f"{what} has at most {most} printable characters on one line.",
            found="It is longer, or has other characters.",
        )
    return text
