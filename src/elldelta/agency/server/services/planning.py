"""What the worker plans: the frontier of a population, previews of requests, and plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from elldelta.agency.server.errors import error_document
from elldelta.agency.server.services.jobs import JobView, finish_job
from elldelta.agency.server.services.plans import issue_plan
from elldelta.agency.server.services.populations import check_epsilon, load_model, protected_model
from elldelta.agency.server.services.requests import open_request
from elldelta.agency.server.tables import Job, ModelFile
from elldelta.errors import RefusedError, counted
from elldelta.plan.planner import Planner
from elldelta.plan.wish import USUAL_DELTA, Wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from elldelta.agency.server.state import Agency
    from elldelta.model import Model
    from elldelta.plan.plan import Plan

    Tell = Callable[[float, str], None]

FRONTIER_ELLS = (2, 3, 5, 10)
FRONTIER_RECORDS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FRONTIER_RELEASES = 2
"""What the frontier of a population is about: certified plans with fixed classes and the usual delta."""


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


def store_frontier(agency: Agency, job: Job, tell: Tell) -> None:
    """Computes the frontier of a model and keeps it with the model; ends the job in the same transaction.

    It is computed once, from rounded counts: clients see it, and no count can be solved for.
    """
    model = protected_model(_model(agency, job, tell), agency.secret)
    values = min(column.size for column in model.schema.sensitives)
    ells = [ell for ell in FRONTIER_ELLS if ell <= values]
    rows = []
    for place, records in enumerate(FRONTIER_RECORDS):
        tell(place / len(FRONTIER_RECORDS), f"{counted(records, 'record')}")
        rows.append({"records": records, "classes": [_n_classes(model, ell, records) for ell in ells]})
    frontier = {"ells": ells, "releases": FRONTIER_RELEASES, "delta": USUAL_DELTA, "rows": rows}
    with agency.database.writing() as session:
        session.get_one(ModelFile, job.arguments["model"]).frontier = frontier
        finish_job(session, agency, job, {})


def preview(agency: Agency, job: Job, tell: Tell) -> dict[str, Any]:
    """The plan that a request would get, or why there is none."""
    planner = _planner(agency, job, tell)
    tell(0.05, "planning for the records asked for")
    described, refusal = None, None
    try:
        described = _made(agency, planner).summary()
    except RefusedError as error:
        refusal = error_document(error)["error"]
    return {"wishes": job.arguments["wishes"], "plan": described, "refusal": refusal}


def plan_and_issue(agency: Agency, job: Job, tell: Tell) -> None:
    """Makes the plan of a request, signs it and issues it; ends the job in the same transaction."""
    planner = _planner(agency, job, tell)
    tell(0.05, "planning")
    plan = _made(agency, planner)
    tell(0.95, "signing and issuing")
    with agency.database.writing() as session:
        row = open_request(session, job.arguments["request"])
        issued = issue_plan(session, agency, row.population_id, plan)
        row.status, row.plan_digest, row.decided_at = "planned", issued.digest, agency.clock()
        result = {"plan": issued.digest, "classes": issued.classes, "promise": issued.promise}
        finish_job(session, agency, job, result)


def _made(agency: Agency, planner: Planner) -> Plan:
    """The plan, with a name of its model that others may see."""
    return replace(planner.made().plan, model=agency.keyed(planner.model.digest))


def _planner(agency: Agency, job: Job, tell: Tell) -> Planner:
    """What makes the plan of a request."""
    model = _model(agency, job, tell)
    return Planner(model, Wish.from_dict(job.arguments["wishes"]))


def _model(agency: Agency, job: Job, tell: Tell) -> Model:
    tell(0.0, "reading the model")
    model = load_model(agency, job.arguments["model"])
    check_epsilon(model, agency.settings.require_epsilon)  # it may have been uploaded before that was asked
    return model


def _n_classes(model: Model, ell: int, records: int) -> int | None:
    """The classes of a plan from the protected counts; None if nothing can be promised."""
    wish = Wish(ell=ell, records=records, releases=FRONTIER_RELEASES)
    try:
        return Planner(model, wish).made().plan.n_classes
    except RefusedError:
        return None
