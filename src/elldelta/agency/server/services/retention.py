"""Answers, to be given again to the same key, are kept for a time only.

Forgetting an answer admits nothing twice: a release that has its line is known by its content, whatever key
it comes with.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select, tuple_

from elldelta.agency.server.tables import Answer

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from elldelta.agency.server.state import Agency

BATCH = 500
"""Answers that are removed in one transaction: whoever waits to write must not wait long."""


def forget_answers(agency: Agency, *, batch: int = BATCH) -> int:
    """Removes answers that are older than their time, or more than one party may have; says how many."""
    limits = agency.limits
    old = Answer.answered_at < agency.clock() - dt.timedelta(days=limits.answer_days)
    n_removed = _removed(agency, old, batch)
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
            too_many = (Answer.party_id == party_id) & (Answer.answered_at < oldest_kept)
            n_removed += _removed(agency, too_many, batch)
    return n_removed


def _removed(agency: Agency, which: ColumnElement[bool], batch: int) -> int:
    n_removed = 0
    while True:
        with agency.database.writing() as session:
            keys = session.execute(select(Answer.party_id, Answer.key).where(which).limit(batch)).all()
            if keys:
                session.execute(
                    delete(Answer)
                    .where(tuple_(Answer.party_id, Answer.key).in_([tuple(key) for key in keys]))
                    .execution_options(synchronize_session=False)
                )
        n_removed += len(keys)
        if len(keys) < batch:
            return n_removed
