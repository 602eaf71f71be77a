"""Registering a release when ten are registered, and when ten thousand are: it must take no longer.

Every owner has one release, under one plan or under one of two plans for the same people.
The time of a registration is the median of several, from the bytes that were sent to the signed answer.
"""

import contextlib
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks._result import SIZES
from elldelta.agency.admission import Past, PlanState, check_registration, grouping_digest, linked_numbers
from elldelta.agency.registration import Examined, Registration
from elldelta.agency.server.rights import Caller
from elldelta.agency.server.services.ledger import store_state
from elldelta.agency.server.services.plans import issue_plan
from elldelta.agency.server.services.populations import create_population, find_population
from elldelta.agency.server.services.publications import packed
from elldelta.agency.server.services.releases import register_release
from elldelta.agency.server.settings import Limits, Settings
from elldelta.agency.server.state import Agency, prepare
from elldelta.agency.server.tables import LedgerLine, Party
from elldelta.agency.server.tables import Registration as RegistrationRow
from elldelta.core.partition import Partition
from elldelta.core.tiling import Tiling
from elldelta.plan.classes import Boxes, class_labels
from elldelta.plan.consistency import sharp_failures
from elldelta.plan.plan import Plan
from elldelta.release import content_digest, recomputed
from elldelta.release.manifest import coarsened
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Column, Schema

N_FEW, N_MANY, N_MANY_QUICK = 10, 10_000, 1000
N_MEASURED = 40
N_AGES, N_VALUES = 100, 14
MOST = 2.0
"""With so many releases a registration may take twice as long."""


def plan_of(width):
    """A plan with a class for every few ages; each class may lose nine of its fourteen values."""
    schema = Schema(
        (Column("age", Integers(0, N_AGES - 1)),),
        Column("disease", Categories(tuple(f"d{number}" for number in range(N_VALUES)))),
    )
    lows = np.arange(0, N_AGES, width)[:, np.newaxis]
    classes = Boxes(Tiling(lows, np.minimum(lows + width, N_AGES) - 1, (N_AGES,)))
    made = Plan(
        schema=schema,
        classes=classes,
        ell=5,
        delta=0.01,
        releases=2,
        records=10_000,
        failure_upper=0.02,
        bound="sharp",
        witnesses=(tuple(range(N_VALUES)),) * classes.n_classes,
        witness_cells=((0.001,) * N_VALUES,) * classes.n_classes,
        p=None,
        eta=0.0,
        shared_records=None,
        guarantee="certified",
        waiting_risk=None,
        min_records=1,
        model_digest="sha256:" + "0" * 64,
    )
    return replace(made, failure_upper=sharp_failures(made)[0], promise="", conditions=())


def counts_of(rng, plan):
    """A release that nobody else has: every class misses one of the first three values; with its digest."""
    counts = rng.integers(1, 1000, (plan.n_classes, N_VALUES))
    counts[np.arange(plan.n_classes), rng.integers(0, 3, plan.n_classes)] = 0
    values = plan.schema.sensitive.released_values().to_pylist()
    return counts, content_digest(class_labels(plan.schema, plan.classes), values, counts)


def registration(rng, plan):
    """What an owner sends."""
    counts, digest = counts_of(rng, plan)
    cost = {"base_classes_failing": 0, "records_suppressed": 0}
    cost |= coarsened(plan, Partition(np.arange(plan.n_classes)))
    manifest = replace(recomputed(plan, plan.classes, counts, digest), coarsening=cost)
    return Registration.of(manifest, counts).to_bytes()


def fill(agency, owners, rng, plans, n):
    """Admits so many releases and stores them, without the network and without checking what was sent."""
    numbers = linked_numbers(plans)
    states = [PlanState.of(plan, (), numbers) for plan in plans]
    with agency.database.writing() as session:
        for number in range(n):
            place, owner = number % len(plans), owners.pop()
            state = states[place]
            counts, digest = counts_of(rng, state.plan)
            examined = Examined(digest, (), counts)
            admission = check_registration(examined, Past(state), owner=owner.name)
            entry, content = admission.entry, packed(counts)
            line = LedgerLine(
                plan_digest=state.plan.digest,
                sequence=entry.sequence,
                hash=entry.hash,
                line=admission.line,
                added_at=agency.clock(),
            )
            row = RegistrationRow(
                line=line,
                party_id=owner.id,
                content_digest=digest,
                grouping=grouping_digest(()),
                counts=content,
                n_bytes=len(content),
                facts={},
            )
            session.add_all((line, row))
            states[place] = state.after(admission, examined)
        session.flush()
        for state in states:
            store_state(session, state)


def seconds(agency, owners, rng, plan):
    """Registers a release; returns the time."""
    content, owner = registration(rng, plan), owners.pop()
    begun = time.perf_counter()
    answer = register_release(agency, owner, plan.digest, rng.bytes(16).hex(), content)
    elapsed = time.perf_counter() - begun
    if answer.status != 201:
        raise RuntimeError(answer.document)
    return elapsed


@contextlib.contextmanager
def filled(plans, n_releases):
    """An agency with so many releases; gives what registers one more and returns the time."""
    with tempfile.TemporaryDirectory(prefix="elldelta-growth-") as folder:
        settings = Settings(folder=Path(folder), limits=Limits(owner_releases=10 * N_MANY))
        prepare(settings)
        with contextlib.closing(Agency.open(settings)) as agency:
            create_population(agency, "region", "")
            with agency.database.writing() as session:
                for plan in plans:
                    issue_plan(session, agency, find_population(session, "region").id, plan)
            parties = [
                Party(name=f"owner-{number}", role="owner", created_at=agency.clock())
                for number in range(n_releases + N_MEASURED)
            ]
            with agency.database.writing() as session:
                session.add_all(parties)
            owners = [Caller(party.id, party.name, "owner") for party in parties]
            rng = np.random.default_rng(1)
            fill(agency, owners, rng, plans, n_releases)
            yield lambda: seconds(agency, owners, rng, plans[0])


def run(size=SIZES["default"]):
    n_many = N_MANY_QUICK if size is SIZES["quick"] else N_MANY
    for what, plans in {"one plan": [plan_of(2)], "two plans": [plan_of(2), plan_of(5)]}.items():
        with filled(plans, N_FEW) as few, filled(plans, n_many) as many:
            # In turn: whoever else uses the machine disturbs both.
            times = [(few(), many()) for _ in range(N_MEASURED)]
        before, after = (statistics.median(own) for own in zip(*times, strict=True))
        yield f"a registration after {n_many} releases against after {N_FEW}, {what}", after / before, MOST
