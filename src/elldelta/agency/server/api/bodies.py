"""What callers send, and examples of what they get; nothing that is not named here is accepted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, Field

from elldelta.agency.server.errors import WrongTypeError
from elldelta.agency.server.rights import Role
from elldelta.agency.server.services.names import DIGEST_PATTERN, NAME_PATTERN
from elldelta.agency.server.services.progress import MOST_RECORDS
from elldelta.agency.server.services.requests import FEWEST_PAST, MOST_RELEASES
from elldelta.agency.server.services.requests import MOST_RECORDS as MOST_PLANNED
from elldelta.agency.server.services.tokens import ID_PATTERN

LARGEST = 2**31 - 1

Name = Annotated[str, Path(pattern=NAME_PATTERN, description="A name.", examples=["hospital-a"])]
Digest = Annotated[
    str,
    Path(
        pattern=DIGEST_PATTERN,
        description="The digest of a plan.",
        examples=["sha256:" + "5e" * 32],
    ),
]
Number = Annotated[int, Path(ge=1, le=LARGEST, description="A number.", examples=[1])]
TokenId = Annotated[
    str, Path(pattern=ID_PATTERN, description="The id of a token.", examples=["0123456789ab"])
]
JobId = Annotated[
    str,
    Path(pattern=r"^[0-9a-f]{32}$", description="The number of a job.", examples=["0123456789abcdef" * 2]),
]


class Body(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=1000)


class NewParty(Body):
    """Somebody to let in."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "hospital-a", "role": "owner"}]})

    name: str = Field(pattern=NAME_PATTERN)
    role: Role
    password: str | None = Field(default=None, min_length=12, max_length=200)


class TokenWish(Body):
    """A token to make."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"note": "nightly export", "expires_in_days": 90}]}
    )

    note: str = Field(default="", max_length=200)
    expires_in_days: int = Field(default=90, ge=1, le=3660)


class NewPopulation(Body):
    """A group of people about whom owners publish."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "region", "title": "Patients of the region"}]}
    )

    name: str = Field(pattern=NAME_PATTERN)
    title: str = Field(default="", max_length=200)


class NewRequest(Body):
    """What a client asks for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"population": "region", "ell": 3, "delta": 0.01, "releases": 2, "records": 8000}]
        }
    )

    population: str = Field(pattern=NAME_PATTERN)
    ell: int = Field(ge=1, le=LARGEST)
    records: int = Field(ge=1, le=MOST_PLANNED)
    delta: float = Field(default=0.01, gt=0.0, lt=1.0)
    releases: int = Field(default=1, ge=1, le=MOST_RELEASES)
    shape: Literal["boxes", "runs"] | None = None
    guarantee: Literal["certified", "probabilistic"] = "certified"
    bound: Literal["sharp", "paper"] = "sharp"
    eta: float = Field(default=0.0, ge=0.0, lt=1.0)
    waiting_risk: float | None = Field(default=None, gt=0.0, lt=1.0)
    min_records: int = Field(default=1, ge=1, le=MOST_RELEASES)
    shared_records: int | None = Field(default=None, ge=0, le=MOST_PLANNED)


class PlanningWish(Body):
    """How the agency wants a request planned."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"fewest_past": FEWEST_PAST}]})

    fewest_past: int = Field(
        default=FEWEST_PAST,
        ge=1,
        le=LARGEST,
        description="The plan names a value of a class only if so many past records had it there: everybody "
        "gets the plan, and a rare value could give somebody away.",
    )


class Reason(Body):
    """Why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The model has been replaced."}]})

    reason: str = Field(min_length=1, max_length=1000)


class Successor(Body):
    """The plan that takes the place of another."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"by": "sha256:" + "5e" * 32}]})

    by: str = Field(pattern=DIGEST_PATTERN)


class NewProgress(Body):
    """How many records an owner has."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"records": 6400}]})

    records: int = Field(ge=0, le=MOST_RECORDS)


async def body_of_type(request: Request, *types: str, problem: str, remedy: str) -> bytes:
    """A body that is no JSON of ours but a file, as it was sent.

    Raises:
        WrongTypeError: Its Content-Type is none of these.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() not in types:
        raise WrongTypeError(problem, found="The Content-Type is another one.", remedy=remedy)
    return await request.body()


_WORDS = {
    400: "The request cannot be read.",
    401: "The caller is not known.",
    403: "The caller may not do this.",
    404: "There is no such thing, or it is not the caller's.",
    408: "The body took too long to arrive.",
    409: "It contradicts what is there, or was refused.",
    413: "The body is too large.",
    415: "The body is of another kind.",
    422: "Something in the request cannot be used.",
    429: "There were too many requests.",
    503: "The service is busy.",
}

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["problem", "found", "remedy"],
            "properties": {name: {"type": "string"} for name in ("problem", "found", "remedy")},
        }
    },
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a route may answer with, for its description."""
    example = {
        "error": {
            "problem": "What is wrong.",
            "found": "What was found.",
            "remedy": "What to do about it.",
        }
    }
    return {
        status: {
            "description": _WORDS[status],
            "content": {"application/json": {"schema": _ERROR, "example": example}},
        }
        for status in (400, *statuses, 429, 503)
    }


def example(status: int, value: Any) -> dict[int | str, dict[str, Any]]:  # noqa: ANN401 (plain JSON)
    """An example of an answer, for the description of its route."""
    return {status: {"content": {"application/json": {"example": value}}}}
