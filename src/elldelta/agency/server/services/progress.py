"""Progress: how many records owners have, on their way to the N of a plan.

No owner sees another one's number. The agency and auditors see every owner. An owner sees its own number and
how many owners have reached N; a client sees only how many have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from elldelta.agency.server.rights import AGENCY, AUDITOR
from elldelta.agency.server.services.plans import find_plan, require_issued
from elldelta.agency.server.tables import Party, Progress
from elldelta.agency.server.trail import skip_audit
from elldelta.agency.views import OwnerProgress, ProgressView
from elldelta.core.checks import check_whole
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.agency.server.tables import Plan as PlanRow

MOST_RECORDS = 10**15


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
        return _view(session, caller, plan)


def show_progress(agency: Agency, caller: Caller, plan_digest: str) -> ProgressView:
    """How far owners are, as far as the caller may know."""
    with agency.database.reading() as session:
        return _view(session, caller, find_plan(session, plan_digest))


def _view(session: Session, caller: Caller, plan: PlanRow) -> ProgressView:
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
