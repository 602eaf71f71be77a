"""What is kept for a time only: answers to be given again, and refusals. What the ledger holds is for ever.

Forgetting an answer admits nothing twice: a release that has its line is known by its content, whatever key
it comes with.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select, tuple_

from elldelta.agency.server.tables import Answer, Plan, Refusal

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from elldelta.agency.server.state import Agency

BATCH = 500
"""Rows that are removed in one transaction: whoever waits to write must not wait long."""


def forget_answers(agency: Agency) -> int:
    """Removes answers that are older than their time, or more than one party may have; says how many."""
    limits = agency.limits
    old = Answer.answered_at < agency.clock() - dt.timedelta(days=limits.answer_days)
    n_removed = _removed(agency, old)
    with agency.database.reading() as session:
        crowded = session.scalars(
            select(Answer.party_id).group_by(Answer.party_id).having(func.count() > limits.answers_kept)
        ).all()
    for party_id in crowded:
        with agency.database.reading() as session:
            oldest_kept = session.scalars(
                select(Answer.answered_at)
                .where(Answer.party_id == party_id)
                .order_by(Answer.answered_at.desc())
                .offset(limits.answers_kept - 1)
                .limit(1)
            ).one_or_none()
        if oldest_kept is not None:
            n_removed += _removed(agency, (Answer.party_id == party_id) & (Answer.answered_at < oldest_kept))
    return n_removed


def forget_refusals(session: Session, population_id: int, party_id: int, most: int) -> None:
    """Keeps the newest refusals of an owner about a population; nobody can push out those of others."""
    plans = select(Plan.digest).where(Plan.population_id == population_id)
    own = (Refusal.party_id == party_id) & Refusal.plan_digest.in_(plans)
    oldest_kept = session.scalars(
        select(Refusal.id).where(own).order_by(Refusal.id.desc()).offset(most - 1).limit(1)
    ).one_or_none()
    if oldest_kept is not None:
        session.execute(
            delete(Refusal).where(own, Refusal.id < oldest_kept).execution_options(synchronize_session=False)
        )


def _removed(agency: Agency, which: ColumnElement[bool]) -> int:
    n_removed = 0
    while True:
        with agency.database.writing() as session:
            keys = session.execute(select(Answer.party_id, Answer.key).where(which).limit(BATCH)).all()
            if keys:
                session.execute(
                    delete(Answer)
                    .where(tuple_(Answer.party_id, Answer.key).in_([tuple(key) for key in keys]))
                    .execution_options(synchronize_session=False)
                )
        n_removed += len(keys)
        if len(keys) < BATCH:
            return n_removed
