"""The configuration of nginx that we ship, attacked: a real nginx with TLS before a real service."""

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.agency.registrations import make_plan
from tests.agency.server.real_server import PATIENCE, RealServer, bearer, own_settings, wait_until
from tests.local_server import free_ports, self_signed

from elldelta.agency.server.services.parties import list_trail

SHIPPED = Path(__file__).parents[3] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt install nginx)")

CONNECTIONS, UPLOADS = (
    int(re.search(rf"limit_conn agency_{name} (\d+);", SHIPPED.read_text())[1])
    for name in ("connections", "uploads")
)


class Proxy:
    """nginx with the shipped file; only ports, places of files and the wait for a head are other ones."""

    def __init__(self, folder, service_port):
        self.folder = folder
        self.plain, self.port = free_ports(2)
        certificate, key = self_signed("agency.example")
        (folder / "fullchain.pem").write_bytes(certificate)
        (folder / "privkey.pem").write_bytes(key)
        text = SHIPPED.read_text()
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{self.plain};"),
            ("listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;"),
            ("server 127.0.0.1:8000;", f"server 127.0.0.1:{service_port};"),
            ("/etc/ssl/agency/", f"{folder}/"),
            ("client_header_timeout 10s;", "client_header_timeout 2s;"),
        ):
            assert text.count(old) >= 1, old
            text = text.replace(old, new)
        (folder / "agency.conf").write_text(text)
        places = "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log notice;\n"
            f"events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\n{places}"
            f"include {folder}/agency.conf;\n}}\n"
        )

    def __enter__(self):
        command = [NGINX, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-e", "stderr"]
        self._log = (self.folder / "stderr").open("w")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        wait_until(self._answers)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._log.close()

    def _answers(self):
        assert self._process.poll() is None, (self.folder / "stderr").read_text()
        with contextlib.suppress(OSError):
            self.connect().close()
            return True
        return False

    def connect(self, source="127.0.0.1"):
        """A connection with TLS from an address; the certificate is checked."""
        context = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(source, 0))
        try:
            return context.wrap_socket(plain, server_hostname="agency.example")
        except BaseException:
            plain.close()
            raise

    def send(self, content, source="127.0.0.1", *, is_complete=lambda received: False):
        """Sends bytes as they are, and returns the status and all that comes back, or enough of it."""
        with self.connect(source) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(content)
            received = b""
            with contextlib.suppress(OSError):
                while not is_complete(received) and (part := connection.recv(65536)):
                    received += part
        found = re.match(rb"HTTP/1.1 (\d+)", received)
        return int(found[1]) if found else None, received

    def get(self, path, source="127.0.0.1", headers=()):
        lines = [f"GET {path} HTTP/1.1", "Host: agency.example", "Connection: close", *headers]
        return self.send("\r\n".join([*lines, "", ""]).encode(), source)


@pytest.fixture(scope="module")
def behind(tmp_path_factory, request):
    """The service as it is started behind a proxy, and nginx in front of it."""
    folder = tmp_path_factory.mktemp("proxy")
    with own_settings("sqlite", request, folder) as settings:
        server = RealServer(settings, folder / "log", more=["--behind-proxy=https://agency.example"])
        with server, Proxy(folder, httpx.URL(server.url).port) as proxy:
            proxy.service = server
            proxy.token = server.add("owner", "owner")
            proxy.plan = server.issue(make_plan())
            yield proxy


def test_it_answers_over_tls_with_the_headers_that_are_needed(behind):
    status, received = behind.get("/sign-in")
    assert status == 200
    head = received.split(b"\r\n\r\n")[0].lower()
    for name in (
        b"content-security-policy",
        b"x-content-type-options",
        b"x-frame-options",
        b"referrer-policy",
    ):
        assert name in head
    assert head.count(b"strict-transport-security") == 1
    assert re.search(rb"server: nginx\r\n", head)  # and no version
    status, received = behind.get("/api/v1/plans")
    assert status == 401
    redirect = httpx.get(f"http://127.0.0.1:{behind.plain}/plans?x=1", headers={"Host": "evil.test"})
    assert (redirect.status_code, redirect.headers["location"]) == (301, "https://agency.example/plans?x=1")
    assert behind.get("/ready", source="127.0.0.3")[0] == 200


def test_old_tls_is_refused(behind):
    context = ssl.create_default_context(cafile=str(behind.folder / "fullchain.pem"))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", behind.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="agency.example")


