"""Parties, their tokens and logins, and the trail of what they did.

A token is 256 random bits, so it is kept as a digest that needs no salt and no slow function, and guesses
need no counting. It is shown once, valid for a time, and revocable. People sign in to the pages with it, too,
or at the identity provider. The cookie of a login has as many random bits. A login with a token ends with it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING

from pydantic import AliasPath, Field
from sqlalchemy import bindparam, delete, select

from elldelta.agency.server.errors import ConflictError, NotLoggedInError, required
from elldelta.agency.server.paging import FIRST_PAGE, Cursor, Page, read_page
from elldelta.agency.server.state import Caller
from elldelta.agency.server.tables import (
    AGENCY,
    ROLES,
    Login,
    Party,
    Role,
    Token,
    TrailEntry,
    check_name,
    check_text,
)
from elldelta.agency.server.trail import add_audit_subject, add_entry
from elldelta.agency.views import View
from elldelta.errors import ParameterError, counted
from elldelta.ledger import folded_owner

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency

SECRET_BYTES = 32

_TOKEN = re.compile(r"elldelta_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")

_KNOWN_TOKEN = (
    select(
        Token.digest,
        Token.expires_at,
        Token.revoked_at,
        Party.id,
        Party.name,
        Party.role,
        Party.disabled_at,
    )
    .join(Party, Party.id == Token.party_id)
    .where(Token.id == bindparam("token"))
)

_KNOWN_LOGIN = (
    select(Login.expires_at, Token.revoked_at, Party.id, Party.name, Party.role, Party.disabled_at)
    .join(Party, Party.id == Login.party_id)
    .outerjoin(Token, Token.id == Login.token_id)
    .where(Login.digest == bindparam("login"))
)


class PartyView(View):
    """A party, as the agency sees it."""

    name: str
    role: Role
    oidc_subject: str | None
    created: dt.datetime = Field(validation_alias="created_at")
    disabled: dt.datetime | None = Field(validation_alias="disabled_at")


class NewToken(View):
    """A token that was just made; nobody can show it again."""

    token: str
    id: str
    expires: dt.datetime


class TokenView(View):
    """What is known of a token afterwards."""

    id: str
    party: str = Field(validation_alias=AliasPath("party", "name"))
    note: str
    created: dt.datetime = Field(validation_alias="created_at")
    expires: dt.datetime = Field(validation_alias="expires_at")
    revoked: dt.datetime | None = Field(validation_alias="revoked_at")


class TrailView(View):
    """An entry of the trail.

    Attributes:
        party: Who; None for somebody who is not known.
        action: What: a route, or an attempt to sign in.
        subject: About what: names and numbers.
        address: From where.
    """

    id: int
    at: dt.datetime
    party: str | None = Field(validation_alias=AliasPath("party", "name"), default=None)
    action: str
    subject: str
    address: str


def new_secret() -> str:
    """A new secret of 256 bits, as text that fits a cookie."""
    return secrets.token_urlsafe(SECRET_BYTES)


def digest_of_secret(secret: str) -> str:
    """What is kept of a secret of 256 bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_party(agency: Agency, name: str, role: Role) -> PartyView:
    """Adds a party.

    Raises:
        ParameterError: The name or the role cannot be used.
        ConflictError: There is a party of this name.
    """
    check_name("a party", name)
    if role not in ROLES:
        raise ParameterError(f"A role is one of {', '.join(ROLES)}.")
    add_audit_subject(name, role)
    party = Party(name=name, folded_name=folded_owner(name), role=role, created_at=agency.clock())
    if not agency.database.insert(party):
        raise ConflictError(
            "There is a party of this name already, perhaps with other capitals.",
            remedy="Choose another name.",
        )
    return PartyView.model_validate(party)


def list_parties(agency: Agency, cursor: Cursor = FIRST_PAGE) -> Page[PartyView]:
    """All parties, by name."""
    return read_page(agency, select(Party), cursor, Party.name, view=PartyView.of_row)


def show_party(agency: Agency, name: str) -> PartyView:
    """One party."""
    with agency.database.reading() as session:
        return PartyView.model_validate(find_party(session, name))


