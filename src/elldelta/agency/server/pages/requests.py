"""Requests: a client asks and sees at once what it costs; the agency previews, plans or declines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from elldelta.agency.server.api.bodies import JobId, Name, Number
from elldelta.agency.server.api.windows import NumberWindow
from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.pages.forms import Posted, PostedForm
from elldelta.agency.server.pages.pictures import Width, frontier_figure, frontier_words, picture
from elldelta.agency.server.pages.rendering import ForTheForm, form_again, page, see
from elldelta.agency.server.rights import AGENCY, AUDITOR, CLIENT, Caller, allow
from elldelta.agency.server.services.costs import Cost, quick_cost
from elldelta.agency.server.services.frontiers import last_preview
from elldelta.agency.server.services.jobs import show_job
from elldelta.agency.server.services.populations import PopulationView, show_population
from elldelta.agency.server.services.requests import (
    FEWEST_PAST,
    RequestJob,
    Wishes,
    begin_job,
    decline_request,
    file_request,
    list_requests,
    show_request,
)
from elldelta.agency.server.state import Agency

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

FORM = "request_form.html"
BEGIN = {"ell": "3", "delta": "0.01", "releases": "2", "records": "10000"}
"""What the form shows first."""


@dataclass(frozen=True)
class Sent:
    """What the agency has decided about a request, as its form tells."""

    request: Request
    agency: Agency
    caller: Caller
    id: int
    posted: Posted

    def begin(self, kind: RequestJob) -> None:
        """Begins a job for the request."""
        fewest_past = self.posted.whole("fewest_past", "The number of past records")
        begin_job(self.agency, self.caller, self.id, kind, fewest_past)

    def answered(self, decide: Callable[[], object], done: str | None = None) -> Response:
        """The page of the request after the decision; or the form again, with what was wrong."""
        try:
            decide()
        except ForTheForm as error:
            about = _about(self.agency, self.caller, self.id)
            return form_again(self.request, "request.html", error, typed=self.posted.typed, **about)
        return see(f"/requests/{self.id}", done)


def _sent(
    request: Request,
    agency: CurrentAgency,
    caller: CurrentCaller,
    id: Number,  # noqa: A002
    posted: PostedForm,
) -> Sent:
    return Sent(request, agency, caller, id, posted)


Decision = Annotated[Sent, Depends(_sent)]


@router.get("/populations/{name}/ask")
@allow(CLIENT)
def ask_form(request: Request, agency: CurrentAgency, name: Name) -> Response:
    """Shows the form, with what its first values cost."""
    population = show_population(agency, name)
    typed = dict(BEGIN)
    if population.model is not None:
        typed["ell"] = str(min(3, population.model.sensitive.values))
    return page(
        request,
        FORM,
        error=None,
        population=population,
        typed=typed,
        cost=_first_cost(agency, population, Posted(typed, {})),
    )


@router.post("/populations/{name}/ask")
@allow(CLIENT)
def ask(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, name: Name, posted: PostedForm
) -> Response:
    """Files a request; or, without a script, only tells what it would cost."""
    population = show_population(agency, name)
    typed = BEGIN | posted.typed
    try:
        if posted.text("action") == "cost":
            cost = quick_cost(agency, name, _costly(posted))
            return page(request, FORM, error=None, population=population, typed=typed, cost=cost)
        filed = file_request(agency, caller, name, _wishes(posted))
    except ForTheForm as error:
        return form_again(request, FORM, error, population=population, typed=typed, cost=None)
    return see(f"/requests/{filed.id}", "asked")


@router.get("/requests")
@allow(CLIENT, AGENCY, AUDITOR)
def index(request: Request, agency: CurrentAgency, caller: CurrentCaller, window: NumberWindow) -> Response:
    """Lists requests."""
    return page(request, "requests.html", requests=list_requests(agency, caller, window))


@router.get("/requests/{id}")
@allow(CLIENT, AGENCY, AUDITOR)
def show(request: Request, agency: CurrentAgency, caller: CurrentCaller, id: Number) -> Response:  # noqa: A002
    """Shows a request; to the agency also what it would get."""
    return page(request, "request.html", error=None, typed={}, **_about(agency, caller, id))


@router.post("/requests/{id}/preview")
@allow(AGENCY)
def preview(sent: Decision) -> Response:
    """Begins to compute what the request would get."""
    return sent.answered(lambda: sent.begin("preview"))


@router.post("/requests/{id}/plan")
@allow(AGENCY)
def plan(sent: Decision) -> Response:
    """Begins to make the plan; the job issues it."""
    return sent.answered(lambda: sent.begin("plan"))


@router.post("/requests/{id}/decline")
@allow(AGENCY)
def decline(sent: Decision) -> Response:
    """Declines the request, with a reason."""
    return sent.answered(lambda: decline_request(sent.agency, sent.id, sent.posted.reason()), "declined")


@router.get("/jobs/{id}/frontier-{width}.svg")
@allow(AGENCY)
def frontier(
    request: Request,
    agency: CurrentAgency,
    caller: CurrentCaller,
    id: JobId,  # noqa: A002
    width: Width,
) -> Response:
    """Draws the frontier of a preview."""
    job = show_job(agency, caller, id)
    if job.kind != "preview" or job.result is None:
        raise NotFoundError("picture")
    rows = job.result["frontier"]
    return picture(request, f"preview {id}", width, lambda: frontier_figure(rows))


def _about(agency: Agency, caller: Caller, request_id: int) -> dict[str, Any]:
    item = show_request(agency, caller, request_id)
    content: dict[str, Any] = {"item": item, "job": None, "preview": None, "frontier_words": ""}
    content["fewest_past"] = FEWEST_PAST
    if caller.role == AGENCY:
        last = last_preview(agency, request_id)
        content["job"] = None if item.job is None else show_job(agency, caller, item.job)
        content["preview"] = last
        if last is not None and last.result is not None:
            content["frontier_words"] = frontier_words(last.result["frontier"])
    return content


def _first_cost(agency: Agency, population: PopulationView, posted: Posted) -> Cost | None:
    if population.model is None:
        return None
    try:
        return quick_cost(agency, population.name, _costly(posted))
    except ForTheForm:
        return None


def _costly(posted: Posted) -> Wishes:
    """The part of a wish that the quick answer is about."""
    return Wishes(
        ell=posted.whole("ell", "ℓ"),
        delta=posted.number("delta", "δ"),
        releases=posted.whole("releases", "The number of releases"),
        records=posted.whole("records", "The number of records"),
    )


def _wishes(posted: Posted) -> Wishes:
    wish = _costly(posted)
    shape = posted.choice("shape", ("boxes", "runs"))
    guarantee = posted.choice("guarantee", ("certified", "probabilistic")) or "certified"
    eta = posted.maybe("eta", posted.number, "The error of the past records")
    min_records = posted.maybe("min_records", posted.whole, "The number of records behind a value")
    return replace(
        wish,
        shape=shape,  # type: ignore[arg-type]
        guarantee=guarantee,  # type: ignore[arg-type]
        eta=0.0 if eta is None else eta,
        waiting_risk=posted.maybe("waiting_risk", posted.number, "The waiting risk"),
        min_records=1 if min_records is None else min_records,
    )
