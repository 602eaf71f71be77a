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
    from elldelta.agency.server.state import Agency

BATCH = 500
"""Answers that are removed in one transaction: whoever waits to write must not wait long."""

_KEY = tuple_(Answer.party_id, Answer.key)


def forget_answers(agency: Agency, *, batch: int = BATCH) -> int:
    """Removes answers that are older than their time, or more than one party may have; says how many."""
    oldest = agency.clock() - dt.timedelta(days=agency.limits.answer_days)
    newer = func.rank().over(partition_by=Answer.party_id, order_by=Answer.answered_at.desc())
    ranked = select(Answer.party_id, Answer.key, Answer.answered_at, newer.label("place")).subquery().c
    is_too_much = (ranked.answered_at < oldest) | (ranked.place > agency.limits.answers_kept)
    chosen, n_removed = select(ranked.party_id, ranked.key).where(is_too_much).limit(batch), 0
    while True:
        with agency.database.writing() as session:
            keys = [tuple(key) for key in session.execute(chosen)]
            if keys:
                gone = delete(Answer).where(_KEY.in_(keys))
                session.execute(gone.execution_options(synchronize_session=False))
        n_removed += len(keys)
        if len(keys) < batch:
            return n_removed
