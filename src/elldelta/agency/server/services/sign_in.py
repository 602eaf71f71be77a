"""How people sign in: with a password and, where it is set up, a code of their app; or at another service.

The cookie of a login is 256 random bits and kept as a digest. Attempts are limited by name and address
together, with a delay that grows: whoever guesses somebody's password from elsewhere does not keep them out.
Codes are limited by account, wherever they come from: only somebody with the right password can try them.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, select

from elldelta.agency.server.errors import ConflictError, NotLoggedInError, TooManyError
from elldelta.agency.server.passwords import digest_of_secret, is_password, new_password_hash, new_secret
from elldelta.agency.server.rights import Caller
from elldelta.agency.server.services.parties import find_party
from elldelta.agency.server.tables import Login, Party, is_name
from elldelta.agency.server.trail import network, write
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency

CODE_SECONDS = 30
"""How long a code of an app is shown; the one before and the one after it are accepted, too."""

APP_NAME = "elldelta agency"

_KNOWN_LOGIN = (
    select(Login.expires_at, Login.is_strong, Party.id, Party.name, Party.role, Party.disabled_at)
    .join(Party, Party.id == Login.party_id)
    .where(Login.digest == bindparam("login"))
)


@dataclass(frozen=True, repr=False)
class NewLogin:
    """A login that has just begun.

    Attributes:
        cookie: The secret that the browser keeps.
        caller: Who it is.
    """

    cookie: str
    caller: Caller


def log_in(agency: Agency, name: str, password: str, *, address: str, code: str = "") -> NewLogin:
    """Begins a login.

    Args:
        agency: The service.
        name: The name of the party.
        password: Its password.
        address: Where the attempt comes from.
        code: What its app shows, if it has one.

    Raises:
        NotLoggedInError: They do not belong together; it does not say which is wrong.
        TooManyError: There were too many attempts; it says how long to wait.
    """
    name = name if is_name(name) else ""  # nobody is called that, however it is spelt: one count for all
    key = _attempt(agency, name, address)
    with agency.database.reading() as session:
        party = session.scalars(select(Party).where(Party.name == name)).one_or_none()
    kept = None if party is None or party.disabled_at is not None else party.password_hash
    # Outside of the transaction: this is slow on purpose.
    is_right = is_password(password, kept) and party is not None
    with agency.database.writing() as session:
        still = None if party is None else session.get(Party, party.id, with_for_update=True)
        if is_right and still is not None and still.disabled_at is None and still.password_hash == kept:
            is_strong = still.totp_secret is not None
            if not is_strong or _takes_slowly(agency, still, code):
                write(session, agency, still.id, "signed in", "", address)
                agency.login_delay.succeeded(key)
                return _begun(session, agency, still, is_strong=is_strong)
        write(session, agency, None if party is None else party.id, "sign-in failed", "", address)
    raise NotLoggedInError("The name, the password or the code is wrong.")


def log_in_elsewhere(agency: Agency, subject: str, *, address: str) -> NewLogin:
    """Begins a login of somebody who has signed in at another service.

    Args:
        agency: The service.
        subject: What that service calls them.
        address: Where they come from.

    Raises:
        NotLoggedInError: Nobody here is known as that.
    """
    with agency.database.writing() as session:
        chosen = select(Party).where(Party.oidc_subject == subject).with_for_update()
        party = session.scalars(chosen).one_or_none()
        if party is not None and party.disabled_at is None:
            write(session, agency, party.id, "signed in elsewhere", "", address)
            return _begun(session, agency, party, is_strong=True)
        write(session, agency, None if party is None else party.id, "sign-in elsewhere failed", "", address)
    raise NotLoggedInError("You are signed in at the other service, but nobody here is known as you.")


def identify_login(agency: Agency, cookie: str) -> Caller | None:
    """Who sends a cookie; None if the login has ended."""
    if not cookie.isascii() or len(cookie) > 100:
        return None
    row = agency.database.look_up(_KNOWN_LOGIN, {"login": digest_of_secret(cookie)})
    if row is None or row.disabled_at is not None or row.expires_at <= agency.clock():
        return None
    return Caller(row.id, row.name, row.role, has_login=True, is_strong=bool(row.is_strong))


def log_out(agency: Agency, cookie: str) -> None:
    """Ends a login."""
    with agency.database.writing() as session:
        session.execute(delete(Login).where(Login.digest == digest_of_secret(cookie)))


def set_password(agency: Agency, name: str, password: str) -> None:
    """Gives a party another password, and ends all of its logins."""
    kept = new_password_hash(agency, password, name)
    with agency.database.writing() as session:
        party = find_party(session, name)
        party.password_hash = kept
        session.execute(delete(Login).where(Login.party_id == party.id))


def change_password(agency: Agency, caller: Caller, old: str, new: str, *, cookie: str, address: str) -> None:
    """Changes one's own password, and ends all other logins.

    Raises:
        ParameterError: The old one is wrong, or the new one cannot be used.
        TooManyError: The old one was wrong too often.
    """
    key = _attempt(agency, caller.name, address)
    with agency.database.reading() as session:
        kept = session.get_one(Party, caller.id).password_hash
    if not is_password(old, kept):
        raise ParameterError("The old password is wrong.", remedy="If you do not know it, ask the agency.")
    agency.login_delay.succeeded(key)
    fresh = new_password_hash(agency, new, caller.name)
    with agency.database.writing() as session:
        session.get_one(Party, caller.id, with_for_update=True).password_hash = fresh
        _end_others(session, caller, cookie)


def new_totp_secret() -> str:
    """A secret for an app that shows codes; it counts once a code has been given back."""
    import pyotp

    return pyotp.random_base32()


def is_totp_secret(text: str) -> bool:
    """Whether a text can be such a secret, in base 32."""
    return re.fullmatch("[A-Z2-7]{32}", text) is not None


def totp_address(caller: Caller, secret: str) -> str:
    """What an app reads instead of the secret that a person would have to type."""
    import pyotp

    return pyotp.TOTP(secret).provisioning_uri(name=caller.name, issuer_name=APP_NAME)


def set_second_factor(agency: Agency, caller: Caller, secret: str, code: str, *, cookie: str) -> None:
    """Begins to ask for codes of an app, once it has shown that it knows the secret; ends all other logins.

    Raises:
        ParameterError: The code is not the one of this secret.
        ConflictError: There is an app already: only somebody of the agency takes it away.
    """
    if not is_totp_secret(secret):
        raise ParameterError("The form is not complete.", remedy="Load the page again.")
    with agency.database.writing() as session:
        party = session.get_one(Party, caller.id, with_for_update=True)
        if party.totp_secret is not None:
            raise ConflictError(
                "You have a second factor already.", remedy="Let somebody of the agency take it away first."
            )
        party.totp_secret, party.totp_step = secret, None
        if not _takes_code(agency, party, code):
            raise ParameterError(
                "The code is not the one that the app should show.",
                remedy="Check the clock of the device, and type the code that is shown now.",
            )
        _end_others(session, caller, cookie)
        session.get_one(Login, digest_of_secret(cookie)).is_strong = True


def remove_second_factor(agency: Agency, name: str) -> None:
    """Takes a second factor away, for instance when a telephone was lost; all logins end."""
    with agency.database.writing() as session:
        party = find_party(session, name, lock=True)
        party.totp_secret = party.totp_step = None
        session.execute(delete(Login).where(Login.party_id == party.id))


def set_oidc_subject(agency: Agency, name: str, subject: str) -> None:
    """Says what another service calls somebody who may sign in there; nothing ends that.

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


