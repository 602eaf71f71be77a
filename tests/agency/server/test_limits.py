"""Limits: sizes; a refusal changes nothing and the service goes on. Rates and speeds are the proxy's."""

import contextlib

from tests.agency.registrations import full, make_registration
from tests.agency.server.live import RawConnection, listening
from tests.agency.server.service import POPULATION, WISH, model_file

JSON = {"Content-Type": "application/json"}
BINARY = {"Content-Type": "application/octet-stream"}


def test_bodies_have_a_size_by_what_they_are_for(make_service):
    service = make_service(body_bytes=1000, registration_bytes=5000, model_bytes=200)
    plan = service.issue()
    small = b'{"name": "somebody", "role": "owner"}'
    service.ask("agency", "POST", "/parties", content=small + b" " * 900, headers=JSON, status=201)
    service.ask("agency", "POST", "/parties", content=small + b" " * 1000, headers=JSON, status=413)
    model = f"/populations/{POPULATION}/model"
    service.ask("agency", "PUT", model, content=b"x" * 200, headers=BINARY, status=422)
    service.ask("agency", "PUT", model, content=b"x" * 201, headers=BINARY, status=413)
    releases = f"/plans/{plan.digest}/releases"
    for n_bytes, status in ((5000, 422), (5001, 413)):
        headers = {**JSON}
        service.ask("owner", "POST", releases, content=b" " * n_bytes, headers=headers, status=status)
    service.ask("agency", "DELETE", "/parties/client", content=b"x" * 1001, status=413)
    assert service.get("agency", "/me").json()["name"] == "agency"


def test_a_body_that_does_not_say_its_size_is_stopped_as_it_grows(make_service):
    service = make_service(body_bytes=1000)
    sent = []

    async def endless():
        while True:
            sent.append(100)
            assert len(sent) < 50, "nobody stops it"
            yield b" " * 100

    service.ask("agency", "POST", "/parties", content=endless(), headers=JSON, status=413)
    assert sum(sent) <= 1200


def test_a_model_has_a_size_also_after_unpacking(make_service):
    service = make_service(model_cells=100)
    service.add_population()
    model = f"/populations/{POPULATION}/model"
    answer = service.ask("agency", "PUT", model, content=model_file(), headers=BINARY, status=413)
    assert "144 cells" in answer.json()["error"]["found"]
    assert service.get("agency", f"/populations/{POPULATION}").json()["model"] is None


def test_waiting_jobs_are_limited(make_service):
    service = make_service(jobs_waiting=3)
    service.add_model()  # whose frontier is a job, too
    numbers = [
        service.post("client", "/requests", {**WISH, "records": 1000 + extra}, status=201).json()["id"]
        for extra in range(3)
    ]
    for number in numbers[:2]:
        service.post("agency", f"/requests/{number}/preview", status=202)
    answer = service.post("agency", f"/requests/{numbers[2]}/preview", status=503)
    assert answer.headers["Retry-After"]


def test_a_client_has_only_so_many_open_requests(make_service):
    service = make_service(requests_open=2)
    service.add_model()
    service.add("other", "client")
    numbers = [service.post("client", "/requests", WISH, status=201).json()["id"] for _ in range(2)]
    answer = service.post("client", "/requests", WISH, status=409)
    assert "2 wait for the agency" in answer.json()["error"]["found"]
    service.post("other", "/requests", WISH, status=201)
    service.post("agency", f"/requests/{numbers[0]}/decline", {"reason": "a test"})
    service.post("client", "/requests", WISH, status=201)
    service.post("client", "/requests", WISH, status=409)


def test_a_body_that_ends_too_early_changes_nothing(service):
    plan = service.issue()
    content = make_registration(plan, full(plan)).to_bytes()
    with listening(service.app) as address:
        for n_bytes in (0, 1, len(content) // 2, len(content) - 1):
            with contextlib.closing(RawConnection(address)) as connection:
                connection.head(
                    "POST",
                    f"/api/v1/plans/{plan.digest}/releases",
                    Authorization=bearer(service, "owner"),
                    Content_Type="application/json",
                    Content_Length=len(content),
                )
                connection.send(content[:n_bytes])
    assert service.get("owner", f"/plans/{plan.digest}/releases").json()["entries"] == []


def bearer(service, who="agency"):
    return f"Bearer {service.tokens[who]}"
