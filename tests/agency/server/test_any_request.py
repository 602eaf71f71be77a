"""Requests that a machine makes up from our own description: whatever it sends, no bug and no surprise.

Every operation, with data that fit their description and with data that do not, by callers of every role and
by nobody, about things that exist and things that do not. Many more of each if everything is tested.
"""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.agency.registrations import full, make_plan
from tests.agency.server.expected_rights import API
from tests.agency.server.service import POPULATION, WISH
from tests.switch import quick_or_all

from elldelta.agency.server.main import HEADERS
from elldelta.agency.server.tables import ROLES

N_EXAMPLES = quick_or_all(2, 5)
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.fixture
def filled(make_service):
    """A service in which something of everything is there."""
    service = make_service(jobs_waiting=10**9)
    service.add_model()
    plan = service.issue(make_plan())
    service.add("victim", "owner")
    service.register("owner", plan, full(plan), status=201)
    request = service.post("client", "/requests", WISH, status=201).json()["id"]
    job = service.post("agency", f"/requests/{request}/preview", status=202).json()["id"]
    token = service.post("agency", "/parties/victim/tokens", {}, status=201).json()["id"]
    there = {"digest": plan.digest, "name": POPULATION, "id": str(request)}
    content = service.get("owner", f"/plans/{plan.digest}/releases").json()["entries"][0]["content_digest"]
    receipt = "/api/v1/plans/{digest}/releases/{content}/receipt"
    service.there = {
        receipt: {"digest": plan.digest, "content": content},
        receipt.replace("receipt", "state"): {"digest": plan.digest, "content": content},
        "/api/v1/parties/{name}": {"name": "victim"},
        "/api/v1/parties/{name}/tokens": {"name": "victim"},
        "/api/v1/tokens/{id}": {"id": token},
        "/api/v1/jobs/{id}": {"id": job},
    }
    service.there_otherwise = there
    return service


def send(service, case, role):
    """Sends what was made up, as somebody."""
    headers = {} if role is None else {"Authorization": f"Bearer {service.tokens[role]}"}
    options = case.as_transport_kwargs(base_url="http://127.0.0.1", headers=headers)
    parts = {name: options[name] for name in ("headers", "params", "json", "cookies") if options.get(name)}
    if options.get("data") is not None:
        parts["content" if isinstance(options["data"], str | bytes) else "data"] = options["data"]
    return service.send(options["method"], options["url"], **parts)


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_whatever_is_sent_the_answer_is_one_that_is_described(filled, mode):
    import schemathesis  # takes seconds: only the process that needs it waits for it

    checks = [getattr(schemathesis.checks, name) for name in CHECKS]
    mode = schemathesis.GenerationMode(mode)
    schema = schemathesis.openapi.from_dict(filled.get(None, "/openapi.json").json())
    seen, statuses = 0, set()
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode is schemathesis.GenerationMode.NEGATIVE and not (
            list(operation.iter_parameters()) or operation.get_request_payload_content_types()
        ):
            continue  # there is nothing that could be wrong

        @seed(20261115)
        @settings(
            max_examples=N_EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            case=operation.as_strategy(generation_mode=mode),
            role=st.sampled_from([*(API[operation.method.upper(), operation.path] or ()), *ROLES, None]),
            is_there=st.booleans(),
        )
        def check(case, role, is_there):
            nonlocal seen
            if is_there and case.path_parameters:
                known = filled.there.get(case.path, filled.there_otherwise)
                case.path_parameters = {name: known[name] for name in case.path_parameters}
            answer = send(filled, case, role)
            case.validate_response(answer, checks=checks)
            for name in HEADERS:
                assert name in answer.headers
            seen += 1
            statuses.add(answer.status_code)

        check()
    assert seen > 30 * N_EXAMPLES
    assert {200, 401, 403, 404} <= statuses, statuses
