"""What callers are told about the interface: what an address and a body may hold, errors, and examples.

Errors and examples need not be written at a route: which errors there can be follows from who may call it and
what it takes, and an example follows from the types of an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict

from elldelta.agency.server.errors import WrongTypeError
from elldelta.agency.server.paging import LARGEST, TOKEN_PATTERN
from elldelta.agency.server.rights import ROLES
from elldelta.agency.server.tables import DIGEST_PATTERN, NAME_PATTERN

if TYPE_CHECKING:
    from fastapi import FastAPI

    from elldelta.agency.server.rights import Declaration

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

EXAMPLES: dict[str, Any] = {
    "name": "hospital-a",
    "party": "hospital-a",
    "owner": "hospital-a",
    "client": "university",
    "population": "region",
    "title": "Patients of the region",
    "note": "nightly export",
    "expires_in_days": 90,
    "token": "elldelta_0123456789ab_" + "A" * 43,
    "kind": "integers",
    "sensitive": "disease",
    "quasi_identifiers": ["postal_code", "gender", "age"],
    "ell": 3,
    "delta": 0.01,
    "releases": 2,
    "records": 8000,
    "needed": 8000,
    "classes": 25,
    "fewest_past": 5,
    "by": "sha256:" + "6f" * 32,
    "reason": "The model has been replaced.",
    "guarantee": "certified",
    "promise": "Any 2 releases that pass the certificate of this plan, linked together, leave ...",
    "wishes": {"ell": 3, "records": 8000, "waiting_risk": "auto", "releases": 2, "guarantee": "certified"},
    "algorithm": "Ed25519",
    "public_key": "-----BEGIN PUBLIC KEY-----\n...\n-----END PUBLIC KEY-----\n",
    "problem": "Linked with what is registered already, ...",
    "found": "1 of its classes, ...",
    "step": "planning",
    "error": {"problem": "What is wrong.", "found": "What was found.", "remedy": "What to do about it."},
}
"""What examples say, by the name of a field, where its type does not say it."""

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

_PARTS = ("problem", "found", "remedy")
_ERROR = {
    "schema": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": list(_PARTS),
                "properties": {name: {"type": "string"} for name in _PARTS},
            }
        },
    },
    "example": {"error": EXAMPLES["error"]},
}


class Body(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=1000)


def file_body(*types: str, problem: str, remedy: str) -> Any:  # noqa: ANN401 (a dependency)
    """A body that is no JSON of ours but a file, as it was sent; refused if its Content-Type is another."""

    async def body(request: Request) -> bytes:
        if request.headers.get("content-type", "").split(";")[0].strip().lower() not in types:
            raise WrongTypeError(problem, found="The Content-Type is another one.", remedy=remedy)
        return await request.body()

    return Depends(body)


def answer(description: str, example: Any, kind: str = "application/json") -> dict[str, Any]:  # noqa: ANN401
    """The description of an answer that is no type of ours."""
    return {"description": description, "content": {kind: {"example": example}}}


def describe(app: FastAPI) -> None:
    """Adds to the OpenAPI document who may call what, how callers say who they are, errors and examples."""
    original = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = original()
        schemas = document["components"]["schemas"]
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "An API token."}
        }
        for context in iter_route_contexts(app.routes):
            declaration = context.original_route.declaration  # type: ignore[attr-defined]
            for method in context.methods or ():
                operation = document["paths"].get(context.path, {}).get(method.lower())
                if operation is not None:
                    _describe_operation(operation, method, declaration)
                    for body in (*operation["responses"].values(), operation.get("requestBody", {})):
                        for content in body.get("content", {}).values():
                            if "example" not in content:
                                content["example"] = example_of(content["schema"], schemas)
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        return document

    app.openapi = described  # type: ignore[method-assign]


def _describe_operation(operation: dict[str, Any], method: str, declaration: Declaration) -> None:
    """Who may call it, and the errors that it may answer with."""
    if not declaration.is_limited:  # a sign of life
        return
    is_change = method not in ("GET", "HEAD")
    parameters = {parameter["in"] for parameter in operation.get("parameters", ())}
    possible = {
        401: not declaration.is_anonymous,
        403: is_change or 0 < len(declaration.roles) < len(ROLES),
        404: is_change or "path" in parameters,
        422: is_change or bool(parameters),
        415: declaration.body in ("model", "registration"),
        **dict.fromkeys((408, 409, 413), is_change),
        **dict.fromkeys((400, 429, 503), True),
    }
    answers = operation["responses"]
    answers.pop("422", None)  # the framework's own shape
    for status in sorted(status for status, is_possible in possible.items() if is_possible):
        answers.setdefault(str(status), error_answer(status))
    if not declaration.is_anonymous:
        operation["security"] = [{"token": []}]
        operation["x-roles"] = sorted(declaration.roles)


def error_answer(status: int) -> dict[str, Any]:
    """The description of an error."""
    return {"description": _WORDS[status], "content": {"application/json": _ERROR}}


def example_of(schema: dict[str, Any], schemas: dict[str, Any], name: str = "") -> Any:  # noqa: ANN401
    """A value that fits a schema; of several types one of ours, otherwise null."""
    if "examples" in schema:
        return schema["examples"][0]
    if "anyOf" in schema:
        ours = [part for part in schema["anyOf"] if "$ref" in part]
        return example_of(ours[0], schemas, name) if ours else None
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "properties" in schema:
        found = {key: example_of(part, schemas, key) for key, part in schema["properties"].items()}
        needed = schema.get("required", ())
        return {key: value for key, value in found.items() if value is not None or key in needed}
    if schema.get("type") == "array" and "$ref" in schema["items"]:
        return [example_of(schema["items"], schemas, name)]
    return _plain_example(schema, name)


def _plain_example(schema: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date-time":
        return "2026-11-15T09:00:00Z"
    if name.endswith(("digest", "hash", "plan", "key_id")):
        return DIGEST
    text = "0123456789ab" if name == "id" else name
    usual = {"boolean": True, "number": 0.4, "integer": 1, "array": [], "object": {}, "string": text}
    given = schema.get("const", schema.get("default", usual.get(schema.get("type", ""))))
    return EXAMPLES.get(name, given)
