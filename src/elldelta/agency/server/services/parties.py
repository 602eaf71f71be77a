"""Parties, and how they prove who they are: tokens for programs, passwords and then a cookie for people.

A token and the cookie of a login are 256 random bits, so they are kept as a digest that needs no salt and no
slow function. A token is shown once, valid for a time and revocable. A password is chosen by a person, so it
is kept by argon2id; a login ends with the working day.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import AliasPath, Field
from sqlalchemy import bindparam, delete, select

from elldelta.agency.server.errors import ConflictError, NotFoundError, NotLoggedInError
from elldelta.agency.server.limits import ConcurrencyLimit
from elldelta.agency.server.paging import BEGINNING, Part, Window, read_part
from elldelta.agency.server.rights import AGENCY, ROLES, Caller, Role
from elldelta.agency.server.tables import Login, Party, Token, View, check_name, check_text
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency

SECRET_BYTES = 32
FEWEST_PASSWORD_CHARACTERS = 12
MOST_PASSWORD_CHARACTERS = 200

_HASHING = ConcurrencyLimit(2, 10.0)
"""Each takes 64 MiB and a processor, on purpose."""

_TOKEN = re.compile(r"elldelta_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")

_KNOWN_TOKEN = (
    select(
        Token.digest, Token.expires_at, Token.revoked_at, Party.id, Party.name, Party.role, Party.disabled_at
    )
    .join(Party, Party.id == Token.party_id)
    .where(Token.id == bindparam("token"))
)
_KNOWN_LOGIN = (
    select(Login.expires_at, Party.id, Party.name, Party.role, Party.disabled_at)
    .join(Party, Party.id == Login.party_id)
    .where(Login.digest == bindparam("login"))
)


class PartyView(View):
    """A party, as the agency sees it."""

    name: str
    role: Role
    has_password: bool
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


@dataclass(frozen=True, repr=False)
class NewLogin:
    """A login that has just begun.

    Attributes:
        cookie: The secret that the browser keeps.
        caller: Who it is.
    """

    cookie: str
    caller: Caller


def create_party(agency: Agency, name: str, role: Role, password: str | None = None) -> PartyView:
    """Adds a party.

    Raises:
        ParameterError: The name, the role or the password cannot be used.
        ConflictError: There is a party of this name.
    """
    check_name("a party", name)
    if role not in ROLES:
        raise ParameterError(f"A role is one of {', '.join(ROLES)}.")
    kept = None if password is None else hash_password(password)
    party = Party(name=name, role=role, password_hash=kept, created_at=agency.clock())
    if not agency.database.insert(party):
        raise ConflictError("There is a party of this name already.", remedy="Choose another name.")
    return PartyView.model_validate(party)


def list_parties(agency: Agency, window: Window = BEGINNING) -> Part[PartyView]:
    """All parties, by name."""
    return read_part(
        agency, select(Party), window, Party.name, view=lambda row: PartyView.model_validate(row.Party)
    )


def show_party(agency: Agency, name: str) -> PartyView:
    """One party."""
    with agency.database.reading() as session:
        return PartyView.model_validate(find_party(session, name))


def set_password(agency: Agency, name: str, password: str) -> None:
    """Gives a party another password, and ends all of its logins."""
    kept = hash_password(password)
    with agency.database.writing() as session:
        party = find_party(session, name)
        party.password_hash = kept
        session.execute(delete(Login).where(Login.party_id == party.id))


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
    party = session.scalars(chosen.with_for_update() if lock else chosen).one_or_none()
    if party is None:
        raise NotFoundError("party")
    return party


def create_token(agency: Agency, party_name: str, note: str, expires_in_days: int) -> NewToken:
    """Makes a token for a party."""
    most = agency.limits.token_days
    if not 1 <= expires_in_days <= most:
        raise ParameterError(
            f"A token is valid for 1 to {most} days.", found=f"{expires_in_days} were asked for."
        )
    token_id, secret, now = agency.random(6).hex(), new_secret(agency), agency.clock()
    expires = now + dt.timedelta(days=expires_in_days)
    with agency.database.writing() as session:
        party = find_party(session, party_name)
        if party.disabled_at is not None:
            raise ConflictError("The party is disabled.", remedy="Make a token for somebody else.")
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


def list_tokens(agency: Agency, party_name: str, window: Window = BEGINNING) -> Part[TokenView]:
    """The tokens of a party, the newest first, also those that no longer hold."""
    with agency.database.reading() as session:
        party = find_party(session, party_name)
    return read_part(
        agency,
        select(Token).where(Token.party_id == party.id),
        window,
        Token.created_at,
        Token.id,
        view=lambda row: TokenView.model_validate(row.Token),
        descending=True,
    )


def revoke_token(agency: Agency, token_id: str) -> TokenView:
    """Ends a token, at once and for ever."""
    with agency.database.writing() as session:
        token = session.get(Token, token_id)
        if token is None:
            raise NotFoundError("token")
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
    row = found and agency.database.look_up(_KNOWN_TOKEN, {"token": found[1]})
    if found is None or row is None or not hmac.compare_digest(digest_of_secret(found[2]), row.digest):
        raise NotLoggedInError("The token is not known.")
    if row.revoked_at is not None or row.disabled_at is not None:
        raise NotLoggedInError("The token was revoked.")
    if row.expires_at <= agency.clock():
        raise NotLoggedInError("The token has expired.")
    return Caller(row.id, row.name, row.role)


def log_in(agency: Agency, name: str, password: str, *, address: str) -> NewLogin:
    """Begins a login.

    Args:
        agency: The service.
        name: The name of the party.
        password: Its password.
        address: Where the attempt comes from: attempts are limited by address, and by name.

    Raises:
        NotLoggedInError: Name and password do not belong together; it does not say which is wrong.
        TooManyError: There were too many attempts.
    """
    agency.by_login.take(f"address {address}")
    agency.by_login.take(f"name {name[:200]}")
    with agency.database.reading() as session:
        party = session.scalars(select(Party).where(Party.name == name.replace("\0", ""))).one_or_none()
    kept = None if party is None or party.disabled_at is not None else party.password_hash
    # Outside of the transaction: this is slow on purpose.
    if not _is_password(password, kept) or party is None:
        raise NotLoggedInError("The name or the password is wrong.")
    secret, now = new_secret(agency), agency.clock()
    expires = now + dt.timedelta(hours=agency.limits.session_hours)
    with agency.database.writing() as session:
        still = session.get(Party, party.id, with_for_update=True)
        if still is None or still.disabled_at is not None or still.password_hash != kept:
            raise NotLoggedInError("The name or the password is wrong.")  # it was changed in the meantime
        session.execute(delete(Login).where(Login.expires_at <= now))
        session.add(
            Login(digest=digest_of_secret(secret), party_id=party.id, created_at=now, expires_at=expires)
        )
    return NewLogin(secret, Caller(party.id, party.name, party.role, has_login=True))


def identify_login(agency: Agency, cookie: str) -> Caller | None:
    """Who sends a cookie; None if the login has ended."""
    if not cookie.isascii() or len(cookie) > 100:
        return None
    row = agency.database.look_up(_KNOWN_LOGIN, {"login": digest_of_secret(cookie)})
    if row is None or row.disabled_at is not None or row.expires_at <= agency.clock():
        return None
    return Caller(row.id, row.name, row.role, has_login=True)


def log_out(agency: Agency, cookie: str) -> None:
    """Ends a login."""
    with agency.database.writing() as session:
        session.execute(delete(Login).where(Login.digest == digest_of_secret(cookie)))


def new_secret(agency: Agency) -> str:
    """A new secret of 256 bits, as text that fits a cookie."""
    return base64.urlsafe_b64encode(agency.random(SECRET_BYTES)).rstrip(b"=").decode("ascii")


def digest_of_secret(secret: str) -> str:
    """What is kept of a secret of 256 bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hash_password(password: str) -> str:
    """What is kept of a new password.

    Raises:
        ParameterError: It is too short, or too long to be one.
    """
    from argon2 import PasswordHasher

    if not FEWEST_PASSWORD_CHARACTERS <= len(password) <= MOST_PASSWORD_CHARACTERS:
        raise ParameterError(
            f"A password has {FEWEST_PASSWORD_CHARACTERS} to {MOST_PASSWORD_CHARACTERS} characters.",
            found=f"It has {len(password)}.",
            remedy="Use a few words, or what a password manager makes.",
        )
    with _HASHING.slot():
        return PasswordHasher().hash(password)


def _is_password(password: str, kept: str | None) -> bool:
    """Whether a password is the one that is kept; takes as long if none is kept."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    if len(password) > MOST_PASSWORD_CHARACTERS:
        return False
    with _HASHING.slot():
        if kept is None:
            PasswordHasher().hash(password)
            return False
        try:
            return PasswordHasher().verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False
