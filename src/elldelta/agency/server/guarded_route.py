"""The only kind of route there is: it knows who may call it and finds out who calls, before anything else.

In this order: whether the request comes from somebody else's page, who the caller is, whether they may call
the route and how often; only then the body is read, within its limits. What comes after that is the endpoint.

What changes something needs a token, which no browser sends by itself, or must come from our own pages: a
browser says so in `Origin` or `Sec-Fetch-Site`, and what says nothing is refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute, iter_route_contexts
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from elldelta.agency.server.errors import (
    ForbiddenError,
    HttpError,
    NotLoggedInError,
    TooLargeError,
    TooSlowError,
    WrongTypeError,
)
from elldelta.agency.server.rights import Caller, Declaration, declaration_of
from elldelta.agency.server.services.parties import identify_token
from elldelta.agency.server.services.releases import largest_registration
from elldelta.agency.server.services.sign_in import identify_login
from elldelta.agency.server.state import Agency
from elldelta.agency.server.trail import deed
from elldelta.errors import InternalError
from elldelta.files import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_Found = TypeVar("_Found")

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PROOFS = frozenset({"authorization", "origin", "sec-fetch-site"})
"""One of them must come with what changes something."""


class GuardedRoute(APIRoute):
    """A route whose endpoint declares who may call it."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401
        self.declaration = declaration_of(endpoint)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind its guard."""
        handler = super().get_route_handler()
        declaration = self.declaration

        async def guarded(request: Request) -> Response:
            agency: Agency = request.app.state.agency
            is_change = request.method not in _SAFE
            if is_change:
                _check_origin(request)
            caller = await _identify(agency, request, declaration)
            request.state.caller = caller
            request.scope["elldelta.principal"] = caller.id if caller else None
            if caller is None:
                if not declaration.is_anonymous:
                    raise NotLoggedInError
            else:
                _check_rights(caller, declaration)
                if declaration.is_limited:
                    agency.by_principal.take(str(caller.id))
            if not is_change:
                return await handler(request)
            if _PROOFS.isdisjoint(request.headers.keys()):
                raise _from_elsewhere("Neither a token nor the browser says where it comes from.")
            if caller is None:
                await _read(agency, request, declaration)
                return await handler(request)
            subject = " ".join(map(str, request.path_params.values()))
            with deed(agency, caller.id, f"{request.method} {self.path}", subject, address_of(request)):
                if declaration.body not in ("registration", "model"):
                    await _read(agency, request, declaration)
                    return await handler(request)
                async with agency.in_flight.of(caller.id):
                    await _read(agency, request, declaration)
                    async with agency.in_flight.handled():
                        return await handler(request)

        return guarded


def _check_rights(caller: Caller, declaration: Declaration) -> None:
    """Refuses somebody of another role."""
    if not declaration.is_anonymous and caller.role not in declaration.roles:
        raise ForbiddenError(
            "You may not do this.",
            found=f"You are known as {caller.role}; it takes {_words(declaration)}.",
            remedy="Ask the agency.",
        )


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else ""


def check_all_guarded(app: FastAPI) -> None:
    """Refuses an application with a route that declares nothing."""
    for context in iter_route_contexts(app.routes):
        if not isinstance(context.original_route, GuardedRoute):
            raise InternalError(
                f"The route {context.path} does not say who may call it.",
                remedy="Make it with an APIRouter whose route_class is GuardedRoute.",
            )


def cookie_name(agency: Agency) -> str:
    """The name of the cookie of a login; over https one that no other host can set."""
    return "__Host-elldelta" if agency.settings.behind_proxy else "elldelta"


async def current_caller(request: Request) -> Caller:
    """The caller of a route that only known callers may call."""
    caller: Caller | None = request.state.caller
    if caller is None:
        raise InternalError("This endpoint needs a caller, but lets anybody in.")
    return caller


async def possible_caller(request: Request) -> Caller | None:
    """The caller, if there is one."""
    caller: Caller | None = request.state.caller
    return caller


async def current_agency(request: Request) -> Agency:
    """The running service."""
    agency: Agency = request.app.state.agency
    return agency


@dataclass(frozen=True)
class Visit:
    """A request of somebody who is known, to the running service."""

    request: Request
    agency: Agency
    caller: Caller


async def current_visit(request: Request) -> Visit:
    """The request, the service and the caller of a route that only known callers may call."""
    return Visit(request, request.app.state.agency, await current_caller(request))


CurrentVisit = Annotated[Visit, Depends(current_visit)]
PossibleCaller = Annotated[Caller | None, Depends(possible_caller)]
CurrentAgency = Annotated[Agency, Depends(current_agency)]


async def _identify(agency: Agency, request: Request, declaration: Declaration) -> Caller | None:
    if not declaration.is_limited:  # a sign of life needs no database
        return None
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise NotLoggedInError("The Authorization header is not of the kind Bearer.")
        return await _asked(agency, identify_token, token.strip())
    cookie = request.cookies.get(cookie_name(agency))
    if cookie is None:
        return None
    return await _asked(agency, identify_login, cookie)


async def _asked(agency: Agency, identify: Callable[[Agency, str], _Found], secret: str) -> _Found:
    """Looks a caller up.

    In SQLite that is one read of a few pages, which waits for nobody: a thread for it would take longer than
    the question itself. A PostgreSQL may be far away.
    """
    if agency.database.is_sqlite:
        return identify(agency, secret)
    return await run_in_threadpool(identify, agency, secret)


def _check_origin(request: Request) -> None:
    """Refuses what a browser sends because of somebody else's page; covers the login itself, too."""
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if request.headers.get("origin", own) != own:
        raise _from_elsewhere("The Origin of the request is not this service.")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise _from_elsewhere("The browser says so.")


def _from_elsewhere(found: str) -> ForbiddenError:
    return ForbiddenError(
        "This request comes from another site.", found=found, remedy="Use the pages of this service."
    )


async def _read(agency: Agency, request: Request, declaration: Declaration) -> None:
    """Reads a body as it arrives and stops as soon as it is too large or too slow."""
    _check_charset(request)
    limits = agency.limits
    most_bytes = {"none": 0, "ordinary": limits.body_bytes, "model": limits.model_bytes}.get(declaration.body)
    seconds = limits.model_seconds if declaration.body == "model" else limits.body_seconds
    if most_bytes is None:
        plan = request.path_params["digest"]
        most_bytes = limits.body_bytes  # whoever names no plan is told so, once the body is there
        if is_digest(plan):
            most_bytes = await run_in_threadpool(largest_registration, agency, plan)
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most_bytes:
        raise _too_large(most_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise _too_large(most_bytes)
    except TimeoutError:
        raise TooSlowError from None
    except ClientDisconnect:
        raise HttpError("The request ended before its body was complete.", remedy="Send it again.") from None
    request._body = bytes(body)  # the framework finds it where it would have put it itself


def _too_large(most_bytes: int) -> TooLargeError:
    return TooLargeError(
        "The request is too large.",
        found=f"It is larger than {most_bytes} bytes.",
        remedy="Send less, or ask whoever runs the service for a larger limit.",
    )


def _check_charset(request: Request) -> None:
    """Refuses a form in another encoding than browsers send: the framework would decode it with any codec.

    Some of these make characters that cannot be written anywhere, and some fail in unforeseen ways.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == b"multipart/form-data" and options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise WrongTypeError("A form is sent in UTF-8.", found="It names another encoding.")


def _words(declaration: Declaration) -> str:
    return " or ".join(sorted(declaration.roles))