def disable_party(agency: Agency, name: str) -> PartyView:
    """Lets a party in no longer: its tokens and logins end. What it has done stays.

    Raises:
        ConflictError: It is the last of the agency's staff, and nobody could let anybody in again.
    """
    with agency.database.writing() as session:
        # All of the staff, always in the same order: two who disable each other come one after the other.
        staff = session.scalars(
            select(Party).where(Party.role == AGENCY).order_by(Party.id).with_for_update()
        ).all()
        party = find_party(session, name, lock=True)
        others = [other for other in staff if other.id != party.id and other.disabled_at is None]
        if party.role == AGENCY and not others:
            raise ConflictError(
                "The last of the agency's staff cannot be disabled.", remedy="Add somebody else first."
            )
        if party.disabled_at is None:
            party.disabled_at = agency.clock()
        session.execute(delete(Login).where(Login.party_id == party.id))
        return PartyView.model_validate(party)


def find_party(session: Session, name: str, *, lock: bool = False) -> Party:
    """A party by its name.

    Raises:
        NotFoundError: There is none.
    """
    chosen = select(Party).where(Party.name == name)
    return required(session.scalars(chosen.with_for_update() if lock else chosen).one_or_none(), "party")


def create_token(agency: Agency, party_name: str, note: str, expires_in_days: int) -> NewToken:
    """Makes a token for a party.

    Args:
        agency: The service.
        party_name: Whose it is.
        note: What it is for, in words.
        expires_in_days: How long it is valid.
    """
    most = agency.limits.token_days
    if not 1 <= expires_in_days <= most:
        raise ParameterError(
            f"A token is valid for 1 to {counted(most, 'day')}.", found=f"{expires_in_days} were asked for."
        )
    token_id, secret, now = secrets.token_hex(6), new_secret(), agency.clock()
    expires = now + dt.timedelta(days=expires_in_days)
    with agency.database.writing() as session:
        party = find_party(session, party_name)
        if party.disabled_at is not None:
            raise ConflictError("The party is disabled.", remedy="Make a token for somebody else.")
        add_audit_subject(party.name, token_id)
        session.add(
            Token(
                id=token_id,
                party_id=party.id,
                digest=digest_of_secret(secret),
                note=check_text("A note", note, 200),
                created_at=now,
                expires_at=expires,
            )
        )
    return NewToken(token=f"elldelta_{token_id}_{secret}", id=token_id, expires=expires)


def list_tokens(agency: Agency, party_name: str, cursor: Cursor = FIRST_PAGE) -> Page[TokenView]:
    """The tokens of a party, the newest first, also those that no longer hold."""
    with agency.database.reading() as session:
        party = find_party(session, party_name)
    chosen, order = select(Token).where(Token.party_id == party.id), (Token.created_at, Token.id)
    return read_page(agency, chosen, cursor, *order, view=TokenView.of_row, descending=True)


def revoke_token(agency: Agency, token_id: str) -> TokenView:
    """Ends a token and the logins with it, at once and for ever."""
    with agency.database.writing() as session:
        token = required(session.get(Token, token_id), "token")
        if token.revoked_at is None:
            token.revoked_at = agency.clock()
        return TokenView.model_validate(token)


def identify_token(agency: Agency, text: str) -> Caller:
    """Who sends a token.

    Raises:
        NotLoggedInError: It is none of ours, has expired or was revoked. The answer does not tell which to
            somebody who does not hold the secret.
    """
    found = _TOKEN.match(text)
    with agency.database.reading() as session:
        row = found and session.execute(_KNOWN_TOKEN, {"token": found[1]}).one_or_none()
    if found is None or row is None or not hmac.compare_digest(digest_of_secret(found[2]), row.digest):
        raise NotLoggedInError("The token is not known.")
    if row.revoked_at is not None or row.disabled_at is not None:
        raise NotLoggedInError("The token was revoked.")
    if row.expires_at <= agency.clock():
        raise NotLoggedInError("The token has expired.")
    return Caller(row.id, row.name, row.role, token_id=found[1])


def list_trail(agency: Agency, cursor: Cursor = FIRST_PAGE) -> Page[TrailView]:
    """The trail, the newest first."""
    order = TrailEntry.id
    return read_page(agency, select(TrailEntry), cursor, order, view=TrailView.of_row, descending=True)


def log_in(agency: Agency, token: str, *, address: str) -> str:
    """Begins a login of whoever holds a token; returns the secret that the browser keeps.

    Raises:
        NotLoggedInError: The token is not known, was revoked or has expired.
    """
    caller = identify_token(agency, token)
    with agency.database.writing() as session:
        kept = session.get_one(Token, caller.token_id)
        add_entry(session, agency, caller.id, "signed in", kept.id, address)
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
            add_entry(session, agency, party.id, "signed in at the provider", "", address)
            return _begin(session, agency, party.id)
        known = None if party is None else party.id
        add_entry(session, agency, known, "sign-in at the provider failed", "", address)
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
            raise ConflictError("Another party has this subject.", remedy="Check the subject.")
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
