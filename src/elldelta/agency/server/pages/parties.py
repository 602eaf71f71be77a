"""Parties and their tokens: for the agency."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.api.bodies import Name, TokenId
from elldelta.agency.server.api.windows import NameWindow, TokenWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.pages.forms import PostedForm
from elldelta.agency.server.pages.rendering import ForTheForm, form_again, page, see
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, Role, allow
from elldelta.agency.server.services.paging import BEGINNING, Window
from elldelta.agency.server.services.parties import (
    create_party,
    disable_party,
    list_parties,
    set_password,
    show_party,
)
from elldelta.agency.server.services.tokens import create_token, list_tokens, revoke_token
from elldelta.agency.server.state import Agency
from elldelta.errors import ElldeltaError

CHOICE = (OWNER, CLIENT, AUDITOR, AGENCY)
"""Roles as the form offers them: the most frequent one first."""

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/parties")
@allow(AGENCY)
def index(request: Request, agency: CurrentAgency, window: NameWindow) -> Response:
    """Lists parties."""
    parties = list_parties(agency, window)
    return page(request, "parties.html", error=None, typed={}, roles=CHOICE, parties=parties)


@router.post("/parties")
@allow(AGENCY)
def add(request: Request, agency: CurrentAgency, posted: PostedForm) -> Response:
    """Adds a party; without a password it can only use tokens."""
    try:
        role = cast("Role", posted.choice("role", CHOICE))
        added = create_party(agency, posted.text("name").strip(), role, posted.text("password") or None)
    except ForTheForm as error:
        parties = list_parties(agency)
        return form_again(request, "parties.html", error, typed=posted.typed, roles=CHOICE, parties=parties)
    return see(f"/parties/{added.name}", "party-added")


@router.get("/parties/{name}")
@allow(AGENCY)
def show(request: Request, agency: CurrentAgency, name: Name, window: TokenWindow) -> Response:
    """Shows a party and its tokens, never a secret."""
    return page(request, "party.html", error=None, typed={}, new=None, **_about(agency, name, window))


@router.post("/parties/{name}/tokens")
@allow(AGENCY)
def add_token(request: Request, agency: CurrentAgency, name: Name, posted: PostedForm) -> Response:
    """Makes a token and shows it at once: it must not travel in an address, nor be kept to show later."""
    try:
        new = create_token(agency, name, posted.text("note"), posted.whole("days", "The number of days"))
    except ForTheForm as error:
        return _again(request, agency, name, error, posted.typed)
    about = _about(agency, name)
    return page(request, "party.html", status=201, error=None, typed={}, new=new, **about)


@router.post("/parties/{name}/tokens/{id}/revoke")
@allow(AGENCY)
def revoke(request: Request, agency: CurrentAgency, name: Name, id: TokenId) -> Response:  # noqa: A002
    """Revokes a token."""
    try:
        revoked = revoke_token(agency, id)
    except ForTheForm as error:
        return _again(request, agency, name, error, {})
    return see(f"/parties/{revoked.party}", "token-revoked")


@router.post("/parties/{name}/password")
@allow(AGENCY)
def password(request: Request, agency: CurrentAgency, name: Name, posted: PostedForm) -> Response:
    """Sets a password."""
    try:
        set_password(agency, name, posted.text("password"))
    except ForTheForm as error:
        return _again(request, agency, name, error, {})
    return see(f"/parties/{name}", "password-set")


@router.get("/parties/{name}/disable")
@allow(AGENCY)
def disable_form(request: Request, agency: CurrentAgency, name: Name) -> Response:
    """Says what disabling means, and asks once more."""
    return page(request, "disable.html", error=None, party=show_party(agency, name))


@router.post("/parties/{name}/disable")
@allow(AGENCY)
def disable(request: Request, agency: CurrentAgency, caller: CurrentCaller, name: Name) -> Response:
    """Disables a party."""
    try:
        disable_party(agency, name)
    except ForTheForm as error:
        return form_again(request, "disable.html", error, party=show_party(agency, name))
    return see("/sign-in" if caller.name == name else f"/parties/{name}", "party-disabled")


def _about(agency: Agency, name: str, window: Window = BEGINNING) -> dict[str, Any]:
    tokens = list_tokens(agency, name, window)
    return {"party": show_party(agency, name), "tokens": tokens, "now": agency.clock()}


def _again(
    request: Request, agency: Agency, name: str, error: ElldeltaError, typed: dict[str, str]
) -> Response:
    return form_again(request, "party.html", error, typed=typed, new=None, **_about(agency, name))
