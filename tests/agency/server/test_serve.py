"""`elldelta serve` as a person starts it: real processes, signals and exit codes."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time

import httpx
import pytest
import sqlalchemy as sa

from elldelta.cli.main import execute

START = [sys.executable, "-c", "from elldelta.cli.main import run; run()", "serve", "--port", "0"]


@pytest.fixture
def start(tmp_path):
    """Starts the service in a folder of its own; ends whatever is left of it."""
    begun = []

    def begin(*arguments, folder="agency", **environment):
        error = (tmp_path / f"log-{len(begun)}").open("w+")
        process = subprocess.Popen(
            [*START, "--data", str(tmp_path / folder), *arguments],
            stdout=subprocess.PIPE,
            stderr=error,
            text=True,
            env={**os.environ, **environment},
        )
        begun.append((process, error))
        for line in process.stdout:
            if line.startswith("Serving on "):
                return process, line.split()[2]
        raise AssertionError(f"it ended with {process.wait()}: {error.name}")

    yield begin
    for process, error in begun:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        error.close()


def get(url):
    return httpx.get(url, timeout=120)


def wait_until_ready(url):
    deadline = time.monotonic() + 300
    while True:
        with contextlib.suppress(httpx.TransportError):
            if get(url + "/ready").status_code == 200:
                return
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_it_starts_answers_and_ends_with_0(start, tmp_path):
    process, url = start()
    wait_until_ready(url)
    assert get(url + "/api/v1/key").json()["algorithm"] == "Ed25519"
    assert get(url + "/api/v1/plans").status_code == 401
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    for name in ("agency-key.pem", "agency.sqlite"):
        assert stat.S_IMODE((tmp_path / "agency" / name).stat().st_mode) == 0o600
    lines = [json.loads(line) for line in (tmp_path / "log-0").read_text().splitlines()]
    assert {"/ready", "/api/v1/plans"} <= {line.get("route") for line in lines}


def test_a_second_start_finds_the_same_key(start):
    process, url = start()
    wait_until_ready(url)
    key = get(url + "/api/v1/key").json()
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 0
    _, url = start()
    wait_until_ready(url)
    assert get(url + "/api/v1/key").json() == key


def test_several_processes_answer_and_end_with_the_first(start):
    process, url = start("--workers", "2")
    wait_until_ready(url)
    keys = {get(url + "/api/v1/key").text for _ in range(20)}
    assert len(keys) == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    with pytest.raises(httpx.TransportError):
        get(url + "/health")


@pytest.mark.parametrize(("workers", "when"), [("1", "ready"), ("2", "ready"), ("2", "starting")])
def test_nothing_lives_on_after_kill_9(start, workers, when):
    process, url = start("--workers", workers)
    if when == "ready":
        wait_until_ready(url)
    process.kill()
    process.wait(300)
    deadline = time.monotonic() + 300
    while True:  # the port is free again: nobody listens on it
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0:
                return
        assert time.monotonic() < deadline, "somebody still listens"
        time.sleep(0.2)


def test_the_demonstration_has_something_to_show_and_keeps_it(start, tmp_path):
    process, url = start("--demo")
    wait_until_ready(url)
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    database = tmp_path / "agency" / "demo" / "agency.sqlite"
    assert not (tmp_path / "agency" / "agency.sqlite").exists()

    def rows():
        engine = sa.create_engine(f"sqlite:///{database}")
        with engine.connect() as connection:
            found = {
                table: connection.scalar(sa.select(sa.func.count()).select_from(sa.table(table)))
                for table in ("parties", "plans", "progress", "ledger_lines", "registrations")
            }
        engine.dispose()
        return found

    first = rows()
    assert first == {"parties": 6, "plans": 1, "progress": 3, "ledger_lines": 1, "registrations": 1}
    process, url = start("--demo")
    wait_until_ready(url)
    assert rows() == first


def run(*arguments, **environment):
    return subprocess.run(
        [*START, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


def test_the_first_of_the_agency_is_added_with_a_password(tmp_path):
    folder = str(tmp_path / "data")
    password = "a long enough password"  # noqa: S105
    done = run("--data", folder, "--create-admin", "maria", ELLDELTA_ADMIN_PASSWORD=password)
    assert done.returncode == 0, done.stderr
    assert password not in done.stdout + done.stderr
    again = run("--data", folder, "--create-admin", "maria", ELLDELTA_ADMIN_PASSWORD=password)
    assert (again.returncode, "already" in again.stderr) == (2, True)
    short = run("--data", folder, "--create-admin", "eva", ELLDELTA_ADMIN_PASSWORD="short")  # noqa: S106
    assert (short.returncode, "12" in short.stderr) == (2, True)


def test_a_port_that_is_taken_is_bad_input(tmp_path):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        done = run("--data", str(tmp_path / "data"), "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot listen" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--database", "mysql://x/y"),
        ("--database", "sqlite:///:memory:"),
        ("--database", "postgresql://nobody:secret-word@127.0.0.1:1/x"),
        ("--demo", "--database", "sqlite:///x"),
        ("--workers", "0"),
        ("--log-level", "loud"),
        ("--host", "256.1.1.1"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_used_are_bad_input(tmp_path, arguments):
    done = run("--data", str(tmp_path / "data"), *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("Error: ")
    assert "secret-word" not in done.stderr + done.stdout


def test_a_limit_from_the_environment_that_is_no_number_is_bad_input(tmp_path):
    done = run("--data", str(tmp_path / "data"), ELLDELTA_SERVER_BODY_BYTES="many")
    assert (done.returncode, "ELLDELTA_SERVER_BODY_BYTES" in done.stderr) == (2, True)


def test_on_an_address_that_others_reach_it_says_what_must_stand_in_front(start, tmp_path):
    process, url = start("--host", "0.0.0.0")  # noqa: S104
    wait_until_ready(url.replace("0.0.0.0", "127.0.0.1"))  # noqa: S104
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    assert "web server in front" in (tmp_path / "log-0").read_text()


def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else real(name))
    assert execute(["serve"]) == 2
    assert "pip install 'elldelta[server]'" in capsys.readouterr().err


def test_other_commands_do_not_wait_for_the_service():
    code = (
        "import sys, elldelta.cli.main; print([n for n in sys.modules if re.match('fastapi|sqlalchemy', n)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import re;" + code], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\[\]\s*", done.stdout)
