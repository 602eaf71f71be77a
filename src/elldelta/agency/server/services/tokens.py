"""API tokens: shown once, kept as a digest, valid for a time, revocable."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from elldelta.agency.server.errors import ConflictError, NotFoundError, NotLoggedInError
from elldelta.agency.server.rights import Caller
from elldelta.agency.server.secret_values import TokenSecret, is_same
from elldelta.agency.server.services.names import check_text
from elldelta.agency.server.services.paging import BEGINNING, Order, Window, read_part
from elldelta.agency.server.services.parties import find_party
from elldelta.agency.server.tables import Party, Token
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from elldelta.agency.server.services.paging import Part
    from elldelta.agency.server.state import Agency

ID_PATTERN = r"^[0-9a-f]{12}$"

_KNOWN = (
    select(
        Token.digest, Token.expires_at, Token.revoked_at, Party.id, Party.name, Party.role, Party.disabled_at
    )
    .join(Party, Party.id == Token.party_id)
    .where(Token.id == bindparam("token"))
)


@dataclass(frozen=True)
class NewToken:
    """A token that was just made; nobody can show it again."""

    token: str
    id: str
    expires: dt.datetime


@dataclass(frozen=True)
class TokenView:
    """What is known of a token afterwards."""

    id: str
    party: str
    note: str
    created: dt.datetime
    expires: dt.datetime
    revoked: dt.datetime | None


def create_token(agency: Agency, party_name: str, note: str, expires_in_days: int) -> NewToken:
    """Makes a token for a party."""
    most = agency.limits.token_days
    if not 1 <= expires_in_days <= most:
        raise ParameterError(
            f"A token is valid for 1 to {most} days.", found=f"{expires_in_days} were asked for."
        )
    secret = TokenSecret.create(agency.random)
    now = agency.clock()
    expires = now + dt.timedelta(days=expires_in_days)
    with agency.database.writing() as session:
        party = find_party(session, party_name)
        if party.disabled_at is not None:
            raise ConflictError("The party is disabled.", remedy="Make a token for somebody else.")
        session.add(
            Token(
                id=secret.id,
                party_id=party.id,
                digest=secret.digest,
                note=check_text("A note", note, 200),
                created_at=now,
                expires_at=expires,
            )
        )
    return NewToken(secret.text, secret.id, expires)


def list_tokens(agency: Agency, party_name: str, window: Window = BEGINNING) -> Part[TokenView]:
    """The tokens of a party, the newest first, also those that no longer hold."""
    with agency.database.reading() as session:
        party = find_party(session, party_name)
        return read_part(
            session,
            select(Token).where(Token.party_id == party.id),
            Order(Token.id, first=Token.created_at),
            window,
            most=agency.limits.page_size,
            view=lambda row: _view(row.Token, party.name),
        )


def revoke_token(agency: Agency, token_id: str) -> TokenView:
    """Ends a token, at once and for ever."""
    with agency.database.writing() as session:
        token = session.get(Token, token_id)
        if token is None:
            raise NotFoundError("token")
        if token.revoked_at is None:
            token.revoked_at = agency.clock()
        return _view(token, token.party.name)


def identify_token(agency: Agency, text: str) -> Caller:
    """Who sends a token.

    Raises:
        NotLoggedInError: It is none of ours, has expired or was revoked. The answer does not tell which to
            somebody who does not hold the secret.
    """
    secret = TokenSecret.parse(text)
    row = None
    if secret is not None:
        row = agency.database.look_up(_KNOWN, {"token": secret.id})
    if secret is None or row is None or not is_same(secret.digest, row.digest):
        raise NotLoggedInError("The token is not known.")
    if row.revoked_at is not None or row.disabled_at is not None:
        raise NotLoggedInError("The token was revoked.")
    if row.expires_at <= agency.clock():
        raise NotLoggedInError("The token has expired.")
    return Caller(row.id, row.name, row.role)


def _view(token: Token, party: str) -> TokenView:
    return TokenView(token.id, party, token.note, token.created_at, token.expires_at, token.revoked_at)
