"""What a check finds about a release, against the lines that there are at the moment.

The check takes long and needs no lock: lines are only ever added. Whoever admits the release looks, alone,
whether there are still the same lines, and lets it be checked again only if there are more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from elldelta.agency.registration import check_registration
from elldelta.agency.server.services.ledger import registered_elsewhere, registered_under
from elldelta.agency.server.tables import LedgerLine, Plan
from elldelta.errors import ElldeltaError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from elldelta.agency.registration import Registered, Registration
    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.ledger import Admission
    from elldelta.plan.plan import Plan as PlanFile

    State = tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Case:
    """A release, and everything it is linked with.

    Attributes:
        state: How many lines every ledger of the population had before they were read.
        entries: The releases of the same plan.
        elsewhere: The releases of other plans.
    """

    caller: Caller
    plan: PlanFile
    registration: Registration
    state: State
    entries: tuple[Registered, ...]
    elsewhere: tuple[Registered, ...]

    @classmethod
    def read(
        cls,
        session: Session,
        agency: Agency,
        caller: Caller,
        plan: PlanFile,
        registration: Registration,
        population_id: int,
    ) -> Case:
        """Reads what there is; the state first, so that lines which are added meanwhile make it differ."""
        return cls(
            caller,
            plan,
            registration,
            ledger_state(session, population_id),
            registered_under(session, agency, plan.digest),
            registered_elsewhere(session, agency, population_id, plan.digest),
        )

    def judge(self) -> Judgement:
        """Checks the release; needs no database."""
        found: Admission | ElldeltaError
        try:
            found = check_registration(
                self.plan, self.registration, self.entries, owner=self.caller.name, elsewhere=self.elsewhere
            )
        except ElldeltaError as error:
            found = error
        return Judgement(self.state, found)


@dataclass(frozen=True, eq=False)
class Judgement:
    """What the check has found.

    Attributes:
        state: The lines that it knew.
        found: The admission, or why there is none.
    """

    state: State
    found: Admission | ElldeltaError

    @property
    def admission(self) -> Admission:
        """The admission.

        Raises:
            ElldeltaError: The release is not admitted; says why.
        """
        if isinstance(self.found, ElldeltaError):
            raise self.found
        return self.found


def ledger_state(session: Session, population_id: int) -> State:
    """How many lines every ledger of a population has; lines never change, so these tell which there are.

    By itself it may be old at once; whoever has locked the population can rely on it.
    """
    rows = session.execute(
        select(LedgerLine.plan_digest, func.count().label("lines"))
        .join(Plan, Plan.digest == LedgerLine.plan_digest)
        .where(Plan.population_id == population_id)
        .group_by(LedgerLine.plan_digest)
        .order_by(LedgerLine.plan_digest)
    )
    return tuple((row.plan_digest, row.lines) for row in rows)
