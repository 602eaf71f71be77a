"""Registering a release: everything is checked again, and it is admitted in one transaction or not at all.

What follows from the registration and its plan is checked first. Then whoever registers is alone: the
population is locked (releases of all of its plans are linked with each other), the release is judged against
all lines that there are, and its line and its counts are written in one commit. The number of a line is
unique, so even a mistake in the locking could not admit two releases in one place.

A release is known by its content: whoever sends it again is told its line again.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import AliasPath, Field
from sqlalchemy import delete, func, select

from elldelta.agency.admission import AdmissionContext, check_registration, grouping_digest
from elldelta.agency.receipt import sign_admission
from elldelta.agency.registration import Registration, changes_of, validate_registration
from elldelta.agency.server.errors import ConflictError, TooManyError, required
from elldelta.agency.server.paging import FIRST_PAGE, Cursor, Page, read_page
from elldelta.agency.server.services.ledger import follow_ledger, is_taken, load_released, lock_population
from elldelta.agency.server.services.plans import find_plan, load_plan, lock_plan, require_issued
from elldelta.agency.server.services.registered import (
    has_state,
    is_visible,
    load_registered,
    packed,
    registered_by,
)
from elldelta.agency.server.tables import OWNER, LedgerLine, Publication, Refusal
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.agency.server.trail import skip_audit
from elldelta.agency.views import Admitted, ReleaseView, View
from elldelta.errors import RefusedError
from elldelta.ledger import new_nonce
from elldelta.release.content import diversities_by_column

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from elldelta.agency.admission import Registered
    from elldelta.agency.registration import ValidatedRelease
    from elldelta.agency.server.state import Agency, Caller
    from elldelta.errors import ElldeltaError
    from elldelta.ledger import LedgerEntry
    from elldelta.plan.plan import Plan


DAY = dt.timedelta(days=1)


class RefusalView(View):
    """A registration that was refused."""

    id: int
    owner: str = Field(validation_alias=AliasPath("party", "name"))
    problem: str
    found: str
    refused: dt.datetime = Field(validation_alias="refused_at")


def register_release(agency: Agency, caller: Caller, plan_digest: str, content: bytes) -> Admitted:
    """Admits a release or refuses it; one that this owner has registered before has its line.

    Args:
        agency: The service.
        caller: The owner.
        plan_digest: The plan that the release follows.
        content: The registration, as it was sent.

    Raises:
        InputError: The registration is malformed or is not what it says; nothing is kept of it.
        RefusedError: It is not admitted; the refusal is kept.
        ConflictError: The plan does not count any more, or the owner has taken the release back.
        TooManyError: Too many of the owner's were refused or taken back; nothing is looked at or kept.
    """
    plan = load_plan(agency, plan_digest)
    registration = Registration.from_bytes(content)
    with agency.database.reading() as session:
        _check_quota(session, agency, caller, registration)
    examined: ValidatedRelease | RefusedError
    try:
        examined = validate_registration(plan, registration, owner=caller.name)
    except RefusedError as error:
        examined = error
    with agency.database.writing() as session:
        population = find_plan(session, plan_digest).population
        lock_population(session, population.id)
        _check_quota(session, agency, caller, registration)
        refusal: ElldeltaError
        try:
            entry, is_new = _decided(session, agency, caller, plan, registration, examined)
        except (RefusedError, ConflictError) as error:
            _keep_refusal(session, agency, caller, registration, population.id, error)
            refusal = error
        else:
            return _admitted(agency, caller, plan_digest, population.name, entry, entry.hash, is_new=is_new)
    raise refusal


def show_receipt(agency: Agency, caller: Caller, plan_digest: str, content_digest: str) -> Admitted:
    """The receipt of a release that the caller has registered, however long ago, signed with the present key.

    Raises:
        NotFoundError: The caller has registered no such release under this plan.
        ConflictError: It has taken it back.
    """
    with agency.database.reading() as session:
        population = find_plan(session, plan_digest).population.name
        row = required(_own_row(session, caller, plan_digest, content_digest), "release")
        return _admitted(agency, caller, plan_digest, population, row, row.line.hash, is_new=False)


def list_releases(
    agency: Agency, caller: Caller, plan_digest: str, cursor: Cursor = FIRST_PAGE, *, owner: str | None = None
) -> Page[ReleaseView]:
    """The releases of a plan, or of one owner, that a caller may see, in the order of their lines."""
    load_plan(agency, plan_digest)  # there must be one
    chosen = select(RegistrationRow).where(RegistrationRow.plan_digest == plan_digest, is_visible(caller))
    if owner is not None:
        chosen = chosen.where(RegistrationRow.party.has(name=owner))
    return read_page(agency, chosen, cursor, RegistrationRow.sequence, view=ReleaseView.of_row)


def count_series(agency: Agency, population: str) -> tuple[int, int]:
    """How many owners have published a table about these people again, and how often together."""
    chosen = (
        select(func.count(RegistrationRow.party_id.distinct()), func.count())
        .join(PlanRow, PlanRow.digest == RegistrationRow.plan_digest)
        .where(PlanRow.population.has(name=population), has_state("published"))
        .where(RegistrationRow.facts["updates"].as_integer().is_not(None))
    )
    with agency.database.reading() as session:
        n_owners, n_updates = session.execute(chosen).one()
    return n_owners, n_updates


def list_refusals(
    agency: Agency, caller: Caller, plan_digest: str, cursor: Cursor = FIRST_PAGE
) -> Page[RefusalView]:
    """Registrations that were refused, the newest first; an owner sees its own."""
    load_plan(agency, plan_digest)  # there must be one
    chosen = select(Refusal).where(Refusal.plan_digest == plan_digest)
    if caller.role == OWNER:
        chosen = chosen.where(Refusal.party_id == caller.id)
    return read_page(agency, chosen, cursor, Refusal.id, view=RefusalView.of_row, descending=True)


def _admitted(
    agency: Agency,
    caller: Caller,
    plan_digest: str,
    population: str,
    entry: RegistrationRow | LedgerEntry,
    line_hash: str,
    *,
    is_new: bool,
) -> Admitted:
    """What an owner is told about a release that has its line, signed with the agency's present key."""
    named = {
        "plan": plan_digest,
        "population": population,
        "owner": caller.name,
        "content_digest": entry.content_digest,
        "sequence": entry.sequence,
        "hash": line_hash,
    }
    return Admitted(is_new=is_new, **sign_admission(agency.key, named))


