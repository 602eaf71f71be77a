"""A client that asks what wishes cost until it knows the model, and one that confirms a guess by a digest.

The client has the same software, and knows everything but the count that it is after.
"""

import json

import numpy as np
import pytest
import sqlalchemy as sa
from tests.agency.server.service import POPULATION, Service, make_model, model_file

from elldelta.agency.server.services.planning import ask_frontier, show_frontier
from elldelta.agency.server.services.populations import draw_classes, upload_model
from elldelta.core.sample_size import Mechanism
from elldelta.model import model_from_bytes, rounded, write_model
from elldelta.model.rounding import SHARE, STEP, ladder

DELTAS = (1e-300, 5e-200, 1e-150, 2e-100, 1e-70, 5e-50, 1e-30, 1e-10)
"""The smaller a chance, the more records are needed, and the more digits an exact answer has."""
SECRET = bytes(range(32))


def exact(counts, ell, delta):
    """What the paper's bound needs for one class with these sensitive counts; anybody can compute it."""
    marginal = -np.sort(-np.asarray(counts)) / np.sum(counts)
    return Mechanism.create(marginal, 24, ell, float(marginal[ell - 1]), 0.0).records(delta)


def explaining(counts, ell, is_answer):
    """The numbers of the ell-th largest value that explain all answers, to a client that knows all others."""
    order = np.argsort(-np.asarray(counts))
    found = []
    for guess in range(int(0.7 * min(counts)), int(1.3 * max(counts))):
        other = np.array(counts)
        other[order[ell - 1]] = guess
        if np.argsort(-other, kind="stable").tolist()[ell - 1] == order[ell - 1] and all(
            is_answer(exact(other, ell, delta), delta) for delta in DELTAS
        ):
            found.append(guess)
    return found


def marginals(model):
    return np.bincount(model.counts.values, model.counts.n).astype(int)


@pytest.fixture
def client(service):
    with service.agency.database.writing() as session:
        session.execute(sa.text("UPDATE secrets SET value = :value"), {"value": SECRET})
    return service


def told(service, ell, delta, records=2000):
    query = f"ell={ell}&delta={delta}&records={records}"
    return service.get("client", f"/populations/{POPULATION}/cost?{query}").json()["paper"]


def test_exact_answers_would_give_every_count_away():
    """The attack itself: it works on what the service used to answer."""
    counts = marginals(make_model())
    for ell in range(1, 7):
        true = sorted(counts)[-ell]
        answers = {delta: exact(counts, ell, delta) for delta in DELTAS}
        assert explaining(counts, ell, lambda n, delta, answers=answers: n == answers[delta]) == [true]


def test_a_client_does_not_recover_the_counts(client):
    """Its best estimates are off by about the root of the cells behind a count; no count is told apart."""
    client.add_model()
    counts = marginals(make_model())
    errors = []
    for ell in range(1, 7):
        true = sorted(counts)[-ell]
        answers = {delta: told(client, ell, delta)["fewest_records"] for delta in DELTAS}
        # an answer is rounded up to two digits
        found = explaining(
            counts, ell, lambda n, delta, own=answers: n <= own[delta] < n + 10 ** (len(str(n)) - 2) + 1
        )
        assert found != [true]
        errors.append(np.mean(found) - true if found else np.inf)
    assert np.sqrt(np.mean(np.square(errors))) > np.sqrt(24)


def test_two_models_that_differ_by_a_record_get_the_same_answers(settings, client, tmp_path):
    """Whoever knows all records but one cannot tell which value the last one has."""
    table = np.random.default_rng(5).integers(20, 60, size=(24, 6))
    draws = [rounded(make_model(table), np.random.default_rng(list(SECRET)))]
    answers = []
    for value in range(6):
        other = table.copy()
        other[3, value] += 1
        model = make_model(other)
        draws.append(rounded(model, np.random.default_rng(list(SECRET))))
        if draws[-1].digest != draws[0].digest:
            continue  # of five, one is told apart from the others: the rungs are five apart
        path = tmp_path / f"{value}.parquet"
        write_model(model, path)
        client.add_population()
        upload_model(client.agency, client.caller("agency"), POPULATION, path.read_bytes())
        answers.append(
            [told(client, ell, delta) for ell in range(1, 7) for delta in (1e-300, 0.01)]
            + [told(client, 2, 0.01, records) for records in (200, 777, 3000, 30_000)]
        )
    assert len(answers) >= 3
    assert all(own == answers[0] for own in answers)


def test_a_client_may_ask_so_often_and_not_more(make_service):
    service = make_service(cost_burst=3, cost_rate=1e-3)
    service.add_model()
    path = f"/populations/{POPULATION}/cost?ell=2&records=2000"
    assert [service.ask("client", "GET", path).status_code for _ in range(5)] == [200] * 3 + [429] * 2
    service.get("agency", path)


def test_no_digest_confirms_a_guess_of_the_model(service):
    """Neither what a population says nor what a plan says, which everybody can read."""
    plan = service.planned()
    true = model_from_bytes(model_file()).digest
    shown = service.get("client", f"/populations/{POPULATION}").json()["model"]["digest"]
    file = service.get("client", f"/plans/{plan}/file").json()
    assert file["model_digest"] == shown != true
    said = json.dumps([service.get("client", f"/plans/{plan}").json(), file])
    assert true not in said
    # the agency still finds the model of its plan: the frontier is computed, and the picture drawn
    job = ask_frontier(service.agency, service.caller("client"), plan)
    service.work()
    assert show_frontier(service.agency, plan).rows
    assert true not in service.get("client", f"/jobs/{job.id}").text
    assert draw_classes(service.agency, plan)


def test_every_agency_has_a_secret_of_its_own(tmp_path):
    from tests.agency.server.service import Clock

    from elldelta.agency.server.settings import Settings
    from elldelta.agency.server.state import prepare

    names = set()
    for folder in ("one", "two"):
        settings = Settings(folder=tmp_path / folder)
        prepare(settings)
        with Service(settings, Clock()) as service:
            names.add(service.agency.keyed("sha256:" + "0" * 64))
    assert len(names) == 2


def test_rounding_is_right_on_average_and_never_far_off():
    model = make_model(np.random.default_rng(1).integers(0, 400, size=(24, 6)))
    n = model.counts.n
    cells = model.counts.ranks[model.counts.rows] * 6 + model.counts.values
    sums = []
    for seed in range(300):
        found = rounded(model, np.random.default_rng(seed)).counts
        near = np.zeros(144)
        near[found.ranks[found.rows] * 6 + found.values] = found.n
        assert (np.abs(near[cells] - n) < np.maximum(STEP, 1.5 * SHARE * n + STEP)).all()
        assert set(found.n.tolist()) <= set(ladder(1000).tolist())
        sums.append(found.n.sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - n.sum()) < 5 * error  # fails by chance once in a million
    assert abs((5 * (n // 5)).sum() - n.sum()) > 5 * error  # rounding down is found out
