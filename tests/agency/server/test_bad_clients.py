"""Clients that lie, pry and trick: they get an answer in our words, learn nothing and change nothing."""

import contextlib
import io
import json
import logging
import secrets
import socket
import statistics
import time
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.agency.registrations import full, make_plan, make_registration
from tests.agency.server.expected_rights import EXPECTED
from tests.agency.server.live import RawConnection, listening
from tests.agency.server.service import POPULATION, WISH

from elldelta.agency.server import logs
from elldelta.agency.server.main import HEADERS
from elldelta.errors import ElldeltaError
from elldelta.files import TrustedKeys
from elldelta.ledger.ledger import verify_ledger
from elldelta.plan.plan import Plan
from elldelta.plan.signature import verified_signature

JSON = {"Content-Type": "application/json"}
OWN = {"Origin": "http://127.0.0.1"}
FORM = {"Content-Type": "application/x-www-form-urlencoded", **OWN}


def is_error_of_ours(answer):
    """Below 500, in the one shape, with every header."""
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:200])
    assert set(answer.json()["error"]) == {"problem", "found", "remedy", "parameter"}
    assert set(map(str.lower, HEADERS)) <= set(answer.headers)
    return True


BAD_JSON = {
    "not a number": b'{"records": NaN}',
    "infinite": b'{"records": Infinity}',
    "too large to write": b'{"records": 1e999}',
    "five thousand digits": b'{"records": ' + b"9" * 5000 + b"}",
    "larger than the database's": b'{"records": 99999999999999999999}',
    "a fraction": b'{"records": 1.5}',
    "text": b'{"records": "5"}',
    "true": b'{"records": true}',
    "nested": b"[" * 30_000,
    "nested objects": b'{"records":' * 5_000,
    "no UTF-8": b'{"records": 5, "\xff": 1}',
    "half a character": b'{"\\ud800": 1, "records": 5}',
    "a zero byte": b'{"\\u0000": 1, "records": 5}',
    "cut off": b'{"records": 5',
    "two documents": b'{"records": 5}{"records": 6}',
    "a list": b'[{"records": 5}]',
    "nothing": b"",
}


def test_bad_json_is_told_and_changes_nothing(service):
    plan = service.issue()
    path = f"/plans/{plan.digest}/progress"
    for content in BAD_JSON.values():
        assert is_error_of_ours(service.ask("owner", "PUT", path, content=content, headers=JSON))
        answer = service.ask(
            "owner",
            "POST",
            f"/plans/{plan.digest}/releases",
            content=content,
            headers={**JSON},
        )
        assert is_error_of_ours(answer)
    assert service.get("owner", path).json()["own_records"] is None


@pytest.mark.both_databases
@pytest.mark.parametrize("text", ["\ud800", "a\0b", "\u202e", "x" * 1001])
def test_texts_that_cannot_be_kept_are_refused(service, text):
    """Some databases cannot store them, and nobody should read them."""
    plan = service.issue()
    for who, path, document in (
        ("agency", "/parties", {"name": text, "role": "owner"}),
        ("agency", "/parties/owner/tokens", {"note": text}),
        ("agency", "/populations", {"name": "another", "title": text}),
        ("agency", f"/plans/{plan.digest}/withdraw", {"reason": text + "."}),
        ("agency", f"/plans/{plan.digest}/supersede", {"by": text}),
        ("client", "/requests", {**WISH, "population": text}),
    ):
        content = json.dumps(document)  # spells half characters as escapes
        assert is_error_of_ours(service.ask(who, "POST", path, content=content, headers=JSON)), path


@pytest.mark.parametrize("charset", ["idna", "unicode_escape", "utf-7", "punycode", "undefined", "utf-16"])
def test_forms_come_in_the_encoding_of_browsers(service, charset):
    """Anybody may send the form to sign in: another codec must not even be tried."""
    part = b'--XX\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    content = part % (b"token", b"\\ud800+2AA-") + part % (b"wanted", b"xn--a..\\ud800") + b"--XX--\r\n"
    kind = f"multipart/form-data; boundary=XX; charset={charset}"
    answer = service.send("POST", "/sign-in", content=content, headers={"Content-Type": kind, **OWN})
    assert answer.status_code == 415
    assert set(map(str.lower, HEADERS)) <= set(answer.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/..%2f..%2fetc/passwd",
        "/static/..%2f..%2fserver%2fmain.py",
        "/static/%2e%2e/main.py",
        "/static/%00",
        "/static/%ff%fe",
        "/%00",
        "/api/v1/populations/%00",
        "/api/v1/populations/a%2f..%2fb",
        "/api/v1/plans/%2e%2e",
        "/api/v1/jobs/" + "a" * 5000,
        "/api//v1/me",
        "/API/v1/me",
        "/api/v1/me/",
        "/api/v1/requests/-1",
        "/api/v1/requests/99999999999999999999",
        "/api/v1/requests/1%0a",
    ],
)
def test_tricks_in_addresses_lead_nowhere(service, path):
    for who in (None, "agency"):
        headers = {} if who is None else {"Authorization": f"Bearer {service.tokens[who]}"}
        answer = service.send("GET", path, headers=headers)
        assert 400 <= answer.status_code < 500
        assert set(map(str.lower, HEADERS)) <= set(answer.headers)


