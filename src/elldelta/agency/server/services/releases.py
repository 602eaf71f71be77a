"""Registering a release: everything is checked again, and it is admitted in one transaction or not at all.

The check needs no lock, for lines are only ever added. So it is done before anybody is kept waiting. Then
whoever registers is alone: the population is locked (releases of all of its plans are linked with each
other), the release is checked again if lines were added in the meantime, and the line, the counts, the state
that follows and the answer are written in one commit. The number of a line is unique, so even a mistake in
the locking could not admit two releases in one place.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import AliasPath, Field
from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError

from elldelta.agency.admission import Past, check_registration, grouping_digest
from elldelta.agency.receipt import sign_admission
from elldelta.agency.server.checking import check_registration_bytes
from elldelta.agency.server.errors import BusyError, ConflictError, NotFoundError, document_of
from elldelta.agency.server.paging import BEGINNING, Part, Window, read_part
from elldelta.agency.server.rights import OWNER
from elldelta.agency.server.services.ledger import (
    last_lines,
    load_states,
    store_state,
)
from elldelta.agency.server.services.plans import (
    find_plan,
    load_plan,
    lock_plan,
    plan_file,
    require_issued,
)
from elldelta.agency.server.services.publications import (
    has_state,
    is_visible,
    load_registered,
    lock_population,
    packed,
    registered_by,
)
from elldelta.agency.server.tables import Answer, LedgerLine, Refusal, ReleaseState, View
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.errors import ElldeltaError, ParameterError, RefusedError, counted
from elldelta.files import digest
from elldelta.release.sliced import diversities_by_column

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from elldelta.agency.admission import Registered
    from elldelta.agency.registration import Examined
    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.services.ledger import LastLines
    from elldelta.agency.server.state import Agency
    from elldelta.ledger import Admission, LedgerEntry
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


class ReleaseView(View):
    """What everybody may know about a registered release.

    Attributes:
        updates: Of a table that is published again, the line of the release that it updates; None for others.
        update: What its manifest says about who came, went and waits; None for a release that stands alone.
    """

    sequence: int
    owner: str = Field(validation_alias=AliasPath("party", "name"))
    content_digest: str
    hash: str = Field(validation_alias=AliasPath("line", "hash"))
    records: int = Field(validation_alias=AliasPath("facts", "records"))
    classes: int = Field(validation_alias=AliasPath("facts", "classes"))
    diversity: int | None = Field(validation_alias=AliasPath("facts", "diversity"))
    merged_classes: int = Field(validation_alias=AliasPath("facts", "merged_classes"))
    certified: bool = Field(validation_alias=AliasPath("facts", "certified"))
    state: ReleaseState
    registered: dt.datetime = Field(validation_alias=AliasPath("line", "added_at"))
    updates: int | None = Field(default=None, validation_alias=AliasPath("facts", "updates"))
    update: dict[str, int] | None = Field(default=None, validation_alias=AliasPath("facts", "update"))


class RefusalView(View):
    """A registration that was refused."""

    id: int
    owner: str = Field(validation_alias=AliasPath("party", "name"))
    problem: str
    found: str
    refused: dt.datetime = Field(validation_alias="refused_at")


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
        ParameterError: The key came with another registration before.
    """
    with agency.database.reading() as session:
        population_id, population = _population(session, plan_digest)
    plan = load_plan(agency, plan_digest)
    checked = agency.checks.run(
        check_registration_bytes, plan_file(agency, plan_digest), content, caller.name
    )
    case = _Case(agency, caller, plan, population_id, *checked, key)
    with agency.database.reading() as session:
        answer = case.known_answer(session)
    return _signed(agency, population, answer or _decided(case))


def show_receipt(agency: Agency, caller: Caller, plan_digest: str, content_digest: str) -> dict[str, Any]:
    """The receipt of a release that the caller has registered, however long ago, signed with the present key.

    Raises:
        NotFoundError: The caller has registered no such release under this plan.
        ConflictError: It has taken it back.
    """
    with agency.database.reading() as session:
        _, population = _population(session, plan_digest)
        row = session.scalars(registered_by(caller, plan_digest, content_digest)).one_or_none()
        if row is None:
            raise NotFoundError("release")
        if row.state == "voided":
            raise _taken_back()
        told = _admission(row.plan_digest, caller, row, row.line.hash, is_new=False)
    return _signed(agency, population, told).document


