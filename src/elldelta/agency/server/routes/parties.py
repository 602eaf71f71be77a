"""Parties, their tokens, who one is, and the trail of who did what."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from elldelta.agency.server.guard import CurrentAgency, CurrentContext, RequestContext, allow
from elldelta.agency.server.paging import FIRST_PAGE, CurrentCursor, Cursor, Page
from elldelta.agency.server.routes.description import ERRORS, Body, Name, TokenId
from elldelta.agency.server.routes.rendering import EMPTY_FORM, Posted, PostedForm, form_again, page, redirect
from elldelta.agency.server.services import parties
from elldelta.agency.server.services.parties import NewToken, PartyView, TokenView, TrailView
from elldelta.agency.server.tables import AGENCY, AUDITOR, CLIENT, NAME_PATTERN, OWNER, ROLES, Role
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
def me(context: CurrentContext) -> Me:
    """Tells the caller's name and role."""
    return Me.model_validate(context.caller)


@api.post("/parties", status_code=201, summary="Let somebody in", dependencies=[allow(AGENCY)])
def create(agency: CurrentAgency, body: NewParty) -> PartyView:
    """Adds a party. Make a token for it: it is for programs, and for signing in to the pages."""
    return parties.create_party(agency, body.name, body.role)


@api.get("/parties", summary="All parties", dependencies=[allow(AGENCY)])
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


@api.get("/trail", summary="Who did what", dependencies=[allow(AGENCY, AUDITOR)])
def trail(agency: CurrentAgency, cursor: CurrentCursor) -> Page[TrailView]:
    """Lists what was done and who tried to sign in, the newest first. Nothing of it can be changed."""
    return parties.list_trail(agency, cursor)


@pages.get("/trail", dependencies=[allow(AGENCY, AUDITOR)])
def trail_page(context: CurrentContext, cursor: CurrentCursor) -> Response:
    """Lists the same."""
    return page(context.request, "trail.html", trail=parties.list_trail(context.agency, cursor))


def _all(
    context: RequestContext, posted: Posted = EMPTY_FORM, cursor: Cursor = FIRST_PAGE, **_: object
) -> dict[str, Any]:
    return {"typed": posted.typed, "roles": CHOICE, "parties": parties.list_parties(context.agency, cursor)}


@pages.get("/parties", dependencies=[allow(AGENCY)])
def index_page(context: CurrentContext, cursor: CurrentCursor) -> Response:
    """Lists parties."""
    return page(context.request, "parties.html", **_all(context, cursor=cursor))


@pages.post("/parties", dependencies=[allow(AGENCY)])
@form_again("parties.html", _all)
def add(context: CurrentContext, posted: PostedForm) -> Response:
    """Adds a party; its page then makes a token for it."""
    wanted = posted.read(NewParty)
    added = parties.create_party(context.agency, wanted.name, wanted.role)
    return redirect(f"/parties/{added.name}", "party-added")


def _one(
    context: RequestContext, name: str, posted: Posted = EMPTY_FORM, cursor: Cursor = FIRST_PAGE, **_: object
) -> dict[str, Any]:
    return {
        "party": parties.show_party(context.agency, name),
        "tokens": parties.list_tokens(context.agency, name, cursor),
        "now": context.agency.clock(),
        "typed": posted.typed,
        "has_oidc": context.agency.settings.oidc is not None,
        "new": None,
    }


@pages.get("/parties/{name}", dependencies=[allow(AGENCY)])
def show_page(context: CurrentContext, name: Name, cursor: CurrentCursor) -> Response:
    """Shows a party and its tokens, never a secret."""
    return page(context.request, "party.html", **_one(context, name, cursor=cursor))


@pages.post("/parties/{name}/tokens", dependencies=[allow(AGENCY)])
@form_again("party.html", _one)
def add_token(context: CurrentContext, name: Name, posted: PostedForm) -> Response:
    """Makes a token and shows it at once: it must not travel in an address, nor be kept to show later."""
    wanted = posted.read(TokenWish)
    new = parties.create_token(context.agency, name, wanted.note, wanted.expires_in_days)
    return page(context.request, "party.html", status=201, **_one(context, name) | {"new": new})


@pages.post("/parties/{name}/tokens/{id}/revoke", dependencies=[allow(AGENCY)])
@form_again("party.html", _one)
def revoke(context: CurrentContext, name: Name, id: TokenId) -> Response:  # noqa: A002
    """Revokes a token."""
    return redirect(f"/parties/{parties.revoke_token(context.agency, id).party}", "token-revoked")


@pages.post("/parties/{name}/subject", dependencies=[allow(AGENCY)])
@form_again("party.html", _one)
def subject(context: CurrentContext, name: Name, posted: PostedForm) -> Response:
    """Says what the identity provider calls somebody who signs in there."""
    parties.set_oidc_subject(context.agency, name, posted.text("subject"))
    return redirect(f"/parties/{name}", "subject-set")


@pages.post("/parties/{name}/disable", dependencies=[allow(AGENCY)])
@form_again("party.html", _one)
def disable_party(context: CurrentContext, name: Name) -> Response:
    """Disables a party."""
    parties.disable_party(context.agency, name)
    return redirect("/sign-in" if context.caller.name == name else f"/parties/{name}", "party-disabled")
