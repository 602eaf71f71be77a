"""Releases that were admitted, as they are stored: their counts, and those that were published."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import select

from elldelta.agency.admission import LedgerDamagedError, Registered
from elldelta.agency.server.tables import LedgerLine, Party
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.core.distribution import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency
    from elldelta.plan.plan import Plan


def load_registered(session: Session, agency: Agency, plan: Plan, sequence: int) -> Registered:
    """A release that was admitted. What was registered never changes, and is cached by its line."""
    chosen = (LedgerLine.plan_digest == plan.digest) & (LedgerLine.sequence == sequence)
    line = session.scalars(select(LedgerLine.line).where(chosen)).one()

    def load() -> Registered:
        row = session.execute(
            select(RegistrationRow.counts, Party.name)
            .join(Party, Party.id == RegistrationRow.party_id)
            .where(RegistrationRow.plan_digest == plan.digest, RegistrationRow.sequence == sequence)
        ).one()
        return Registered(plan, row.name, line, unpacked(row.counts, plan.schema.n_values))

    return agency.registered.get((plan.digest, sequence, line), load)


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
