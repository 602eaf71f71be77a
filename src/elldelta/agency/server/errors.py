"""What the service answers when something is wrong: one JSON shape, and the status that belongs to it.

`{"error": {"problem": ..., "found": ..., "remedy": ..., "parameter": [...]}}`. An exception that nobody
foresaw becomes a 500 without its text, which might quote what somebody sent.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from elldelta.agency.admission import LedgerDamagedError
from elldelta.errors import ElldeltaError, InputError, RefusedError

Row = TypeVar("Row")


class HttpError(InputError):
    """Something about a request, with the status of its answer."""

    status: ClassVar[int] = 400
    retry_after: int | None = None


class NotFoundError(HttpError):
    """There is no such thing, or not for this caller."""

    status = 404

    def __init__(self, what: str) -> None:
        super().__init__(
            f"There is no such {what}.",
            found="It does not exist, or it is not yours.",
            remedy="Check its name.",
        )


def required(row: Row | None, what: str) -> Row:
    """A row that must be there.

    Raises:
        NotFoundError: It is not, or not for this caller.
    """
    if row is None:
        raise NotFoundError(what)
    return row


class NotLoggedInError(HttpError):
    """Nobody is known behind the request."""

    status = 401

    def __init__(self, found: str = "No token and no login came with the request.") -> None:
        super().__init__(
            "You have to say who you are.",
            found=found,
            remedy="Send a valid token (Authorization: Bearer ...), or log in.",
        )


class WrongHostError(HttpError):
    """The request is for another host."""

    status = 421

    def __init__(self) -> None:
        super().__init__(
            "This service does not answer for the host that was asked.",
            found="The Host of the request is neither this machine nor the public address of the service.",
            remedy="Ask for the public address. Whoever runs the service names it with --behind-proxy.",
        )


class ForbiddenError(HttpError):
    """The caller is known, and may not do this."""

    status = 403


class ConflictError(HttpError):
    """What was asked for contradicts what is there."""

    status = 409


class TooManyError(HttpError):
    """The caller has tried this too often."""

    status = 429

    def __init__(self, problem: str, *, found: str, remedy: str, retry_after: int) -> None:
        super().__init__(problem, found=found, remedy=remedy)
        self.retry_after = retry_after


class TooLargeError(HttpError):
    """A body is larger than it may be."""

    status = 413


class WrongTypeError(HttpError):
    """A body is of another kind than is expected."""

    status = 415


class BusyError(HttpError):
    """Others hold what the request needs."""

    status = 503

    def __init__(
        self,
        found: str = "The database did not become free in time; nothing was changed.",
        *,
        retry_after: int = 2,
    ) -> None:
        super().__init__(
            "The service is busy.",
            found=found,
            remedy="Send the request again.",
        )
        self.retry_after = retry_after


class DatabaseError(HttpError):
    """The database cannot be reached, or does not do what it must."""

    status = 503
    retry_after = 10

    def __init__(self, kind: str, *, is_damaged: bool = False) -> None:
        super().__init__(
            "The database is damaged." if is_damaged else "The database cannot be used.",
            found=f"It answered with {kind}.",
            remedy="Whoever runs the service restores it from a copy."
            if is_damaged
            else "Try again later; whoever runs the service finds more in its log.",
        )
        self.kind = kind


def status_of(error: ElldeltaError) -> int:
    """The status of the answer to an error."""
    if isinstance(error, LedgerDamagedError):
        return 500
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, RefusedError):
        return 409
    return 422 if isinstance(error, InputError) else 500


def error_document(error: ElldeltaError) -> dict[str, dict[str, Any]]:
    """The one JSON shape of every error."""
    parts = {"problem": error.problem, "found": error.found, "remedy": error.remedy}
    return {"error": {**parts, "parameter": list(error.parameter)}}


def public_error_document(error: ElldeltaError) -> dict[str, dict[str, Any]]:
    """What a caller is told about an error: of a mistake of ours that there is one, and nothing else."""
    is_ours = status_of(error) == 500 and not isinstance(error, LedgerDamagedError)
    return internal_error_document() if is_ours else error_document(error)


def internal_error_document() -> dict[str, dict[str, Any]]:
    """What a caller is told about a mistake of ours."""
    return {
        "error": {
            "problem": "The service met a situation it does not understand. This is a bug of ours.",
            "found": "",
            "remedy": "Please tell whoever runs the service the X-Request-Id of this answer.",
            "parameter": [],
        }
    }
