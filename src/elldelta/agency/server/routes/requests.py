"""Requests: a client asks; the agency previews, plans or declines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin

from fastapi import APIRouter, Response
from pydantic import BeforeValidator, Field, create_model

from elldelta.agency.server.guard import CurrentAgency, CurrentContext, RequestContext, allow
from elldelta.agency.server.paging import LARGEST, CurrentCursor, Page
from elldelta.agency.server.routes.description import ERRORS, Body, JobId, Name, Number
from elldelta.agency.server.routes.plans import Reason
from elldelta.agency.server.routes.rendering import (
    EMPTY_FORM,
    Posted,
    PostedForm,
    form_again,
    page,
    redirect,
)
from elldelta.agency.server.services import requests
from elldelta.agency.server.services.jobs import JobView, show_job
from elldelta.agency.server.services.planning import last_preview
from elldelta.agency.server.services.populations import show_population
from elldelta.agency.server.services.requests import (
    AGENCY_DECIDES,
    MOST_RELEASES,
    RequestView,
)
from elldelta.agency.server.tables import AGENCY, AUDITOR, CLIENT, NAME_PATTERN, ROLES
from elldelta.parameters import Doc, Parameter, parameters_of
from elldelta.plan.wish import Wish

api = APIRouter(prefix="/api/v1", responses=ERRORS, tags=["requests"])
pages = APIRouter(include_in_schema=False)

FIRST_TYPED = {"ell": "3", "releases": "2", "records": "10000"}
"""What the form shows first."""

MOST = {"ell": LARGEST, "releases": MOST_RELEASES, "min_records": MOST_RELEASES}
"""The largest numbers that the service takes, where a wish itself has no limit."""


def body_of(kind: type) -> type[Body]:
    """The body of a request, made from the parameters of a wish that clients decide."""
    fields: dict[str, Any] = {
        parameter.name: (
            _body_type(parameter),
            Field(default=parameter.default, description=parameter.doc.text),
        )
        for parameter in client_parameters(kind)
    }
    return create_model(kind.__name__, __base__=Body, **fields)


def _body_type(parameter: Parameter) -> Any:  # noqa: ANN401 (an annotation)
    """The type of a field: numbers in their range, for several columns also by their names."""
    doc = parameter.doc
    limits = Field(gt=doc.above, ge=doc.least, lt=doc.below, le=MOST.get(parameter.name, doc.most))
    kinds: list[Any] = [None] if parameter.default is None else []
    for kind in parameter.types:
        if get_origin(kind) is Mapping:
            number = get_args(kind)[1]
            kinds.append(dict[str, Annotated[number, limits]])  # type: ignore[valid-type]
        else:
            kinds.append(Annotated[kind, limits] if kind in (int, float) else kind)
    return Annotated[Union[tuple(kinds)], BeforeValidator(partial(_read_columns, doc))]  # noqa: UP007


def _read_columns(doc: Doc, value: object) -> object:
    """Reads what forms send for several columns: disease=5,income=3."""
    if doc.parse is not None and isinstance(value, str) and "=" in value:
        return doc.parse(value)
    return value


def client_parameters(kind: type) -> list[Parameter]:
    """The parameters of a wish that clients decide."""
    return [parameter for parameter in parameters_of(kind) if parameter.name not in AGENCY_DECIDES]


class NewRequest(body_of(Wish)):  # type: ignore[misc]
    """What a client asks for."""

    population: str = Field(pattern=NAME_PATTERN)


@api.post("/requests", status_code=201, summary="Ask for a plan", dependencies=[allow(CLIENT)])
def create(context: CurrentContext, body: NewRequest) -> RequestView:
    """Files a request; the agency decides about it."""
    wish = Wish(**body.model_dump(exclude={"population"}))
    return requests.file_request(context.agency, context.caller, body.population, wish)


@api.get("/requests", summary="Requests", dependencies=[allow(CLIENT, AGENCY, AUDITOR)])
def index(context: CurrentContext, cursor: CurrentCursor) -> Page[RequestView]:
    """Lists a client's own requests; the agency and auditors see all."""
    return requests.list_requests(context.agency, context.caller, cursor)


@api.get("/requests/{id}", summary="A request", dependencies=[allow(CLIENT, AGENCY, AUDITOR)])
def show(context: CurrentContext, id: Number) -> RequestView:  # noqa: A002
    """Shows a request."""
    return requests.show_request(context.agency, context.caller, id)


