"""The ledger of a plan: its lines, what was registered with them, what owners say about it, and the audit.

A release is registered before it is published. Until its owner says that it is published, other owners and
clients see of it only that it is there, and the hash of its line, which holds a random nonce. An owner can
take back what it never published: that it never did rests on its word, which the ledger says.

The audit across the registered releases is exact, and computed once for every state of the ledger.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import func, select

from elldelta.agency.admission import (
    KnownLedger,
    LedgerDamagedError,
    check_subtraction,
    ledger_chain,
    ledger_export,
    subtracted,
    taken,
)
from elldelta.agency.linking import PlanReleases
from elldelta.agency.server.errors import ConflictError, required
from elldelta.agency.server.paging import Cursor, Page, read_page
from elldelta.agency.server.services.jobs import JobView, enqueue, last_done
from elldelta.agency.server.services.plans import find_plan, load_plan, lock_plan
from elldelta.agency.server.services.registered import (
    SEE_ALL,
    has_state,
    hidden_from,
    is_visible,
    load_all_registered,
    load_registered,
    registered_by,
)
from elldelta.agency.server.tables import LedgerLine, Population, Publication
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.agency.server.trail import add_audit_subject, skip_audit
from elldelta.agency.views import StateView, SubtractionView
from elldelta.audit.measures import summarize
from elldelta.audit.overlay import Overlay
from elldelta.audit.shares import ClosenessLimit
from elldelta.errors import RefusedError
from elldelta.files import digest, json_object
from elldelta.ledger import SealedLine, VoidLine, line_bytes, sealed_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency, Caller
    from elldelta.audit.result import Audit
    from elldelta.audit.subtraction import Subtraction
    from elldelta.ledger import LedgerChain
    from elldelta.plan.plan import Plan
    from elldelta.release import Published

MOST_LEDGERS = 64
"""Of so many plans a process keeps what it has read of their ledgers."""

_LINES = select(LedgerLine.line).order_by(LedgerLine.sequence)


def export_ledger(agency: Agency, caller: Caller, plan_digest: str) -> bytes:
    """The ledger of a plan as a file that `elldelta ledger verify` reads; what is not published is sealed."""
    lines, hidden = _stored_lines(agency, caller, plan_digest)
    return ledger_export(load_plan(agency, plan_digest), sealed_lines(lines, hidden) if hidden else lines)


def show_ledger(agency: Agency, caller: Caller, plan_digest: str) -> LedgerChain:
    """The ledger of a plan as the caller may see it, after checking every line of it.

    Raises:
        FileError: A line is not intact.
    """
    plan = load_plan(agency, plan_digest)
    lines, hidden = _stored_lines(agency, caller, plan_digest)
    try:
        whole = ledger_chain(plan, lines)
    except LedgerDamagedError:  # read again, before anybody is told to restore it
        lines, hidden = _stored_lines(agency, caller, plan_digest)
        whole = ledger_chain(plan, lines)
    return ledger_chain(plan, sealed_lines(lines, hidden)) if hidden else whole


def _stored_lines(agency: Agency, caller: Caller, plan_digest: str) -> tuple[Sequence[bytes], frozenset[int]]:
    """The lines of a ledger, and the numbers of those that the caller may not see."""
    with agency.database.reading() as session:
        lines = session.scalars(_LINES.where(LedgerLine.plan_digest == plan_digest)).all()
        return lines, hidden_from(session, caller, plan_digest)


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
            line = json_object(SealedLine.of(line).to_bytes(line["previous"]))
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
        for number, item in zip(linked, load_all_registered(session, plan, linked), strict=True):
            places.setdefault(item.owner, []).append(len(published))
            published.append(replace(item.published, name=f"{item.owner} ({number})"))
    series = list(places.values())
    first, *others = [_audited(plan, place, published, series) for place in range(len(plan.columns))]
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
    plan = plan.for_column(place)
    [column] = plan.columns
    asked = None if column.closeness is None else ClosenessLimit.of(None, plan)
    overlay = Overlay.from_published([item.for_column(place) for item in published], plan if asked else None)
    return summarize(overlay, column.ell, closeness=asked, judged=series)


def load_chain(session: Session, plan: Plan) -> LedgerChain:
    """The ledger of a plan; whoever has locked the population can rely on it.

    Raises:
        LedgerDamagedError: A line is not what it was.
    """
    return ledger_chain(plan, session.scalars(_LINES.where(LedgerLine.plan_digest == plan.digest)).all())


def follow_ledger(session: Session, agency: Agency, plan: Plan) -> KnownLedger:
    """The ledger of a plan, of which only new lines are read; the population must be locked.

    Raises:
        LedgerDamagedError: A line is not what it was; then all lines were read again.
    """
    known = agency.ledgers.pop(plan.digest, None)
    try:
        if known is None:
            raise LedgerDamagedError("Nothing is known yet.")
        _read_on(session, plan, known)
    except LedgerDamagedError:
        known = KnownLedger(plan)
        _read_on(session, plan, known)
    while len(agency.ledgers) >= MOST_LEDGERS:
        agency.ledgers.pop(next(iter(agency.ledgers)), None)
    agency.ledgers[plan.digest] = known
    return known


def _read_on(session: Session, plan: Plan, known: KnownLedger) -> None:
    """Reads what is new in a ledger."""
    chosen = select(LedgerLine.line, LedgerLine.hash).where(
        LedgerLine.plan_digest == plan.digest, LedgerLine.sequence >= known.n_lines - 1
    )
    rows = session.execute(chosen.order_by(LedgerLine.sequence)).all()
    n_read = min(1, known.n_lines - 1)
    if n_read and (not rows or rows[0].hash != known.head):
        raise LedgerDamagedError("The last line that was read is not there any more.")
    known.read(row.line for row in rows[n_read:])
    published = select(Publication.sequence).where(
        Publication.plan_digest == plan.digest,
        Publication.sequence.in_(known.waiting),
        Publication.state == "published",
    )
    known.publish(session.scalars(published).all())


def load_released(
    session: Session, agency: Agency, caller: Caller, plan: Plan, population_id: int
) -> tuple[tuple[PlanReleases, ...], int]:
    """What every plan for a population has released, this one first; nothing if no other plan has a line.

    And how many releases of others are not published; as long as there are any, nobody can use the rest.

    Raises:
        LedgerDamagedError: A line, or a release, is not what it was.
    """
    others = session.scalars(
        select(LedgerLine.plan_digest)
        .join(PlanRow, PlanRow.digest == LedgerLine.plan_digest)
        .where(PlanRow.population_id == population_id, PlanRow.digest != plan.digest)
        .distinct()
        .order_by(LedgerLine.plan_digest)
    ).all()
    if not others:
        return (), 0
    waiting = (
        select(func.count())
        .select_from(RegistrationRow)
        .join(PlanRow, PlanRow.digest == RegistrationRow.plan_digest)
        .where(PlanRow.population_id == population_id, ~is_visible(caller), ~has_state("voided"))
    )
    n_waiting = session.scalar(waiting) or 0
    plans = [] if n_waiting else [plan, *(load_plan(agency, other) for other in others)]
    released = (
        PlanReleases.of(
            each,
            list(
                load_all_registered(
                    session, each, [line.sequence for line in load_chain(session, each).active]
                )
            ),
        )
        for each in plans
    )
    return tuple(released), n_waiting


def is_taken(session: Session, caller: Caller, population_id: int, content_digest: str) -> bool:
    """Whether another owner has published this content, under any plan for these people."""
    chosen = select(RegistrationRow.sequence).join(PlanRow, PlanRow.digest == RegistrationRow.plan_digest)
    chosen = chosen.where(
        PlanRow.population_id == population_id,
        RegistrationRow.content_digest == content_digest,
        RegistrationRow.party_id != caller.id,
        has_state("published"),
    )
    return session.execute(chosen.limit(1)).first() is not None


def lock_population(session: Session, population_id: int) -> None:
    """Nobody else decides about a release of these people until this transaction ends."""
    chosen = select(Population.id).where(Population.id == population_id)
    session.execute(chosen.with_for_update(key_share=True))


def report_state(
    agency: Agency,
    caller: Caller,
    plan_digest: str,
    content_digest: str,
    state: Literal["published", "voided"],
) -> StateView:
    """Notes what an owner says about its release; saying it again changes nothing.

    An owner that publishes is told what subtracting its release from those of others may isolate.

    Raises:
        NotFoundError: The caller has registered no such release under this plan.
        ConflictError: It has said the opposite before; or, subtracted from what others have published in the
            meantime, the release may isolate people: then it must not be published.
    """
    compared: frozenset[int] = frozenset()
    found = StateView(plan=plan_digest, content_digest=content_digest, state=state)
    if state == "published":
        with agency.database.reading() as session:  # most of the work, while nobody waits for it
            row = session.scalars(registered_by(caller, plan_digest, content_digest)).one_or_none()
            if row is not None and row.state == "registered":
                compared = _compared(session, agency, row)
                subtraction = _subtracted(session, agency, row)
                view = SubtractionView(status=subtraction.status, words=subtraction.words)
                found = found.model_copy(update={"subtraction": view})
    with agency.database.writing() as session:
        population_id = find_plan(session, plan_digest).population_id
        lock_population(session, population_id)
        lock_plan(session, plan_digest)
        found_row = session.scalars(registered_by(caller, plan_digest, content_digest)).one_or_none()
        row = required(found_row, "release")
        if row.state == state:
            skip_audit()
            return found
        if row.state != "registered":
            raise ConflictError(
                f"You have said before that this release is {row.state}.",
                found="What was published stays published, and what was taken back cannot be published.",
                remedy="Register another release."
                if row.state == "voided"
                else "Nothing can be done; it counts for ever.",
            )
        if state == "published":
            if is_taken(session, caller, population_id, content_digest):
                refusal = taken()
                raise ConflictError(refusal.problem, found=refusal.found, remedy=refusal.remedy)
            _compared(session, agency, row, compared)
        else:
            _check_last(session, row)
        add_audit_subject(state)
        now = agency.clock()
        session.add(Publication(plan_digest=plan_digest, sequence=row.sequence, state=state, stated_at=now))
        if state == "voided":
            _take_back(session, agency, row)
        return found


def _compared(
    session: Session, agency: Agency, row: RegistrationRow, before: frozenset[int] = frozenset()
) -> frozenset[int]:
    """Refuses to publish what isolates people when it is subtracted from what is published.

    Returns the lines that it was compared with; those from before are not compared again.

    Here, and not when it is registered: whoever is refused because of a release that nobody sees yet could
    find out its counts by trying.
    """
    plan = load_plan(agency, row.plan_digest)
    others = session.scalars(
        select(RegistrationRow.sequence)
        .where(
            RegistrationRow.plan_digest == row.plan_digest,
            RegistrationRow.party_id != row.party_id,  # its own were judged with it
            RegistrationRow.grouping != row.grouping,
            has_state("published"),
        )
        .order_by(RegistrationRow.sequence)
    ).all()
    new = list(load_all_registered(session, plan, [other for other in others if other not in before]))
    try:
        if new:
            release = load_registered(session, plan, row.sequence)
            check_subtraction(plan, release.published, new, owner=release.owner)
    except RefusedError as error:
        raise ConflictError(
            error.problem,
            found=error.found,
            remedy="Do not publish it, and take it back. Owners who share people use a plan with fixed "
            "classes.",
        ) from None
    return frozenset(others)


def _subtracted(session: Session, agency: Agency, row: RegistrationRow) -> Subtraction:
    """What subtracting a release from those that others have published may isolate, under all plans."""
    plan = load_plan(agency, row.plan_digest)
    release = load_registered(session, plan, row.sequence)
    others = session.execute(
        select(RegistrationRow.plan_digest, RegistrationRow.sequence)
        .join(PlanRow, PlanRow.digest == RegistrationRow.plan_digest)
        .where(
            PlanRow.population_id == find_plan(session, row.plan_digest).population_id,
            RegistrationRow.party_id != row.party_id,
            has_state("published"),
        )
        .order_by(RegistrationRow.plan_digest, RegistrationRow.sequence)
    ).all()
    loaded = (
        item
        for digest, rows in groupby(others, key=lambda other: other.plan_digest)
        for item in load_all_registered(
            session, load_plan(agency, digest), [other.sequence for other in rows]
        )
    )
    return subtracted(plan, replace(release.published, name="your release"), loaded)


def _check_last(session: Session, row: RegistrationRow) -> None:
    """Refuses to take back what a later release of the same table was compared with."""
    later = select(RegistrationRow.sequence).where(
        RegistrationRow.plan_digest == row.plan_digest,
        RegistrationRow.party_id == row.party_id,
        RegistrationRow.sequence > row.sequence,
        ~has_state("voided"),
    )
    if "update" in row.facts and session.scalars(later.limit(1)).first() is not None:
        raise ConflictError(
            "A later release of the same table was compared with this one.",
            found="Nobody has judged what it shows beside the one before.",
            remedy="Take the later ones back first, if none of them was published.",
        )


def _take_back(session: Session, agency: Agency, row: RegistrationRow) -> None:
    """Adds the line that takes a release back on the word of its owner, whom the sealed line names."""
    last = session.scalars(
        select(LedgerLine.line)
        .where(LedgerLine.plan_digest == row.plan_digest)
        .order_by(LedgerLine.sequence.desc())
        .limit(1)
    ).one()
    before = json.loads(last)
    number = before["sequence"] + 1
    void = VoidLine(number, row.sequence)
    line, line_hash = line_bytes(void.to_dict(), before["hash"])
    session.add(
        LedgerLine(
            plan_digest=row.plan_digest, sequence=number, hash=line_hash, line=line, added_at=agency.clock()
        )
    )
