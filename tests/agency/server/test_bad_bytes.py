"""Requests that no client would send: every one is an error of the caller, none is ours."""

from tests.agency.server.service import WISH

JSON = {"Content-Type": "application/json"}


def test_texts_that_cannot_be_shown_are_refused(service):
    plan = service.issue()
    for text in (rb"\ud800", rb"\u0000", rb"\u202e", rb"a\nb", b"\xff", b"x" * 3000):
        for path, body in (
            ("/populations", b'{"name": "new", "title": "%s"}'),
            ("/parties/owner/tokens", b'{"note": "%s"}'),
            ("/parties", b'{"name": "%s", "role": "owner"}'),
            ("/parties", b'{"name": "new", "role": "%s"}'),
            ("/parties", b'{"name": "new", "role": "owner", "%s": 1}'),
            (f"/plans/{plan.digest}/withdraw", b'{"reason": "%s"}'),
            (f"/plans/{plan.digest}/supersede", b'{"by": "%s"}'),
        ):
            answer = service.ask("agency", "POST", path, content=body % text, headers=JSON)
            assert answer.status_code in (400, 422), (path, text, answer.text)
            assert answer.json()["error"]["problem"]


NO_NUMBERS = (
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "9" * 400,
    "1e3",
    "1.0",
    '"1"',
    "[1]",
    "{}",
    "null",
    "true",
)


def test_numbers_that_are_none_are_refused(service):
    plan = service.issue()
    service.add_model()
    for number in NO_NUMBERS:
        for who, method, path, body in (
            ("owner", "PUT", f"/plans/{plan.digest}/progress", '{"records": %s}'),
            ("client", "POST", "/requests", '{"population": "region", "ell": %s, "records": 100}'),
            ("agency", "POST", "/parties/owner/tokens", '{"expires_in_days": %s}'),
        ):
            answer = service.ask(who, method, path, content=body % number, headers=JSON)
            assert answer.status_code in (400, 422), (path, number, answer.text)


def test_bodies_that_are_no_object_are_refused(service):
    for content in (b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 5000, b'{"a":' * 5000):
        answer = service.ask("agency", "POST", "/parties", content=content, headers=JSON)
        assert answer.status_code in (400, 422), (content[:20], answer.text)


def test_other_kinds_of_bodies_are_refused(service):
    document = b'{"name": "new", "role": "owner"}'
    for kind in (
        "text/plain",
        "application/xml",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "\xff",
    ):
        headers = {"Content-Type": kind.encode("latin-1")}
        answer = service.ask("agency", "POST", "/parties", content=document, headers=headers)
        assert answer.status_code in (400, 415, 422), (kind, answer.text)


def test_paths_that_name_nothing_are_not_found(service):
    for part in ("%00", "%ff", "a%2Fb", "%E2%80%AE", "a" * 2000, "'; DROP TABLE plans; --"):
        for path in ("/populations/{}", "/plans/{}", "/requests/{}", "/jobs/{}", "/plans/{}/file", "/{}"):
            answer = service.ask("agency", "GET", path.format(part))
            assert answer.status_code in (404, 405, 422), (path, part, answer.status_code)
            assert answer.json()["error"]["problem"]


def test_queries_that_make_no_sense_are_refused(service):
    service.ask("client", "GET", "/plans", params={"population": "\0"}, status=422)


def test_verbs_that_there_are_not_are_refused(service):
    for verb in ("PATCH", "OPTIONS", "TRACE", "HEAD", "BREW"):
        answer = service.ask("agency", verb, "/plans")
        assert answer.status_code == 405
        assert "GET" in answer.headers["Allow"]


def test_extreme_wishes_are_answered_or_refused(service):
    """Whatever passes the form can be planned or refused, in the worker."""
    service.add_model()
    for wish in (
        {"records": 10**12, "ell": 6, "delta": 1e-300, "releases": 10_000},
        {"records": 1, "ell": 1, "releases": 1, "delta": 0.999},
        {"records": 10**12, "ell": 1, "releases": 1, "delta": 5e-324},
    ):
        answer = service.ask("client", "POST", "/requests", json={**WISH, **wish})
        if answer.status_code == 201:
            number = answer.json()["id"]
            service.post("agency", f"/requests/{number}/preview", status=202)
    service.work()
    for request in service.get("agency", "/requests").json()["entries"]:
        job = service.get("agency", f"/jobs/{request['job']}").json()
        assert job["status"] in ("done", "failed")
        assert "bug" not in str(job["error"])
