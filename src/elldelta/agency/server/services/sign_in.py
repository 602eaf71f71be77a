"""How people sign in to the pages: with an access token, or at the identity provider.

The cookie of a login is 256 random bits, kept as a digest. A login with a token is a session of that token:
it ends with the token, however that ends. Guesses need no counting: a token has 256 random bits, too.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, select

from elldelta.agency.server.errors import ConflictError, NotLoggedInError
from elldelta.agency.server.rights import Caller
from elldelta.agency.server.services.parties import digest_of_secret, find_party, identify_token, new_secret
from elldelta.agency.server.tables import Login, Party, Token
from elldelta.agency.server.trail import write
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency

_KNOWN_LOGIN = (
    select(Login.expires_at, Token.revoked_at, Party.id, Party.name, Party.role, Party.disabled_at)
    .join(Party, Party.id == Login.party_id)
    .outerjoin(Token, Token.id == Login.token_id)
    .where(Login.digest == bindparam("login"))
)


def log_in(agency: Agency, token: str, *, address: str) -> str:
    """Begins a login of whoever holds a token; returns the secret that the browser keeps.

    Raises:
        NotLoggedInError: The token is not known, was revoked or has expired.
    """
    caller = identify_token(agency, token)
    with agency.database.writing() as session:
        kept = session.get_one(Token, caller.token_id)
        write(session, agency, caller.id, "signed in", kept.id, address)
        return _begin(session, agency, caller.id, kept)


def log_in_oidc(agency: Agency, subject: str, *, address: str) -> str:
    """Begins a login of somebody who has signed in at the identity provider.

    Args:
        agency: The service.
        subject: What the provider calls them.
        address: Where they come from.

    Raises:
        NotLoggedInError: Nobody here is known as that.
    """
    with agency.database.writing() as session:
        party = session.scalars(select(Party).where(Party.oidc_subject == subject)).one_or_none()
        if party is not None and party.disabled_at is None:
            write(session, agency, party.id, "signed in at the provider", "", address)
            return _begin(session, agency, party.id)
        write(
            session,
            agency,
            None if party is None else party.id,
            "sign-in at the provider failed",
            "",
            address,
        )
    raise NotLoggedInError(
        "You are signed in at the identity provider, but no party here is linked with you."
    )


def identify_login(agency: Agency, cookie: str) -> Caller | None:
    """Who sends a cookie; None if the login has ended, or the token that it is a session of."""
    if not cookie.isascii() or len(cookie) > 100:
        return None
    with agency.database.reading() as session:
        row = session.execute(_KNOWN_LOGIN, {"login": digest_of_secret(cookie)}).one_or_none()
    if row is None or row.disabled_at is not None or row.revoked_at is not None:
        return None
    return None if row.expires_at <= agency.clock() else Caller(row.id, row.name, row.role, has_login=True)


def log_out(agency: Agency, cookie: str) -> None:
    """Ends a login."""
    with agency.database.writing() as session:
        session.execute(delete(Login).where(Login.digest == digest_of_secret(cookie)))


def set_oidc_subject(agency: Agency, name: str, subject: str) -> None:
    """Says what the identity provider calls somebody who may sign in there; nothing ends that.

    Raises:
        ConflictError: Somebody else is called that.
    """
    subject = subject.strip()
    if len(subject) > 255 or not subject.isprintable():
        raise ParameterError("A subject has at most 255 printable characters.")
    with agency.database.writing() as session:
        party = find_party(session, name, lock=True)
        other = session.scalars(select(Party).where(Party.oidc_subject == subject)).one_or_none()
        if subject and other is not None and other.id != party.id:
            raise ConflictError("Somebody else is called that there.", remedy="Check the subject.")
        party.oidc_subject = subject or None
        session.execute(delete(Login).where(Login.party_id == party.id))


def _begin(session: Session, agency: Agency, party_id: int, token: Token | None = None) -> str:
    """Adds a login, and removes those that have ended."""
    secret, now = new_secret(), agency.clock()
    expires = now + dt.timedelta(hours=agency.limits.session_hours)
    session.execute(delete(Login).where(Login.expires_at <= now))
    session.add(
        Login(
            digest=digest_of_secret(secret),
            party_id=party_id,
            token_id=None if token is None else token.id,
            created_at=now,
            expires_at=expires if token is None else min(expires, token.expires_at),
        )
    )
    return secret
