"""Progress: how many records owners have, on their way to the N of a plan.

No owner sees another one's number. The agency and auditors see every owner. An owner sees its own number and
how many owners have reached N; a client sees only how many have.

Owners report often: reports that arrive together are written in one batch.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite
from starlette.concurrency import run_in_threadpool

from elldelta.agency.server.errors import HttpError, NotFoundError
from elldelta.agency.server.rights import AGENCY, AUDITOR, OWNER
from elldelta.agency.server.services.plans import require_issued
from elldelta.agency.server.tables import Party, Progress
from elldelta.agency.server.tables import Plan as PlanRow
from elldelta.core.checks import check_whole
from elldelta.errors import ElldeltaError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Insert, Row

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency

MOST_RECORDS = 10**15
MOST_IN_BATCH = 100
"""More would keep others who write waiting for too long."""

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


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


@dataclass(frozen=True)
class Report:
    """What an owner says it has for a plan."""

    owner: Caller
    plan_digest: str
    records: int

    def __post_init__(self) -> None:
        if self.records != 0:
            check_whole("the number of records", self.records)
        if self.records > MOST_RECORDS:
            raise ParameterError(f"Nobody has more than {MOST_RECORDS} records.")


def report_progress(agency: Agency, report: Report) -> ProgressView:
    """Takes an owner's own number for a plan that still counts; a later one replaces it."""
    [answer] = report_batch(agency, [report])
    if isinstance(answer, ElldeltaError):
        raise answer
    return answer


def report_batch(agency: Agency, reports: Sequence[Report]) -> list[ProgressView | ElldeltaError]:
    """Takes the numbers of several owners in one transaction; of one owner's the last one stays.

    Returns:
        For every report what its owner sees, or why its plan takes none.
    """
    by_plan: dict[str, list[Report]] = {}
    for report in reports:
        by_plan.setdefault(report.plan_digest, []).append(report)
    answers: dict[Report, ProgressView | ElldeltaError] = {}
    with agency.database.noting() as connection:  # an owner can report again
        for plan_digest in sorted(by_plan):  # everybody in the same order: nobody waits for each other
            own = by_plan[plan_digest]
            try:
                plan = _plan(connection, plan_digest)
                require_issued(plan)
            except HttpError as error:
                answers |= dict.fromkeys(own, error)
                continue
            _write(connection, agency.clock(), own)
            reached = connection.execute(_REACHED, {"plan": plan_digest, "needed": plan.records}).scalar_one()
            for report in own:
                answers[report] = ProgressView(plan_digest, plan.records, reached, report.records, None)
    return [answers[report] for report in reports]


def show_progress(agency: Agency, caller: Caller, plan_digest: str) -> ProgressView:
    """How far owners are, as far as the caller may know."""
    with agency.database.reading() as session:
        connection = session.connection()
        return _view(connection, caller, _plan(connection, plan_digest))


_PLAN = select(PlanRow.digest, PlanRow.records, PlanRow.status, PlanRow.superseded_by).where(
    PlanRow.digest == bindparam("plan")
)
_HERE = Progress.plan_digest == bindparam("plan")
_EVERYBODY = (
    select(Party.name, Progress.records, Progress.reported_at)
    .join(Party, Party.id == Progress.party_id)
    .where(_HERE)
    .order_by(Party.name)
)
_OWN = select(Progress.records).where(_HERE, Progress.party_id == bindparam("party"))
_REACHED = select(func.count()).select_from(Progress).where(_HERE, Progress.records >= bindparam("needed"))


@cache
def _insert_or_replace(dialect: str) -> Insert:
    """Made once: building a statement takes longer than running it."""
    new = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(Progress)
    changed = {"records": new.excluded.records, "reported_at": new.excluded.reported_at}
    return new.on_conflict_do_update(index_elements=["plan_digest", "party_id"], set_=changed)


def _write(connection: Connection, now: dt.datetime, reports: list[Report]) -> None:
    last = {report.owner.id: report for report in reports}
    told = [
        {
            "plan_digest": last[party].plan_digest,
            "party_id": party,
            "records": last[party].records,
            "reported_at": now,
        }
        for party in sorted(last)
    ]
    connection.execute(_insert_or_replace(connection.dialect.name), told)


def _plan(connection: Connection, plan_digest: str) -> Row[str, int, str, str | None]:
    plan = connection.execute(_PLAN, {"plan": plan_digest}).one_or_none()
    if plan is None:
        raise NotFoundError("plan")
    return plan


def _view(connection: Connection, caller: Caller, plan: Row[str, int, str, str | None]) -> ProgressView:
    if caller.role in (AGENCY, AUDITOR):
        owners = tuple(
            OwnerProgress(row.name, row.records, row.records >= plan.records, row.reported_at)
            for row in connection.execute(_EVERYBODY, {"plan": plan.digest})
        )
        reached = sum(owner.reached for owner in owners)
        return ProgressView(plan.digest, plan.records, reached, None, owners)
    reached = connection.execute(_REACHED, {"plan": plan.digest, "needed": plan.records}).scalar_one()
    own = None
    if caller.role == OWNER:
        own = connection.execute(_OWN, {"plan": plan.digest, "party": caller.id}).scalar_one_or_none()
    return ProgressView(plan.digest, plan.records, reached, own, None)


class Batcher(Generic[_Asked, _Answer]):
    """Collects what is asked for in one event loop: one thread and one transaction for all of it.

    Whoever comes while nothing is under way is served at once; whoever comes meanwhile waits, without a
    thread, and all who wait are served next. Nobody gets an answer before the transaction has ended.

    Args:
        do: Does several things, in a thread; an answer for each, or the error that is meant for it alone.
            What it raises is meant for all of them.
    """

    def __init__(self, do: Callable[[Sequence[_Asked]], Sequence[_Answer | ElldeltaError]]) -> None:
        self._do = do
        self._waiting: deque[tuple[_Asked, asyncio.Future[_Answer]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, asked: _Asked) -> _Answer:
        """Waits until it is done."""
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                n_taken = min(len(self._waiting), MOST_IN_BATCH)
                await self._serve([self._waiting.popleft() for _ in range(n_taken)])
        finally:
            self._worker = None

    async def _serve(self, taken: list[tuple[_Asked, asyncio.Future[_Answer]]]) -> None:
        found: Sequence[_Answer | ElldeltaError | BaseException]
        try:
            found = await run_in_threadpool(self._do, [asked for asked, _ in taken])
        except Exception as error:  # noqa: BLE001 (whoever asked raises it again; nobody may wait for ever)
            found = [error] * len(taken)
        except asyncio.CancelledError:
            for _, answer in taken:
                answer.cancel()
            raise
        for (_, answer), value in zip(taken, found, strict=True):
            if answer.done():  # whoever asked has gone
                continue
            if isinstance(value, BaseException):
                answer.set_exception(value)
            else:
                answer.set_result(value)
