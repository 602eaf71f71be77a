"""Plans: issued once, signed, fetched by everybody, superseded or withdrawn, never changed.

Owners report how many records they have, on their way to the N of a plan. No owner sees another one's number.
The agency and auditors see every owner; others see how many owners have reached N.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite

from elldelta.agency.server.errors import ConflictError, required
from elldelta.agency.server.paging import FIRST_PAGE, Cursor, Page, read_page
from elldelta.agency.server.tables import (
    AGENCY,
    AUDITOR,
    Party,
    Population,
    Progress,
    Registration,
    check_text,
)
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.agency.server.trail import skip_audit
from elldelta.agency.views import ColumnPromise, OwnerProgress, PlanDetails, PlanView, ProgressView
from elldelta.core.checks import MOST_RECORDS, check_whole
from elldelta.errors import ParameterError
from elldelta.files import json_object
from elldelta.plan.plan import Plan
from elldelta.plan.signature import PlanStatus, sign_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency, Caller


def list_plans(
    agency: Agency,
    population: str | None = None,
    cursor: Cursor = FIRST_PAGE,
    *,
    status: PlanStatus | None = None,
) -> Page[PlanView]:
    """Plans, the newest first."""
    chosen = select(PlanRow)
    if status is not None:
        chosen = chosen.where(PlanRow.status == status)
    if population is not None:
        chosen = chosen.join(Population).where(Population.name == population)
    order = (PlanRow.issued_at, PlanRow.digest)
    return read_page(agency, chosen, cursor, *order, view=PlanView.of_row, descending=True)


def n_issued(agency: Agency, populations: Sequence[str]) -> dict[str, int]:
    """How many plans count now for each of these populations; those without a plan are left out."""
    chosen = (
        select(Population.name, func.count().label("number"))
        .join(PlanRow, PlanRow.population_id == Population.id)
        .where(PlanRow.status == "issued", Population.name.in_(populations))
        .group_by(Population.name)
    )
    with agency.database.reading() as session:
        return {row.name: row.number for row in session.execute(chosen)}


def show_plan(agency: Agency, plan_digest: str) -> PlanDetails:
    """One plan."""
    with agency.database.reading() as session:
        row = find_plan(session, plan_digest)
        view, key_id = PlanView.model_validate(row), row.signature["key_id"]
        admitted = select(func.count(Registration.party_id.distinct())).where(
            Registration.plan_digest == plan_digest, ~Registration.publication.has(state="voided")
        )
        n_owners = session.scalar(admitted) or 0
    plan = load_plan(agency, plan_digest)
    return PlanDetails(
        plan=view,
        owners=plan.owners,
        owners_admitted=n_owners,
        k=plan.k,
        merge_risk=None if plan.moving is None else plan.moving.merge_risk,
        conditions=plan.conditions,
        quasi_identifiers=plan.schema.names,
        sensitive=", ".join(plan.schema.sensitive_names),
        columns=tuple(
            ColumnPromise(
                name=name,
                ell=column.ell,
                closeness=None if column.closeness is None else column.closeness.limit,
            )
            for name, column in zip(plan.schema.sensitive_names, plan.columns, strict=True)
        ),
        key_id=key_id,
    )


def plan_file(agency: Agency, plan_digest: str) -> bytes:
    """The exact file of a plan."""
    with agency.database.reading() as session:
        return find_plan(session, plan_digest).file


def plan_signature(agency: Agency, plan_digest: str) -> dict[str, Any]:
    """The agency's signature of a plan, which says whether it still counts.

    It is the one of the day on which it was issued, as long as that says what is true; otherwise it is signed
    anew, with the present key. Where signatures expire, an issued plan gets a new one whenever it is fetched.
    """
    with agency.database.reading() as session:
        row = find_plan(session, plan_digest)
        signature, status, population = dict(row.signature), row.status, row.population.name
    does_expire = agency.limits.signature_days is not None
    if signature.get("status", "issued") == status and not (does_expire and status == "issued"):
        return signature
    return _signed(agency, load_plan(agency, plan_digest), population, status)


def _signed(agency: Agency, plan: Plan, population: str, status: PlanStatus = "issued") -> dict[str, Any]:
    """The signature of a plan as of now; that a plan has ended stays true."""
    days = agency.limits.signature_days if status == "issued" else None
    expires = None if days is None else agency.clock() + dt.timedelta(days=days)
    return sign_plan(plan, agency.key, population=population, status=status, expires=expires)


@lru_cache(maxsize=32)
def load_plan(agency: Agency, plan_digest: str) -> Plan:
    """The plan itself. It never changes."""
    return Plan.from_dict(json_object(plan_file(agency, plan_digest), columns=True) or {})


def supersede_plan(agency: Agency, plan_digest: str, by: str) -> PlanView:
    """Puts another plan in the place of one: it admits nothing from now on.

    Raises:
        ConflictError: One of the two no longer counts, or they are about different people.
    """
    with agency.database.writing() as session:
        # Always in the same order, so that two of these cannot wait for each other.
        first, second = sorted((plan_digest, by))
        rows = {digest: lock_plan(session, digest) for digest in (first, second)}
        old, new = rows[plan_digest], rows[by]
        if old is new or old.population_id != new.population_id:
            raise ConflictError(
                "A plan is superseded by another plan about the same population.",
                found="It is the same plan." if old is new else "The populations differ.",
            )
        require_issued(old)
        require_issued(new)
        old.status, old.superseded_by, old.ended_at = "superseded", by, agency.clock()
        return PlanView.model_validate(old)


def withdraw_plan(agency: Agency, plan_digest: str, reason: str) -> PlanView:
    """Withdraws a plan: it admits nothing from now on. What was admitted stays in its ledger."""
    with agency.database.writing() as session:
        row = lock_plan(session, plan_digest)
        require_issued(row)
        row.status, row.reason = "withdrawn", check_text("A reason", reason, 1000)
        row.ended_at = agency.clock()
        return PlanView.model_validate(row)


def issue_plan(session: Session, agency: Agency, population_id: int, plan: Plan) -> PlanView:
    """Signs and issues a plan, in the transaction of whoever decided it. Its ledger is empty.

    The same plan may have been issued for somebody else: then it is that one.

    Raises:
        ConflictError: The same plan was issued before, and no longer counts or is about other people: what
            is registered under it is linked with the releases of its own population only.
    """
    known = session.get(PlanRow, plan.digest, with_for_update=True)
    if known is not None:
        if known.population_id != population_id:
            raise ConflictError(
                "The same plan was issued for another population.",
                found="Both populations have the same model; a plan has one ledger, about one population.",
                remedy="If they are the same people, use that population. If not, upload a model of these.",
            )
        require_issued(known)
        return PlanView.model_validate(known)
    now = agency.clock()
    row = PlanRow(
        digest=plan.digest,
        population_id=population_id,
        file=plan.file_content[1],
        signature=_signed(agency, plan, session.get_one(Population, population_id).name),
        status="issued",
        issued_at=now,
        ell=min(plan.ells),
        delta=plan.delta,
        releases=plan.releases,
        records=plan.records,
        n_classes=plan.n_classes,
        kind=plan.kind,
        promise=plan.promise,
        closeness=max(
            (column.closeness.limit for column in plan.columns if column.closeness is not None), default=None
        ),
    )
    session.add(row)
    session.flush()
    return PlanView.model_validate(row)


def find_plan(session: Session, plan_digest: str) -> PlanRow:
    """A plan by its digest.

    Raises:
        NotFoundError: There is none.
    """
    return required(session.get(PlanRow, plan_digest), "plan")


def lock_plan(session: Session, plan_digest: str) -> PlanRow:
    """A plan that nobody else can decide about until this transaction ends."""
    chosen = select(PlanRow).where(PlanRow.digest == plan_digest)
    # Progress reports, which name the plan, need not wait.
    locked = chosen.with_for_update(of=PlanRow, key_share=True)
    return required(session.scalars(locked).one_or_none(), "plan")


def require_issued(row: PlanRow | Row[*tuple[Any, ...]]) -> None:
    """Refuses a plan that was superseded or withdrawn."""
    if row.status != "issued":
        raise ConflictError(
            f"The plan was {row.status}.",
            found="It admits nothing any more; what it admitted still counts.",
            remedy="Use the plan that took its place." if row.superseded_by else "Ask the agency.",
        )


def report_progress(agency: Agency, caller: Caller, plan_digest: str, records: int) -> ProgressView:
    """Takes an owner's own number for a plan that still counts; a later one replaces it."""
    if records != 0:
        check_whole("the number of records", records)
    if records > MOST_RECORDS:
        raise ParameterError(f"Nobody has more than {MOST_RECORDS} records.")
    with agency.database.writing() as session:
        plan = find_plan(session, plan_digest)
        require_issued(plan)
        skip_audit()  # owners report often, and a later number replaces it
        new = (sqlite.insert if agency.database.is_sqlite else postgresql.insert)(Progress).values(
            plan_digest=plan_digest, party_id=caller.id, records=records, reported_at=agency.clock()
        )
        changed = {"records": new.excluded.records, "reported_at": new.excluded.reported_at}
        session.execute(new.on_conflict_do_update(index_elements=["plan_digest", "party_id"], set_=changed))
        return _progress_view(session, caller, plan)


def show_progress(agency: Agency, caller: Caller, plan_digest: str) -> ProgressView:
    """How far owners are, as far as the caller may know."""
    with agency.database.reading() as session:
        return _progress_view(session, caller, find_plan(session, plan_digest))


def _progress_view(session: Session, caller: Caller, plan: PlanRow) -> ProgressView:
    rows = session.execute(
        select(Party.id, Party.name, Progress.records, Progress.reported_at)
        .join(Party, Party.id == Progress.party_id)
        .where(Progress.plan_digest == plan.digest)
        .order_by(Party.name)
    ).all()
    owners = tuple(
        OwnerProgress(
            owner=row.name,
            records=row.records,
            reached=row.records >= plan.records,
            reported=row.reported_at,
        )
        for row in rows
    )
    return ProgressView(
        plan=plan.digest,
        needed=plan.records,
        owners_reached=sum(owner.reached for owner in owners),
        own_records=next((row.records for row in rows if row.id == caller.id), None),
        owners=owners if caller.role in (AGENCY, AUDITOR) else None,
    )
