"""What tells nothing about a model: its digest, which is keyed, and counts, which are rounded."""

import json

import numpy as np
from tests.agency.server.service import POPULATION, Service, make_model, model_file

from elldelta.agency.server.services.plans import load_plan
from elldelta.agency.server.services.populations import _summary, draw_classes
from elldelta.core.ladder import SHARE, STEP, ladder
from elldelta.model import model_from_bytes, rounded


def test_no_digest_confirms_a_guess_of_the_model(service):
    """Neither what a population says nor what a plan says, which everybody can read."""
    plan = service.planned()
    true = model_from_bytes(model_file()).digest
    shown = service.get("client", f"/populations/{POPULATION}").json()["model"]["digest"]
    file = service.get("client", f"/plans/{plan}/file").json()
    assert file["model"] == shown != true
    said = json.dumps([service.get("client", f"/plans/{plan}").json(), file])
    assert true not in said


def test_the_map_of_classes_shows_what_the_plan_tells_and_no_count(service):
    """Two hundred shades of exact counts would tell every class of a few hundred past records."""
    plan = load_plan(service.agency, service.planned())
    figures = draw_classes(service.agency, plan.digest), plan.plot()
    drawn, told = (figure.axes[0].images[0].get_array() for figure in figures)
    assert np.array_equal(drawn, told)


def test_somebody_with_a_new_combination_is_not_seen_in_the_summary_of_a_small_population():
    table = np.zeros((24, 6), dtype=np.int64)
    table[:21, 0] = 10
    one = _summary(make_model(table))
    table[21, 0] = 1
    assert _summary(make_model(table)) == one


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
