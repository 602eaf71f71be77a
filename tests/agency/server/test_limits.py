"""Limits: sizes, speeds and rates; a refusal changes nothing and the service goes on."""

import asyncio
import contextlib
import os
import threading
import time

import httpx
import pytest
from tests.agency.registrations import full, make_registration
from tests.agency.server.live import RawConnection, listening
from tests.agency.server.service import POPULATION, WISH, Clock, Service, SharedPool, model_file

from elldelta.agency.server.checking import CheckPool, check_model
from elldelta.agency.server.errors import BusyError, TooManyError
from elldelta.agency.server.limits import ConcurrencyLimit, InFlight, RateLimit
from elldelta.agency.server.state import MOST_OF_PARTY, Cache
from elldelta.errors import FileError

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
        headers = {**JSON, "Idempotency-Key": "a"}
        service.ask("owner", "POST", releases, content=b" " * n_bytes, headers=headers, status=status)
    service.ask("agency", "DELETE", "/parties/client", content=b"x", status=413)
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


def test_whoever_asks_too_often_is_told_when_to_come_back(make_service):
    service = make_service(principal_rate=1e-3, principal_burst=5)
    statuses = [service.ask("client", "GET", "/me").status_code for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2
    answer = service.ask("client", "GET", "/me", status=429)
    assert 1 <= int(answer.headers["Retry-After"]) <= 1000
    service.get("owner", "/me")  # others are not affected


def test_one_address_has_a_rate_whoever_calls_from_there(make_service):
    service = make_service(address_rate=1e-3, address_burst=5)
    statuses = [
        service.ask(who, "GET", path).status_code
        for who, path in (
            (None, "/key"),
            ("owner", "/me"),
            (None, "/me"),
            ("client", "/me"),
            (None, "/nothing"),
        )
    ]
    assert statuses == [200, 200, 401, 200, 404]
    answer = service.ask("owner", "GET", "/me", status=429)
    assert answer.json()["error"]["problem"]
    assert answer.headers["X-Request-Id"]
    service.get(None, "/health")  # whoever watches the service always gets an answer
    service.get(None, "/ready")


def test_a_bucket_fills_again_at_its_rate():
    now = [0.0]
    limit = RateLimit(rate=2.0, burst=3.0, clock=lambda: now[0])
    for _ in range(3):
        limit.take("a")
    with pytest.raises(TooManyError):
        limit.take("a")
    now[0] += 0.5
    limit.take("a")
    with pytest.raises(TooManyError):
        limit.take("a")
    now[0] += 1000.0
    for _ in range(3):
        limit.take("a")
    with pytest.raises(TooManyError):
        limit.take("a")


def test_a_bucket_does_not_remember_everybody_for_ever():
    limit = RateLimit(rate=1.0, burst=1.0, clock=lambda: 0.0, most_keys=100)
    for number in range(101):
        limit.take(str(number))
    limit.take("0")  # was longest away, and has a full bucket again
    with pytest.raises(TooManyError):
        limit.take("100")


def test_waiting_jobs_are_limited(make_service):
    service = make_service(jobs_waiting=2)
    service.add_model()
    numbers = [
        service.post("client", "/requests", {**WISH, "records": 1000 + extra}, status=201).json()["id"]
        for extra in range(3)
    ]
    for number in numbers[:2]:
        service.post("agency", f"/requests/{number}/preview", status=202)
    answer = service.post("agency", f"/requests/{numbers[2]}/preview", status=503)
    assert answer.headers["Retry-After"]


@pytest.fixture
def impatient(make_service):
    return make_service(body_seconds=1.0)


def test_a_body_that_stops_arriving_is_cut_off(impatient):
    with listening(impatient.app) as address, contextlib.closing(RawConnection(address)) as connection:
        connection.head("POST", "/api/v1/parties", Authorization=bearer(impatient), Content_Length=100)
        connection.send(b'{"name": ')
        status, document = connection.answer()
        assert status == 408
        assert document["error"]["problem"]


def test_wrong_tokens_have_a_rate_and_right_ones_from_the_same_address_do_not_suffer(make_service):
    service = make_service(login_rate=1e-3, login_burst=3)
    wrong = {"Authorization": "Bearer elldelta_000000000000_" + "A" * 43}
    statuses = [service.send("GET", "/api/v1/me", headers=wrong).status_code for _ in range(5)]
    assert statuses == [401] * 3 + [429] * 2
    service.get("owner", "/me")
    service.clock.advance(seconds=1001)
    assert service.send("GET", "/api/v1/me", headers=wrong).status_code == 401


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


def test_only_so_many_have_a_slot_and_others_do_not_wait_for_ever():
    limit = ConcurrencyLimit(2, 0.01)
    with limit.slot():
        with limit.slot(), pytest.raises(BusyError), limit.slot():
            pass
        with limit.slot():  # also after a refusal there are two
            pass


def test_one_party_has_a_few_large_requests_on_their_way_and_others_do_not_wait_for_it():
    async def run():
        limit = InFlight(2, 3, 0.01)
        async with limit.of(1), limit.of(1), limit.handled(), limit.handled():
            with pytest.raises(BusyError):
                async with limit.of(1):
                    pass
            async with limit.of(2), limit.handled():
                with pytest.raises(BusyError):
                    async with limit.handled():
                        pass
        async with limit.of(1), limit.of(1), limit.handled():
            return True

    assert asyncio.run(run())


def test_a_check_whose_process_dies_is_told_and_the_next_one_is_done():
    pool = CheckPool(300.0)
    try:
        with pytest.raises(BusyError):
            pool.run(os._exit, 1)
        with pytest.raises(FileError):
            pool.run(check_model, b"no model", 1)
    finally:
        pool.close()


def test_what_is_cached_has_a_size():
    cache, made = Cache(100, len), []

    def get(letter, size):
        return cache.get(letter, lambda: made.append(letter) or letter * size)

    for letter in "abcab":
        get(letter, 50)
    assert "".join(made) == "abcab"  # two fit
    get("b", 50)
    get("x", 10)  # which costs the one that was longest away
    assert [cache.peek(letter) is not None for letter in "abx"] == [False, True, True]
    assert len(get("y", 101)) == 101  # too large to be kept


def test_a_body_that_trickles_is_cut_off(impatient):
    """Each pause is short enough, but all of them together are not."""
    with listening(impatient.app) as address, contextlib.closing(RawConnection(address)) as connection:
        connection.head("POST", "/api/v1/parties", Authorization=bearer(impatient), Content_Length=1000)
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begun < 1.5:
                connection.send(b" ")
                time.sleep(0.1)
        assert connection.answer()[0] in (408, None)
        connection.close()
    assert impatient.get("agency", "/me").status_code == 200


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
                    Idempotency_Key="a",
                    Content_Length=len(content),
                )
                connection.send(content[:n_bytes])
    assert service.get("owner", f"/plans/{plan.digest}/releases").json()["releases"] == []