def _own_row(
    session: Session, caller: Caller, plan_digest: str, content_digest: str
) -> RegistrationRow | None:
    """This owner's release of this content, if it has its line: also if the plan counts no longer.

    Raises:
        ConflictError: It has taken it back.
    """
    row = session.scalars(registered_by(caller, plan_digest, content_digest)).one_or_none()
    if row is not None and row.state == "voided":
        raise ConflictError(
            "You have taken this release back.",
            found="Its line does not count any more, on your word that it was never published.",
            remedy="Make a release of other records, and register that.",
        )
    return row


def _check_quota(session: Session, agency: Agency, caller: Caller, registration: Registration) -> None:
    """Refuses to look at one more release of an owner who has tried many, but for what it has registered.

    What an owner can add to ledger, trail and database by trying has a limit, too.
    """
    plan_digest, since = registration.plan_digest, agency.clock() - DAY
    if session.scalars(registered_by(caller, plan_digest, registration.content_digest)).first() is not None:
        return
    refused = select(Refusal.refused_at).where(
        Refusal.plan_digest == plan_digest, Refusal.party_id == caller.id, Refusal.refused_at > since
    )
    voided = (
        select(Publication.stated_at)
        .join(RegistrationRow, RegistrationRow.sequence == Publication.sequence)
        .where(
            Publication.plan_digest == plan_digest,
            RegistrationRow.plan_digest == plan_digest,
            RegistrationRow.party_id == caller.id,
            Publication.state == "voided",
            Publication.stated_at > since,
        )
    )
    times = [*session.scalars(refused), *session.scalars(voided)]
    if len(times) >= agency.limits.refusals_daily:
        raise TooManyError(
            "Too many of your registrations under this plan were refused or taken back.",
            found=f"{len(times)} within 24 hours, and nobody may have more.",
            remedy="Try again later. 'elldelta verify' and a copy of the agency's ledger tell on your own "
            "machine whether a release will be admitted.",
            retry_after=max(1, int((min(times) - since).total_seconds())),
        )


def _decided(
    session: Session,
    agency: Agency,
    caller: Caller,
    plan: Plan,
    registration: Registration,
    examined: ValidatedRelease | RefusedError,
) -> tuple[LedgerEntry, bool]:
    """Judges a release against everything that is registered, and adds it; its line, and whether it is new.

    Raises:
        RefusedError: It is not admitted.
        ConflictError: The plan does not count any more, or the owner has taken the release back.
    """
    row = lock_plan(session, plan.digest)
    if _own_row(session, caller, plan.digest, registration.content_digest) is None:
        require_issued(row)
    if isinstance(examined, RefusedError):
        raise examined
    context = _admission_context(session, agency, caller, plan, row.population_id, examined)
    admission = check_registration(examined, context, owner=caller.name, nonce=new_nonce())
    if admission.is_new:
        _add(session, agency, caller, plan, admission.entry, admission.line, examined)
    else:
        skip_audit()
    return admission.entry, admission.is_new