def list_releases(
    agency: Agency, caller: Caller, plan_digest: str, window: Window = BEGINNING, *, owner: str | None = None
) -> Part[ReleaseView]:
    """The releases of a plan, or of one owner, that a caller may see, in the order of their lines."""
    load_plan(agency, plan_digest)  # there must be one
    chosen = select(RegistrationRow).where(RegistrationRow.plan_digest == plan_digest, is_visible(caller))
    if owner is not None:
        chosen = chosen.where(RegistrationRow.party.has(name=owner))
    return read_part(agency, chosen, window, RegistrationRow.sequence, view=ReleaseView.of_row)


def count_series(agency: Agency, population: str) -> tuple[int, int]:
    """How many owners have published a table about these people again, and how often together."""
    chosen = (
        select(func.count(RegistrationRow.party_id.distinct()), func.count())
        .join(PlanRow, PlanRow.digest == RegistrationRow.plan_digest)
        .where(PlanRow.population.has(name=population), ~has_state("voided"))
        .where(RegistrationRow.facts["updates"].as_integer().is_not(None))
    )
    with agency.database.reading() as session:
        n_owners, n_updates = session.execute(chosen).one()
    return n_owners, n_updates


def list_refusals(
    agency: Agency, caller: Caller, plan_digest: str, window: Window = BEGINNING
) -> Part[RefusalView]:
    """Registrations that were refused, the newest first; an owner sees its own."""
    load_plan(agency, plan_digest)  # there must be one
    chosen = select(Refusal).where(Refusal.plan_digest == plan_digest)
    if caller.role == OWNER:
        chosen = chosen.where(Refusal.party_id == caller.id)
    return read_part(agency, chosen, window, Refusal.id, view=RefusalView.of_row, descending=True)


def _population(session: Session, plan_digest: str) -> tuple[int, str]:
    """The people that a plan is about: their number and their name."""
    found = find_plan(session, plan_digest).population
    return found.id, found.name


def _admission(
    plan_digest: str, caller: Caller, entry: RegistrationRow | LedgerEntry, line_hash: str, *, is_new: bool
) -> RegistrationAnswer:
    """What an owner is told about a release that has its line."""
    document = {
        "accepted": True,
        "is_new": is_new,
        "plan": plan_digest,
        "owner": caller.name,
        "sequence": entry.sequence,
        "hash": line_hash,
        "content_digest": entry.content_digest,
    }
    return RegistrationAnswer(CREATED if is_new else KNOWN, document)


def _refusal(error: ElldeltaError) -> RegistrationAnswer:
    return RegistrationAnswer(REFUSED, {"accepted": False, **document_of(error)})


def _taken_back() -> ConflictError:
    return ConflictError(
        "You have taken this release back.",
        found="Its line does not count any more, on your word that it was never published.",
        remedy="Make a release of other records, and register that.",
    )


def _signed(agency: Agency, population: str, answer: RegistrationAnswer) -> RegistrationAnswer:
    """An answer that admits, with the agency's signature: that of the present key, also on repeats."""
    if answer.status == REFUSED:
        return answer
    document = {**answer.document, "population": population}
    return RegistrationAnswer(answer.status, sign_admission(agency.key, document))


def _decided(case: _Case) -> RegistrationAnswer:
    """Decides about a release, after all those of the same people that came before it."""
    with case.agency.deciding.hold(case.population_id):
        judged = case.judged()
        for _ in range(2):
            try:
                return case.answered(judged)
            except IntegrityError:
                continue  # the same key came at the same time for another population: its answer is there now
    raise BusyError


@dataclass(frozen=True, eq=False)
class _Judgement:
    """What the check has found: the admission or why there is none, and the lines that it knew."""

    last: LastLines
    past: Past
    found: Admission | RefusedError


