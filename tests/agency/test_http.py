"""Requests to a server that may be anything: a real one, which misbehaves on purpose."""

import contextlib
import gzip
import json
import socket
import subprocess
import sys
import time

import pytest
from tests import local_server

from elldelta.agency import http as agency_http
from elldelta.agency.http import AgencyServer, Token, shown
from elldelta.cli.main import execute
from elldelta.errors import FileError, ParameterError, RemoteError

SECRET = "edt_0123456789abcdef_secret"  # noqa: S105 (of nobody)


@contextlib.contextmanager
def serving(answer, certificate=None):
    """A server that answers every request with `answer(handler)`; yields it with all it was asked."""
    asked = []

    def note(handler, body):
        asked.append((handler.command, handler.path, dict(handler.headers), body))
        answer(handler)

    with local_server.serving(note, certificate) as url:
        yield url, asked


def reply(content=b"{}", status=200, **headers):
    return lambda handler: local_server.reply(handler, content, status, **headers)


def one_after_another(answers):
    def answer(handler):
        next(answers)(handler)

    return answer


class Naps(list):
    def __call__(self, seconds):
        self.append(seconds)


def at(url, *, attempts=1, timeout=120.0, naps=None, token=SECRET):
    return AgencyServer(
        url,
        Token(token) if token else None,
        timeout=timeout,
        attempts=attempts,
        sleep=Naps() if naps is None else naps,
    )


def test_a_request_says_who_asks_and_what():
    with serving(reply(b'{"fine": true}')) as (url, asked):
        assert at(url).get("plans", "sha256:a/b?c", query={"population": "a&b"}).json() == {"fine": True}
    [(verb, path, headers, _)] = asked
    assert (verb, path) == ("GET", "/api/v1/plans/sha256%3Aa%2Fb%3Fc?population=a%26b")
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert headers["Accept-Encoding"] == "identity"


def test_nobody_is_named_without_a_token():
    with serving(reply()) as (url, asked):
        at(url, token=None).get("key")
    assert "Authorization" not in asked[0][2]


def test_the_same_key_and_bytes_every_time():
    answers = iter([reply(b"", 503), reply(b"", 502), reply(b'{"ok": 1}', 201)])
    naps = Naps()
    with serving(one_after_another(answers)) as (url, asked):
        answer = at(url, attempts=5, naps=naps).post("releases", content=b"the same")
    assert answer.status == 201
    assert {item[3] for item in asked} == {b"the same"}
    assert naps == [0.5, 1.0]


def test_a_server_that_asks_to_wait_is_waited_for_but_not_for_ever():
    answers = iter([reply(b"", 429, retry_after="7"), reply(b"", 503, retry_after="99999"), reply()])
    naps = Naps()
    with serving(one_after_another(answers)) as (url, _):
        at(url, attempts=3, naps=naps).get("key")
    assert naps == [7.0, 30.0]


def hang_up(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def half_an_answer(handler):
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"a":')
    handler.wfile.flush()
    hang_up(handler)


def not_http(handler):
    handler.wfile.write(b"SSH-2.0-OpenSSH_9\r\n")
    handler.wfile.flush()
    hang_up(handler)


@pytest.mark.parametrize("broken", [hang_up, half_an_answer, not_http])
def test_connections_that_break_are_tried_again_and_then_given_up(broken):
    naps = Naps()
    with serving(broken) as (url, asked), pytest.raises(RemoteError, match="cannot be reached") as error:
        at(url, attempts=3, naps=naps).get("key")
    assert len(asked) == 3
    assert "3 times" in error.value.found
    assert naps == [0.5, 1.0]


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RemoteError, match="cannot be reached"):
        at(f"http://127.0.0.1:{port}").get("key")


def drip_body(handler):
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)


def drip_headers(handler):
    with contextlib.suppress(OSError):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            handler.wfile.write(b"x: y\r\n")
            handler.wfile.flush()
            time.sleep(0.05)


def say_nothing(handler):
    with contextlib.suppress(OSError):
        handler.connection.settimeout(300)
        handler.connection.recv(1)


@pytest.mark.parametrize("slow", [drip_body, drip_headers, say_nothing])
def test_a_trickle_does_not_put_off_the_last_moment(slow):
    start = time.monotonic()
    with serving(slow) as (url, _), pytest.raises(RemoteError, match="cannot be reached") as error:
        at(url, timeout=0.5).get("key")
    assert "within 0.5 seconds" in error.value.found
    assert time.monotonic() - start < 120  # and not for ever


def test_an_answer_that_is_too_large_is_not_read_to_its_end():
    sent = 0

    def flood(handler):
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(2000):
                handler.wfile.write(b"x" * 100_000)
                sent += 100_000

    with serving(flood) as (url, _), pytest.raises(RemoteError, match="does not answer") as error:
        at(url).get("key", most_bytes=1_000_000)
    assert "larger than 1,000,000 bytes" in error.value.found
    assert sent < 100_000_000


def test_compressed_answers_are_refused():
    bomb = gzip.compress(b"0" * 50_000_000)
    with serving(reply(bomb, content_encoding="gzip")) as (url, _), pytest.raises(RemoteError) as error:
        at(url).get("key")
    assert "compressed" in error.value.found


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_follows_no_redirection(status):
    with serving(reply()) as (elsewhere, asked_elsewhere):
        answer = reply(b"", status, location=f"{elsewhere}/api/v1/key")
        with serving(answer) as (url, _), pytest.raises(RemoteError) as error:
            at(url).get("key")
    assert "another address" in error.value.found
    assert not asked_elsewhere


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"<html>"],
    ids=lambda content: repr(content[:12]),
)
def test_answers_that_are_no_json_object(content):
    with serving(reply(content)) as (url, _), pytest.raises(RemoteError, match="does not answer"):
        at(url).get("key").json()


