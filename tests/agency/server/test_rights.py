"""Default deny: every route, for every role, and for nobody."""

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Route
from tests.agency.server.expected_rights import API, EXPECTED

from elldelta.agency.server.guard import allow, allow_anybody, check_all_guarded
from elldelta.agency.server.tables import ROLES
from elldelta.errors import InternalError

SAMPLE = {"name": "region", "id": "1", "digest": "sha256:" + "5e" * 32}
SAMPLE_IDS = {"/tokens/{id}": "0123456789ab", "/jobs/{id}": "0123456789abcdef" * 2}

SAMPLE_BODIES = {
    ("POST", "/api/v1/parties"): {"name": "somebody", "role": "owner"},
    ("POST", "/api/v1/parties/{name}/tokens"): {"note": "", "expires_in_days": 1},
    ("POST", "/api/v1/populations"): {"name": "another"},
    ("POST", "/api/v1/requests"): {"population": "region", "ell": 2, "releases": 1, "records": 100},
    ("POST", "/api/v1/requests/{id}/decline"): {"reason": "no"},
    ("POST", "/api/v1/plans/{digest}/supersede"): {"by": "sha256:" + "6f" * 32},
    ("POST", "/api/v1/plans/{digest}/withdraw"): {"reason": "no"},
    ("PUT", "/api/v1/plans/{digest}/progress"): {"records": 5},
}


def routes_of(app):
    return {
        (method, context.path) for context in iter_route_contexts(app.routes) for method in context.methods
    }


def test_every_route_has_an_expectation_and_every_expectation_a_route(service):
    assert routes_of(service.app) == set(EXPECTED)


def test_every_route_for_every_role_and_for_nobody(service):
    for (method, path), allowed in API.items():
        statuses = {who: call(service, who, method, path).status_code for who in (None, *ROLES)}
        for who, status in statuses.items():
            if allowed is None or (who is not None and who in allowed):
                assert status not in (401, 403), (method, path, who, status)
                assert status < 500, (method, path, who, status)
            else:
                assert status == (401 if who is None else 403), (method, path, who, status)


def call(service, who, method, path):
    filled = path
    for end, value in SAMPLE_IDS.items():
        if path.endswith(end):
            filled = filled.replace("{id}", value)
    for name, value in SAMPLE.items():
        filled = filled.replace("{" + name + "}", value)
    headers = {} if who is None else {"Authorization": f"Bearer {service.tokens[who]}"}
    body = SAMPLE_BODIES.get((method, path))
    if path.endswith("/model"):
        headers["Content-Type"] = "application/octet-stream"
    return service.send(method, filled, headers=headers, json=body)


def test_nobody_is_told_whether_a_body_would_fit(service):
    """Who is not known gets no answer about what they sent, however it is broken."""
    for content in (b"", b"{", b'{"name": 7}', b"\xff" * 100):
        answer = service.send("POST", "/api/v1/parties", content=content)
        assert answer.status_code == 401


@pytest.mark.parametrize("kind", ["framework", "starlette"])
def test_an_application_with_a_route_that_declares_nothing_does_not_start(kind):
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    guarded = APIRouter()
    guarded.get("/open", dependencies=[allow_anybody()])(lambda: "nothing")
    app.include_router(guarded)
    check_all_guarded(app)
    if kind == "framework":
        other = APIRouter()
        other.get("/secret", dependencies=[Depends(lambda: None)])(lambda: "everything")
        app.include_router(other)
    else:
        app.router.routes.append(Route("/secret", lambda request: None))
    with pytest.raises(InternalError, match="/secret"):
        check_all_guarded(app)


def test_a_declaration_names_roles_that_there_are():
    for roles in ((), ("boss",)):
        with pytest.raises(InternalError):
            allow(*roles)
