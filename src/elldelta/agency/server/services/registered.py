"""Registered releases in the database: who may see them, and what was registered."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Literal

import numpy as np
from sqlalchemy import exists, select, true

from elldelta.agency.admission import LedgerDamagedError, Registered
from elldelta.agency.server.tables import AGENCY, AUDITOR, LedgerLine, Party, Publication
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.core.distribution import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Caller
    from elldelta.plan.plan import Plan

MOST_LOADED = 64
"""So many releases are read from the database at a time."""

SEE_ALL = frozenset({AGENCY, AUDITOR})


def has_state(state: Literal["published", "voided"]) -> ColumnElement[bool]:
    """Whether the owner of a registration has said this about it."""
    return exists().where(
        Publication.plan_digest == RegistrationRow.plan_digest,
        Publication.sequence == RegistrationRow.sequence,
        Publication.state == state,
    )


def is_visible(caller: Caller) -> ColumnElement[bool]:
    """Which registrations a caller may see: what was published and its own; the agency and auditors all."""
    if caller.role in SEE_ALL:
        return true()
    return has_state("published") | (RegistrationRow.party_id == caller.id)


def hidden_from(session: Session, caller: Caller, plan_digest: str) -> frozenset[int]:
    """The lines of a ledger that a caller may not see."""
    here = RegistrationRow.plan_digest == plan_digest
    return frozenset(session.scalars(select(RegistrationRow.sequence).where(here, ~is_visible(caller))))


def registered_by(caller: Caller, plan_digest: str, content_digest: str) -> Select[RegistrationRow]:
    """The release of this content that a caller has registered under a plan, if it has."""
    return select(RegistrationRow).where(
        RegistrationRow.plan_digest == plan_digest,
        RegistrationRow.party_id == caller.id,
        RegistrationRow.content_digest == content_digest,
    )


def load_registered(session: Session, plan: Plan, sequence: int) -> Registered:
    """A release that was admitted."""
    [found] = load_all_registered(session, plan, [sequence])
    return found


def load_all_registered(session: Session, plan: Plan, numbers: Sequence[int]) -> Iterator[Registered]:
    """Releases of a plan that were admitted, some at a time, by the numbers of their lines in order.

    Raises:
        LedgerDamagedError: One of them is not there any more.
    """
    chosen = (
        select(LedgerLine.line, RegistrationRow.counts, Party.name)
        .join(
            RegistrationRow,
            (RegistrationRow.plan_digest == LedgerLine.plan_digest)
            & (RegistrationRow.sequence == LedgerLine.sequence),
        )
        .join(Party, Party.id == RegistrationRow.party_id)
        .where(LedgerLine.plan_digest == plan.digest)
        .order_by(LedgerLine.sequence)
    )
    for begin in range(0, len(numbers), MOST_LOADED):
        asked = numbers[begin : begin + MOST_LOADED]
        rows = session.execute(chosen.where(LedgerLine.sequence.in_(asked))).all()
        if len(rows) != len(asked):
            raise LedgerDamagedError(
                "A registered release is not there any more.",
                found="Its line is there, or its counts, and not both.",
                remedy="Restore the database from a copy.",
            )
        for row in rows:
            yield Registered(plan, row.name, row.line, unpacked(row.counts, plan.schema.n_values))


def packed(counts: NDArray[np.int64]) -> bytes:
    """Counts as they are stored."""
    return zlib.compress(counts.astype("<i8").tobytes())


def unpacked(content: bytes, n_values: int) -> NDArray[np.int64]:
    """What `packed` has made.

    Raises:
        LedgerDamagedError: It is something else.
    """
    try:
        return frozen(np.frombuffer(zlib.decompress(content), dtype="<i8").reshape(-1, n_values), np.int64)
    except (zlib.error, ValueError):
        raise LedgerDamagedError(
            "The counts of a registered release cannot be read.",
            found="They are not what was stored.",
            remedy="Restore the database from a copy.",
        ) from None
