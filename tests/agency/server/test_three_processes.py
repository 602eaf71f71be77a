"""The protocol between real processes: the agency's server, and owners with the command line.

A client asks, the agency issues a signed plan, the owners fetch it, reach N, release and register. One
release that would take a class below ell is refused. Everything that travels can be tampered with, and is
noticed.

The server is always a process. The commands do the same in any process, and starting one for each takes long:
they are processes only in one of the stories that are rare and slow, and there once for each set of options.
"""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.agency.server.service import POPULATION, WISH, model_file

from elldelta.agency.server.services.parties import create_party, create_token
from elldelta.agency.server.settings import Settings
from elldelta.agency.server.state import Agency, prepare
from elldelta.cli.main import execute
from elldelta.plan.plan import read_plan

ELLDELTA = [sys.executable, "-c", "from elldelta.cli.main import run; run()"]
OWNERS = ("hospital-a", "hospital-b", "hospital-c", "clinic-a", "clinic-b")
PARTIES = {"staff": "agency", "ministry": "client", **dict.fromkeys(OWNERS, "owner")}


@contextlib.contextmanager
def serving(folder, database_url):
    """The server and its worker as processes; yields its address."""
    environment = {**os.environ, "ELLDELTA_DATABASE": database_url}
    process = subprocess.Popen(
        [*ELLDELTA, "serve", "--port", "0", "--data", str(folder), "--log-level", "warning"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    worker = None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        worker = subprocess.Popen([*ELLDELTA, "worker", "--data", str(folder)], env=environment)
        yield found[0]
    finally:
        if worker is not None:
            worker.kill()
            worker.wait()
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(300) in (0, 130)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


class World:
    """The agency's staff and a client over HTTP, and owners with the command line."""

    def __init__(self, folder, url, tokens, run):
        self.folder, self.url, self.tokens, self._run = folder, url, tokens, run
        for owner in OWNERS:
            (folder / owner).mkdir()
            token = folder / owner / "token"
            token.touch(0o600)
            token.write_text(tokens[owner] + "\n")

    def ask(self, who, verb, path, **options):
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **options.pop("headers", {})}
        answer = httpx.request(verb, f"{self.url}/api/v1{path}", headers=headers, timeout=300, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def issue(self, population=POPULATION, **wish):
        """From the model to a signed plan; the planning runs in the worker."""
        if not any(
            item["name"] == population for item in self.ask("staff", "GET", "/populations")["entries"]
        ):
            self.ask("staff", "POST", "/populations", json={"name": population, "title": "The region"})
            self.ask(
                "staff",
                "PUT",
                f"/populations/{population}/model",
                content=model_file(),
                headers={"Content-Type": "application/octet-stream"},
            )
        number = self.ask("ministry", "POST", "/requests", json={**WISH, "population": population, **wish})[
            "id"
        ]
        job = self.ask("staff", "POST", f"/requests/{number}/plan")["id"]
        while (state := self.ask("staff", "GET", f"/jobs/{job}"))["status"] in ("queued", "running"):
            time.sleep(0.1)
        assert state["status"] == "done", state
        return state["result"]["plan"]

    def run(self, owner, *words, code=0):
        """A command of an owner, in the owner's folder."""
        found, out, err = self._run([*map(str, words), "--json"], self.folder / owner, self.url)
        assert found == code, out + err
        assert self.tokens[owner] not in out + err
        return json.loads(out)

    def remote(self, owner, *words, code=0):
        return self.run(owner, "remote", *words, "--token-file", "token", code=code)

    def path(self, owner, name):
        return self.folder / owner / name


def in_own_process(words, folder, server):
    finished = subprocess.run(
        [*ELLDELTA, *words],
        cwd=folder,
        env={**os.environ, "ELLDELTA_SERVER": server},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return finished.returncode, finished.stdout, finished.stderr


def in_this_process(words, folder, server):
    with (
        contextlib.chdir(folder),
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        patch.setenv("ELLDELTA_SERVER", server)
        code = execute(words)
    return code, out.getvalue(), err.getvalue()


def first_in_own_process():
    """Runs a command as a process, as owners do, the first time with each set of options; later ones here."""
    seen = set()

    def run(words, folder, server):
        form = (*(word for word in words[:2] if "." not in word), *(word for word in words if word[0] == "-"))
        begin = in_this_process if form in seen else in_own_process
        seen.add(form)
        return begin(words, folder, server)

    return run


STORIES = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.slow),
    pytest.param("commands are processes", marks=pytest.mark.slow),
)


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    with running_world(folder, f"sqlite:///{folder / 'agency.sqlite'}", in_this_process) as world:
        yield world


@pytest.fixture(params=STORIES)
def world(request, tmp_path):
    if request.param == "sqlite":
        yield request.getfixturevalue("shared_world")
        return
    if request.param == "postgresql":
        database_url, run = request.getfixturevalue("postgres_url"), in_this_process
    else:
        database_url, run = f"sqlite:///{tmp_path / 'agency.sqlite'}", first_in_own_process()
    with running_world(tmp_path, database_url, run) as world:
        yield world


@contextlib.contextmanager
def running_world(tmp_path, database_url, run):
    folder = tmp_path / "agency"
    settings = Settings(folder=folder, database=database_url)
    prepare(settings)
    agency = Agency.open(settings)
    try:
        tokens = {}
        for name, role in PARTIES.items():
            create_party(agency, name, role)
            tokens[name] = create_token(agency, name, "test", 30).token
    finally:
        agency.close()
    with serving(folder, database_url) as url:
        yield World(tmp_path, url, tokens, run)


def write_records(path, n_records, seed, plan=None, base=None, without=()):
    """Records of an owner; in one class of the plan nobody has the diseases in `without`."""
    rng = np.random.default_rng(seed)
    ages, genders = rng.integers(0, 12, n_records), rng.integers(0, 2, n_records)
    diseases = rng.integers(0, 6, n_records)
    if plan is not None:
        class_of = plan.class_of(plan.schema.ranks(np.stack([ages, genders], axis=1)))
        others = [number for number in range(6) if number not in without]
        gone = (class_of == base) & np.isin(diseases, without)
        diseases[gone] = rng.choice(others, int(gone.sum()))
    table = {
        "age": ages + 30,
        "gender": np.array(["f", "m"])[genders],
        "disease": np.array([f"disease {number}" for number in range(6)])[diseases],
    }
    pq.write_table(pa.table(table), path)


def test_the_whole_protocol(world):
    digest = world.issue()
    for owner in ("hospital-a", "hospital-b", "hospital-c"):
        key = world.remote(owner, "key", "-o", "agency.pem")
        assert digest in [item["digest"] for item in world.remote(owner, "plans")["plans"]]
        fetched = world.remote(owner, "plan", digest, "-o", "plan.json", "--agency-key", "agency.pem")
        assert fetched["key_id"] == key["id"]
        world.run(owner, "signature", "verify", "plan.json", "--agency-key", "agency.pem")
    plan = read_plan(world.path("hospital-a", "plan.json"))
    # A class where all six values are witnesses: each release may miss two; these three would leave one.
    base = next(number for number, own in enumerate(plan.columns[0].witnesses) if len(own) == 6)
    assert plan.promises[0].allowances[base] == 2

    seen = world.remote("hospital-a", "progress", digest, "--records", plan.records - 1)
    assert (seen["needed"], seen["own_records"], seen["owners_reached"]) == (
        plan.records,
        plan.records - 1,
        0,
    )
    world.remote("hospital-a", "progress", digest, "--records", 6000)
    assert world.remote("hospital-b", "progress", digest, "--records", 6000)["owners_reached"] == 2

    def publish(owner, name, seed, without, code=0):
        write_records(world.path(owner, f"{name}.records.parquet"), 6000, seed, plan, base, without)
        world.run(
            owner, "release", f"{name}.records.parquet", "--plan", "plan.json", "--agency-key", "agency.pem",
            "-o", f"{name}.parquet",
        )  # fmt: skip
        return world.remote(owner, "register", f"{name}.parquet", "--plan", "plan.json", code=code)

    first = publish("hospital-a", "first", 1, (0, 1))
    second = publish("hospital-b", "second", 2, (2, 3))
    assert [first["sequence"], second["sequence"]] == [1, 2]
    refused = publish("hospital-c", "third", 3, (3, 4), code=3)
    assert "The agency refuses the release" in refused["error"]["problem"]
    assert "would break what the plan promises" in refused["error"]["problem"]
    assert refused["error"]["found"].startswith("Too few of the values of")
    assert not world.path("hospital-c", "third.parquet.receipt.json").exists()

    # The same again is the same; and what is in the ledger is what everybody can check.
    again = world.remote("hospital-a", "register", "first.parquet", "--plan", "plan.json")
    assert (again["sequence"], again["hash"]) == (1, first["hash"])
    assert world.remote("hospital-a", "status", digest)["registered"] == 1  # the other one is not published
    assert world.remote("hospital-b", "publish", "second.parquet")["state"] == "published"
    assert world.remote("hospital-a", "status", digest)["registered"] == 2
    fetched = world.remote("hospital-a", "ledger", digest, "-o", "releases.ledger", "--plan", "plan.json")
    assert fetched["head"] == second["hash"]
    verified = world.run(
        "hospital-a",
        "ledger",
        "verify",
        "releases.ledger",
        "--plan",
        "plan.json",
        "--release",
        "first.parquet",
    )
    assert verified["releases"] == 2
    both = [world.path("hospital-a", "first.parquet"), world.path("hospital-b", "second.parquet")]
    audit = world.run("hospital-a", "audit", *both)
    assert audit["diversity_min_any"] >= plan.columns[0].ell
    # The refusal was right: with the third release somebody's value would be known for certain.
    three = [*both, world.path("hospital-c", "third.parquet")]
    assert world.run("hospital-a", "audit", *three, code=3)["diversity_min_any"] == 1 < plan.columns[0].ell


def test_tampering_is_noticed_on_both_sides(shared_world):
    """One database is enough where the owner's side is looked at."""
    world, owner, thief = shared_world, "clinic-a", "clinic-b"
    digest = world.issue("another", records=2001)
    world.remote(owner, "plan", digest, "-o", "plan.json", "--trust-first-key", "agency.pem")
    write_records(world.path(owner, "records.parquet"), 3000, 1)
    world.run(owner, "release", "records.parquet", "--plan", "plan.json", "-o", "release.parquet")

    # A plan that somebody has replaced on the owner's disk.
    other = world.issue("another", ell=3)
    world.remote(owner, "plan", other, "-o", "other.json", "--agency-key", "agency.pem")
    good = world.path(owner, "plan.json").read_bytes()
    world.path(owner, "plan.json").write_bytes(world.path(owner, "other.json").read_bytes())
    refused = world.run(
        owner, "release", "records.parquet", "--plan", "plan.json", "--agency-key", "agency.pem",
        "-o", "x.parquet", code=3,
    )  # fmt: skip
    assert "another plan" in refused["error"]["problem"]
    world.path(owner, "plan.json").write_bytes(good)

    # A manifest that somebody has edited is noticed before it is sent.
    manifest = world.path(owner, "release.parquet.manifest.json")
    kept = manifest.read_bytes()
    manifest.write_bytes(kept.replace(b'"records_read":3000', b'"records_read":3001'))
    world.remote(owner, "register", "release.parquet", "--plan", "plan.json", code=2)
    manifest.write_bytes(kept)

    # A release is registered under the plan that it was made with, and no other.
    world.remote(owner, "register", "release.parquet", "--plan", "other.json", code=2)
    assert world.remote(owner, "status", other)["registered"] == 0
    world.remote(owner, "register", "release.parquet", "--plan", "plan.json")

    # Another owner cannot register it as its own, once it is published.
    world.remote(owner, "publish", "release.parquet")
    for name in ("release.parquet", "release.parquet.manifest.json", "plan.json"):
        world.path(thief, name).write_bytes(world.path(owner, name).read_bytes())
    refused = world.remote(thief, "register", "release.parquet", "--plan", "plan.json", code=3)
    assert "Another owner has published exactly this release" in refused["error"]["problem"]

    # A ledger that was edited, or cut off at the end.
    world.remote(owner, "ledger", digest, "-o", "releases.ledger")
    ledger = world.path(owner, "releases.ledger")
    lines = ledger.read_bytes().splitlines(keepends=True)
    for changed in ([lines[0]], [lines[0], lines[1].replace(b"clinic-a", b"clinic-b")], lines[1:]):
        ledger.write_bytes(b"".join(changed))
        world.run(owner, "ledger", "verify", "releases.ledger", "--release", "release.parquet", code=2)
    ledger.write_bytes(b"".join(lines))
    world.run(owner, "ledger", "verify", "releases.ledger", "--release", "release.parquet")
