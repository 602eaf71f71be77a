"""Parties, their tokens, who one is, and the trail of who did what."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from elldelta.agency.server.guard import CurrentAgency, CurrentVisit, Visit, allow
from elldelta.agency.server.paging import BEGINNING, CurrentCursor, Cursor, Page
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, ROLES, Role
from elldelta.agency.server.routes.description import ERRORS, Body, Name, TokenId
from elldelta.agency.server.routes.rendering import NOTHING, Posted, PostedForm, or_form, page, see
from elldelta.agency.server.services import parties, sign_in
from elldelta.agency.server.services.parties import NewToken, PartyView, TokenView, TrailView
from elldelta.agency.server.tables import NAME_PATTERN
from elldelta.agency.views import View

api = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["parties"])
pages = APIRouter(include_in_schema=False)

CHOICE = (OWNER, CLIENT, AUDITOR, AGENCY)
"""Roles as the form offers them: the most frequent one first."""


class Me(View):
    """Who the service takes the caller for."""

    name: str
    role: Role


class NewParty(Body):
    """Somebody to let in."""

    name: str = Field(pattern=NAME_PATTERN)
    role: Role


class TokenWish(Body):
    """A token to make."""

    note: str = Field(default="", max_length=200)
    expires_in_days: int = Field(default=90, ge=1, le=3660)


@api.get("/me", summary="Who I am", dependencies=[allow(*ROLES)])
def me(visit: CurrentVisit) -> Me:
    """Tells the caller's name and role."""
    return Me.model_validate(visit.caller)


@api.post("/parties", status_code=201, summary="Let somebody in", dependencies=[allow(AGENCY)])
def create(agency: CurrentAgency, body: NewParty) -> PartyView:
    """Adds a party. Make a token for it: it is for programs, and for signing in to the pages."""
    return parties.create_party(agency, body.name, body.role)


@api.get(
    "/parties",
    summary="All parties",
    dependencies=[allow(AGENCY)],
)
def index(agency: CurrentAgency, cursor: CurrentCursor) -> Page[PartyView]:
    """Lists all parties."""
    return parties.list_parties(agency, cursor)


@api.delete("/parties/{name}", summary="Let somebody in no longer", dependencies=[allow(AGENCY)])
def disable(agency: CurrentAgency, name: Name) -> PartyView:
    """Disables a party: its tokens and logins end. What it has done stays."""
    return parties.disable_party(agency, name)


@api.post("/parties/{name}/tokens", status_code=201, summary="Make a token", dependencies=[allow(AGENCY)])
def create_token(agency: CurrentAgency, name: Name, body: TokenWish) -> NewToken:
    """Makes a token for a party. It is shown in this answer and never again."""
    return parties.create_token(agency, name, body.note, body.expires_in_days)


@api.get(
    "/parties/{name}/tokens",
    summary="Tokens of a party",
    dependencies=[allow(AGENCY)],
)
def list_tokens(agency: CurrentAgency, name: Name, cursor: CurrentCursor) -> Page[TokenView]:
    """Lists the tokens of a party, without their secrets, which nobody has."""
    return parties.list_tokens(agency, name, cursor)


@api.delete("/tokens/{id}", summary="Revoke a token", dependencies=[allow(AGENCY)])
def revoke_token(agency: CurrentAgency, id: TokenId) -> TokenView:  # noqa: A002 (its name in the address)
    """Revokes a token, at once and for ever."""
    return parties.revoke_token(agency, id)


@api.get(
    "/trail",
    summary="Who did what",
    dependencies=[allow(AGENCY, AUDITOR)],
)
def trail(agency: CurrentAgency, cursor: CurrentCursor) -> Page[TrailView]:
    """Lists what was done and who tried to sign in, the newest first. Nothing of it can be changed."""
    return parties.list_trail(agency, cursor)


@pages.get("/trail", dependencies=[allow(AGENCY, AUDITOR)])
def trail_page(visit: CurrentVisit, cursor: CurrentCursor) -> Response:
    """Lists the same."""
    return page(visit.request, "trail.html", trail=parties.list_trail(visit.agency, cursor))


def _all(visit: Visit, posted: Posted = NOTHING, cursor: Cursor = BEGINNING, **_: object) -> dict[str, Any]:
    return {"typed": posted.typed, "roles": CHOICE, "parties": parties.list_parties(visit.agency, cursor)}


@pages.get("/parties", dependencies=[allow(AGENCY)])
def index_page(visit: CurrentVisit, cursor: CurrentCursor) -> Response:
    """Lists parties."""
    return page(visit.request, "parties.html", **_all(visit, cursor=cursor))


@pages.post("/parties", dependencies=[allow(AGENCY)])
@or_form("parties.html", _all)
def add(visit: CurrentVisit, posted: PostedForm) -> Response:
    """Adds a party; its page then makes a token for it."""
    wanted = posted.read(NewParty)
    added = parties.create_party(visit.agency, wanted.name, wanted.role)
    return see(f"/parties/{added.name}", "party-added")


def _one(
    visit: Visit, name: str, posted: Posted = NOTHING, cursor: Cursor = BEGINNING, **_: object
) -> dict[str, Any]:
    return {
        "party": parties.show_party(visit.agency, name),
        "tokens": parties.list_tokens(visit.agency, name, cursor),
        "now": visit.agency.clock(),
        "typed": posted.typed,
        "has_oidc": visit.agency.settings.oidc is not None,
        "new": None,
    }


@pages.get("/parties/{name}", dependencies=[allow(AGENCY)])
def show_page(visit: CurrentVisit, name: Name, cursor: CurrentCursor) -> Response:
    """Shows a party and its tokens, never a secret."""
    return page(visit.request, "party.html", **_one(visit, name, cursor=cursor))


@pages.post("/parties/{name}/tokens", dependencies=[allow(AGENCY)])
@or_form("party.html", _one)
def add_token(visit: CurrentVisit, name: Name, posted: PostedForm) -> Response:
    """Makes a token and shows it at once: it must not travel in an address, nor be kept to show later."""
    wanted = posted.read(TokenWish)
    new = parties.create_token(visit.agency, name, wanted.note, wanted.expires_in_days)
    return page(visit.request, "party.html", status=201, **_one(visit, name) | {"new": new})


@pages.post("/parties/{name}/tokens/{id}/revoke", dependencies=[allow(AGENCY)])
@or_form("party.html", _one)
def revoke(visit: CurrentVisit, name: Name, id: TokenId) -> Response:  # noqa: A002
    """Revokes a token."""
    return see(f"/parties/{parties.revoke_token(visit.agency, id).party}", "token-revoked")


@pages.post("/parties/{name}/subject", dependencies=[allow(AGENCY)])
@or_form("party.html", _one)
def subject(visit: CurrentVisit, name: Name, posted: PostedForm) -> Response:
    """Says what the identity provider calls somebody who signs in there."""
    sign_in.set_oidc_subject(visit.agency, name, posted.text("subject"))
    return see(f"/parties/{name}", "subject-set")


@pages.post("/parties/{name}/disable", dependencies=[allow(AGENCY)])
@or_form("party.html", _one)
def disable_party(visit: CurrentVisit, name: Name) -> Response:
    """Disables a party."""
    parties.disable_party(visit.agency, name)
    return see("/sign-in" if visit.caller.name == name else f"/parties/{name}", "party-disabled")
