"""The application: what surrounds every request, routers, errors, signs of life."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from elldelta._version import __version__
from elldelta.agency.admission import LedgerDamagedError
from elldelta.agency.server import logs
from elldelta.agency.server.database import POOL_SIZE
from elldelta.agency.server.errors import (
    BusyError,
    DatabaseError,
    HttpError,
    TooLargeError,
    WrongHostError,
    error_document,
    internal_error_document,
    public_error_document,
    status_of,
)
from elldelta.agency.server.guard import (
    CurrentAgency,
    allow_anybody,
    check_all_guarded,
    cookie_name,
    guard_of,
)
from elldelta.agency.server.migrations import is_current
from elldelta.agency.server.routes import parties, plans, populations, releases, rendering, requests, sign_in
from elldelta.agency.server.routes.description import answer
from elldelta.agency.server.state import Agency
from elldelta.errors import ElldeltaError, InputError, counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from elldelta.agency.server.settings import Settings

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""A route may set its own; these are for all others."""

HTTPS_ONLY = "max-age=31536000"

MOST_NAMED = 5
"""Fields that an answer names when a request cannot be used."""

_LARGE = {
    "registration_bytes": re.compile(r"(/api/v1)?/plans/[^/]+/(releases|register)"),
    "model_bytes": re.compile(r"(/api/v1)?/populations/[^/]+/model"),
}
"""The limits of bodies that may be larger than others, by address, as in `deploy/nginx.conf`."""

