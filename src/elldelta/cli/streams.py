"""Standard output and standard error of a command: what happens when they take no more."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any, cast

from elldelta.errors import FileError

if TYPE_CHECKING:
    from typing import TextIO


class ReaderGoneError(Exception):
    """Nobody reads standard output any more, as after `| head`.

    Not a BrokenPipeError: Typer and Rich would end the program with an exit code of their own.
    """


def guard_streams() -> None:
    """Puts a guard before standard output and standard error, for the rest of the process.

    For good, because the interpreter flushes them once more when it ends, and would then have the last word.
    """
    sys.stdout = cast("TextIO", _StandardOutput(sys.stdout))
    sys.stderr = cast("TextIO", _StandardError(sys.stderr))


class _Guard:
    """A text stream in front of another one; once that has failed, it is not asked again."""

    def __init__(self, stream: TextIO | None) -> None:
        # A closed stream is None. What stands for it takes its number, which a file would have otherwise.
        self._stream = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        self._problem = None if stream is not None else OSError(errno.EBADF, os.strerror(errno.EBADF))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the stream has)
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self._problem is None:
            try:
                self._stream.write(text)
            except OSError as problem:
                self._problem = problem
        if self._problem is not None:
            self._refuse(self._problem)
        return len(text)

    def flush(self) -> None:
        if self._problem is None:
            try:
                self._stream.flush()
            except OSError as problem:
                self._problem = problem
                self._refuse(problem)

    def _refuse(self, problem: OSError) -> None:
        """Says that something could not be written."""


class _StandardOutput(_Guard):
    """Says by an error of ours what is wrong, or that nobody reads."""

    def _refuse(self, problem: OSError) -> None:
        if isinstance(problem, BrokenPipeError):
            raise ReaderGoneError from None
        raise FileError(
            "The output cannot be written.",
            found=f"The system says: {os.strerror(problem.errno or errno.EIO)}.",
            remedy="What was written to files is there. Give standard output room, or send it elsewhere.",
        ) from None


class _StandardError(_Guard):
    """Says nothing: there is no other place where it could be said, and the exit code tells it."""
