"""The ledger of a plan: its lines as they were added, what was registered with them, and the linkage audit.

The audit across the registered releases is exact, and computed once for every state of the ledger.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from elldelta.agency.registration import Registered, Registration, ledger_chain, ledger_export
from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.paging import Part, Window, read_part
from elldelta.agency.server.services.jobs import JobView, enqueue, last_done
from elldelta.agency.server.services.plans import load_plan, lock_plan
from elldelta.agency.server.tables import LedgerLine, Party
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.audit.evidence import Evidence
from elldelta.audit.measures import summarize
from elldelta.files import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.ledger import LedgerChain

_KEYS = select(LedgerLine.plan_digest, LedgerLine.sequence, LedgerLine.line).order_by(
    LedgerLine.plan_digest, LedgerLine.sequence
)


def export_ledger(agency: Agency, plan_digest: str) -> bytes:
    """The ledger of a plan as a file, byte for byte as `elldelta ledger verify` reads it."""
    return ledger_export(load_plan(agency, plan_digest), _lines(agency, plan_digest))


def show_ledger(agency: Agency, plan_digest: str) -> LedgerChain:
    """The ledger of a plan, understood and checked: entries, and the room that is left."""
    return ledger_chain(load_plan(agency, plan_digest), _lines(agency, plan_digest))


def first_line(agency: Agency, plan_digest: str) -> dict[str, Any]:
    """The first line of a ledger, which follows from its plan."""
    document: dict[str, Any] = json.loads(ledger_export(load_plan(agency, plan_digest), ()))
    return document


def list_lines(agency: Agency, plan_digest: str, window: Window) -> Part[dict[str, Any]]:
    """The lines of admitted releases as documents, whatever they say."""
    chosen = select(LedgerLine.line).where(LedgerLine.plan_digest == plan_digest)
    return read_part(agency, chosen, window, LedgerLine.sequence, view=lambda row: json.loads(row.line))


def count_releases(agency: Agency, plan_digest: str) -> int:
    """How many releases were admitted under a plan; lines are only ever added."""
    chosen = select(func.count()).select_from(LedgerLine).where(LedgerLine.plan_digest == plan_digest)
    with agency.database.reading() as session:
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


def ask_audit(agency: Agency, caller: Caller, plan_digest: str) -> JobView:
    """The audit of what is registered now: the job that has done it, or the one that will.

    Raises:
        ConflictError: Nothing is registered yet.
    """
    load_plan(agency, plan_digest)  # there must be one
    releases = count_releases(agency, plan_digest)
    if not releases:
        raise ConflictError(
            "There is nothing to link yet.",
            found="No release is registered under this plan.",
            remedy="Wait until owners have registered theirs.",
        )
    arguments = {"plan": plan_digest, "releases": releases}
    subject = digest({"kind": "audit", **arguments})
    with agency.database.reading() as session:
        done = last_done(session, subject)
    if done is not None:
        return done
    with agency.database.writing() as session:
        lock_plan(session, plan_digest)  # of several who ask at the same time one begins the job
        return last_done(session, subject) or enqueue(
            session, agency, caller, "audit", subject, arguments, plan_digest=plan_digest
        )


def run_audit(agency: Agency, plan_digest: str, releases: int) -> dict[str, Any]:
    """Links the first so many releases of a plan as anybody who holds them could."""
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        entries = registered_under(session, agency, plan_digest)[:releases]
    published = [
        replace(item.published, name=f"{item.owner} ({number})") for number, item in enumerate(entries, 1)
    ]
    audit = summarize(Evidence.from_published(published), plan.ell)
    return {"plan": plan_digest, "releases": len(entries), "audit": audit.to_dict(labels=True)}


def _registered(session: Session, agency: Agency, chosen: Select[str, int, bytes]) -> tuple[Registered, ...]:
    """Releases. Their lines are read every time; what was registered with them is cached."""
    return tuple(
        agency.registered.get((plan, number, line), partial(_load, session, agency, plan, number, line))
        for plan, number, line in session.execute(chosen).all()
    )


def _load(session: Session, agency: Agency, plan_digest: str, sequence: int, line: bytes) -> Registered:
    row = session.execute(
        select(RegistrationRow.document, Party.name)
        .join(Party, Party.id == RegistrationRow.party_id)
        .where(RegistrationRow.plan_digest == plan_digest, RegistrationRow.sequence == sequence)
    ).one()
    return Registered(load_plan(agency, plan_digest), row.name, Registration.from_bytes(row.document), line)


def _lines(agency: Agency, plan_digest: str) -> Sequence[bytes]:
    chosen = select(LedgerLine.line).where(LedgerLine.plan_digest == plan_digest)
    with agency.database.reading() as session:
        return session.scalars(chosen.order_by(LedgerLine.sequence)).all()
