"""Registering a release: everything is checked again, and it is admitted in one transaction or not at all.

The release is checked before anybody is kept waiting. Then whoever registers is alone: the population is
locked (releases of all of its plans are linked with each other), the release is checked again if lines were
added in the meantime, and the line, the counts and the answer are written in one commit. The number of a line
is unique, so even a mistake in the locking could not admit two releases in one place.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from elldelta.agency.receipt import sign_admission
from elldelta.agency.registration import Registration
from elldelta.agency.server.errors import BusyError, ConflictError, UnprocessableError, document_of
from elldelta.agency.server.rights import OWNER
from elldelta.agency.server.services.judgement import Case, Judgement, ledger_state
from elldelta.agency.server.services.paging import BEGINNING, Order, Window, read_part
from elldelta.agency.server.services.plans import find_plan, load_plan, lock_plan, require_issued
from elldelta.agency.server.services.retention import forget_refusals
from elldelta.agency.server.tables import Answer, LedgerLine, Party, Population, Refusal
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.errors import RefusedError
from elldelta.files import digest

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.services.paging import Part
    from elldelta.agency.server.state import Agency
    from elldelta.ledger import Admission
    from elldelta.plan.plan import Plan

CREATED, KNOWN, REFUSED = 201, 200, 409


@dataclass(frozen=True)
class RegistrationAnswer:
    """What an owner is told, also when it asks again with the same key.

    Attributes:
        status: 201 admitted, 200 admitted before, 409 refused.
        document: The JSON document of the answer.
    """

    status: int
    document: dict[str, Any]

    @property
    def is_accepted(self) -> bool:
        """Whether the release is in the ledger."""
        return self.status != REFUSED


@dataclass(frozen=True)
class ReleaseView:
    """What everybody may know about a registered release."""

    sequence: int
    owner: str
    content_digest: str
    hash: str
    records: int
    classes: int
    diversity: int | None
    merged_classes: int
    certified: bool
    registered: dt.datetime


@dataclass(frozen=True)
class RefusalView:
    """A registration that was refused."""

    id: int
    owner: str
    problem: str
    found: str
    refused: dt.datetime


def register_release(
    agency: Agency, caller: Caller, plan_digest: str, key: str, content: bytes
) -> RegistrationAnswer:
    """Admits a release or refuses it; the same key gets the same answer.

    Args:
        agency: The service.
        caller: The owner.
        plan_digest: The plan that the release follows.
        key: The Idempotency-Key.
        content: The registration, as it was sent.

    Raises:
        InputError: The registration is malformed or is not what it says; nothing is kept of it.
        UnprocessableError: The key came with another registration before.
    """
    with agency.database.reading() as session:
        population_id = find_plan(session, plan_digest).population_id
    with agency.parsing.slot():
        registration = Registration.from_bytes(content)
    asked = digest({"plan": plan_digest, "registration": registration.digest})
    with agency.database.reading() as session:
        answer = _known_answer(session, caller, key, asked)
    if answer is not None:
        return answer
    plan = load_plan(agency, plan_digest)
    about = (caller, plan, registration, population_id)
    with agency.deciding.hold(population_id):
        judged = _judged(agency, *about)
        for _ in range(2):
            try:
                return _answered(agency, *about, key, asked, judged)
            except IntegrityError:
                continue  # the same key came at the same time for another population: its answer is there now
    raise BusyError


def list_releases(agency: Agency, plan_digest: str, window: Window = BEGINNING) -> Part[ReleaseView]:
    """The releases that were admitted under a plan, in the order of their lines."""
    with agency.database.reading() as session:
        find_plan(session, plan_digest)
        chosen = (
            select(RegistrationRow, LedgerLine.hash, LedgerLine.added_at, Party.name)
            .join(
                LedgerLine,
                (RegistrationRow.plan_digest == LedgerLine.plan_digest)
                & (RegistrationRow.sequence == LedgerLine.sequence),
            )
            .join(Party, Party.id == RegistrationRow.party_id)
            .where(RegistrationRow.plan_digest == plan_digest)
        )
        return read_part(
            session,
            chosen,
            Order(RegistrationRow.sequence),
            window,
            most=agency.limits.page_size,
            view=lambda row: ReleaseView(
                sequence=row.Registration.sequence,
                owner=row.name,
                content_digest=row.Registration.content_digest,
                hash=row.hash,
                registered=row.added_at,
                **row.Registration.facts,
            ),
        )


def list_refusals(
    agency: Agency, caller: Caller, plan_digest: str, window: Window = BEGINNING
) -> Part[RefusalView]:
    """Registrations that were refused, the newest first; an owner sees its own."""
    chosen = (
        select(Refusal.id, Refusal.problem, Refusal.found, Refusal.refused_at, Party.name)
        .join(Party, Party.id == Refusal.party_id)
        .where(Refusal.plan_digest == plan_digest)
    )
    if caller.role == OWNER:
        chosen = chosen.where(Refusal.party_id == caller.id)
    with agency.database.reading() as session:
        find_plan(session, plan_digest)
        return read_part(
            session,
            chosen,
            Order(Refusal.id, is_descending=True),
            window,
            most=agency.limits.page_size,
            view=lambda row: RefusalView(row.id, row.name, row.problem, row.found, row.refused_at),
        )


def _judged(
    agency: Agency, caller: Caller, plan: Plan, registration: Registration, population_id: int
) -> Judgement | None:
    """What the check finds, while nobody waits; None if the plan counts no longer: that is decided alone."""
    with agency.database.reading() as session:
        if find_plan(session, plan.digest).status != "issued":
            return None
        case = Case.read(session, agency, caller, plan, registration, population_id)
    return case.judge()


def _answered(
    agency: Agency,
    caller: Caller,
    plan: Plan,
    registration: Registration,
    population_id: int,
    key: str,
    asked: str,
    judged: Judgement | None,
) -> RegistrationAnswer:
    """Decides, alone, and keeps the answer."""
    with agency.database.writing() as session:
        _lock_population(session, population_id)
        answer = _known_answer(session, caller, key, asked)
        if answer is None:
            answer = _decide(session, agency, caller, plan, registration, population_id, asked, judged)
            session.add(
                Answer(
                    party_id=caller.id,
                    key=key,
                    request_digest=asked,
                    status=answer.status,
                    document=answer.document,
                    answered_at=agency.clock(),
                )
            )
        return answer


def _lock_population(session: Session, population_id: int) -> None:
    """Nobody else decides about a release of these people until this transaction ends."""
    session.execute(
        select(Population.id).where(Population.id == population_id).with_for_update(key_share=True)
    )


def _known_answer(session: Session, caller: Caller, key: str, asked: str) -> RegistrationAnswer | None:
    known = session.get(Answer, (caller.id, key))
    if known is None:
        return None
    if known.request_digest != asked:
        raise UnprocessableError(
            "The Idempotency-Key was used for another registration.",
            found="The same key came with another plan or another content before.",
            remedy="Use a new key for every registration, and the same one only to send it again.",
        )
    return RegistrationAnswer(known.status, known.document)


def _decide(
    session: Session,
    agency: Agency,
    caller: Caller,
    plan: Plan,
    registration: Registration,
    population_id: int,
    asked: str,
    judged: Judgement | None,
) -> RegistrationAnswer:
    """Admits or refuses a release against everything that is registered now, and writes down what follows."""
    row = lock_plan(session, plan.digest)
    try:
        if not _is_registered(session, caller, plan, registration):
            require_issued(row)
        if judged is None or judged.state != ledger_state(session, population_id):
            judged = Case.read(session, agency, caller, plan, registration, population_id).judge()
        admission = judged.admission
    except (RefusedError, ConflictError) as error:
        session.add(
            Refusal(
                plan_digest=plan.digest,
                party_id=caller.id,
                request_digest=asked,
                problem=error.problem,
                found=error.found,
                refused_at=agency.clock(),
            )
        )
        session.flush()
        forget_refusals(session, population_id, caller.id, agency.limits.refusals_kept)
        return RegistrationAnswer(REFUSED, {"accepted": False, **document_of(error)})
    if admission.is_new:
        _admit(session, agency, caller, registration, plan, admission)
    entry = admission.entry
    return RegistrationAnswer(
        CREATED if admission.is_new else KNOWN,
        {
            "accepted": True,
            "is_new": admission.is_new,
            "plan": plan.digest,
            "owner": caller.name,
            "sequence": entry.sequence,
            "hash": entry.hash,
            "content_digest": entry.content_digest,
            **sign_admission(agency.key, plan.digest, entry),
        },
    )


def _is_registered(session: Session, caller: Caller, plan: Plan, registration: Registration) -> bool:
    """Whether this owner's release has its line: then it is told so, even if the plan counts no longer."""
    known = select(RegistrationRow.sequence).where(
        RegistrationRow.plan_digest == plan.digest,
        RegistrationRow.party_id == caller.id,
        RegistrationRow.content_digest == registration.content_digest,
    )
    return session.scalars(known).first() is not None


def _admit(
    session: Session,
    agency: Agency,
    caller: Caller,
    registration: Registration,
    plan: Plan,
    admission: Admission,
) -> None:
    entry, manifest = admission.entry, registration.manifest
    session.add(
        LedgerLine(
            plan_digest=plan.digest,
            sequence=entry.sequence,
            hash=entry.hash,
            line=admission.line,
            added_at=agency.clock(),
        )
    )
    session.flush()
    session.add(
        RegistrationRow(
            plan_digest=plan.digest,
            sequence=entry.sequence,
            party_id=caller.id,
            content_digest=entry.content_digest,
            document=registration.to_bytes(),
            facts={
                "records": registration.n_records,
                "classes": manifest["classes_published"],
                "diversity": manifest["diversity"],
                "merged_classes": len(entry.merged),
                "certified": entry.certified,
            },
        )
    )
    session.flush()
