"""Plans for tables that live: classes so large that what comes and what goes can pass as tables of their own.

An update shows who came, who went and who stayed. Who came and who went are few; those who stayed, and the
whole tables, are many and miss little. So classes are made as for two owners who share a ledger and have as
many records as come and go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.updates import chance_of_change

if TYPE_CHECKING:
    from elldelta.plan.plan import Plan
    from elldelta.plan.wish import Wish


def tables_of(asked: Wish | Plan, n_records: int) -> tuple[int, int, int | None]:
    """How many records each table has that a class must pass with, how many tables, and what they share."""
    if asked.turnover is not None:
        return max(1, int(n_records * asked.turnover)), 2, 0
    # Owners who share a ledger: whether one of them has to merge, if they draw independently.
    return n_records, asked.owners or asked.releases, asked.shared_records if asked.owners is None else 0


def with_expectation(plan: Plan) -> Plan:
    """The plan with a note that says how often one of its classes can be expected to change."""
    chances = chance_of_change(plan.cells(), plan.ell, plan.records, plan.turnover or 0.0, plan.min_records)
    note = (
        f"Where {plan.turnover:.3g} of the records come and as many go, a class can be expected to change in "
        f"{np.floor(100.0 * chances.mean()):.0f} % of the updates; the class for which that is hardest, in "
        f"{np.floor(100.0 * chances.min()):.0f} %. Otherwise its records wait. This is an estimate for one "
        "update; what earlier updates and other owners miss is added to it."
    )
    return replace(plan, notes=(*plan.notes, note))
