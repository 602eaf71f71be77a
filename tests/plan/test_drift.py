"""Whether a model is still good: no alarm without a change, one where people have changed."""

import json

import numpy as np
import pytest

import elldelta as ed
from elldelta.cli.main import execute
from elldelta.errors import SchemaError
from elldelta.model.counts import Accounting, Counts
from elldelta.model.model import Model
from elldelta.plan.drift import drift, failing_chances
from elldelta.schema.schema import Categories, Column, Integers, Schema

SCHEMA = Schema(
    (Column("age", Integers(0, 29)), Column("sex", Categories(("F", "M")))),
    Column("disease", Categories(tuple(f"d{n}" for n in range(6)))),
)


def model_of(table):
    rows, values = np.nonzero(table)
    n = int(table.sum())
    return Model(Counts.from_cells(SCHEMA, rows, values, table[rows, values], Accounting(n, n)))


def sample(probabilities, n, seed):
    return model_of(np.random.default_rng(seed).multinomial(n, probabilities.ravel()).reshape(60, 6))


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(1).dirichlet(np.full(360, 2.0)).reshape(60, 6)


@pytest.fixture(scope="module")
def aged(truth):
    """Half of the people are gone from the lower ages, and two diseases with them."""
    table = truth.copy()
    table[:30] *= 0.2
    table[:30, :2] *= 0.1
    return table / table.sum()


@pytest.fixture(scope="module")
def made(truth):
    return ed.plan(sample(truth, 20_000, 2), ell=3, releases=2, records=3_000)


def test_no_alarm_by_chance_and_one_where_people_have_changed(truth, aged, made):
    past = sample(truth, 20_000, 2)
    n_alarms = sum(drift(past, sample(truth, 8_000, seed), made, seed=seed).is_old for seed in range(20, 30))
    assert n_alarms <= 1  # 3 columns, 1 in 100 each: more than one in ten with probability below 0.04
    found = drift(past, sample(aged, 8_000, 3), made)
    assert found.is_old
    assert found.plan.failing_now > 1.5 * found.plan.failing_before
    assert "out of date" in found.words
    assert all(now > before for _, before, now in found.plan.worst)


def test_chances_are_those_of_simulation(made):
    """Owners drawn from the plan's own cells fail about as often as is forecast, class by class."""
    chances = failing_chances(made, 0, made.columns[0].witness_cells, made.records)
    rng, n_fails = np.random.default_rng(4), np.zeros(made.n_classes)
    cells = made.cells()
    rest = max(0.0, 1.0 - cells.sum())
    for _ in range(400):
        table = rng.multinomial(made.records, [*cells.ravel(), rest])[:-1].reshape(cells.shape)
        missing = [
            int((table[row, values] == 0).sum()) for row, values in enumerate(made.columns[0].witnesses)
        ]
        n_fails += np.array(missing) > made.promises[0].allowances
    np.testing.assert_allclose(n_fails / 400, chances, atol=6 * np.sqrt(0.25 / 400))


def test_shares_of_a_small_sample_are_not_trusted_too_much(made):
    exact = failing_chances(made, 0, made.columns[0].witness_cells, made.records)
    careful = failing_chances(made, 0, made.columns[0].witness_cells, made.records, 5_000)
    assert careful.sum() > exact.sum()
    np.testing.assert_allclose(
        failing_chances(made, 0, made.columns[0].witness_cells, made.records, 10**12), exact, atol=1e-3
    )


def test_models_of_other_columns_are_not_compared(truth):
    other = Schema((SCHEMA.quasi_identifiers[0],), SCHEMA.sensitive)
    table = np.ones((30, 6), dtype=np.int64)
    rows, values = np.nonzero(table)
    strange = Model(Counts.from_cells(other, rows, values, table[rows, values], Accounting(180, 180)))
    with pytest.raises(SchemaError):
        drift(sample(truth, 1000, 1), strange)


def test_the_command_tells_and_draws_it(truth, aged, made, tmp_path, capsys):
    for name, model in (("past", sample(truth, 20_000, 2)), ("newer", sample(aged, 8_000, 3))):
        ed.write_model(model, tmp_path / f"{name}.parquet")
    ed.write_plan(made, tmp_path / "plan.json")
    asked = ["model", "compare", str(tmp_path / "past.parquet"), str(tmp_path / "newer.parquet")]
    picture = tmp_path / "drift.svg"
    assert execute([*asked, "--plan", str(tmp_path / "plan.json"), "--picture", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "changed" in said
    assert "out of date" in said
    assert b"by chance alone" in picture.read_bytes()
    assert execute([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["old"]
    assert told["plan"] is None


def test_a_picture_of_classes_goes_where_its_name_says(made, truth, tmp_path):
    ed.write_model(sample(truth, 20_000, 2), tmp_path / "past.parquet")
    picture = tmp_path / "ell=3" / "age,sex=plan.svg"
    picture.parent.mkdir()
    asked = ["plan", str(tmp_path / "past.parquet"), "--ell", "3", "--releases", "2", "--records", "3000"]
    assert execute([*asked, "--picture", str(picture), "-o", str(tmp_path / "plan.json")]) == 0
    assert b"classes" in picture.read_bytes()
