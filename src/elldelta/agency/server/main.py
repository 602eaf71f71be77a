"""The application: routers, errors, and what surrounds them."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from elldelta._version import __version__
from elldelta.agency.server import logs
from elldelta.agency.server.api import health, parties, plans, populations, releases, requests
from elldelta.agency.server.database import POOL_SIZE
from elldelta.agency.server.envelope import Envelope
from elldelta.agency.server.errors import document_of, status_of, unforeseen
from elldelta.agency.server.guarded_route import check_all_guarded
from elldelta.agency.server.pages.catalogue import add_pages
from elldelta.agency.server.services.progress import Batcher, report_batch
from elldelta.agency.server.state import Agency
from elldelta.errors import ElldeltaError, InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from elldelta.agency.server.settings import Settings

MOST_NAMED = 5
"""Fields that an answer names when a request cannot be used."""


def create_app(settings: Settings, **choices: Any) -> FastAPI:  # noqa: ANN401 (those of Agency.open)
    """The application of one process.

    Args:
        settings: What whoever runs the service has chosen.
        choices: Clock and randomness, for tests; see `Agency.open`.
    """
    agency = Agency.open(settings, **choices)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        from anyio.to_thread import current_default_thread_limiter

        # No more threads than connections: whoever has a thread gets a connection without waiting.
        current_default_thread_limiter().total_tokens = POOL_SIZE
        yield
        agency.close()

    app = FastAPI(
        title="elldelta agency",
        version=__version__,
        description="Plans, progress, releases and the ledger of a central agency.",
        lifespan=lifespan,
        openapi_url=None,  # the routes that the framework would add declare nothing; ours is in api.health
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.agency = agency
    app.state.page_error = None
    app.state.reports = Batcher(partial(report_batch, agency))
    # Straight into the one list of routes, the busiest first: an included router is searched several times.
    for module in (plans, releases, parties, populations, requests, health):
        app.router.routes.extend(module.router.routes)
    add_pages(app)
    check_all_guarded(app)
    app.add_exception_handler(ElldeltaError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Envelope, agency=agency)
    _describe(app)
    return app


async def _known(request: Request, error: Exception) -> Response:
    """The answer to an error that was raised on purpose."""
    if not isinstance(error, ElldeltaError):
        raise error
    status = status_of(error)
    if status == 500:
        logs.log_bug("bug", error, problem=error.problem)
    headers = {}
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="elldelta"'
    return _rendered(request, status, error, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """The answer to a request that does not fit its description: names of fields, no values."""
    if not isinstance(error, RequestValidationError):
        raise error
    found = "; ".join(f"{_field(item['loc'])}: {item['msg'][:200]}" for item in error.errors()[:MOST_NAMED])
    problem = InputError(
        "The request does not fit its description.",
        found=_printable(found),
        remedy="Compare it with /openapi.json.",
    )
    return _rendered(request, 422, problem)


async def _http(request: Request, error: Exception) -> Response:
    """The answer to what the framework refuses: unknown paths, wrong verbs, unreadable bodies."""
    if not isinstance(error, HTTPException):
        raise error
    words = {404: "There is no such page.", 405: "This verb cannot be used here."}
    problem = InputError(words.get(error.status_code, "The request cannot be read."))
    return _rendered(request, error.status_code, problem, dict(error.headers or {}))


def _rendered(
    request: Request, status: int, error: ElldeltaError, headers: dict[str, str] | None = None
) -> Response:
    """An error as JSON, or as a page for a browser."""
    render = request.app.state.page_error
    if render is not None and not request.url.path.startswith("/api/"):
        page: Response = render(request, status, error)
        page.headers.update(headers or {})
        return page
    document = unforeseen() if status == 500 else document_of(error)
    return JSONResponse(document, status, headers)


def _field(location: tuple[str | int, ...]) -> str:
    """Where in a request something is wrong."""
    return ".".join(str(part) for part in location if part != "body")[:100] or "body"


def _printable(text: str) -> str:
    """Field names come from the caller, too: nothing that JSON could not carry."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _describe(app: FastAPI) -> None:
    """Adds to the OpenAPI document how callers say who they are, and who may call what."""
    from fastapi.routing import iter_route_contexts

    original = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = original()
        document.setdefault("components", {})["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "An API token."}
        }
        for context in iter_route_contexts(app.routes):
            declaration = context.original_route.declaration  # type: ignore[attr-defined]
            for method in context.methods or ():
                operation = document["paths"].get(context.path, {}).get(method.lower())
                if operation is not None and not declaration.is_anonymous:
                    operation["security"] = [{"token": []}]
                    operation["x-roles"] = sorted(declaration.roles)
        return document

    app.openapi = described  # type: ignore[method-assign]
