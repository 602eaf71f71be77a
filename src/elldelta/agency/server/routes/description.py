"""What an address and a body may hold, and how every error is described."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict
from starlette.requests import ClientDisconnect

from elldelta.agency.server.errors import HttpError, WrongTypeError
from elldelta.agency.server.paging import LARGEST, TOKEN_PATTERN
from elldelta.agency.server.tables import DIGEST_PATTERN, NAME_PATTERN

DIGEST = "sha256:" + "5e" * 32

Name = Annotated[str, Path(pattern=NAME_PATTERN, description="A name.", examples=["hospital-a"])]
Digest = Annotated[str, Path(pattern=DIGEST_PATTERN, description="The digest of a plan.", examples=[DIGEST])]
Number = Annotated[int, Path(ge=1, le=LARGEST, description="A number.", examples=[1])]
TokenId = Annotated[
    str, Path(pattern=TOKEN_PATTERN, description="The id of a token.", examples=["0123456789ab"])
]
JobId = Annotated[
    str,
    Path(pattern=r"^[0-9a-f]{32}$", description="The number of a job.", examples=["0123456789abcdef" * 2]),
]


class Problem(BaseModel):
    """What is wrong, what was found, what to do about it, and which parameters it is about."""

    problem: str
    found: str
    remedy: str
    parameter: list[str]


class ErrorAnswer(BaseModel):
    """The one shape of every error."""

    error: Problem


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "Refused: nothing was changed."},
    503: {"model": ErrorAnswer, "description": "The service is busy: send it again."},
}
"""What every route may answer with."""


class Body(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=1000)


def file_body(*types: str, problem: str, remedy: str) -> Any:  # noqa: ANN401 (a dependency)
    """A body that is no JSON of ours but a file, as it was sent; refused if its Content-Type is another.

    It is read once it is known who sends it: these bodies may be large.
    """

    async def body(request: Request) -> bytes:
        if request.headers.get("content-type", "").split(";")[0].strip().lower() not in types:
            raise WrongTypeError(problem, found="The Content-Type is another one.", remedy=remedy)
        try:
            return await request.body()
        except ClientDisconnect:
            raise HttpError(
                "The request ended before its body was complete.", remedy="Send it again."
            ) from None

    return Depends(body)


def answer(description: str, example: Any, kind: str = "application/json") -> dict[str, Any]:  # noqa: ANN401
    """The description of an answer that is no type of ours."""
    return {"description": description, "content": {kind: {"example": example}}}
