"""What a worker does for a request: the preview of what it would get, and the plan that is issued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy.exc import IntegrityError

from elldelta.agency.server.errors import BusyError, ConflictError
from elldelta.agency.server.services.jobs import finish_job
from elldelta.agency.server.services.plans import issue_plan
from elldelta.agency.server.services.populations import load_model
from elldelta.agency.server.services.requests import Wishes, open_request
from elldelta.errors import RefusedError
from elldelta.plan.frontier import frontier_rows
from elldelta.plan.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.agency.server.services.jobs import Claim
    from elldelta.agency.server.state import Agency
    from elldelta.plan.frontier import FrontierRow
    from elldelta.plan.plan import Plan

    Tell = Callable[[float, str], None]

N_POINTS = 8
"""Numbers of records at which a preview compares the bounds."""


def preview(agency: Agency, claim: Claim, tell: Tell) -> dict[str, Any]:
    """The frontier of a request, and the plan at the records that were asked for."""
    tell(0.02, "reading the model")
    model = load_model(agency, claim.arguments["model"])
    wishes = Wishes(**claim.arguments["wishes"])
    request = wishes.plan_request(claim.arguments["fewest_past"])
    tell(0.05, "planning for the records asked for")
    planner = Planner(model, request)
    plan, refusal = None, None
    try:
        plan = planner.plan(request.bound, wishes.records)
    except RefusedError as error:
        refusal = {"problem": error.problem, "found": error.found, "remedy": error.remedy}
    (compared,) = frontier_rows(planner, [wishes.records])
    # Around what was asked for, from a quarter to sixteen times of it: what would more or fewer records give?
    numbers = np.unique(np.geomspace(max(1, wishes.records // 4), 16 * wishes.records, N_POINTS).astype(int))
    rows = []
    for place, row in enumerate(frontier_rows(planner, numbers.tolist())):
        tell(0.3 + 0.7 * place / len(numbers), f"frontier, {place + 1} of {len(numbers)}")
        rows.append({"records": row.records, "classes": dict(row.classes)})
    return {
        "wishes": claim.arguments["wishes"],
        "plan": None if plan is None else _described(plan, compared),
        "refusal": refusal,
        "frontier": rows,
    }


def plan_and_issue(agency: Agency, claim: Claim, tell: Tell) -> dict[str, Any]:
    """Makes the plan of a request, signs it and issues it; ends the job in the same transaction."""
    tell(0.02, "reading the model")
    model = load_model(agency, claim.arguments["model"])
    wishes = Wishes(**claim.arguments["wishes"])
    request = wishes.plan_request(claim.arguments["fewest_past"])
    tell(0.05, "planning")
    plan = Planner(model, request).plan(request.bound, wishes.records)
    tell(0.95, "signing and issuing")
    for _ in range(2):
        try:
            return _issue(agency, claim, plan)
        except IntegrityError:
            continue  # another worker has issued the same plan for somebody else: now it is known
    raise BusyError


def _issue(agency: Agency, claim: Claim, plan: Plan) -> dict[str, Any]:
    with agency.database.writing() as session:
        row = open_request(session, claim.arguments["request"])
        issued = issue_plan(session, agency, row.population_id, plan)
        row.status, row.plan_digest, row.decided_at = "planned", issued.digest, agency.clock()
        result = {"plan": issued.digest, "classes": issued.classes, "promise": issued.promise}
        if not finish_job(session, agency, claim, result):
            raise ConflictError("Another worker has taken this job over.")  # nothing of the above happens
    return result


def _described(plan: Plan, compared: FrontierRow) -> dict[str, Any]:
    return {
        **plan.summary(),
        "alternatives": [
            {
                "bound": bound,
                "classes": compared.classes[bound],
                "records": compared.records,
                "failure_upper": compared.failures_upper[bound],
            }
            for bound in compared.classes
        ],
    }
