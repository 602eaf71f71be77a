"""Parties, their tokens, and who one is."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from elldelta.agency.server.api.bodies import Name, NewParty, TokenId, TokenWish, errors, example
from elldelta.agency.server.api.lists import PartyList, TokenList, listed
from elldelta.agency.server.api.windows import NameWindow, TokenWindow
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, OWNER, Role, allow
from elldelta.agency.server.services import parties, tokens
from elldelta.agency.server.services.parties import PartyView
from elldelta.agency.server.services.tokens import NewToken, TokenView

router = APIRouter(prefix="/api/v1", route_class=GuardedRoute, tags=["parties"])

_PARTY = {
    "name": "hospital-a",
    "role": "owner",
    "has_password": False,
    "created": "2026-11-15T09:00:00Z",
    "disabled": None,
}
_TOKEN = {
    "id": "0123456789ab",
    "party": "hospital-a",
    "note": "nightly export",
    "created": "2026-11-15T09:00:00Z",
    "expires": "2027-02-13T09:00:00Z",
    "revoked": None,
}


@dataclass(frozen=True)
class Me:
    """Who the service takes the caller for."""

    name: str
    role: Role


@router.get(
    "/me", summary="Who I am", responses=errors(401) | example(200, {"name": "hospital-a", "role": "owner"})
)
@allow(AGENCY, OWNER, CLIENT, AUDITOR)
def me(caller: CurrentCaller) -> Me:
    """Tells the caller's name and role."""
    return Me(caller.name, caller.role)


@router.post(
    "/parties",
    status_code=201,
    summary="Let somebody in",
    responses=errors(401, 403, 408, 409, 413, 422) | example(201, _PARTY),
)
@allow(AGENCY)
def create(agency: CurrentAgency, body: NewParty) -> PartyView:
    """Adds a party. With a password it can log in to the pages; for programs make a token."""
    return parties.create_party(agency, body.name, body.role, body.password)


@router.get(
    "/parties",
    summary="All parties",
    responses=errors(401, 403, 422)
    | example(200, {"parties": [_PARTY], "previous": None, "next": "hospital-a"}),
)
@allow(AGENCY)
def index(agency: CurrentAgency, window: NameWindow) -> PartyList:
    """Lists all parties."""
    return listed(PartyList, parties.list_parties(agency, window))


@router.delete(
    "/parties/{name}",
    summary="Let somebody in no longer",
    responses=errors(401, 403, 404, 409, 413, 422)
    | example(200, {**_PARTY, "disabled": "2026-11-16T09:00:00Z"}),
)
@allow(AGENCY, body="none")
def disable(agency: CurrentAgency, name: Name) -> PartyView:
    """Disables a party: its tokens and logins end. What it has done stays."""
    return parties.disable_party(agency, name)


@router.post(
    "/parties/{name}/tokens",
    status_code=201,
    summary="Make a token",
    responses=errors(401, 403, 404, 408, 409, 413, 422)
    | example(
        201,
        {
            "token": "elldelta_0123456789ab_" + "A" * 43,
            "id": "0123456789ab",
            "expires": "2027-02-13T09:00:00Z",
        },
    ),
)
@allow(AGENCY)
def create_token(agency: CurrentAgency, name: Name, body: TokenWish) -> NewToken:
    """Makes a token for a party. It is shown in this answer and never again."""
    return tokens.create_token(agency, name, body.note, body.expires_in_days)


@router.get(
    "/parties/{name}/tokens",
    summary="Tokens of a party",
    responses=errors(401, 403, 404, 422) | example(200, {"tokens": [_TOKEN], "previous": None, "next": None}),
)
@allow(AGENCY)
def list_tokens(agency: CurrentAgency, name: Name, window: TokenWindow) -> TokenList:
    """Lists the tokens of a party, without their secrets, which nobody has."""
    return listed(TokenList, tokens.list_tokens(agency, name, window))


@router.delete(
    "/tokens/{id}",
    summary="Revoke a token",
    responses=errors(401, 403, 404, 413, 422) | example(200, {**_TOKEN, "revoked": "2026-11-16T09:00:00Z"}),
)
@allow(AGENCY, body="none")
def revoke_token(agency: CurrentAgency, id: TokenId) -> TokenView:  # noqa: A002 (its name in the address)
    """Revokes a token, at once and for ever."""
    return tokens.revoke_token(agency, id)
