"""Signing in and out, at another service if there is one, and one's own account."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from elldelta.agency.server import oidc
from elldelta.agency.server.errors import ConflictError, ForbiddenError, NotFoundError
from elldelta.agency.server.guarded_route import (
    CurrentAgency,
    CurrentVisit,
    GuardedRoute,
    PossibleCaller,
    Visit,
    address_of,
    cookie_name,
)
from elldelta.agency.server.rights import ROLES, allow, allow_anybody
from elldelta.agency.server.routes.rendering import (
    NOTHING,
    Posted,
    PostedForm,
    local_path,
    or_form,
    page,
    see,
    sign_in_content,
)
from elldelta.agency.server.services import parties, sign_in
from elldelta.agency.server.services.sign_in import NewLogin
from elldelta.agency.server.state import Agency
from elldelta.agency.server.trail import network

pages = APIRouter(route_class=GuardedRoute, include_in_schema=False)

FLOW_SECONDS = 600
"""How long somebody may take to sign in at the other service."""


def _signing_in(request: Request, posted: Posted, **_: object) -> dict[str, Any]:
    return sign_in_content(request, name=posted.text("name"), wanted=local_path(posted.text("wanted")))


@pages.get("/sign-in")
@allow_anybody()
def sign_in_page(request: Request, caller: PossibleCaller) -> Response:
    """Shows the form; somebody who is signed in is sent on."""
    return page(request, "sign_in.html", **sign_in_content(request)) if caller is None else see("/")


@pages.post("/sign-in")
@allow_anybody(body="ordinary")
@or_form("sign_in.html", _signing_in)
def begin(request: Request, agency: CurrentAgency, caller: PossibleCaller, posted: PostedForm) -> Response:
    """Begins a login and goes on to the page that was wanted."""
    if caller is not None:
        raise ConflictError("You are signed in already.", remedy="Sign out first.")
    login = sign_in.log_in(
        agency,
        posted.text("name"),
        posted.text("password"),
        address=address_of(request),
        code=posted.text("code"),
    )
    return _signed_in(agency, login, local_path(posted.text("wanted")))


@pages.get("/sign-in/elsewhere")
@allow_anybody()
def elsewhere(request: Request, agency: CurrentAgency) -> Response:
    """Sends the browser to the other service; a cookie remembers what it has to bring back."""
    if agency.settings.oidc is None:
        raise NotFoundError("page")
    agency.by_login.take(f"elsewhere {network(address_of(request))}")
    address, flow = oidc.begin(agency)
    answer = RedirectResponse(address, 303)
    _set_cookie(agency, answer, _flow_cookie(agency), flow, FLOW_SECONDS)
    return answer


@pages.get("/sign-in/elsewhere/back")
@allow_anybody()
def back(request: Request, agency: CurrentAgency) -> Response:
    """Somebody comes back from the other service: begins their login if what it says holds."""
    if agency.settings.oidc is None:
        raise NotFoundError("page")
    place = address_of(request)
    agency.by_login.take(f"address {network(place)}")
    subject = oidc.finish(agency, request.cookies.get(_flow_cookie(agency), ""), dict(request.query_params))
    answer = _signed_in(agency, sign_in.log_in_elsewhere(agency, subject, address=place), "/")
    _delete_cookie(agency, answer, _flow_cookie(agency))
    return answer


@pages.post("/sign-out")
@allow(*ROLES, is_account=True)
def sign_out(visit: CurrentVisit) -> Response:
    """Ends the login."""
    cookie = visit.request.cookies.get(cookie_name(visit.agency))
    if cookie is not None:
        sign_in.log_out(visit.agency, cookie)
    answer = see("/sign-in", "signed-out")
    _delete_cookie(visit.agency, answer, cookie_name(visit.agency))
    return answer


def _account(visit: Visit, posted: Posted = NOTHING, **_: object) -> dict[str, Any]:
    party = parties.show_party(visit.agency, visit.caller.name)
    secret = posted.text("secret")
    if not sign_in.is_totp_secret(secret):
        secret = sign_in.new_totp_secret()
    return {
        "party": party,
        "secret": secret,
        "totp_address": sign_in.totp_address(visit.caller, secret),
        "is_needed": visit.agency.settings.second_factor and party.role == "agency",
    }


@pages.get("/account")
@allow(*ROLES, is_account=True)
def account_page(visit: CurrentVisit) -> Response:
    """Shows one's own account."""
    return page(visit.request, "account.html", **_account(visit))


@pages.post("/account/password")
@allow(*ROLES, is_account=True)
@or_form("account.html", _account)
def change_password(visit: CurrentVisit, posted: PostedForm) -> Response:
    """Changes one's own password."""
    cookie, place = _own_cookie(visit), address_of(visit.request)
    old, new = posted.text("old"), posted.text("new")
    sign_in.change_password(visit.agency, visit.caller, old, new, cookie=cookie, address=place)
    return see("/account", "password-changed")


@pages.post("/account/second-factor")
@allow(*ROLES, is_account=True)
@or_form("account.html", _account)
def set_second_factor(visit: CurrentVisit, posted: PostedForm) -> Response:
    """Sets up a second factor."""
    cookie = _own_cookie(visit)
    secret, code = posted.text("secret"), posted.text("code")
    sign_in.set_second_factor(visit.agency, visit.caller, secret, code, cookie=cookie)
    return see("/account", "second-factor-set")


def _own_cookie(visit: Visit) -> str:
    """The cookie of the caller's login: a token does not change how somebody signs in."""
    cookie = visit.request.cookies.get(cookie_name(visit.agency))
    if not visit.caller.has_login or cookie is None:
        raise ForbiddenError("An account is changed by somebody who has signed in.", remedy="Sign in first.")
    return cookie


def _signed_in(agency: Agency, login: NewLogin, path: str) -> Response:
    answer = see(path)
    seconds = int(agency.limits.session_hours * 3600)
    _set_cookie(agency, answer, cookie_name(agency), login.cookie, seconds)
    return answer


def _flow_cookie(agency: Agency) -> str:
    return cookie_name(agency) + "-elsewhere"


def _set_cookie(agency: Agency, answer: Response, name: str, value: str, seconds: int) -> None:
    """No script sees it, and no other site sends it with a form."""
    https = agency.settings.behind_proxy
    answer.set_cookie(name, value, seconds, httponly=True, samesite="lax", secure=https)


def _delete_cookie(agency: Agency, answer: Response, name: str) -> None:
    answer.delete_cookie(name, httponly=True, samesite="lax", secure=agency.settings.behind_proxy)
