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
class _Deed:
    """What the present request does; written down with what it changes first."""

    agency: Agency
    party_id: int | None
    action: str
    subject: str
    address: str
    is_written: bool = False


_DEED: ContextVar[_Deed | None] = ContextVar("elldelta_deed", default=None)


@contextlib.contextmanager
def deed(agency: Agency, party_id: int | None, action: str, subject: str, address: str) -> Iterator[None]:
    """Names what is done within: the first transaction that writes writes it down, too."""
    token = _DEED.set(_Deed(agency, party_id, action, subject, address))
    try:
        yield
    finally:
        _DEED.reset(token)


def about(*subjects: str | int) -> None:
    """Adds to what the present deed is about: names and numbers that its address does not hold."""
    own = _DEED.get()
    if own is not None:
        own.subject = " ".join(filter(None, (own.subject, *map(str, subjects))))


def nothing_done() -> None:
    """Says that the present deed changes nothing, for instance because it was done before: no entry."""
    own = _DEED.get()
    if own is not None:
        own.is_written = True


def witness(session: Session) -> None:
    """Adds the entry of the present deed to a transaction, once; called before every commit that writes."""
    own = _DEED.get()
    if own is None or own.is_written:
        return

    def written(_: Session) -> None:
        own.is_written = True

    event.listen(session, "after_commit", written, once=True)
    write(session, own.agency, own.party_id, own.action, own.subject, own.address)


def write(
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
