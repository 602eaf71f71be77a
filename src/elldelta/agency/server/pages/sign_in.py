"""Signing in and out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.guarded_route import CurrentAgency, GuardedRoute, PossibleCaller
from elldelta.agency.server.pages.forms import PostedForm
from elldelta.agency.server.pages.rendering import ForTheForm, demo_logins, form_again, local_path, page, see
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, allow, allow_anybody
from elldelta.agency.server.services.logins import clear_cookie, cookie_name, log_in, log_out, set_cookie

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/sign-in")
@allow_anybody()
def sign_in_form(request: Request, caller: PossibleCaller) -> Response:
    """Shows the form; somebody who is signed in is sent on."""
    if caller is not None:
        return see("/")
    return page(request, "sign_in.html", error=None, name="", wanted="/", logins=demo_logins(request))


@router.post("/sign-in")
@allow_anybody(body="ordinary")
def sign_in(request: Request, agency: CurrentAgency, caller: PossibleCaller, posted: PostedForm) -> Response:
    """Begins a login and goes on to the page that was wanted."""
    wanted = local_path(posted.text("wanted"))
    name = posted.text("name")
    try:
        if caller is not None:
            raise ConflictError("You are signed in already.", remedy="Sign out first.")
        address = request.client.host if request.client else ""
        login = log_in(agency, name, posted.text("password"), address=address)
    except ForTheForm as error:
        return form_again(
            request, "sign_in.html", error, name=name[:100], wanted=wanted, logins=demo_logins(request)
        )
    answer = see(wanted)
    set_cookie(answer, agency.settings, login)
    return answer


@router.post("/sign-out")
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def sign_out(request: Request, agency: CurrentAgency) -> Response:
    """Ends the login."""
    cookie = request.cookies.get(cookie_name(agency.settings))
    if cookie is not None:
        log_out(agency, cookie)
    answer = see("/sign-in", "signed-out")
    clear_cookie(answer, agency.settings)
    return answer
