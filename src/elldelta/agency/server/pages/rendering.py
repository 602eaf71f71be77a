"""How pages are made: templates of this package, escaped by default; redirections; the page of an error."""

from __future__ import annotations

import datetime as dt
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from elldelta.agency.server.errors import status_of, unforeseen
from elldelta.agency.server.pages.assets import asset_url
from elldelta.agency.server.pages.words import explained
from elldelta.errors import ElldeltaError, InputError, RefusedError
from elldelta.plan.plan import rounded_up

if TYPE_CHECKING:
    from jinja2 import Environment

    from elldelta.agency.server.state import Agency

ForTheForm = (InputError, RefusedError)
"""What goes wrong because of what somebody sent: told beside the form. Bugs of ours have their own page."""

DONE = {
    "signed-out": "You are signed out.",
    "asked": "Your request is filed. The agency decides about it.",
    "declined": "The request is declined. The client sees the reason.",
    "reported": "Your number is noted.",
    "registered": "Your release is admitted. Its line is in the ledger.",
    "registered-before": "Your release was admitted before. Its line is in the ledger already.",
    "withdrawn": "The plan is withdrawn.",
    "superseded": "The plan is superseded.",
    "population-added": "The population is added. It has no model yet.",
    "model-uploaded": "The model is uploaded. Requests are planned with it from now on.",
    "party-added": "The party is added.",
    "party-disabled": "The party is disabled. Its tokens and sign-ins have ended.",
    "token-revoked": "The token is revoked.",
    "password-set": "The password is set. All earlier sign-ins of this party have ended.",
}
"""What a page says after something was done. Only its name is in the address: nobody can forge the text."""

ONE_IN_A_MILLION = 1e-6

_LOCAL = re.compile(r"/(?![/\\])[!-~]{0,500}\Z")


def page(request: Request, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:  # noqa: ANN401
    """A page; a name that its template needs and does not get is an error."""
    agency: Agency = request.app.state.agency
    html = (
        _environment()
        .get_template(template)
        .render(
            me=getattr(request.state, "caller", None),
            path=request.url.path,
            done=DONE.get(request.query_params.get("done", "")),
            is_demo=agency.settings.is_demo,
            **content,
        )
    )
    return HTMLResponse(html, status)


def form_again(
    request: Request,
    template: str,
    error: ElldeltaError,
    **content: Any,  # noqa: ANN401
) -> HTMLResponse:
    """The page of a form once more, with what was wrong."""
    answer = page(request, template, status=status_of(error), error=error, **content)
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        answer.headers["Retry-After"] = str(retry_after)
    return answer


def see(path: str, done: str | None = None) -> RedirectResponse:
    """Sends the browser to another page, after something was done."""
    path = quote(path, safe="/:?=&#.")
    return RedirectResponse(path if done is None else f"{path}?done={done}", 303)


def local_path(path: str) -> str:
    """A path of this service to return to; anything else becomes the first page."""
    return path if _LOCAL.match(path) else "/"


def error_page(request: Request, status: int, error: ElldeltaError) -> HTMLResponse:
    """What a browser shows when something is wrong; somebody who is not known can sign in at once."""
    if status == 401:
        wanted = request.url.path if request.method == "GET" else "/"
        return page(
            request,
            "sign_in.html",
            status=status,
            error=None,
            name="",
            wanted=wanted,
            logins=demo_logins(request),
        )
    problem, found, remedy = error.problem, error.found, error.remedy
    if status == 500:
        told = unforeseen()["error"]
        problem, found, remedy = told["problem"], told["found"], told["remedy"]
    elif status == 404:
        remedy = "Follow a link from the first page."
    elif status == 422 and request.method == "GET":
        problem, found = "There is no such page.", "The address cannot be understood."
        remedy = "Follow a link from the first page."
    return page(request, "error.html", status=status, problem=problem, found=found, remedy=remedy)


def demo_logins(request: Request) -> tuple[Any, ...]:
    """The logins of the demonstration, which everybody knows; none anywhere else."""
    agency: Agency = request.app.state.agency
    if not agency.settings.is_demo:
        return ()
    from elldelta.agency.server.demo import LOGINS

    return LOGINS


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("elldelta.agency.server", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: f"{value:,}",
        "share": lambda value: f"{value:.1%}".replace("%", " %"),
        "chance": chance,
        "small": lambda value: f"{value:.3g}",
        "moment": _moment,
        "iso": lambda value: value.isoformat(timespec="seconds"),
        "short": lambda digest: digest.removeprefix("sha256:")[:8],
    }
    environment.globals |= {"asset": asset_url, "explained": explained}
    return environment


def chance(bound: float) -> str:
    """An upper bound on a chance, for people; what is told is never smaller than the bound."""
    if bound <= ONE_IN_A_MILLION:
        return "one in a million"
    return rounded_up(bound) if bound >= 1e-3 else f"one in {math.floor(1 / bound):,}"


def _moment(moment: dt.datetime) -> str:
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