def test_every_kind_of_error_carries_every_header(make_service, monkeypatch):
    service = make_service(body_bytes=100)
    monkeypatch.setattr("elldelta.agency.server.services.plans.list_plans", lambda *_: 1 // 0)
    answers = {
        401: service.send("GET", "/api/v1/me"),
        403: service.ask("owner", "GET", "/parties"),
        404: service.send("GET", "/api/v1/nothing"),
        405: service.send("PATCH", "/api/v1/me"),
        413: service.ask("agency", "POST", "/parties", content=b" " * 101),
        415: service.ask("agency", "PUT", f"/populations/{POPULATION}/model", content=b"x"),
        422: service.ask("agency", "POST", "/parties", content=b"{}", headers=JSON),
        500: service.ask("owner", "GET", "/plans"),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert answer.headers["X-Request-Id"]
        assert "server" not in answer.headers


def test_nobody_finds_what_is_somebody_elses(service):
    """Everything that one owner and one client do, and then every address that others can read."""
    plan = service.issue(make_plan())
    service.add_model()
    for name, role in (("curious-owner", "owner"), ("curious-client", "client")):
        service.add(name, role)
    service.put("owner", f"/plans/{plan.digest}/progress", {"records": 70_007_007})
    wish = {**WISH, "records": 60_006_006}
    request = service.post("client", "/requests", wish, status=201).json()["id"]
    job = service.post("agency", f"/requests/{request}/preview", status=202).json()["id"]
    token = service.post("agency", "/parties/owner/tokens", {"note": "nightly"}, status=201).json()
    service.register("owner", plan, full(plan, (0, 0), (0, 1), (0, 2), (0, 3), (0, 4)), status=409)
    service.register("owner", plan, full(plan), status=201)
    [refusal] = service.get("owner", f"/plans/{plan.digest}/refusals").json()["entries"]
    private = ["70007007", "70,007,007", "60006006", "60,006,006", token["id"], job, refusal["refused"]]
    filled = {"digest": plan.digest, "name": POPULATION, "id": str(request), "width": "wide", "number": "1"}
    filled["content"] = make_registration(plan, full(plan)).content_digest
    n_read = 0
    for method, path in EXPECTED:
        if method != "GET" or "{what}" in path:
            continue
        for end, value in (("/jobs/{id}", job), ("/parties/{name}", "owner"), ("/tokens/{id}", token["id"])):
            if end in path:
                address = path.replace(end, end.partition("{")[0] + value)
                break
        else:
            address = path
        address = address.format(**filled)
        for who in ("curious-owner", "curious-client", None):
            headers = {} if who is None else {"Authorization": f"Bearer {service.tokens[who]}"}
            answer = service.send("GET", address, headers=headers)
            assert answer.status_code < 500, address
            n_read += answer.status_code == 200
            told = answer.text.replace(address, "").replace("\N{NO-BREAK SPACE}", ",")
            for secret in private:
                assert secret not in told, (who, address, secret)
    assert n_read > 30
    mine = service.register("curious-owner", plan, full(plan, n=5), status=201).json()
    assert mine["owner"] == "curious-owner"  # another owner's key is another key


def test_what_was_tampered_with_on_its_way_is_detected(service, tmp_path):
    plan = service.issue(make_plan())
    service.register("owner", plan, full(plan), status=201)
    service.add("second-owner", "owner")
    service.register("second-owner", plan, full(plan, n=4), status=201)
    key = TrustedKeys.from_pem(service.get(None, "/key").json()["public_keys"].encode())
    plan_file = service.get("owner", f"/plans/{plan.digest}/file").content
    signature = service.get("owner", f"/plans/{plan.digest}/signature").content
    ledger = service.get("agency", f"/plans/{plan.digest}/ledger").content

    def check_plan(plan_file, signature):
        assert (
            verified_signature(json.loads(signature), key).plan_digest
            == Plan.from_dict(json.loads(plan_file)).digest
        )

    def check_ledger(content):
        path = tmp_path / "ledger"
        path.write_bytes(content)
        verify_ledger(path, plan_digest=plan.digest)

    check_plan(plan_file, signature)
    check_ledger(ledger)
    detected = (ElldeltaError, ValueError)
    for place in range(0, len(plan_file) - 1, len(plan_file) // 40):
        forged = changed_at(plan_file, place)
        if is_same_json(forged, plan_file):
            continue  # the last digit of a number that says the same
        with pytest.raises(detected):
            check_plan(forged, signature)
    for place in range(0, len(signature) - 1, len(signature) // 40):
        with pytest.raises(detected):
            check_plan(plan_file, changed_at(signature, place))
    for place in range(0, len(ledger) - 1, len(ledger) // 40):
        with pytest.raises(detected):
            check_ledger(changed_at(ledger, place))
    first, one, two = ledger.splitlines(keepends=True)
    for forged in (first + two, first + two + one, first + one + one + two, one + two):
        with pytest.raises(detected):
            check_ledger(forged)
    content = make_registration(plan, full(plan, n=6)).to_bytes()
    for place in range(0, len(content) - 1, len(content) // 40):
        answer = service.ask(
            "owner",
            "POST",
            f"/plans/{plan.digest}/releases",
            content=changed_at(content, place),
            headers={**JSON},
        )
        assert is_error_of_ours(answer)
    assert service.get("agency", f"/plans/{plan.digest}/ledger").content == ledger


def is_same_json(one, other):
    with contextlib.suppress(ValueError):
        return json.loads(one) == json.loads(other)
    return False


def changed_at(content, place):
    """Another letter or digit in one place."""
    letter = b"7" if content[place : place + 1] != b"7" else b"3"
    return content[:place] + letter + content[place + 1 :]


def test_a_small_file_that_unpacks_to_a_huge_one_is_not_unpacked(make_service):
    """Thirty million equal rows: less than a megabyte in Parquet, a quarter of a gigabyte in each column."""
    service = make_service(model_cells=1_000_000)
    service.add_population()
    path = f"/populations/{POPULATION}/model"
    column = pa.chunked_array([pa.nulls(1_000_000, pa.int64()).fill_null(0)] * 30)
    sink = io.BytesIO()
    pq.write_table(pa.table(dict.fromkeys(("rank", "value", "n"), column)), sink, compression="zstd")
    bomb = sink.getvalue()
    del column, sink
    assert len(bomb) < 1_000_000
    binary = {"Content-Type": "application/octet-stream"}
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        answer = service.ask("agency", "PUT", path, content=bomb, headers=binary, status=413)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert is_error_of_ours(answer)
    assert peak < 50_000_000
    assert pa.total_allocated_bytes() - before < 50_000_000
    for content in (b"PAR1", b"PAR1" * 100, bomb[:-1], bomb[: len(bomb) // 2], bomb[4:], b"\0" * 1000):
        assert is_error_of_ours(service.ask("agency", "PUT", path, content=content, headers=binary))
    assert service.get("agency", f"/populations/{POPULATION}").json()["model"] is None


def test_slow_clients_do_not_hold_up_others(service):
    """More slow bodies than there are threads: others are served meanwhile; the proxy cuts them off."""
    token = service.tokens["agency"]
    with listening(service.app) as address, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(contextlib.closing(RawConnection(address))) for _ in range(60)]
        for connection in slow:
            connection.head("POST", "/api/v1/parties", Authorization=f"Bearer {token}", Content_Length=100)
            connection.send(b'{"name"')
        with contextlib.closing(RawConnection(address)) as other:
            other.head("GET", "/api/v1/me", Authorization=f"Bearer {token}")
            assert other.answer() == (200, {"name": "agency", "role": "agency"})


def test_heads_that_are_too_large_or_broken_end_their_connection_only(service):
    with listening(service.app) as address:
        for head in (
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: " + b"x" * 200_000 + b"\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Many: 1\r\n" * 20_000 + b"\r\n",
            b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n",
            b"POST /health HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\r\n\r\n\r\nnonsense\r\n\r\n",
        ):
            with socket.create_connection(address, timeout=300) as connection:
                answer = b""
                with contextlib.suppress(ConnectionError):  # it may close before it has read everything
                    connection.sendall(head)
                    answer = connection.recv(65536)
                assert not answer or answer.split()[1] in (b"400", b"405"), head[:60]
        with contextlib.closing(RawConnection(address)) as connection:
            connection.head("GET", "/health")
            assert connection.answer() == (200, {"status": "ok"})


def test_another_name_that_leads_here_is_not_served(service):
    """DNS rebinding: a page of another site asks this service under its own name, as if it were its own."""
    asked = {"Authorization": f"Bearer {service.tokens['agency']}"}
    names = (
        "evil.test",
        "evil.test:8000",
        "127.0.0.1.evil.test",
        "localhost.evil.test",
        "a@127.0.0.1",
        "[::1",
        "",
    )
    for path in ("/api/v1/me", "/health", "/sign-in", "/static/base.css"):
        for name in names:
            answer = service.send("GET", path, headers={**asked, "Host": name})
            assert answer.status_code == 421, (path, name)
            assert is_error_of_ours(answer)
    form = {"Host": "evil.test", "Origin": "http://evil.test"}
    assert service.send("POST", "/sign-in", data={"token": "x"}, headers=form).status_code == 421
    for name in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.8.8.8", "[::1]:8000"):
        assert service.send("GET", "/api/v1/me", headers={**asked, "Host": name}).status_code == 200, name


@pytest.mark.parametrize("order", [1, -1])
def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(service, order):
    lengths = ["Content-Length: 6", "Transfer-Encoding: chunked"][::order]
    head = ["POST /sign-in HTTP/1.1", "Host: 127.0.0.1", "Origin: http://127.0.0.1", *lengths, "", ""]
    hidden = "0\r\n\r\nGET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with listening(service.app) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(("\r\n".join(head) + hidden).encode())
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                received += part
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"in two ways" in received
    assert received.count(b"HTTP/1.1 ") == 1


def test_how_long_a_refusal_takes_tells_nothing(service):
    """Times of the processor, as medians in turn: a token whose number exists costs what another costs."""
    prefix, number, secret = service.tokens["owner"].split("_", 2)
    other = service.tokens["client"].split("_", 2)[2]

    def token(text):
        service.send("GET", "/api/v1/me", headers={"Authorization": f"Bearer {text}"})

    unknown = f"{prefix}_{'0' * 12}_{secret}"
    assert ratio(lambda: token(unknown), lambda: token(f"{prefix}_{number}_{other}"), 40) < 3


def ratio(one, other, repeats):
    """How much longer the slower of two calls takes."""
    times = ([], [])
    for _ in range(repeats):
        for call, own in zip((one, other), times, strict=True):
            begun = time.process_time()
            call()
            own.append(time.process_time() - begun)
    first, second = map(statistics.median, times)
    return max(first, second) / min(first, second)


def test_no_route_logs_what_it_is_sent(service):
    """Every address with a canary in every place, from a caller who may and from one who is unknown."""
    canary = "canary" + secrets.token_hex(8)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    own = logging.getLogger(logs.LOGGER)
    level, root = own.level, logging.getLogger()
    root.addHandler(handler)
    own.setLevel(logging.DEBUG)
    try:
        for (method, path), roles in EXPECTED.items():
            address = "/".join(canary if "{" in part else part for part in path.split("/"))
            for who in (None, min(roles) if roles else "owner"):
                token = canary if who is None else service.tokens[who]
                service.send(
                    method,
                    address,
                    params={canary: canary, "ell": canary, "population": canary},
                    headers={
                        "Authorization": f"Bearer {token}",
                        "Cookie": f"elldelta={canary}",
                        "User-Agent": canary,
                        "Referer": f"http://{canary}/",
                        "X-Forwarded-For": canary,
                        "Content-Type": "application/json",
                    },
                    content=json.dumps({"name": canary, "reason": canary, canary: canary}).encode(),
                )
        service.send(canary.upper(), "/api/v1/me")
    finally:
        root.removeHandler(handler)
        own.setLevel(level)
    text = stream.getvalue()
    assert text.count('"event": "request"') > 2 * len(EXPECTED)
    assert canary not in text.lower()
    for token in service.tokens.values():
        assert token.split("_", 2)[2] not in text


def test_names_that_look_the_same_are_one(service):
    def add(name):
        return service.ask("agency", "POST", "/parties", json={"name": name, "role": "owner"}).status_code

    assert [add(name) for name in ("HOSP-A", "hosp-a", "Hosp-A", "HOSP-B")] == [201, 409, 409, 201]
    assert {add(name) for name in ("HOSP-\u0410", "H\u041eSP-A", "HOSP\u2010A", "\uff28OSP-A")} == {422}
