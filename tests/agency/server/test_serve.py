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

import httpx
import pytest
import sqlalchemy as sa
from tests.agency.server.real_server import wait_until

from elldelta.agency.server import logs
from elldelta.agency.server.demo import fill
from elldelta.agency.server.services.parties import identify_token
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency
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
    def is_ready():
        with contextlib.suppress(httpx.TransportError):
            return get(url + "/ready").status_code == 200

    wait_until(is_ready)


def test_it_starts_answers_ends_with_0_and_finds_its_key_again(start, tmp_path):
    process, url = start()
    wait_until_ready(url)
    key = get(url + "/api/v1/key").json()
    assert key["algorithm"] == "Ed25519"
    assert get(url + "/api/v1/plans").status_code == 401
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    for name in ("agency-key.pem", "agency.sqlite"):
        assert stat.S_IMODE((tmp_path / "agency" / name).stat().st_mode) == 0o600
    lines = [json.loads(line) for line in (tmp_path / "log-0").read_text().splitlines()]
    assert {"/ready", "/api/v1/plans"} <= {line.get("route") for line in lines}
    process, url = start()
    wait_until_ready(url)
    assert get(url + "/api/v1/key").json() == key
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 0


@pytest.mark.slow
def test_several_processes_answer_and_end_with_the_first(start):
    process, url = start("--workers", "2")
    wait_until_ready(url)
    keys = {get(url + "/api/v1/key").text for _ in range(20)}
    assert len(keys) == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    with pytest.raises(httpx.TransportError):
        get(url + "/health")


@pytest.mark.parametrize(
    ("workers", "when"),
    [
        pytest.param("1", "ready", marks=pytest.mark.slow),
        pytest.param("2", "ready", marks=pytest.mark.slow),
        ("2", "starting"),
    ],
)
def test_nothing_lives_on_after_kill_9(start, workers, when):
    process, url = start("--workers", workers)
    if when == "ready":
        wait_until_ready(url)
    process.kill()
    process.wait(300)

    def is_free():
        with contextlib.closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0

    wait_until(is_free)  # nobody listens on it any more


DEMONSTRATION = {"parties": 6, "plans": 1, "progress": 3, "ledger_lines": 1, "registrations": 1}


def rows_of(database):
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.connect() as connection:
        found = {
            table: connection.scalar(sa.select(sa.func.count()).select_from(sa.table(table)))
            for table in DEMONSTRATION
        }
    engine.dispose()
    return found


def test_the_demonstration_has_something_to_show(tmp_path):
    settings = Settings(folder=tmp_path, database="", is_demo=True)
    logins = fill(settings)
    assert len(logins) == DEMONSTRATION["parties"]
    assert rows_of(tmp_path / "agency.sqlite") == DEMONSTRATION
    assert fill(settings) == logins
    assert rows_of(tmp_path / "agency.sqlite") == DEMONSTRATION


@pytest.mark.slow
def test_the_demonstration_is_served_and_kept(start, tmp_path):
    process, url = start("--demo")
    wait_until_ready(url)
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    database = tmp_path / "agency" / "demo" / "agency.sqlite"
    assert not (tmp_path / "agency" / "agency.sqlite").exists()
    assert rows_of(database) == DEMONSTRATION
    process, url = start("--demo")
    wait_until_ready(url)
    assert rows_of(database) == DEMONSTRATION


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command that does not come to serving, in this process: exit code and what it said."""
    monkeypatch.setattr(logs, "configure", lambda _: None)  # the log is that of the tests

    def execute_serve(*arguments, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        port = () if "--port" in arguments else ("--port", "0")
        code = execute(["serve", *port, "--data", str(tmp_path / "data"), *arguments])
        return code, "".join(capsys.readouterr())

    return execute_serve


def test_the_first_of_the_agency_is_added_with_a_token(run, tmp_path):
    code, said = run("--create-admin", "maria")
    assert code == 0
    token = re.search(r"elldelta_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", said)[0]
    with contextlib.closing(Agency.open(Settings(folder=tmp_path / "data"))) as agency:
        found = identify_token(agency, token)
    assert (found.name, found.role) == ("maria", "agency")
    code, said = run("--create-admin", "maria")
    assert (code, "already" in said) == (2, True)


def test_a_port_that_is_taken_is_bad_input(run):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        code, said = run("--port", str(taken.getsockname()[1]))
    assert (code, "cannot listen" in said) == (2, True)


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
def test_settings_that_cannot_be_used_are_bad_input(run, arguments):
    code, said = run(*arguments)
    assert code == 2, said
    assert said.startswith("Error: ")
    assert "secret-word" not in said


def test_a_limit_from_the_environment_that_is_no_number_is_bad_input(run):
    code, said = run(ELLDELTA_SERVER_BODY_BYTES="many")
    assert (code, "ELLDELTA_SERVER_BODY_BYTES" in said) == (2, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "agency.example"])  # noqa: S104
def test_on_an_address_that_others_reach_it_needs_a_proxy(run, tmp_path, host):
    code, said = run("--host", host)
    assert (code, "--behind-proxy" in said, host in said) == (2, True, True)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "address", ["agency.example", "http://agency.example", "https://", "https://a@b.example", "https://a/b"]
)
def test_a_proxy_is_named_by_the_address_that_people_type(run, address):
    code, said = run("--behind-proxy", address)
    assert (code, "https://agency.example" in said) == (2, True)


def test_it_answers_for_the_address_of_its_proxy_and_for_this_machine(tmp_path):
    settings = Settings(folder=tmp_path, behind_proxy="https://Agency.example:8443/")
    asked = (
        "agency.example",
        "AGENCY.example:443",
        "localhost:8000",
        "www.agency.example",
        "agency.example.",
    )
    assert [settings.answers_for(host) for host in asked] == [True, True, True, False, False]


def test_without_its_packages_the_command_says_what_to_install(monkeypatch, capsys):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else real(name))
    assert execute(["serve"]) == 2
    assert "pip install 'elldelta[server]'" in capsys.readouterr().err


def test_a_process_that_answers_does_not_load_what_others_plan_with():
    """Every process of the service would have its own copy in memory."""
    code = (
        "import sys, uvicorn, elldelta.agency.server.run;"
        "print(sorted({'numba', 'duckdb', 'pyarrow', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_other_commands_do_not_wait_for_the_service():
    code = (
        "import sys, elldelta.cli.main; print([n for n in sys.modules if re.match('fastapi|sqlalchemy', n)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import re;" + code], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\[\]\s*", done.stdout)
