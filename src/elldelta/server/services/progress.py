"""Progress: how many records owners have, on their way to the N of a plan.

No owner sees another one's number. The agency and auditors see every owner. An owner sees its own number and
how many owners have reached N; a client sees only how many have.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import case, func, select
from sqlalchemy.dialects import postgresql, sqlite

from elldelta.core.checks import check_count
from elldelta.errors import ParameterError
from elldelta.server.errors import NotFoundError
from elldelta.server.rights import AGENCY, AUDITOR, OWNER
from elldelta.server.services.plans import require_issued
from elldelta.server.tables import Party, Progress
from elldelta.server.tables import Plan as PlanRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.server.agency import Agency
    from elldelta.server.rights import Caller

MOST_RECORDS = 10**15


@dataclass(frozen=True)
class OwnerProgress:
    """One owner's number."""

    owner: str
    records: int
    reached: bool
    reported: dt.datetime


@dataclass(frozen=True)
class ProgressView:
    """How far owners are.

    Attributes:
        plan: The digest of the plan.
        needed: N, the records every release needs.
        owners_reached: How many owners have reached N.
        own: The caller's own number, if it is an owner that has reported.
        owners: Every owner, for the agency and for auditors; None for everybody else.
    """

    plan: str
    needed: int
    owners_reached: int
    own: int | None
    owners: tuple[OwnerProgress, ...] | None


def report_progress(agency: Agency, caller: Caller, plan_digest: str, records: int) -> ProgressView:
    """Takes an owner's own number for a plan that still counts; a later one replaces it."""
    if records != 0:
        check_count("the number of records", records)
    if records > MOST_RECORDS:
        raise ParameterError(f"Nobody has more than {MOST_RECORDS} records.")
    insert = sqlite.insert if agency.database.is_sqlite else postgresql.insert
    with agency.database.writing() as session:
        plan = _plan(session, plan_digest)
        require_issued(plan)
        told = {"records": records, "reported_at": agency.clock()}
        session.execute(
            insert(Progress)
            .values(plan_digest=plan_digest, party_id=caller.id, **told)
            .on_conflict_do_update(index_elements=["plan_digest", "party_id"], set_=told)
        )
        return _view(session, caller, plan)


def show_progress(agency: Agency, caller: Caller, plan_digest: str) -> ProgressView:
    """How far owners are, as far as the caller may know."""
    with agency.database.reading() as session:
        return _view(session, caller, _plan(session, plan_digest))


def _plan(session: Session, plan_digest: str) -> PlanRow:
    plan = session.get(PlanRow, plan_digest)
    if plan is None:
        raise NotFoundError("plan")
    return plan


def _view(session: Session, caller: Caller, plan: PlanRow) -> ProgressView:
    here = Progress.plan_digest == plan.digest
    if caller.role in (AGENCY, AUDITOR):
        rows = session.execute(
            select(Party.name, Progress.records, Progress.reported_at)
            .join(Party, Party.id == Progress.party_id)
            .where(here)
            .order_by(Party.name)
        )
        owners = tuple(
            OwnerProgress(row.name, row.records, row.records >= plan.records, row.reported_at) for row in rows
        )
        reached = sum(owner.reached for owner in owners)
        return ProgressView(plan.digest, plan.records, reached, None, owners)
    own_number = func.max(case((Progress.party_id == caller.id, Progress.records)))
    n_reached = func.count(case((Progress.records >= plan.records, 1)))
    row = session.execute(select(own_number, n_reached).where(here)).one()
    return ProgressView(plan.digest, plan.records, row[1], row[0] if caller.role == OWNER else None, None)
