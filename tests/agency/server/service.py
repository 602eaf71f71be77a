"""A service that answers without a network, and what its callers do in most tests."""

import asyncio
import datetime as dt
import tempfile
from functools import lru_cache
from pathlib import Path

import httpx
import numpy as np
from tests.agency.registrations import make_plan, make_registration

from elldelta.agency.server.main import create_app
from elldelta.agency.server.services.parties import create_party, create_token, find_party
from elldelta.agency.server.services.plans import issue_plan
from elldelta.agency.server.services.populations import create_population, find_population, upload_model
from elldelta.agency.server.state import Caller
from elldelta.agency.server.tables import ROLES
from elldelta.agency.server.worker import run_next
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model, write_model
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

API = "/api/v1"
POPULATION = "region"
WISH = {"population": POPULATION, "ell": 2, "delta": 0.05, "releases": 2, "records": 2000}


class Clock:
    """A clock that tests can turn forward."""

    def __init__(self):
        self.ahead = dt.timedelta()

    def __call__(self):
        return dt.datetime.now(dt.UTC) + self.ahead

    def advance(self, **time):
        self.ahead += dt.timedelta(**time)


class Service:
    """The application, callers of every role, and a loop in which it runs."""

    def __init__(self, settings, clock, **limits):
        chosen = settings.limits.model_copy(update=limits)
        self.settings = settings.model_copy(update={"limits": chosen})
        self.clock = clock

    def __enter__(self):
        self.app = create_app(self.settings, clock=self.clock)
        self.agency = self.app.state.agency
        self._runner = asyncio.Runner()
        self._runner.__enter__()
        transport = httpx.ASGITransport(self.app, client=("192.0.2.7", 1234))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        self.tokens = {}
        for role in ROLES:
            self.add(role, role)
        return self

    def __exit__(self, *_):
        self._runner.run(self._client.aclose())
        self._runner.__exit__(None, None, None)
        self.agency.close()

    def add(self, name, role):
        """Lets somebody in, with a token."""
        create_party(self.agency, name, role)
        self.tokens[name] = create_token(self.agency, name, "test", 30).token

    def caller(self, name):
        with self.agency.database.reading() as session:
            party = find_party(session, name)
            return Caller(party.id, party.name, party.role)

    def ask(self, who, method, path, *, status=None, **options):
        """Sends a request as somebody; None is nobody. Refuses the test on another status."""
        headers = {**options.pop("headers", {})}
        if who is not None:
            headers["Authorization"] = f"Bearer {self.tokens[who]}"
        path = path if path in ("/health", "/ready", "/openapi.json") else API + path
        answer = self.send(method, path, headers=headers, **options)
        assert status is None or answer.status_code == status, answer.text
        return answer

    def send(self, method, path, **options):
        """Sends a request as it is."""
        return self._runner.run(self._client.request(method, path, **options))

    def send_together(self, requests):
        """Sends several requests at the same time: verb, path, who and document of each."""

        async def send():
            return await asyncio.gather(
                *(
                    self._client.request(
                        method,
                        API + path,
                        json=document,
                        headers={"Authorization": f"Bearer {self.tokens[who]}"},
                    )
                    for method, path, who, document in requests
                )
            )

        return self._runner.run(send())

    def send_plainly(self, requests):
        """Sends several requests of nobody at the same time: verb and path of each."""

        async def send():
            return await asyncio.gather(*(self._client.request(*request) for request in requests))

        return self._runner.run(send())

    def get(self, who, path, status=200, **options):
        return self.ask(who, "GET", path, status=status, **options)

    def post(self, who, path, document=None, status=200, **options):
        return self.ask(who, "POST", path, status=status, json=document, **options)

    def put(self, who, path, document=None, status=200, **options):
        return self.ask(who, "PUT", path, status=status, json=document, **options)

    def register(self, who, plan, counts, *, status=None, group_of=None):
        """Registers a release with these counts."""
        registration = make_registration(plan, counts, group_of)
        return self.ask(
            who,
            "POST",
            f"/plans/{plan.digest}/releases",
            status=status,
            content=registration.to_bytes(),
            headers={"Content-Type": "application/json"},
        )

    def publish(self, who, plan, content):
        """Lets an owner say that a release is published."""
        self.put(who, f"/plans/{plan.digest}/releases/{content}/state", {"state": "published"})

    def issue(self, plan=None, *, population=POPULATION):
        """Issues a plan that was made by hand."""
        plan = plan or make_plan()
        self.add_population(population)
        with self.agency.database.writing() as session:
            issue_plan(session, self.agency, find_population(session, population).id, plan)
        return plan

    def add_population(self, name=POPULATION):
        if self.ask("agency", "GET", f"/populations/{name}").status_code == 404:
            create_population(self.agency, name, "The region")

    def add_model(self):
        """A population with a small model."""
        self.add_population()
        upload_model(self.agency, self.caller("agency"), POPULATION, model_file())

    def work(self):
        """Does all jobs that wait, in this process."""
        while run_next(self.agency):
            pass

    def planned(self, **wish):
        """A plan that went the whole way from a request."""
        self.add_model()
        number = self.post("client", "/requests", {**WISH, **wish}, status=201).json()["id"]
        job = self.post("agency", f"/requests/{number}/plan", status=202).json()["id"]
        self.work()
        done = self.get("agency", f"/jobs/{job}").json()
        assert done["status"] == "done", done
        return done["result"]["plan"]


@lru_cache
def model_file():
    """A small model: 12 ages, 2 genders, 6 diseases; everybody can have everything."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.parquet"
        write_model(make_model(), path)
        return path.read_bytes()


def make_model(table=None):
    schema = Schema(
        (Column("age", Integers(30, 41)), Column("gender", Categories(("f", "m")))),
        Column("disease", Categories(tuple(f"disease {number}" for number in range(6)))),
    )
    if table is None:
        table = np.random.default_rng(5).integers(20, 60, size=(24, 6))
    rows, values = np.nonzero(table)
    n_records = int(table.sum())
    counts = Counts.from_cells(
        schema,
        rows.astype(np.int64),
        values.astype(np.int64),
        table[rows, values],
        Accounting(n_records, n_records),
    )
    return Model(counts)
