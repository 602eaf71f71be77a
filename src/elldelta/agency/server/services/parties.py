"""Parties: agency staff, owners, clients and auditors."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError

from elldelta.agency.server.errors import ConflictError, NotFoundError
from elldelta.agency.server.rights import AGENCY, ROLES, Role
from elldelta.agency.server.secret_values import check_new_password, hash_password
from elldelta.agency.server.services.names import check_name
from elldelta.agency.server.services.paging import BEGINNING, Order, Window, read_part
from elldelta.agency.server.tables import Login, Party
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.services.paging import Part
    from elldelta.agency.server.state import Agency


@dataclass(frozen=True)
class PartyView:
    """A party, as the agency sees it."""

    name: str
    role: Role
    has_password: bool
    created: dt.datetime
    disabled: dt.datetime | None


def create_party(agency: Agency, name: str, role: Role, password: str | None = None) -> PartyView:
    """Adds a party.

    Raises:
        ParameterError: The name, the role or the password cannot be used.
        ConflictError: There is a party of this name.
    """
    check_name("a party", name)
    if role not in ROLES:
        raise ParameterError(f"A role is one of {', '.join(ROLES)}.")
    kept = None if password is None else hash_password(check_new_password(password))
    party = Party(name=name, role=role, password_hash=kept, created_at=agency.clock())
    try:
        with agency.database.writing() as session:
            session.add(party)
            session.flush()
            return _view(party)
    except IntegrityError:
        pass
    raise ConflictError("There is a party of this name already.", remedy="Choose another name.")


def list_parties(agency: Agency, window: Window = BEGINNING) -> Part[PartyView]:
    """All parties, by name."""
    with agency.database.reading() as session:
        return read_part(
            session,
            select(Party),
            Order(Party.name),
            window,
            most=agency.limits.page_size,
            view=lambda row: _view(row.Party),
        )


def show_party(agency: Agency, name: str) -> PartyView:
    """One party."""
    with agency.database.reading() as session:
        return _view(find_party(session, name))


def set_password(agency: Agency, name: str, password: str) -> None:
    """Gives a party another password, and ends all of its logins."""
    kept = hash_password(check_new_password(password))
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
        return _view(party)


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


def _view(party: Party) -> PartyView:
    return PartyView(
        name=party.name,
        role=cast("Role", party.role),
        has_password=party.password_hash is not None,
        created=party.created_at,
        disabled=party.disabled_at,
    )