@pytest.mark.parametrize(
    "body",
    [b"0\r\n\r\nGET /api/v1/me HTTP/1.1\r\nHost: x\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(behind, body):
    for encoding in (b"chunked", b"Chunked", b"chunked, identity", b"identity, chunked"):
        head = (
            b"POST /sign-in HTTP/1.1\r\nHost: agency.example\r\nOrigin: https://agency.example\r\n"
            b"Content-Length: 6\r\nTransfer-Encoding: " + encoding + b"\r\n\r\n"
        )
        status, received = behind.send(head + body)
        assert status in (400, 501), (encoding, status)
        assert received.count(b"HTTP/1.1") == 1  # no second request was taken out of the first one
    for lengths in (b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: +5\r\n"):
        status, _ = behind.send(
            b"POST /sign-in HTTP/1.1\r\nHost: agency.example\r\n" + lengths + b"\r\nhello"
        )
        assert status == 400


def test_the_address_of_a_caller_cannot_be_made_up(behind):
    form = f"token={behind.token}"
    for number in range(3):
        lines = [
            "POST /sign-in HTTP/1.1", "Host: agency.example", "Connection: close",
            "Origin: https://agency.example", f"X-Forwarded-For: 203.0.113.{number}",
            "X-Forwarded-Proto: http",
            "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}", "", form,
        ]  # fmt: skip
        status, _ = behind.send("\r\n".join(lines).encode(), source="127.0.0.4")
        assert status == 303
    newest = list_trail(behind.service.agency).entries[:3]
    assert [(entry.action, entry.address) for entry in newest] == [("signed in", "127.0.0.4")] * 3


def test_bodies_are_as_large_as_they_may_be_and_not_larger(behind):
    def announced(path, size, method="POST"):
        lines = [
            f"{method} {path} HTTP/1.1", "Host: agency.example", "Connection: close",
            f"Authorization: Bearer {behind.token}", "Content-Type: application/json",
            f"Content-Length: {size}", "", "",
        ]  # fmt: skip
        body = b" " * min(size, 100_000)
        # The proxy waits seconds for the rest of a body that it refuses: the status is all that is looked at.
        return behind.send(
            "\r\n".join(lines).encode() + body, is_complete=lambda received: b"\r\n" in received
        )[0]

    plan = f"/api/v1/plans/{behind.plan.digest}"
    assert announced("/sign-in", 70_000) == 413
    assert announced(f"{plan}/releases", 17 << 20) == 413
    assert announced(f"{plan}/releases", 66_000) == 422  # it is no registration: the service says so
    assert announced("/api/v1/populations/region/model", 65 << 20, "PUT") == 413


def test_idle_connections_of_one_address_do_not_keep_others_out(behind):
    """1,005 of them gave everybody 503. Here heads that never end are cut off, and others do not notice."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(behind.connect("127.0.0.5")) for _ in range(2 * CONNECTIONS)]
        for one in held:
            one.sendall(b"GET /sign-in HTTP/1.1\r\nHost: agency.example\r\nX: ")
        assert behind.get("/api/v1/key", source="127.0.0.6")[0] == 200
        for one in held:
            one.settimeout(PATIENCE)
            with contextlib.suppress(OSError):
                assert not one.recv(65536)  # closed without an answer


def test_one_address_has_only_so_many_requests_under_way(behind):
    """Each waits for a body that does not come: counted as a connection, and the rest is refused."""
    head = (
        f"PUT /api/v1/plans/{behind.plan.digest}/progress HTTP/1.1\r\nHost: agency.example\r\n"
        f"Authorization: {bearer(behind.token)['Authorization']}\r\nContent-Type: application/json\r\n"
        "Content-Length: 50\r\n\r\n"
    ).encode()
    held = []
    try:
        for _ in range(CONNECTIONS):
            held.append(behind.connect("127.0.0.7"))
            held[-1].sendall(head)

        def is_full():
            return behind.get("/api/v1/key", source="127.0.0.7")[0] == 429

        wait_until(is_full)
        assert behind.get("/api/v1/key", source="127.0.0.8")[0] == 200
    finally:
        for one in held:
            one.close()


def test_one_address_has_only_a_few_uploads_under_way(behind):
    """Large bodies take memory once they are complete."""
    head = (
        f"POST /api/v1/plans/{behind.plan.digest}/releases HTTP/1.1\r\nHost: agency.example\r\n"
        "Connection: close\r\n"
        f"Authorization: {bearer(behind.token)['Authorization']}\r\nContent-Type: application/json\r\n"
        "Content-Length: 50\r\n\r\n"
    ).encode()
    with contextlib.ExitStack() as stack:
        for _ in range(UPLOADS):
            stack.enter_context(behind.connect("127.0.0.11")).sendall(head)
        wait_until(lambda: behind.send(head + b" " * 50, source="127.0.0.11")[0] == 429)
        assert behind.get("/api/v1/key", source="127.0.0.11")[0] == 200
        assert behind.send(head + b" " * 50, source="127.0.0.12")[0] == 422


def test_too_many_requests_are_refused_before_they_reach_the_service(behind):
    found = [behind.get("/sign-in", source="127.0.0.9")[0] for _ in range(30)]
    assert found[:5] == [200] * 5
    assert 429 in found
    assert behind.get("/sign-in", source="127.0.0.10")[0] == 200


def test_the_unit_of_systemd_is_one(tmp_path):
    """Where systemd is installed it says whether it understands the file."""
    unit = SHIPPED.parent / "elldelta-agency.service"
    text = unit.read_text()
    assert re.search(r"^ExecStart=\S+/elldelta serve .*--behind-proxy", text, re.M)
    assert "StateDirectoryMode=0700" in text
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.M))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}, check=False,
    )  # fmt: skip
    assert unit.name not in done.stderr, done.stderr
