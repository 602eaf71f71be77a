"""Signing in and out: with an access token, or at the identity provider if there is one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from elldelta.agency.server import oidc
from elldelta.agency.server.errors import ConflictError, NotFoundError
from elldelta.agency.server.guard import (
    CurrentAgency,
    CurrentContext,
    PossibleCaller,
    address_of,
    allow,
    allow_anybody,
    cookie_name,
)
from elldelta.agency.server.rights import ROLES
from elldelta.agency.server.routes.rendering import (
    Posted,
    PostedForm,
    form_again,
    local_path,
    page,
    redirect,
    sign_in_content,
)
from elldelta.agency.server.services import sign_in
from elldelta.agency.server.state import Agency

pages = APIRouter(include_in_schema=False)


def _signing_in(request: Request, posted: Posted, **_: object) -> dict[str, Any]:
    return sign_in_content(request, wanted=local_path(posted.text("wanted")))


@pages.get("/sign-in", dependencies=[allow_anybody()])
def sign_in_page(request: Request, caller: PossibleCaller) -> Response:
    """Shows the form; somebody who is signed in is sent on."""
    return page(request, "sign_in.html", **sign_in_content(request)) if caller is None else redirect("/")


@pages.post("/sign-in", dependencies=[allow_anybody()])
@form_again("sign_in.html", _signing_in)
def begin(request: Request, agency: CurrentAgency, caller: PossibleCaller, posted: PostedForm) -> Response:
    """Begins a login and goes on to the page that was wanted."""
    if caller is not None:
        raise ConflictError("You are signed in already.", remedy="Sign out first.")
    cookie = sign_in.log_in(agency, posted.text("token"), address=address_of(request))
    return _signed_in(agency, cookie, local_path(posted.text("wanted")))


@pages.get("/sign-in/oidc", dependencies=[allow_anybody()])
async def oidc_sign_in(request: Request, agency: CurrentAgency) -> Response:
    """Sends the browser to the identity provider."""
    if agency.settings.oidc is None:
        raise NotFoundError("page")
    return await oidc.begin(request, agency.settings.oidc)


@pages.get("/sign-in/oidc/callback", dependencies=[allow_anybody()])
async def oidc_callback(request: Request, agency: CurrentAgency) -> Response:
    """Somebody comes back from the identity provider: begins their login if what it says holds."""
    if agency.settings.oidc is None:
        raise NotFoundError("page")
    subject = await oidc.finish(request, agency.settings.oidc)
    address = address_of(request)
    cookie = await run_in_threadpool(sign_in.log_in_oidc, agency, subject, address=address)
    return _signed_in(agency, cookie, "/")


@pages.post("/sign-out", dependencies=[allow(*ROLES)])
def sign_out(context: CurrentContext) -> Response:
    """Ends the login."""
    name = cookie_name(context.agency)
    cookie = context.request.cookies.get(name)
    if cookie is not None:
        sign_in.log_out(context.agency, cookie)
    answer = redirect("/sign-in", "signed-out")
    answer.delete_cookie(name, httponly=True, samesite="lax", secure=context.agency.settings.behind_proxy)
    return answer


def _signed_in(agency: Agency, cookie: str, path: str) -> Response:
    """No script sees the cookie, and no other site sends it with a form."""
    answer = redirect(path)
    seconds, is_https = int(agency.limits.session_hours * 3600), agency.settings.behind_proxy
    name = cookie_name(agency)
    answer.set_cookie(name, cookie, seconds, httponly=True, samesite="lax", secure=is_https)
    return answer
