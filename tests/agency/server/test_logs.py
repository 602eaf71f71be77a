"""The log: what happened, and nothing of what was in it."""

import io
import json
import logging
import secrets

import pytest
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.service import POPULATION

from elldelta.agency.server import logs
from elldelta.agency.server.services.parties import log_in


@pytest.fixture
def log(service):
    """Everything that is logged, as it would stand on standard error."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    root, own = logging.getLogger(), logging.getLogger(logs.LOGGER)
    root.addHandler(handler)
    level = own.level
    own.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    own.setLevel(level)


def lines_of(log):
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_every_request_has_a_line_that_names_its_route_and_its_party(service, log):
    service.issue()
    answer = service.get("owner", "/plans")
    found = lines_of(log)[-1]
    assert found["event"] == "request"
    assert (found["method"], found["route"], found["status"]) == ("GET", "/api/v1/plans", 200)
    assert found["principal"] == service.caller("owner").id
    assert found["request"] == answer.headers["X-Request-Id"]
    assert found["milliseconds"] >= 0
    service.get(None, "/nothing/here", status=404)
    assert lines_of(log)[-1]["route"] is None


def test_nothing_that_was_sent_is_in_the_log(service, log):
    """A canary in every place where a caller can put something, in requests that work and that do not."""
    canary = "canary" + secrets.token_hex(8)
    log_in(service.agency, service.tokens["client"], address="a")
    for token in (canary, f"elldelta_0123456789ab_{canary}"):
        form = {"data": {"token": token, "wanted": canary}, "headers": {"Origin": "http://127.0.0.1"}}
        assert service.send("POST", "/sign-in", **form).status_code == 401
    plan = service.issue(make_plan())
    service.post("agency", "/parties", {"name": canary, "role": "owner"}, status=201)
    service.post("agency", f"/parties/{canary}/tokens", {"note": canary}, status=201)
    service.post("agency", "/parties", {"name": canary + "/", "role": canary, canary: canary}, status=422)
    service.post("agency", "/parties", {"name": canary, "role": "owner"}, status=409)
    service.get("client", f"/populations/{canary}", status=404)
    service.get("client", "/plans", status=422, params={"population": canary + "\0", canary: 1})
    service.get("client", "/plans", params={"population": canary})
    service.send(
        "GET", f"/{canary}", headers={"Authorization": f"Bearer {canary}", "Cookie": f"elldelta={canary}"}
    )
    service.send("GET", "/api/v1/me", headers={"Authorization": f"Bearer elldelta_0123456789ab_{canary}"})
    service.post("agency", f"/plans/{plan.digest}/withdraw", {"reason": canary * 100}, status=422)
    headers = {"Content-Type": "application/json"}
    releases = f"/plans/{plan.digest}/releases"
    service.ask("owner", "POST", releases, status=422, content=canary.encode(), headers=headers)
    content = make_registration(plan, full(plan)).to_bytes()
    service.ask("owner", "POST", releases, status=201, content=content, headers=headers)
    service.ask("agency", "PUT", f"/populations/{POPULATION}/model", status=422, content=canary.encode(),
                headers={"Content-Type": "application/octet-stream"})  # fmt: skip
    text = log.getvalue()
    assert len(lines_of(log)) > 10
    assert canary not in text
    for token in service.tokens.values():
        assert token.split("_", 2)[2] not in text


def test_an_unforeseen_exception_is_told_by_its_place_and_not_by_its_text(service, log, monkeypatch):
    canary = "canary" + secrets.token_hex(8)

    def broken(*_):
        raise ZeroDivisionError(canary)

    monkeypatch.setattr("elldelta.agency.server.services.plans.list_plans", broken)
    answer = service.get("owner", "/plans", status=500)
    assert canary not in answer.text
    assert answer.json()["error"]["remedy"]
    assert canary not in log.getvalue()
    [told] = [line for line in lines_of(log) if line["event"] == "unforeseen"]
    assert told["exception"].startswith("ZeroDivisionError in ")
    assert "broken" in told["exception"]
    assert told["request"] == answer.headers["X-Request-Id"]
    assert lines_of(log)[-1]["status"] == 500


def test_exceptions_that_libraries_log_lose_their_text(log):
    canary = "canary" + secrets.token_hex(8)
    try:
        raise ValueError(canary)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
        logging.getLogger("sqlalchemy").error("failed with %s", canary)
    assert canary not in log.getvalue()
    assert "ValueError" in log.getvalue()
