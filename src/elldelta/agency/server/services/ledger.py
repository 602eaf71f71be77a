"""The ledger of a plan: its lines as they were added, what was registered with them, and the linkage audit.

The audit across the registered releases is exact, and computed once for every state of the ledger.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from elldelta.agency.admission import PlanState, ledger_chain, ledger_export, linked_numbers
from elldelta.agency.server.errors import ConflictError
from elldelta.agency.server.paging import Cursor, Page, read_page
from elldelta.agency.server.services.jobs import JobView, enqueue, last_done
from elldelta.agency.server.services.plans import load_plan, lock_plan
from elldelta.agency.server.services.publications import SEE_ALL, has_state, hidden_from, load_registered
from elldelta.agency.server.tables import LedgerLine
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.audit.measures import summarize
from elldelta.audit.overlay import Overlay
from elldelta.audit.shares import ClosenessLimit
from elldelta.files import digest, json_object
from elldelta.ledger import sealed_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.audit.result import Audit
    from elldelta.ledger import LedgerChain
    from elldelta.plan.plan import Plan
    from elldelta.release import Published


_LINES = select(LedgerLine.line).order_by(LedgerLine.sequence)


def export_ledger(agency: Agency, caller: Caller, plan_digest: str) -> bytes:
    """The ledger of a plan as a file that `elldelta ledger verify` reads; what is not published is sealed."""
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        lines = session.scalars(_LINES.where(LedgerLine.plan_digest == plan_digest)).all()
        hidden = hidden_from(session, caller, plan_digest)
    return ledger_export(plan, sealed_lines(lines, hidden) if hidden else lines)


def show_ledger(agency: Agency, caller: Caller, plan_digest: str) -> LedgerChain:
    """The ledger of a plan as the caller may see it, after checking every line of it.

    Raises:
        FileError: A line is not intact.
    """
    plan = load_plan(agency, plan_digest)
    with agency.database.reading() as session:
        lines = session.scalars(_LINES.where(LedgerLine.plan_digest == plan_digest)).all()
        hidden = hidden_from(session, caller, plan_digest)
    whole = ledger_chain(plan, lines)
    return ledger_chain(plan, sealed_lines(lines, hidden)) if hidden else whole


def first_line(agency: Agency, plan_digest: str) -> dict[str, Any]:
    """The first line of a ledger, which follows from its plan."""
    document: dict[str, Any] = json.loads(ledger_export(load_plan(agency, plan_digest), ()))
    return document


def list_lines(agency: Agency, caller: Caller, plan_digest: str, cursor: Cursor) -> Page[dict[str, Any]]:
    """The lines of a ledger as documents, whatever they say; of what is not published only hashes.

    What is no JSON is shown as damaged.
    """
    with agency.database.reading() as session:
        hidden = hidden_from(session, caller, plan_digest)

    def view(row: Row[bytes, int]) -> dict[str, Any]:
        damaged = {"kind": "damaged", "sequence": row.sequence, "owner": "", "hash": "", "previous": ""}
        line = json_object(row.line)
        if line is not None and row.sequence in hidden:
            line = {"kind": "sealed", **{name: line[name] for name in ("sequence", "hash", "previous")}}
        return line or damaged

    chosen = select(LedgerLine.line, LedgerLine.sequence).where(LedgerLine.plan_digest == plan_digest)
    return read_page(agency, chosen, cursor, LedgerLine.sequence, view=view)


def count_lines(agency: Agency, plan_digest: str) -> int:
    """How many lines a ledger has, without the first one; lines are only ever added."""
    chosen = select(func.count()).select_from(LedgerLine).where(LedgerLine.plan_digest == plan_digest)
    with agency.database.reading() as session:
        return session.scalar(chosen) or 0


def count_releases(agency: Agency, plan_digest: str) -> int:
    """How many releases were admitted under a plan, and not taken back."""
    chosen = select(func.count()).select_from(RegistrationRow)
    chosen = chosen.where(RegistrationRow.plan_digest == plan_digest, ~has_state("voided"))
    with agency.database.reading() as session:
        return session.scalar(chosen) or 0


def ask_audit(agency: Agency, caller: Caller, plan_digest: str) -> JobView:
    """The audit of what is there now: the job that has done it, or the one that will.

    For the agency and auditors of what is registered, for everybody else of what is published.

    Raises:
        ConflictError: There is nothing yet.
    """
    load_plan(agency, plan_digest)  # there must be one
    sees_all = caller.role in SEE_ALL
    chosen = select(RegistrationRow.sequence, has_state("published").label("is_published")).where(
        RegistrationRow.plan_digest == plan_digest, ~has_state("voided")
    )
    with agency.database.reading() as session:
        rows = session.execute(chosen.order_by(RegistrationRow.sequence)).all()
    releases = [row.sequence for row in rows if sees_all or row.is_published]
    if not releases:
        raise ConflictError(
            "There is nothing to link yet.",
            found=f"No release is {'registered' if sees_all else 'published'} under this plan.",
            remedy="Wait until owners have registered and published theirs.",
        )
    is_public = not sees_all or all(row.is_published for row in rows)
    linked = releases[-agency.limits.audit_releases :]
    arguments = {"plan": plan_digest, "linked": linked, "releases": len(releases), "is_public": is_public}
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


def run_audit(agency: Agency, plan_digest: str, linked: Sequence[int], releases: int) -> dict[str, Any]:
    """Links releases of a plan, by their numbers, as anybody who holds them could; of so many the newest."""
    plan = load_plan(agency, plan_digest)
    published: list[Published] = []
    places: dict[str, list[int]] = {}
    with agency.database.reading() as session:
        for number in linked:
            item = load_registered(session, plan, number)
            places.setdefault(item.owner, []).append(len(published))
            published.append(replace(item.published, name=f"{item.owner} ({number})"))
    series = list(places.values())
    first, *others = [_audited(plan, place, published, series) for place in range(len(plan.faces))]
    audit = replace(first, also=tuple(others))
    return {
        "plan": plan_digest,
        "releases": len(published),
        "registered": releases,
        "audit": audit.to_dict(labels=True),
    }


def _audited(
    plan: Plan, place: int, published: Sequence[Published], series: Sequence[Sequence[int]]
) -> Audit:
    """What linking releases tells about a sensitive column."""
    face = plan.faces[place]
    asked = None if face.closeness is None else ClosenessLimit.of(None, face)
    if plan.schema.also_sensitive:
        published = [item.for_column(place) for item in published]
    overlay = Overlay.from_published(published, face if asked else None)
    return summarize(overlay, face.ell, closeness=asked, judged=series)


def load_states(session: Session, agency: Agency, plan: Plan, population_id: int) -> list[PlanState]:
    """What deciding about a release of a plan must know of its ledger, first, and of those of other plans.

    By itself it may be old at once; whoever has locked the population can rely on it.

    Raises:
        LedgerDamagedError: A line, or a release, is not what it was.
    """
    others = session.scalars(
        select(LedgerLine.plan_digest)
        .join(PlanRow, PlanRow.digest == LedgerLine.plan_digest)
        .where(PlanRow.population_id == population_id, PlanRow.digest != plan.digest)
        .distinct()
        .order_by(LedgerLine.plan_digest)
    )
    plans = [plan, *(load_plan(agency, other) for other in others)]
    needed = linked_numbers(plans)
    return [_load_state(session, agency, each, needed) for each in plans]


def _load_state(session: Session, agency: Agency, plan: Plan, needed: frozenset[int]) -> PlanState:
    lines = session.scalars(_LINES.where(LedgerLine.plan_digest == plan.digest)).all()
    return PlanState.of(plan, lines, needed, lambda entry: load_registered(session, plan, entry.sequence))
