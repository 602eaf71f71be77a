"""Logins of the pages: a password once, then a cookie that ends with the working day."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sqlalchemy import bindparam, delete, select

from elldelta.agency.server.errors import NotLoggedInError
from elldelta.agency.server.rights import Caller, Role
from elldelta.agency.server.secret_values import digest_of_secret, is_password, new_secret
from elldelta.agency.server.tables import Login, Party

if TYPE_CHECKING:
    from starlette.responses import Response

    from elldelta.agency.server.settings import Settings
    from elldelta.agency.server.state import Agency

_KNOWN = (
    select(Login.expires_at, Party.id, Party.name, Party.role, Party.disabled_at)
    .join(Party, Party.id == Login.party_id)
    .where(Login.digest == bindparam("login"))
)


@dataclass(frozen=True, repr=False)
class NewLogin:
    """A login that has just begun.

    Attributes:
        cookie: The secret that the browser keeps.
        caller: Who it is.
        expires: When it ends.
    """

    cookie: str
    caller: Caller
    expires: dt.datetime


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
    if not is_password(password, kept) or party is None:
        raise NotLoggedInError("The name or the password is wrong.")
    secret, now = new_secret(agency.random), agency.clock()
    expires = now + dt.timedelta(hours=agency.limits.session_hours)
    with agency.database.writing() as session:
        still = session.get(Party, party.id, with_for_update=True)
        if still is None or still.disabled_at is not None or still.password_hash != kept:
            raise NotLoggedInError("The name or the password is wrong.")  # it was changed in the meantime
        session.execute(delete(Login).where(Login.expires_at <= now))
        session.add(
            Login(digest=digest_of_secret(secret), party_id=party.id, created_at=now, expires_at=expires)
        )
    return NewLogin(secret, Caller(party.id, party.name, cast("Role", party.role), has_login=True), expires)


def identify_login(agency: Agency, cookie: str) -> Caller | None:
    """Who sends a cookie; None if the login has ended."""
    if not cookie.isascii() or len(cookie) > 100:
        return None
    row = agency.database.look_up(_KNOWN, {"login": digest_of_secret(cookie)})
    if row is None or row.disabled_at is not None or row.expires_at <= agency.clock():
        return None
    return Caller(row.id, row.name, row.role, has_login=True)


def log_out(agency: Agency, cookie: str) -> None:
    """Ends a login."""
    with agency.database.writing() as session:
        session.execute(delete(Login).where(Login.digest == digest_of_secret(cookie)))


def cookie_name(settings: Settings) -> str:
    """The name of the cookie; over https one that no other host can set."""
    return "__Host-elldelta" if settings.behind_proxy else "elldelta"


def set_cookie(response: Response, settings: Settings, login: NewLogin) -> None:
    """Gives the browser the cookie of a login: no script sees it, no other site sends it with a form."""
    response.set_cookie(
        cookie_name(settings),
        login.cookie,
        max_age=int(settings.limits.session_hours * 3600),
        path="/",
        httponly=True,
        samesite="lax",
        secure=settings.behind_proxy,
    )


def clear_cookie(response: Response, settings: Settings) -> None:
    """Takes the cookie back."""
    response.delete_cookie(
        cookie_name(settings), path="/", httponly=True, samesite="lax", secure=settings.behind_proxy
    )
