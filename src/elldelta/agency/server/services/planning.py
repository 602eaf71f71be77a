"""What a wish would get: quickly, for the form in which it is typed; a preview; the plan that is issued.

While somebody types only what is cheap is computed, from rounded counts: how many records the paper's bound
needs for one class, and how many classes it gives for the records that were named. What the sharp bound gives
is told if a preview has computed it. Previews, with the frontier, and plans are made by a worker.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from elldelta.agency.server.checking import PaperCost, answered, check_epsilon, paper_cost, two_digits
from elldelta.agency.server.errors import BusyError, ConflictError, document_of
from elldelta.agency.server.rights import CLIENT
from elldelta.agency.server.services.jobs import JobView, enqueue, finish_job, last_done
from elldelta.agency.server.services.plans import find_plan, issue_plan, load_plan
from elldelta.agency.server.services.populations import (
    current_model,
    find_model,
    find_population,
    load_model,
    model_content,
)
from elldelta.agency.server.services.requests import (
    FEWEST_PAST,
    open_request,
    preview_subject,
    stored_wishes,
)
from elldelta.agency.server.tables import Job, Request, View
from elldelta.errors import RefusedError
from elldelta.files import digest
from elldelta.plan.frontier import frontier_rows
from elldelta.plan.planner import Planner
from elldelta.plan.wish import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.orm import Session

    from elldelta.agency.server.rights import Caller
    from elldelta.agency.server.state import Agency
    from elldelta.plan.frontier import FrontierRow
    from elldelta.plan.plan import Plan

    Tell = Callable[[float, str], None]

MANY_CELLS = 1 << 21
"""Tables above this are not searched while somebody types."""

N_POINTS = 8
"""Numbers of records at which a preview compares kinds of plan."""


class Cost(View):
    """What a wish costs.

    Attributes:
        population: Which people it is about.
        ell: Sensitive values to be left.
        delta: Failure probability of one release, if it was asked for.
        releases: How many releases may be linked.
        records: The records that every owner can wait for.
        failure_after_linkage: releases x delta, which a plan promises at most; None without delta.
        paper: What the paper's bound says.
        sharp_classes: The classes of the sharp plan, if a preview has computed it; otherwise None.
    """

    population: str
    ell: int
    delta: float | None
    releases: int
    records: int
    failure_after_linkage: float | None
    paper: PaperCost
    sharp_classes: int | None


class FrontierView(View):
    """The frontier of a plan.

    Attributes:
        rows: Numbers of records, and the classes of every kind of plan for them; as a preview tells them.
        drawn_by: The job that has computed and drawn them.
        job: The job that is computing it, as long as there are no rows.
    """

    rows: tuple[dict[str, Any], ...] = ()
    drawn_by: str = ""
    job: JobView | None = None


def quick_cost(agency: Agency, caller: Caller, population: str, wish: Wish) -> Cost:
    """What a wish costs, about, from what is cheap to compute or known already.

    It is computed from rounded counts, so that no number of questions leads to the true ones; for a chance
    and a number of records on a grid; and told with two digits. A client may ask so often and not more.
    """
    if caller.role == CLIENT:
        agency.by_client.take(str(caller.id))
    with agency.database.reading() as session:
        model = current_model(agency, find_population(session, population))
        known = last_done(session, preview_subject(model.digest, stored_wishes(wish)))
    plan = known.result["plan"] if known is not None and known.result is not None else None
    asked = replace(
        wish,
        delta=_on_grid(wish.release_failure),
        records=two_digits(wish.records or 1),
        fewest_past=FEWEST_PAST,
    )

    def paper() -> PaperCost:
        content = model_content(agency, model.id)
        return paper_cost(content, agency.secret, asked.to_dict(), MANY_CELLS)

    return Cost(
        population=population,
        ell=wish.largest_ell,
        delta=wish.delta,
        releases=wish.releases,
        records=wish.records or 0,
        failure_after_linkage=None if wish.delta is None else wish.budget,
        paper=agency.costs.get((model.id, digest(asked.to_dict())), paper),
        sharp_classes=plan["classes"] if plan else None,
    )


def show_frontier(agency: Agency, plan_digest: str) -> FrontierView:
    """The frontier of a plan, if it has been computed; otherwise the job that does it, if there is one."""
    with agency.database.reading() as session:
        for subject, _ in _previews(session, agency, plan_digest):
            done = last_done(session, subject)
            if done is not None and done.result is not None:
                return FrontierView(rows=done.result["frontier"], drawn_by=done.id)
            last = session.scalars(
                select(Job).where(Job.subject == subject).order_by(Job.created_at.desc()).limit(1)
            ).first()
            if last is not None:
                return FrontierView(job=JobView.model_validate(last))
    return FrontierView()


def ask_frontier(agency: Agency, caller: Caller, plan_digest: str) -> JobView:
    """Begins to compute the frontier of a plan that was issued without a preview.

    Raises:
        ConflictError: Nobody knows any more what the plan was asked for with.
    """
    with agency.database.writing() as session:
        for subject, arguments in _previews(session, agency, plan_digest):
            return enqueue(session, agency, caller, "preview", subject, arguments, plan_digest=plan_digest)
    raise ConflictError(
        "The frontier of this plan cannot be computed.", found="It was not issued for a request."
    )


def last_preview(agency: Agency, request_id: int) -> JobView | None:
    """The last preview of a request that ended well; for the agency."""
    with agency.database.reading() as session:
        job = session.scalars(
            select(Job)
            .where(Job.request_id == request_id, Job.kind == "preview", Job.status == "done")
            .order_by(Job.created_at.desc())
            .limit(1)
        ).first()
        return None if job is None else JobView.model_validate(job)


def preview(agency: Agency, claim: Job, tell: Tell) -> dict[str, Any]:
    """The frontier of a request, and the plan at the records that were asked for."""
    planner, n_records = _planner(agency, claim, tell)
    tell(0.05, "planning for the records asked for")
    described, refusal = None, None
    try:
        described = _made(agency, planner).summary()
    except RefusedError as error:
        refusal = document_of(error)["error"]
    else:
        (compared,) = frontier_rows(planner, [n_records])
        described["alternatives"] = [
            {"kind": kind, "classes": n_classes, "records": compared.records}
            for kind, n_classes in compared.classes.items()
        ]
    # Around what was asked for, from a quarter to sixteen times of it: what would more or fewer records give?
    numbers = np.unique(np.geomspace(max(1, n_records // 4), 16 * n_records, N_POINTS).astype(int))
    rows = []
    for place, row in enumerate(_frontier(agency, planner, described, numbers.tolist())):
        tell(0.3 + 0.7 * place / len(numbers), f"frontier, {place + 1} of {len(numbers)}")
        rows.append({"records": row.records, "classes": dict(row.classes)})
    return {
        "wishes": claim.arguments["wishes"],
        "plan": described,
        "refusal": refusal,
        "frontier": rows,
    }


def plan_and_issue(agency: Agency, claim: Job, tell: Tell) -> str:
    """Makes the plan of a request, signs it and issues it; ends the job in the same transaction.

    Returns:
        The digest of the plan.
    """
    planner, _ = _planner(agency, claim, tell)
    tell(0.05, "planning")
    plan = _made(agency, planner)
    tell(0.95, "signing and issuing")
    for _ in range(2):
        try:
            _issue(agency, claim, plan)
        except IntegrityError:
            continue  # another worker has issued the same plan for somebody else: now it is known
        return plan.digest
    raise BusyError


def _made(agency: Agency, planner: Planner) -> Plan:
    """The plan, with a name of its model that others may see."""
    plan = planner.made()
    return replace(plan, model_digest=agency.keyed(plan.model_digest))


def _planner(agency: Agency, claim: Job, tell: Tell) -> tuple[Planner, int]:
    """What makes the plans of a request, and the records that were asked for."""
    tell(0.02, "reading the model")
    model = load_model(agency, claim.arguments["model"])
    check_epsilon(model, agency.settings.require_epsilon)  # it may have been uploaded before that was asked
    fewest = (
        1 if model.noise else claim.arguments["fewest_past"]
    )  # noise protects people with rare values, too
    planner = Planner(model, Wish.from_dict({**claim.arguments["wishes"], "fewest_past": fewest}))
    return planner, planner.records()


def _frontier(
    agency: Agency, planner: Planner, described: dict[str, Any] | None, records: list[int]
) -> Iterator[FrontierRow]:
    """What each kind of plan gives, from rounded counts: clients see it, and no count can be solved for."""
    model = answered(planner.model, agency.secret)
    risk = planner.wish.waiting_risk if described is None else described["waiting_risk"]
    if model.counts.n.size and (described is not None or risk != "auto"):
        yield from frontier_rows(Planner(model, replace(planner.wish, waiting_risk=risk)), records)


def _issue(agency: Agency, claim: Job, plan: Plan) -> None:
    with agency.database.writing() as session:
        row = open_request(session, claim.arguments["request"])
        issued = issue_plan(session, agency, row.population_id, plan)
        row.status, row.plan_digest, row.decided_at = "planned", issued.digest, agency.clock()
        result = {"plan": issued.digest, "classes": issued.classes, "promise": issued.promise}
        if not finish_job(session, agency, claim, result):
            raise ConflictError("Another worker has taken this job over.")  # nothing of the above happens


def _on_grid(delta: float) -> float:
    """The next of 0.5, 0.2, 0.1, 0.05, ... that is not above."""
    power = 10.0 ** math.floor(math.log10(delta))
    return max(step * power for step in (1, 2, 5) if step * power <= delta * (1 + 1e-9))


def _previews(session: Session, agency: Agency, plan_digest: str) -> list[tuple[str, dict[str, Any]]]:
    """What previews of the requests that led to a plan are about, and the arguments of their jobs."""
    plan = load_plan(agency, plan_digest)
    model = find_model(session, find_plan(session, plan_digest).population_id, plan)
    if model is None:
        return []
    jobs = session.scalars(
        select(Job)
        .join(Request, Request.id == Job.request_id)
        .where(Request.plan_digest == plan_digest, Job.kind == "plan", Job.status == "done")
        .order_by(Job.created_at, Job.id)
    )
    return [
        (preview_subject(model.digest, job.arguments["wishes"], job.arguments["fewest_past"]), job.arguments)
        for job in jobs
    ]
