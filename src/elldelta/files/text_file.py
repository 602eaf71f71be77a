"""Text files that people write: read as a whole, or told what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

from elldelta.errors import FileError


def read_text(path: str | os.PathLike[str], kind: str, *, remedy: str) -> str:
    """The text of a file in UTF-8; the mark that some editors put before it is left out.

    Args:
        path: The file.
        kind: What it is, for messages: "schema".
        remedy: What to give instead of something that is no text.

    Raises:
        FileError: It is not there, cannot be read, or is no text.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FileError(
            f"There is no {kind} {os.fspath(path)}.",
            found="The file does not exist.",
            remedy="Check its name.",
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(
            f"The {kind} {os.fspath(path)} cannot be read as text.",
            found=f"{type(problem).__name__}.",
            remedy=remedy,
        ) from None
