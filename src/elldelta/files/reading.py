"""Files that are read as a whole, or told what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from elldelta.errors import FileError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def read_bytes(path: str | os.PathLike[str], kind: str, most: int = -1) -> bytes:
    """The content of a file, or its first bytes.

    Args:
        path: The file.
        kind: What it is, for messages: "plan".
        most: How many bytes are read; all by default.

    Raises:
        FileError: It is not there, or cannot be read.
    """
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"A {kind} is read from a file.", found=f"It is of type {type(path).__name__}.")
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


def loaded(given: object, kind: type[T], read: Callable[[Any], T]) -> T:
    """The object that a caller gave, or what the file at its path holds.

    Args:
        given: An object of the kind, or the path of its file.
        kind: The type that is needed.
        read: Reads it from a path.
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str | os.PathLike):
        return read(given)
    name = kind.__name__
    raise ParameterError(
        f"A {name.lower()} is given as a {name}, or as the path of its file.",
        found=f"It is of type {type(given).__name__}.",
    )
