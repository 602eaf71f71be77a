"""The trail: who did what and when, in the transaction in which it happened, and never changed afterwards.

A request that changes something leaves one entry, by whatever it changes first: what is committed without its
entry does not exist. Sign-ins leave an entry. An entry names routes, names and numbers; nothing that somebody
typed, which might be a token in the wrong field.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import event

from elldelta.agency.server.tables import TrailEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency

_MOST_SUBJECT = 200


@dataclass
class _AuditedAction:
    """What the present request does; written down with what it changes first."""

    agency: Agency
    party_id: int | None
    action: str
    subject: str
    address: str
    is_written: bool = False


_ACTION: ContextVar[_AuditedAction | None] = ContextVar("elldelta_action", default=None)


@contextlib.contextmanager
def audited_action(
    agency: Agency, party_id: int | None, action: str, subject: str, address: str
) -> Iterator[None]:
    """Names what is done within: the first transaction that writes writes it down, too."""
    token = _ACTION.set(_AuditedAction(agency, party_id, action, subject, address))
    try:
        yield
    finally:
        _ACTION.reset(token)


def add_audit_subject(*subjects: str | int) -> None:
    """Adds to what the present action is about: names and numbers that its address does not hold."""
    action = _ACTION.get()
    if action is not None:
        action.subject = " ".join(filter(None, (action.subject, *map(str, subjects))))


def skip_audit() -> None:
    """Says that the present action changes nothing, for instance because it was done before: no entry."""
    action = _ACTION.get()
    if action is not None:
        action.is_written = True


def write_audit_entry(session: Session) -> None:
    """Adds the entry of the present action to a transaction, once; called before every commit that writes."""
    action = _ACTION.get()
    if action is None or action.is_written:
        return

    def written(_: Session) -> None:
        action.is_written = True

    event.listen(session, "after_commit", written, once=True)
    add_entry(session, action.agency, action.party_id, action.action, action.subject, action.address)


def add_entry(
    session: Session, agency: Agency, party_id: int | None, action: str, subject: str, address: str
) -> None:
    """Adds an entry to a transaction."""
    session.add(
        TrailEntry(
            at=agency.clock(),
            party_id=party_id,
            action=action[:100],
            subject=subject[:_MOST_SUBJECT],
            address=address[:64],
        )
    )
    session.flush()