@dataclass(frozen=True, eq=False)
class _Case:
    """A registration on its way: who has sent it, for which plan and people, and under which key."""

    agency: Agency
    caller: Caller
    plan: Plan
    population_id: int
    registration_digest: str
    content_digest: str
    examined: Examined | RefusedError
    key: str

    @cached_property
    def asked(self) -> str:
        """What the key stands for."""
        return digest({"plan": self.plan.digest, "registration": self.registration_digest})

    def known_answer(self, session: Session) -> RegistrationAnswer | None:
        """The answer that the key has got before; an admission only as long as the release counts."""
        known = session.get(Answer, (self.caller.id, self.key))
        if known is None:
            return None
        if known.request_digest != self.asked:
            raise ParameterError(
                "The Idempotency-Key was used for another registration.",
                found="The same key came with another plan or another content before.",
                remedy="Use a new key for every registration, and the same one only to send it again.",
            )
        if known.status != REFUSED:
            try:
                self._is_registered(session)
            except ConflictError as error:
                return _refusal(error)
        return RegistrationAnswer(known.status, known.document)

    def judged(self) -> _Judgement | None:
        """What the check finds, while nobody waits; None if there is nothing to check it for."""
        if isinstance(self.examined, RefusedError):
            return None
        with self.agency.database.reading() as session:
            if find_plan(session, self.plan.digest).status != "issued":
                return None
            last = last_lines(session, self.population_id)
            past = self._past(session, last, self.examined)
        return self._checked(last, past, self.examined)

    def answered(self, judged: _Judgement | None) -> RegistrationAnswer:
        """Decides, alone, and keeps the answer."""
        with self.agency.database.writing() as session:
            lock_population(session, self.population_id)
            answer = self.known_answer(session)
            if answer is None:
                answer = self._decided(session, judged)
                session.add(
                    Answer(
                        party_id=self.caller.id,
                        key=self.key,
                        request_digest=self.asked,
                        status=answer.status,
                        document=answer.document,
                        answered_at=self.agency.clock(),
                    )
                )
            return answer

    def _past(self, session: Session, last: LastLines, examined: Examined) -> Past:
        """What is registered, as far as it matters here; the last lines are those that it is about."""
        own, *elsewhere = load_states(session, self.agency, self.plan, last)
        plan_digest = self.plan.digest
        here = select(RegistrationRow.plan_digest, RegistrationRow.sequence).join(
            PlanRow, PlanRow.digest == RegistrationRow.plan_digest
        )
        here = here.where(PlanRow.population_id == self.population_id)
        is_mine = RegistrationRow.party_id == self.caller.id
        is_own, is_here = is_mine & ~has_state("voided"), RegistrationRow.plan_digest == plan_digest
        is_same = RegistrationRow.content_digest == examined.content_digest

        def found(which: ColumnElement[bool]) -> list[Registered]:
            rows = session.execute(here.where(which).order_by(RegistrationRow.sequence)).all()
            return [
                load_registered(session, self.agency, load_plan(self.agency, plan), number)
                for plan, number in rows
            ]

        newest = select(func.max(RegistrationRow.sequence)).where(is_own, is_here).scalar_subquery()
        is_other = RegistrationRow.grouping != grouping_digest(examined.merged)
        known = found(is_own & is_here & is_same)
        series = found(is_own & is_here & (RegistrationRow.sequence == newest))
        while series and (before := series[-1].entry.before_withheld) is not None:
            series.append(load_registered(session, self.agency, self.plan, before))
        return Past(
            own=own,
            elsewhere=tuple(elsewhere),
            known=known[0].entry if known else None,
            is_taken=session.execute(here.where(is_same & ~is_mine).limit(1)).first() is not None,
            comparable=(
                *found(is_own & ~is_here),
                *found(is_here & ~is_mine & is_other & has_state("published")),
            ),
            series=tuple(series),
        )

    def _checked(self, last: LastLines, past: Past, examined: Examined) -> _Judgement:
        """Checks the release; needs no database."""
        try:
            found = check_registration(examined, past, owner=self.caller.name)
        except RefusedError as error:
            return _Judgement(last, past, error)
        return _Judgement(last, past, found)

    def _decided(self, session: Session, judged: _Judgement | None) -> RegistrationAnswer:
        """Admits or refuses the release against everything that is registered now, and writes it down."""
        row = lock_plan(session, self.plan.digest)
        try:
            is_registered = self._is_registered(session)
            if not is_registered:
                require_issued(row)
            if isinstance(self.examined, RefusedError):
                raise self.examined
            if not is_registered:
                self._check_quota(session, self.examined)
            last = last_lines(session, self.population_id)
            if judged is None or judged.last != last:
                judged = self._checked(last, self._past(session, last, self.examined), self.examined)
            if isinstance(judged.found, RefusedError):
                raise judged.found
        except (RefusedError, ConflictError) as error:
            return self._refused(session, error)
        if judged.found.is_new:
            self._add(session, judged.found, judged.past, self.examined)
        entry = judged.found.entry
        return _admission(self.plan.digest, self.caller, entry, entry.hash, is_new=judged.found.is_new)

    def _check_quota(self, session: Session, examined: Examined) -> None:
        """Refuses more than one owner may have: what is admitted stays for ever."""
        limits = self.agency.limits
        own = select(
            func.count().label("n"), func.coalesce(func.sum(RegistrationRow.n_bytes), 0).label("size")
        )
        used = session.execute(own.where(RegistrationRow.party_id == self.caller.id)).one()
        size = used.size + len(packed(examined.counts))
        if used.n >= limits.owner_releases or size > limits.owner_bytes:
            raise ConflictError(
                "You have registered as much as one owner may.",
                found=f"{counted(used.n, 'release')} of {used.size} bytes; "
                f"{counted(limits.owner_releases, 'release')} and "
                f"{limits.owner_bytes} bytes are allowed.",
                remedy="Ask whoever runs the service for a larger quota.",
            )

    def _is_registered(self, session: Session) -> bool:
        """Whether this owner's release has its line: it is told so, even if the plan counts no longer."""
        chosen = registered_by(self.caller, self.plan.digest, self.content_digest)
        known = session.scalars(chosen).one_or_none()
        if known is not None and known.state == "voided":
            raise _taken_back()
        return known is not None

    def _refused(self, session: Session, error: ElldeltaError) -> RegistrationAnswer:
        """Keeps the newest refusals of an owner about a population; nobody pushes out those of others."""
        session.add(
            Refusal(
                plan_digest=self.plan.digest,
                party_id=self.caller.id,
                request_digest=self.asked,
                problem=error.problem,
                found=error.found,
                refused_at=self.agency.clock(),
            )
        )
        session.flush()
        plans = select(PlanRow.digest).where(PlanRow.population_id == self.population_id)
        own = (Refusal.party_id == self.caller.id) & Refusal.plan_digest.in_(plans)
        newest = select(Refusal.id).where(own).order_by(Refusal.id.desc())
        oldest_kept = session.scalars(
            newest.offset(self.agency.limits.refusals_kept - 1).limit(1)
        ).one_or_none()
        if oldest_kept is not None:
            session.execute(
                delete(Refusal)
                .where(own, Refusal.id < oldest_kept)
                .execution_options(synchronize_session=False)
            )
        return _refusal(error)

    def _add(self, session: Session, admission: Admission, past: Past, examined: Examined) -> None:
        """Adds the line, the counts and the state that follows."""
        entry = admission.entry
        line = LedgerLine(
            plan_digest=self.plan.digest,
            sequence=entry.sequence,
            hash=entry.hash,
            line=admission.line,
            added_at=self.agency.clock(),
        )
        counts = packed(examined.counts)
        schema = self.plan.schema
        diversities = np.min(diversities_by_column(schema, examined.counts), axis=0)
        registered = RegistrationRow(
            line=line,
            party_id=self.caller.id,
            content_digest=entry.content_digest,
            grouping=grouping_digest(examined.merged),
            counts=counts,
            n_bytes=len(counts),
            facts={
                "records": int(schema.by_column(examined.counts)[0].sum()),
                "classes": int((diversities > 0).sum()),
                "diversity": int(diversities[diversities > 0].min()),
                "merged_classes": len(entry.merged),
                "certified": entry.certified,
                **(
                    {}
                    if entry.update is None
                    else {"updates": entry.update.updates, "update": examined.update}
                ),
            },
        )
        session.add_all((line, registered))
        session.flush()
        for state in (past.own.after(admission, examined), *past.elsewhere):
            store_state(session, state)