def test_what_the_server_says_is_shown_without_what_steers_a_terminal():
    parts = {"problem": "\x1b[2Jgone\x9b31m", "found": "a\nb\u202ec", "remedy": "x" * 10_000}
    answer = reply(json.dumps({"error": parts}).encode(), 403)
    with serving(answer) as (url, _), pytest.raises(RemoteError) as error:
        at(url).get("key")
    assert error.value.problem == "The agency's server says: �[2Jgone�31m"
    assert error.value.found == "a�b�c"
    assert len(error.value.remedy) == 500


@pytest.mark.parametrize("error", [None, [], "x", {"problem": 3}, {"problem": ["a"]}, {"problem": ""}])
def test_errors_without_words(error):
    answer = reply(json.dumps({"error": error}).encode(), 418)
    with serving(answer) as (url, _), pytest.raises(RemoteError) as raised:
        at(url).get("key")
    assert "418" in raised.value.found


@pytest.mark.parametrize("status", [200, 204])
def test_an_empty_answer_is_no_document(status):
    with serving(reply(b"", status)) as (url, _), pytest.raises(RemoteError):
        at(url).get("key").json()


class TestAddresses:
    @pytest.mark.parametrize(
        "url",
        [
            "https://agency.example",
            "https://agency.example:8443/base/",
            "http://127.0.0.1:8000",
            "http://127.3.2.1",
            "http://localhost:8000",
            "http://[::1]:8000",
        ],
    )
    def test_good_ones(self, url):
        assert AgencyServer(url).url == url.rstrip("/")

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "agency.example",
            "ftp://agency.example",
            "file:///etc/passwd",
            "https://",
            "https:///path",
            "https://user:secret@agency.example",
            "https://user@agency.example",
            "https://agency.example?a=b",
            "https://agency.example#a",
            "https://agency.example:port",
            "https://agency .example",
            "https://agency.example\n",
            "https://[::1",
        ],
    )
    def test_bad_ones(self, url):
        with pytest.raises(ParameterError) as error:
            AgencyServer(url, insecure_http=True)
        assert "secret" not in str(error.value)

    @pytest.mark.parametrize(
        "url",
        [
            "http://agency.example",
            "http://10.0.0.1",
            "http://localhost.agency.example",
            "http://127.0.0.1.agency.example",
            "http://0.0.0.0:80",
        ],
    )
    def test_plain_http_to_others_must_be_allowed(self, url):
        with pytest.raises(ParameterError, match="read your token") as error:
            AgencyServer(url)
        assert error.value.parameter == ("insecure_http",)
        assert AgencyServer(url, insecure_http=True).url == url

    @pytest.mark.parametrize("timeout", [0, -1, 4000, float("nan")])
    def test_time_limits(self, timeout):
        with pytest.raises(ParameterError):
            AgencyServer("https://agency.example", timeout=timeout)


class TestTokens:
    @pytest.mark.parametrize(
        "text", ["", "x1y2z3", "a b c d e f g", "x" * 600, "töken-töken", "line\nbreak-x"]
    )
    def test_what_is_no_token_is_not_repeated(self, text):
        with pytest.raises(FileError) as error:
            Token(text)
        assert not text or text not in str(error.value)

    def test_nothing_prints_it(self):
        token = Token(SECRET)
        server = AgencyServer("https://agency.example", token)
        for text in (repr(token), str(token), f"{token}", repr(server), str(server)):
            assert SECRET not in text

    def test_errors_do_not_hold_it(self):
        with serving(hang_up) as (url, _), pytest.raises(RemoteError) as error:
            at(url).get("key")
        assert SECRET not in str(error.value)


def test_a_proxy_is_not_asked_over_plain_http(monkeypatch):
    """Whoever has set a proxy for the web has not set it for the token."""
    with serving(reply()) as (proxy, asked_proxy), serving(reply()) as (url, asked):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        at(url).get("key")
    assert len(asked) == 1
    assert not asked_proxy


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(b"".join(local_server.self_signed("localhost")))
    return path


def test_a_server_that_nobody_vouches_for_is_sent_nothing(certificate, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    naps = Naps()
    with serving(reply(), certificate) as (url, asked):
        with pytest.raises(RemoteError, match="not certain") as error:
            at(url, attempts=3, naps=naps).get("key")
        assert not asked
        assert not naps  # trying again would not make it true
        assert "SSL_CERT_FILE" in error.value.remedy
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        at(url).get("key")
        assert len(asked) == 1
        with pytest.raises(RemoteError):  # vouched for, but under another name
            at(url.replace("localhost", "127.0.0.1")).get("key")
        assert len(asked) == 1


def test_texts_of_the_server():
    assert shown("a\tb") == "a�b"
    assert shown(None) == shown(3) == ""
    assert shown("\ud800") == "�"
    assert shown("x" * 9, most=5) == "xxxx…"


def test_without_the_package_there_is_a_hint(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert execute(["remote", "key", "--server", "http://127.0.0.1:1"]) == 2
    assert "elldelta[remote]" in capsys.readouterr().err


def test_importing_the_module_does_not_import_the_package():
    code = f"import sys, {agency_http.__name__}; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