health = APIRouter(tags=["health"])


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
        openapi_url=None,  # the routes that the framework would add declare nothing; ours is below
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.agency = agency
    # Straight into the one list of routes, the busiest first: an included router is searched several times.
    for module in (plans, releases, parties, populations, requests):
        app.router.routes.extend(module.api.routes)
    app.router.routes.extend(health.routes)
    for pages in (rendering, populations, requests, plans, releases, parties, sign_in):
        app.router.routes.extend(pages.pages.routes)
    check_all_guarded(app)
    app.add_exception_handler(ElldeltaError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    if settings.oidc is not None:
        flow = f"{cookie_name(agency)}-flow"
        sign_in.add_provider(app, settings.oidc, cookie=flow, is_https=settings.is_https)
    app.add_middleware(RequestMiddleware, agency=agency)
    return app


class RequestMiddleware:
    """What surrounds every request: its number, the limit of its body, headers, its line in the log.

    Plain ASGI, outermost, so that also what goes wrong in the framework becomes an answer without details.
    """

    def __init__(self, app: ASGIApp, agency: Agency) -> None:
        self._app = app
        self._agency = agency
        headers = dict(HEADERS)
        if agency.settings.is_https:
            headers["Strict-Transport-Security"] = HTTPS_ONLY
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        number = secrets.token_hex(8)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                names = {name.lower() for name, _ in headers}
                others = [header for header in self._headers if header[0] not in names]
                message["headers"] = [*headers, *others, (b"x-request-id", number.encode())]
            await send(message)

        try:
            most = self._most_bytes(scope["path"])
            refusal = self._refusal(Headers(scope=scope), most)
            if refusal is not None:  # nobody reads on: what follows could be taken for another request
                refused = JSONResponse(error_document(refusal), refusal.status, {"Connection": "close"})
                await refused(scope, receive, send_with_headers)
            else:
                limited = RequestBodyLimitMiddleware(self._app, max_body_size=most)
                await limited(scope, receive, send_with_headers)
        except RecursionError as error:  # what was sent is nested deeper than the parser goes
            logs.log_bug("nested too deeply", error, request=number, route=_template(scope))
            if status:
                raise
            deep = HttpError("The request cannot be read.", found="It is nested too deeply.")
            await JSONResponse(error_document(deep), deep.status)(scope, receive, send_with_headers)
        except Exception as error:  # the last line of defence: its text might quote what was sent
            logs.log_bug("unforeseen", error, request=number, route=_template(scope))
            if status:
                raise
            await JSONResponse(internal_error_document(), 500)(scope, receive, send_with_headers)
        finally:
            logs.log(
                "request",
                request=number,
                method=scope["method"] if scope["method"].isalpha() else "?",
                route=_template(scope),
                status=status,
                milliseconds=round((time.perf_counter() - begun) * 1000, 1),
                principal=scope.get("elldelta.principal"),
            )

    def _refusal(self, headers: Headers, most_bytes: int) -> HttpError | None:
        """Why a request is refused before anybody looks at it; None if it is not."""
        if not self._agency.settings.answers_for(headers.get("host", "")):
            return WrongHostError()
        if "content-length" in headers and "transfer-encoding" in headers:
            return HttpError(
                "The request can be read in two ways.",
                found="It has a Content-Length and a Transfer-Encoding.",
                remedy="Send one of them.",
            )
        announced = headers.get("content-length", "")
        return too_large(most_bytes) if announced.isdigit() and int(announced) > most_bytes else None

    def _most_bytes(self, path: str) -> int:
        """The largest body of an address."""
        limits = self._agency.limits
        found = [getattr(limits, name) for name, pattern in _LARGE.items() if pattern.fullmatch(path)]
        return int(found[0]) if found else limits.body_bytes


def too_large(most_bytes: int) -> TooLargeError:
    """A body is larger than its address takes."""
    return TooLargeError(
        "The request is too large.",
        found=f"It is larger than {counted(most_bytes, 'byte')}.",
        remedy="Send less, or ask whoever runs the service for a larger limit.",
    )


@health.get(
    "/health",
    summary="Whether the process answers",
    responses={200: answer("It answers.", {"status": "ok"})},
    dependencies=[allow_anybody()],
)
async def is_alive() -> dict[str, str]:
    """Answers as long as the process can answer anything."""
    return {"status": "ok"}


@health.get(
    "/ready",
    summary="Whether requests can be handled",
    responses={
        200: answer("They can.", {"status": "ready"}),
        503: answer("Not now.", {"status": "database not current"}),
    },
    dependencies=[allow_anybody()],
)
def is_ready(agency: CurrentAgency) -> Response:
    """Answers 200 if the database can be reached, has the newest schema and can be written."""
    try:
        status = "ready" if is_current(agency.database) else "database not current"
        agency.database.check_writable()
    except BusyError:
        status = "ready"  # others write, so it can be written
    except DatabaseError as error:
        logs.log("not ready", level=logging.ERROR, kind=error.kind)
        status = "database cannot be used"
    except ElldeltaError:
        status = "database not reachable"
    except Exception as error:  # noqa: BLE001 (drivers have many ways to fail; each means not ready)
        logs.log_bug("readiness", error)
        status = "database not reachable"
    return JSONResponse({"status": status}, 200 if status == "ready" else 503)


@health.get("/openapi.json", include_in_schema=False, dependencies=[allow_anybody()])
async def description(request: Request) -> dict[str, Any]:
    """What the interface offers, as an OpenAPI document."""
    return dict(request.app.openapi())


async def _known(request: Request, error: Exception) -> Response:
    """The answer to an error that was raised on purpose."""
    if not isinstance(error, ElldeltaError):
        raise error
    status = status_of(error)
    if isinstance(error, DatabaseError):
        logs.log("database cannot be used", level=logging.ERROR, kind=error.kind)
    elif isinstance(error, LedgerDamagedError):
        logs.log("damaged", level=logging.ERROR, problem=error.problem, found=error.found)
    elif status == 500:
        logs.log_bug("bug", error, problem=error.problem)
    headers = rendering.retry_header(error)
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="elldelta"'
    return _rendered(request, status, error, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """The answer to a request that does not fit its description: names of fields, no values."""
    if not isinstance(error, RequestValidationError):
        raise error
    guard = guard_of(request.scope.get("route"))
    if guard is not None and not hasattr(request.state, "caller"):
        await guard.check(request)  # a body that is no JSON is noticed before anybody has asked who sends it
    found = "; ".join(f"{_field(item['loc'])}: {item['msg'][:200]}" for item in error.errors()[:MOST_NAMED])
    problem = InputError(
        "The request does not fit its description.",
        # Field names come from the caller, too: nothing that JSON could not carry.
        found="".join(letter if letter.isprintable() else "?" for letter in found),
        remedy="Compare it with /openapi.json.",
        parameter=_wrong_fields(error.errors()[:MOST_NAMED]),
    )
    return _rendered(request, 422, problem, {})


async def _http(request: Request, error: Exception) -> Response:
    """The answer to what the framework refuses: unknown paths, wrong verbs, unreadable bodies."""
    if not isinstance(error, HTTPException):
        raise error
    words = {
        404: "There is no such page.",
        405: "This verb cannot be used here.",
        413: "The request is too large.",
    }
    problem = InputError(words.get(error.status_code, "The request cannot be read."))
    return _rendered(request, error.status_code, problem, error.headers or {})


def _rendered(request: Request, status: int, error: ElldeltaError, headers: Mapping[str, str]) -> Response:
    """An error as JSON, or as a page for a browser."""
    if request.url.path.startswith("/api/"):
        return JSONResponse(public_error_document(error), status, headers)
    page = rendering.error_page(request, status, error)
    page.headers.update(headers)
    return page


def _template(scope: Scope) -> str | None:
    """The path of the route with its parameters unfilled; None if there is no such route."""
    return getattr(scope.get("route"), "path", None)


def _wrong_fields(errors: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The fields of a body that are wrong; names that its description does not have are the caller's."""
    known = [item["loc"] for item in errors if item["type"] != "extra_forbidden"]
    return tuple(dict.fromkeys(str(loc[1]) for loc in known if loc[0] == "body" and len(loc) > 1))


def _field(location: tuple[str | int, ...]) -> str:
    """Where in a request something is wrong."""
    return ".".join(str(part) for part in location if part != "body")[:100] or "body"