@api.post(
    "/requests/{id}/preview",
    status_code=202,
    summary="See what a request would get",
    dependencies=[allow(AGENCY)],
)
def preview(context: CurrentContext, id: Number) -> JobView:  # noqa: A002
    """Starts a job; its result holds the plan that the request would get."""
    return requests.begin_job(context.agency, context.caller, id, "preview")


@api.post("/requests/{id}/plan", status_code=202, summary="Plan and issue", dependencies=[allow(AGENCY)])
def plan(context: CurrentContext, id: Number) -> JobView:  # noqa: A002
    """Starts a job that makes the plan, signs it and issues it; its result names the digest."""
    return requests.begin_job(context.agency, context.caller, id, "plan")


@api.post("/requests/{id}/decline", summary="Decline a request", dependencies=[allow(AGENCY)])
def decline(agency: CurrentAgency, id: Number, body: Reason) -> RequestView:  # noqa: A002
    """Declines a request, with a reason that the client sees."""
    return requests.decline_request(agency, id, body.reason)


@api.get("/jobs/{id}", summary="A job", dependencies=[allow(*ROLES)])
def job(context: CurrentContext, id: JobId) -> JobView:  # noqa: A002
    """Shows how far a job is, and what came out of it."""
    return show_job(context.agency, context.caller, id)


def _asking(context: RequestContext, name: str, posted: Posted, **_: object) -> dict[str, Any]:
    typed = FIRST_TYPED | posted.typed
    return {
        "population": show_population(context.agency, name),
        "typed": typed,
        "parameters": client_parameters(Wish),
    }


@pages.get("/populations/{name}/ask", dependencies=[allow(CLIENT)])
def ask_page(context: CurrentContext, name: Name) -> Response:
    """Shows the form, with the frontier of the population."""
    about = _asking(context, name, EMPTY_FORM)
    model = about["population"].model
    if model is not None:
        about["typed"]["ell"] = str(min(3, *(column.values for column in model.sensitives)))
    return page(context.request, "request_form.html", **about)


@pages.post("/populations/{name}/ask", dependencies=[allow(CLIENT)])
@form_again("request_form.html", _asking)
def ask(context: CurrentContext, name: Name, posted: PostedForm) -> Response:
    """Files a request."""
    typed = posted.read(NewRequest, population=name).model_dump(exclude={"population"})
    if typed["owners"] is not None:  # they stand in place of t, which the form shows, too
        typed["releases"] = None
    filed = requests.file_request(context.agency, context.caller, name, Wish(**typed))
    return redirect(f"/requests/{filed.id}", "asked")


@pages.get("/requests", dependencies=[allow(CLIENT, AGENCY, AUDITOR)])
def index_page(context: CurrentContext, cursor: CurrentCursor) -> Response:
    """Lists requests."""
    return page(
        context.request,
        "requests.html",
        requests=requests.list_requests(context.agency, context.caller, cursor),
    )


def _one(context: RequestContext, id: int, posted: Posted = EMPTY_FORM, **_: object) -> dict[str, Any]:  # noqa: A002
    item = requests.show_request(context.agency, context.caller, id)
    content: dict[str, Any] = {"item": item, "job": None, "preview": None}
    if context.caller.role == AGENCY:
        content["preview"] = last_preview(context.agency, id)
        content["job"] = None if item.job is None else show_job(context.agency, context.caller, item.job)
    return content | {"typed": posted.typed}


@pages.get("/requests/{id}", dependencies=[allow(CLIENT, AGENCY, AUDITOR)])
def show_page(context: CurrentContext, id: Number) -> Response:  # noqa: A002
    """Shows a request; to the agency also what it would get."""
    return page(context.request, "request.html", **_one(context, id))


@pages.post("/requests/{id}/preview", dependencies=[allow(AGENCY)])
@pages.post("/requests/{id}/plan", dependencies=[allow(AGENCY)])
@form_again("request.html", _one)
def begin(context: CurrentContext, id: Number, posted: PostedForm) -> Response:  # noqa: A002
    """Begins to compute what the request would get, or to make the plan, which the job issues."""
    is_plan = context.request.url.path.endswith("/plan")
    requests.begin_job(context.agency, context.caller, id, "plan" if is_plan else "preview")
    return redirect(f"/requests/{id}")


@pages.post("/requests/{id}/decline", dependencies=[allow(AGENCY)])
@form_again("request.html", _one)
def decline_form(context: CurrentContext, id: Number, posted: PostedForm) -> Response:  # noqa: A002
    """Declines the request, with a reason."""
    requests.decline_request(context.agency, id, posted.read(Reason).reason)
    return redirect(f"/requests/{id}", "declined")
