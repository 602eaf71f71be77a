"""The demonstration: generated hospitals, everybody who takes part, a plan and one registered release.

It lies in a folder and a database of its own, which are made for it and refused for anything else: its
tokens are known to everybody.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elldelta.agency.registration import registration_of
from elldelta.agency.server.services.ledger import count_releases, report_state
from elldelta.agency.server.services.parties import create_party, digest_of_secret, find_party
from elldelta.agency.server.services.plans import list_plans, load_plan, report_progress
from elldelta.agency.server.services.populations import create_population, upload_model
from elldelta.agency.server.services.releases import register_release
from elldelta.agency.server.services.requests import begin_job, file_request, show_request
from elldelta.agency.server.state import Agency, Caller, prepare
from elldelta.agency.server.tables import AGENCY, AUDITOR, CLIENT, OWNER, Role, Token
from elldelta.agency.server.worker import run_next
from elldelta.errors import InternalError
from elldelta.ledger.publish import release
from elldelta.model import estimate, write_model
from elldelta.model.demo_hospitals import make_region
from elldelta.plan.wish import Wish
from elldelta.schema.schema import Schema

if TYPE_CHECKING:
    from elldelta.agency.server.settings import Settings

POPULATION = "hospitals"
TITLE = "Patients of the region's hospitals (generated)"
SEED = 1
TOKEN_DAYS = 3660
ELL, RELEASES, RECORDS = 3, 3, 8_000


@dataclass(frozen=True)
class DemoLogin:
    """Somebody in the demonstration, whose token everybody knows."""

    name: str
    role: Role

    @property
    def secret(self) -> str:
        """The secret part of the token; the same at every start."""
        digest = hashlib.sha256(f"elldelta demonstration {self.name}".encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")

    @property
    def token_id(self) -> str:
        """The public part."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:12]

    @property
    def token(self) -> str:
        """The token."""
        return f"elldelta_{self.token_id}_{self.secret}"


LOGINS = (
    DemoLogin("agency", AGENCY),
    DemoLogin("hospital-a", OWNER),
    DemoLogin("hospital-b", OWNER),
    DemoLogin("hospital-c", OWNER),
    DemoLogin("university", CLIENT),
    DemoLogin("auditor", AUDITOR),
)


def fill(settings: Settings) -> tuple[DemoLogin, ...]:
    """Plays the protocol up to the first registered release, unless that was done before."""
    if not settings.is_demo:
        raise InternalError("The demonstration must not be filled into another database.")
    if not _is_complete(settings):
        for file in settings.folder.glob("agency.sqlite*"):  # a start that was interrupted
            file.unlink()
        prepare(settings)
        with contextlib.closing(Agency.open(settings)) as agency:
            _play(agency)
    return LOGINS


def _is_complete(settings: Settings) -> bool:
    """Whether the last step was done: a release, which nobody can remove, is registered."""
    prepare(settings)
    with contextlib.closing(Agency.open(settings)) as agency:
        return any(count_releases(agency, plan.digest) for plan in list_plans(agency, POPULATION))


def _play(agency: Agency) -> None:
    region = make_region(np.random.default_rng(SEED), n_records=RECORDS)
    for login in LOGINS:
        create_party(agency, login.name, login.role)
        _add_token(agency, login)
    staff, client = _caller(agency, "agency"), _caller(agency, "university")
    with tempfile.TemporaryDirectory(prefix="elldelta-demo-") as folder:
        past = region.past.table()
        schema = Schema.infer(past, ("postal_code", "gender", "age"), "disease")
        path = Path(folder) / "model.parquet"
        write_model(estimate(past, schema), path)
        content = path.read_bytes()
    create_population(agency, POPULATION, TITLE)
    upload_model(agency, staff, POPULATION, content)
    wish = Wish(ell=ELL, records=RECORDS, releases=RELEASES)
    request = file_request(agency, client, POPULATION, wish)
    begin_job(agency, staff, request.id, "plan")
    while run_next(agency):
        pass
    digest = show_request(agency, staff, request.id).plan
    if digest is None:
        raise InternalError("The demonstration's plan was not issued.")
    plan = load_plan(agency, digest)
    for letter, records in (("a", RECORDS), ("b", RECORDS), ("c", RECORDS // 4)):
        report_progress(agency, _caller(agency, f"hospital-{letter}"), digest, records)
    released = release(region.hospitals[0].table(), plan)
    content = registration_of(released, plan).to_bytes()
    owner = _caller(agency, "hospital-a")
    register_release(agency, owner, digest, content)
    report_state(agency, owner, digest, released.manifest.content_digest, "published")


def _add_token(agency: Agency, login: DemoLogin) -> None:
    now = agency.clock()
    with agency.database.writing() as session:
        session.add(
            Token(
                id=login.token_id,
                party_id=find_party(session, login.name).id,
                digest=digest_of_secret(login.secret),
                note="The demonstration",
                created_at=now,
                expires_at=now + dt.timedelta(days=TOKEN_DAYS),
            )
        )


def _caller(agency: Agency, name: str) -> Caller:
    with agency.database.reading() as session:
        party = find_party(session, name)
        return Caller(party.id, party.name, party.role)