def _admission_context(
    session: Session,
    agency: Agency,
    caller: Caller,
    plan: Plan,
    population_id: int,
    examined: ValidatedRelease,
) -> AdmissionContext:
    """What is registered, as far as it matters for this release."""
    here = select(RegistrationRow.plan_digest, RegistrationRow.sequence).join(
        PlanRow, PlanRow.digest == RegistrationRow.plan_digest
    )
    here = here.where(PlanRow.population_id == population_id)
    is_mine = RegistrationRow.party_id == caller.id
    is_own, is_here = is_mine & ~has_state("voided"), RegistrationRow.plan_digest == plan.digest
    is_same = RegistrationRow.content_digest == examined.content_digest

    def found(which: ColumnElement[bool]) -> list[Registered]:
        rows = session.execute(here.where(which).order_by(RegistrationRow.sequence)).all()
        return [load_registered(session, load_plan(agency, other), number) for other, number in rows]

    released, n_waiting = load_released(session, agency, caller, plan, population_id)
    ledger = follow_ledger(session, agency, plan)
    newest = select(func.max(RegistrationRow.sequence)).where(is_own, is_here).scalar_subquery()
    is_other = RegistrationRow.grouping != grouping_digest(examined.merged)
    known = found(is_own & is_here & is_same)
    series = found(is_own & is_here & (RegistrationRow.sequence == newest))
    while series and (before := series[-1].entry.before_withheld) is not None:
        series.append(load_registered(session, plan, before))
    return AdmissionContext(
        plan=plan,
        ledger=ledger.seen_by(
            caller.name, known[0].entry if known else None, series[0].entry if series else None
        ),
        is_living=ledger.is_living,
        released=released,
        n_waiting=n_waiting,
        is_taken=is_taken(session, caller, population_id, examined.content_digest),
        comparable=(
            *found(is_own & ~is_here),
            *found(is_here & ~is_mine & is_other & has_state("published")),
        ),
        series=tuple(series),
    )


def _keep_refusal(
    session: Session,
    agency: Agency,
    caller: Caller,
    registration: Registration,
    population_id: int,
    error: ElldeltaError,
) -> None:
    """Keeps the refusals of a day, and the newest ones, of an owner about a population."""
    session.add(
        Refusal(
            plan_digest=registration.plan_digest,
            party_id=caller.id,
            registration_digest=registration.digest,
            problem=error.problem,
            found=error.found,
            refused_at=agency.clock(),
        )
    )
    session.flush()
    plans = select(PlanRow.digest).where(PlanRow.population_id == population_id)
    is_own = (Refusal.party_id == caller.id) & Refusal.plan_digest.in_(plans)
    newest = select(Refusal.id).where(is_own).order_by(Refusal.id.desc())
    oldest_kept = session.scalars(newest.offset(agency.limits.refusals_kept - 1).limit(1)).one_or_none()
    if oldest_kept is not None:
        session.execute(
            delete(Refusal)
            .where(is_own, Refusal.id < oldest_kept, Refusal.refused_at <= agency.clock() - DAY)
            .execution_options(synchronize_session=False)
        )


def _add(
    session: Session,
    agency: Agency,
    caller: Caller,
    plan: Plan,
    entry: LedgerEntry,
    content: bytes,
    examined: ValidatedRelease,
) -> None:
    """Adds the line and the counts."""
    line = LedgerLine(
        plan_digest=plan.digest,
        sequence=entry.sequence,
        hash=entry.hash,
        line=content,
        added_at=agency.clock(),
    )
    diversities = np.min(diversities_by_column(plan.schema, examined.counts), axis=0)
    facts: dict[str, Any] = {
        "records": int(plan.schema.by_column(examined.counts)[0].sum()),
        "classes": int((diversities > 0).sum()),
        "diversity": int(diversities[diversities > 0].min()),
        "classes_together": sum(map(len, entry.merged)),
        "left_out": examined.n_left_out,
        "loss": examined.loss,
        "certified": entry.certified,
    }
    if entry.update is not None and examined.revision is not None:
        changes = changes_of(examined.revision) | {"classes_withheld": len(entry.suppressed)}
        facts |= {"updates": entry.update.updates, "update": changes}
    registered = RegistrationRow(
        line=line,
        party_id=caller.id,
        content_digest=entry.content_digest,
        grouping=grouping_digest(examined.merged),
        counts=packed(examined.counts),
        facts=facts,
    )
    session.add_all((line, registered))
