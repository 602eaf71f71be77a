"""Who may call what: default deny.

Every route has `allow` or `allow_anybody` among its dependencies; an application with a route that has
neither does not start (`check_all_guarded`). The dependency finds out in this order: whether the request
comes from somebody else's page, who the caller is, and whether they may call the route.

What changes something needs a token, which no browser sends by itself, or must come from our own pages: a
browser says so in `Origin` or `Sec-Fetch-Site`, and what says nothing is refused.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute, iter_route_contexts
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from elldelta.agency.server.errors import ForbiddenError, NotLoggedInError
from elldelta.agency.server.services.parties import identify_login, identify_token
from elldelta.agency.server.state import Agency, Caller
from elldelta.agency.server.tables import ROLES, Role
from elldelta.agency.server.trail import audited_action
from elldelta.errors import InternalError

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PROOFS = frozenset({"authorization", "origin", "sec-fetch-site"})
"""One of them must come with what changes something."""


class Guard:
    """The dependency by which a route lets in callers of some roles, and nobody else."""

    def __init__(self, *roles: Role) -> None:
        self.roles = frozenset(roles)

    async def check(self, request: Request) -> Caller | None:
        """Finds out who calls.

        Raises:
            ForbiddenError: The request comes from another site, or from somebody of another role.
            NotLoggedInError: Nobody is known behind it.
        """
        _check_origin(request)
        caller = await possible_caller(request)
        if caller is None:
            raise NotLoggedInError
        if caller.role not in self.roles:
            raise ForbiddenError(
                "You may not do this.",
                found=f"You are known as {caller.role}; it takes {' or '.join(sorted(self.roles))}.",
                remedy="Ask the agency.",
            )
        _check_proof(request)
        return caller

    async def __call__(
        self, request: Request, _: Annotated[object, Depends(HTTPBearer(auto_error=False))]
    ) -> AsyncIterator[None]:
        """Checks the request; what it changes leaves an entry in the trail."""
        caller = await self.check(request)
        if caller is None or request.method in _SAFE:
            yield
            return
        subject = " ".join(map(str, request.path_params.values()))
        action = f"{request.method} {request.scope['route'].path}"
        with audited_action(request.app.state.agency, caller.id, action, subject, address_of(request)):
            yield


class PublicGuard(Guard):
    """The dependency by which a route lets everybody in; nobody is looked up in the database."""

    async def check(self, request: Request) -> None:
        """Refuses what comes from another site."""
        _check_origin(request)
        _check_proof(request)
        request.state.caller = None

    async def __call__(self, request: Request) -> AsyncIterator[None]:  # type: ignore[override]
        """Checks the request."""
        await self.check(request)
        yield


def allow(*roles: Role) -> Any:  # noqa: ANN401 (what the framework calls a dependency)
    """Declares that parties of these roles may call a route, and nobody else."""
    if not roles or not set(roles) <= set(ROLES):
        raise InternalError("A route must name the roles that may call it.")
    return Depends(Guard(*roles))


def allow_anybody() -> Any:  # noqa: ANN401
    """Declares that everybody may call a route, also without saying who they are."""
    return Depends(PublicGuard())


def guard_of(route: object) -> Guard | None:
    """What a route declares about who may call it; None if it declares nothing."""
    dependencies = route.dependant.dependencies if isinstance(route, APIRoute) else ()
    return next((found.call for found in dependencies if isinstance(found.call, Guard)), None)


def check_all_guarded(app: FastAPI) -> None:
    """Refuses an application with a route that declares nothing."""
    for context in iter_route_contexts(app.routes):
        if guard_of(context.original_route) is None:
            raise InternalError(
                f"The route {context.path} does not say who may call it.",
                remedy="Say who may call it, among its dependencies.",
            )


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else ""


def cookie_name(agency: Agency) -> str:
    """The name of the cookie of a login; over https one that no other host can set."""
    return "__Host-elldelta" if agency.settings.is_https else "elldelta"


async def possible_caller(request: Request) -> Caller | None:
    """Whoever calls, by a token or by the cookie of a login; None if nobody is known.

    Raises:
        NotLoggedInError: A token came with the request, and it is not valid.
    """
    agency: Agency = request.app.state.agency
    authorization = request.headers.get("authorization")
    cookie = request.cookies.get(cookie_name(agency))
    caller: Caller | None = None
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise NotLoggedInError("The Authorization header is not of the kind Bearer.")
        caller = await run_in_threadpool(identify_token, agency, token.strip())
    elif cookie is not None:
        caller = await run_in_threadpool(identify_login, agency, cookie)
    request.state.caller = caller
    request.scope["elldelta.principal"] = caller.id if caller else None
    return caller


async def current_agency(request: Request) -> Agency:
    """The running service."""
    agency: Agency = request.app.state.agency
    return agency


@dataclass(frozen=True)
class RequestContext:
    """A request of somebody who is known, to the running service."""

    request: Request
    agency: Agency
    caller: Caller


async def current_context(request: Request) -> RequestContext:
    """The request, the service and the caller of a route that only known callers may call."""
    if request.state.caller is None:
        raise InternalError("This endpoint needs a caller, but lets anybody in.")
    return RequestContext(request, request.app.state.agency, request.state.caller)


CurrentContext = Annotated[RequestContext, Depends(current_context)]
PossibleCaller = Annotated[Caller | None, Depends(possible_caller)]
CurrentAgency = Annotated[Agency, Depends(current_agency)]


def _check_origin(request: Request) -> None:
    """Refuses what a browser sends because of somebody else's page; covers the login itself, too."""
    if request.method in _SAFE:
        return
    origin = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if request.headers.get("origin", origin) != origin:
        raise _cross_site("The Origin of the request is not this service.")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise _cross_site("The browser says so.")


def _check_proof(request: Request) -> None:
    """Refuses a change that neither a token nor a browser vouches for."""
    if request.method not in _SAFE and _PROOFS.isdisjoint(request.headers.keys()):
        raise _cross_site("Neither a token nor the browser says where it comes from.")


def _cross_site(found: str) -> ForbiddenError:
    return ForbiddenError(
        "This request comes from another site.", found=found, remedy="Use the pages of this service."
    )
