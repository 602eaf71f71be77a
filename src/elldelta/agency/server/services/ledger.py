"""The ledger of a plan: its lines as they were added, and what was registered with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from elldelta.agency.registration import Registered, Registration, ledger_chain, ledger_export
from elldelta.agency.server.services.plans import find_plan, load_plan
from elldelta.agency.server.tables import LedgerLine, Party
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.tables import Registration as RegistrationRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency
    from elldelta.ledger import LedgerChain


def export_ledger(agency: Agency, plan_digest: str) -> bytes:
    """The ledger of a plan as a file, byte for byte as `elldelta ledger verify` reads it."""
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        find_plan(session, plan_digest)
        return ledger_export(plan, _lines(session, plan_digest))


def show_ledger(agency: Agency, plan_digest: str) -> LedgerChain:
    """The ledger of a plan, understood and checked: entries, and the room that is left."""
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        return ledger_chain(plan, _lines(session, plan_digest))


def count_releases(agency: Agency, plan_digest: str) -> int:
    """How many releases were admitted under a plan."""
    with agency.database.reading() as session:
        return n_registered(session, plan_digest)


def n_registered(session: Session, plan_digest: str) -> int:
    """How many releases were admitted under a plan; lines are only ever added."""
    chosen = select(func.count()).select_from(LedgerLine).where(LedgerLine.plan_digest == plan_digest)
    return session.scalar(chosen) or 0


def registered_under(session: Session, agency: Agency, plan_digest: str) -> tuple[Registered, ...]:
    """The releases that were admitted under a plan, in the order of their lines."""
    return _registered(session, agency, _KEYS.where(LedgerLine.plan_digest == plan_digest))


def registered_elsewhere(
    session: Session, agency: Agency, population_id: int, plan_digest: str
) -> tuple[Registered, ...]:
    """The releases about the same people that were admitted under other plans, whether these still count."""
    other = _KEYS.join(PlanRow, PlanRow.digest == LedgerLine.plan_digest).where(
        PlanRow.population_id == population_id, LedgerLine.plan_digest != plan_digest
    )
    return _registered(session, agency, other)


_KEYS = select(LedgerLine.plan_digest, LedgerLine.sequence, LedgerLine.line).order_by(
    LedgerLine.plan_digest, LedgerLine.sequence
)


def _registered(session: Session, agency: Agency, chosen: Select[str, int, bytes]) -> tuple[Registered, ...]:
    """Releases. Their lines are read every time; what was registered with them is remembered."""
    found = []
    for plan_digest, sequence, line in session.execute(chosen).all():
        key = (plan_digest, sequence, line)
        found.append(agency.registered.get(key, partial(_load, session, agency, *key)))
    return tuple(found)


def _load(session: Session, agency: Agency, plan_digest: str, sequence: int, line: bytes) -> Registered:
    row = session.execute(
        select(RegistrationRow.document, Party.name)
        .join(Party, Party.id == RegistrationRow.party_id)
        .where(RegistrationRow.plan_digest == plan_digest, RegistrationRow.sequence == sequence)
    ).one()
    return Registered(load_plan(agency, plan_digest), row.name, Registration.from_bytes(row.document), line)


def _lines(session: Session, plan_digest: str) -> Sequence[bytes]:
    chosen = select(LedgerLine.line).where(LedgerLine.plan_digest == plan_digest)
    return session.scalars(chosen.order_by(LedgerLine.sequence)).all()
