"""An owner registers a release: by the command line, or by uploading the registration that it has made."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from elldelta.agency.server.api.bodies import Digest
from elldelta.agency.server.errors import NotFoundError
from elldelta.agency.server.guarded_route import CurrentAgency, CurrentCaller, GuardedRoute
from elldelta.agency.server.pages.forms import PostedForm
from elldelta.agency.server.pages.rendering import ForTheForm, form_again, page, see
from elldelta.agency.server.rights import OWNER, allow
from elldelta.agency.server.services.plans import show_plan
from elldelta.agency.server.services.releases import KNOWN, register_release
from elldelta.agency.server.state import Agency
from elldelta.errors import ParameterError

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

TEMPLATE = "register.html"
_KEY_LENGTH = 32


@router.get("/plans/{digest}/register")
@allow(OWNER)
def register_form(request: Request, agency: CurrentAgency, digest: Digest) -> Response:
    """Shows both ways."""
    return page(request, TEMPLATE, error=None, refusal=None, **_about(agency, digest))


@router.post("/plans/{digest}/register")
@allow(OWNER, body="registration")
def register(
    request: Request, agency: CurrentAgency, caller: CurrentCaller, digest: Digest, posted: PostedForm
) -> Response:
    """Registers a release. A form that is sent twice gets the same answer twice."""
    about = _about(agency, digest)
    try:
        content = posted.file("registration", "the registration file")
        answer = register_release(agency, caller, digest, _key(posted.text("key")), content)
    except NotFoundError:
        raise
    except ForTheForm as error:
        return form_again(request, TEMPLATE, error, refusal=None, **about)
    if not answer.is_accepted:
        refusal = answer.document["error"]
        return page(request, TEMPLATE, status=answer.status, error=None, refusal=refusal, **about)
    return see(f"/plans/{digest}", "registered-before" if answer.status == KNOWN else "registered")


def _about(agency: Agency, digest: str) -> dict[str, Any]:
    """Every form has a key of its own, so that pressing the button twice registers once."""
    return {"plan": show_plan(agency, digest).plan, "key": agency.random(_KEY_LENGTH // 2).hex()}


def _key(text: str) -> str:
    if len(text) != _KEY_LENGTH or not text.isascii() or not text.isalnum():
        raise ParameterError("The form is not complete.", remedy="Load the page again.")
    return f"page-{text}"
