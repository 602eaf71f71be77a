"""Files that are read as a whole, or told what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

from elldelta.errors import FileError


def read_bytes(path: str | os.PathLike[str], kind: str, most: int = -1) -> bytes:
    """The content of a file, or its first bytes.

    Args:
        path: The file.
        kind: What it is, for messages: "plan".
        most: How many bytes are read; all by default.

    Raises:
        FileError: It is not there, or cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(most)
    except OSError as problem:
        raise unreadable(path, kind, problem) from None


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
    except FileNotFoundError as problem:
        raise unreadable(path, kind, problem) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(
            f"The {kind} {os.fspath(path)} cannot be read as text.",
            found=f"{type(problem).__name__}.",
            remedy=remedy,
        ) from None


def unreadable(path: str | os.PathLike[str], kind: str, problem: OSError) -> FileError:
    """The error for a file that is not there, or that the system does not let us read."""
    if isinstance(problem, FileNotFoundError):
        return FileError(
            f"There is no {kind} {os.fspath(path)}.",
            found="The file does not exist.",
            remedy="Check its name.",
        )
    return FileError(
        f"The {kind} {os.fspath(path)} cannot be read.", found=f"The system says: {problem.strerror}."
    )