def bearer(service, who="agency"):
    return f"Bearer {service.tokens[who]}"


class SlowPool(SharedPool):
    """Checks that take as long as somebody wants."""

    def __init__(self):
        super().__init__(300.0)
        self.begun, self.go_on = threading.Semaphore(0), threading.Event()

    def run(self, function, *arguments):
        self.begun.release()
        assert self.go_on.wait(300)
        raise BusyError


def test_nobody_waits_for_what_one_party_has_sent_to_be_checked(settings):
    """Thirty bodies that take for ever to be read: others read, and a sign of life comes at once."""
    pool = SlowPool()
    with Service(settings, Clock(), checks=pool) as service:
        plan = service.issue()

        async def attack():
            transport = httpx.ASGITransport(service.app, client=("192.0.2.9", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://agency.test") as client:

                def ask(who, method, path, **options):
                    headers = {"Authorization": f"Bearer {service.tokens[who]}", **options.pop("headers", {})}
                    return client.request(method, path, headers=headers, **options)

                path = f"/api/v1/plans/{plan.digest}"
                bodies = [
                    asyncio.create_task(
                        ask(
                            "owner",
                            "POST",
                            f"{path}/releases",
                            content=b"[" * 50_000,
                            headers={**JSON, "Idempotency-Key": str(number)},
                        )
                    )
                    for number in range(30)
                ]
                for _ in range(MOST_OF_PARTY):
                    assert await asyncio.to_thread(pool.begun.acquire, timeout=300)
                assert (await ask("client", "GET", "/health")).status_code == 200
                answers = await asyncio.gather(*(ask("client", "GET", path) for _ in range(20)))
                assert {answer.status_code for answer in answers} == {200}
                assert not pool.begun.acquire(blocking=False), "it has more on its way than it may"
                pool.go_on.set()
                return [(await body).status_code for body in bodies]

        assert set(asyncio.run(attack())) == {503}


def test_nothing_that_was_sent_is_read_in_the_process_that_answers(service, monkeypatch):
    """Neither a registration nor a model: only their bytes pass through it."""
    service.add_model()
    plan = service.issue(population="elsewhere")
    for name in ("elldelta.agency.registration.json_object", "elldelta.model.model.Counts.from_cells"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("It is read here."))
    service.register("owner", plan, full(plan), key="a", status=201)
    model = f"/populations/{POPULATION}/model"
    service.ask("agency", "PUT", model, content=model_file(), headers=BINARY, status=200)
    service.get("client", f"/populations/{POPULATION}/cost?ell=2&records=2000")