def _attempt(agency: Agency, name: str, address: str) -> str:
    """Counts an attempt, and returns the key under which the delay of a name from an address is kept."""
    place = network(address)
    key = f"{place} {name}"
    agency.login_delay.begin(key)
    agency.by_login.take(f"address {place}")
    return key


def _takes_slowly(agency: Agency, party: Party, code: str) -> bool:
    """Whether a code is right, and does not come after too many wrong ones; nobody is told which."""
    if len("".join(code.split())) != 6:
        return False  # not a guess: it was left out, or something else was typed
    key = str(party.id)
    try:
        agency.code_delay.begin(key)
    except TooManyError:
        return False
    is_right = _takes_code(agency, party, code)
    if is_right:
        agency.code_delay.succeeded(key)
    return is_right


def _takes_code(agency: Agency, party: Party, code: str) -> bool:
    """Whether a code is right and was not used before; the row must be locked."""
    import pyotp

    digits = "".join(code.split())
    if party.totp_secret is None or len(digits) != 6 or not digits.isdecimal() or not digits.isascii():
        return False
    app, now = pyotp.TOTP(party.totp_secret, interval=CODE_SECONDS), agency.clock()
    present = int(now.timestamp()) // CODE_SECONDS
    for step in (present - 1, present, present + 1):
        is_new = party.totp_step is None or step > party.totp_step
        if is_new and app.verify(digits, for_time=dt.datetime.fromtimestamp(step * CODE_SECONDS, dt.UTC)):
            party.totp_step = step
            return True
    return False


def _end_others(session: Session, caller: Caller, cookie: str) -> None:
    own = digest_of_secret(cookie)
    session.execute(delete(Login).where(Login.party_id == caller.id, Login.digest != own))


def _begun(session: Session, agency: Agency, party: Party, *, is_strong: bool) -> NewLogin:
    """Adds a login, and removes those that have ended."""
    secret, now = new_secret(agency), agency.clock()
    expires = now + dt.timedelta(hours=agency.limits.session_hours)
    session.execute(delete(Login).where(Login.expires_at <= now))
    login = Login(
        digest=digest_of_secret(secret),
        party_id=party.id,
        created_at=now,
        expires_at=expires,
        is_strong=is_strong,
    )
    session.add(login)
    return NewLogin(secret, Caller(party.id, party.name, party.role, has_login=True, is_strong=is_strong))
