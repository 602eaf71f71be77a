"""Models that protect the past: what is measured, what it costs, and what nobody may learn.

The audit of the claim: an outcome of the whole estimate is at most e^epsilon times as likely with a record as
without it. False alarms: below 1e-6, by exact bounds for both frequencies. It rejects a variant that says
epsilon and spends three times of it.
"""

import contextlib
import json
import math
import secrets

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import beta
from tests.switch import quick_or_all

import elldelta as ed
from elldelta.cli.main import execute
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.model import noise
from elldelta.model.counts import Accounting, Counts
from elldelta.model.merging import merge_models
from elldelta.model.model import Model, read_model, reordered, write_model
from elldelta.model.noise import Protection
from elldelta.schema.schema import Categories, Column, Integers, Schema

SMALL = Schema((Column("g", Categories(("F", "M"))),), Column("s", Integers(0, 1)))
WIDE = Schema(
    (
        Column("age", Integers(0, 99)),
        Column("city", Categories(tuple("abcdefgh"))),
        Column("sex", Categories(("F", "M"))),
    ),
    Column("disease", Categories(tuple(f"d{n}" for n in range(6)))),
)


def counts_of(schema, table):
    """Counts from a table of combinations x values."""
    rows, values = np.nonzero(table)
    n = int(np.sum(table))
    return Counts.from_cells(schema, rows, values, np.asarray(table)[rows, values], Accounting(n, n))


def population(n, seed=0):
    rng = np.random.default_rng(seed)
    age, city, sex = rng.binomial(99, 0.4, n), rng.integers(0, 8, n), rng.integers(0, 2, n)
    disease = np.minimum(5, (age // 30 + rng.integers(0, 4, n)) % 6)
    table = np.zeros((WIDE.n_combinations, 6), dtype=np.int64)
    np.add.at(table, (WIDE.ranks(np.stack([age, city, sex], axis=1)), disease), 1)
    return table


class Recorder:
    """Stands for OpenDP: says what is asked of it, and answers what it answered the first time.

    That is what composition is about: given the same answers so far, how far may the next questions differ?
    """

    def __init__(self, answers=None):
        self.asked, self.answers, self.m = [], answers, self

    def make_laplace(self, *_, scale):
        recorder = self

        class Measurement:
            def map(self, rows):
                return rows / scale

            def __call__(self, given):
                place = len(recorder.asked)
                recorder.asked.append(given)
                return given if recorder.answers is None else recorder.answers[place]

        return Measurement()

    def __getattr__(self, name):
        return lambda *_, **__: None


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 90.0])
def test_one_record_changes_every_question_by_at_most_one(monkeypatch, epsilon):
    """Exact: for neighbours, and the same answers to all questions before, in whole numbers."""
    table = population(3_000)
    first = Recorder()
    monkeypatch.setattr(noise, "opendp", lambda: first)
    noise.protected(counts_of(WIDE, table), epsilon)
    assert [len(asked) for asked in first.asked] == [1, table.size]
    rng = np.random.default_rng(1)
    for _ in range(10):
        place = int(rng.integers(table.size))
        neighbour = table.copy()
        neighbour.flat[place] += 1
        second = Recorder(first.asked)
        monkeypatch.setattr(noise, "opendp", lambda recorder=second: recorder)
        noise.protected(counts_of(WIDE, neighbour), epsilon)
        assert len(second.asked) == len(first.asked)
        for one, other in zip(first.asked, second.asked, strict=True):
            assert np.abs(np.array(one) - np.array(other)).sum() <= 1


def outcomes(table, epsilon, n, told=None):
    """How often a cell of the model, without a record or with one, has more than half a record."""
    counts = counts_of(SMALL, table)
    n_more = 0
    for _ in range(n):
        found, protection = noise.protected(counts, epsilon)
        assert protection.mechanism == "cells"
        assert sum(cost for _, cost in protection.steps) <= (told or epsilon)
        n_more += bool(found.n[(found.ranks[found.rows] == 1) & (found.values == 1)].sum() > noise.PARTS // 2)
    return n_more


@pytest.mark.statistical
def test_what_comes_out_is_as_likely_without_a_record():
    n, epsilon = quick_or_all(400, 800), 1.0
    alpha = 1e-6 / 2

    def is_rejected(spent):
        with_it, without = (outcomes([[900, 900], [900, k]], spent, n, spent) for k in (1, 0))
        least = beta.ppf(alpha, with_it, n - with_it + 1)
        most = beta.isf(alpha, without + 1, n - without)
        # The other way round, for the opposite outcome.
        least_none = beta.ppf(alpha, n - without, without + 1)
        most_none = beta.isf(alpha, n - with_it + 1, with_it)
        return max(least / most, least_none / most_none) > math.exp(epsilon)

    assert not is_rejected(epsilon)
    assert is_rejected(3.0 * epsilon)


def test_a_rare_key_is_not_shown():
    """Somebody alone in a cell shows with at most delta; frequent cells do."""
    table = np.zeros((WIDE.n_combinations, 6), dtype=np.int64)
    table[3, 2], table[700, 5] = 5000, 1
    for _ in range(2):
        found, protection = noise.protected(counts_of(WIDE, table), 1.0, 1e-9)
        assert protection.mechanism == "keys"
        assert protection.delta == 1e-9
        assert found.ranks.tolist() == [3]
    table[3, 2] = 1
    with pytest.raises(RefusedError, match="beneath the noise"):
        noise.protected(counts_of(WIDE, table), 1.0, 1e-9)


def test_a_domain_with_too_many_cells_is_refused_without_a_delta():
    huge = Schema((Column("n", Integers(0, 999_999)),), Column("s", Integers(0, 1)))
    counts = Counts.from_cells(huge, np.array([5]), np.array([1]), np.array([5000]), Accounting(5000, 5000))
    with pytest.raises(ParameterError, match="too many cells") as refused:
        noise.protected(counts, 1.0)
    assert refused.value.parameter == ("delta_dp",)
    assert noise.protected(counts, 1.0, 1e-6)[0].ranks.tolist() == [5]


@given(st.lists(st.integers(-20, 40), min_size=1, max_size=12), st.integers(1, 50))
def test_projection_is_the_nearest_table(noisy, total):
    table = np.array(noisy, dtype=float)
    found = noise.projected(table, total)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(total)
    nearest = minimize(
        lambda x: ((x - table) ** 2).sum(),
        np.full(len(noisy), total / len(noisy)),
        bounds=[(0.0, None)] * len(noisy),
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert ((found - table) ** 2).sum() <= nearest.fun * (1 + 1e-6) + 1e-6


def test_costs_add_up_to_no_more_than_epsilon():
    counts = counts_of(WIDE, population(20_000))
    for epsilon in (0.037, 0.3, 1.0, 2.5):
        _, protection = noise.protected(counts, epsilon)
        assert 0.98 * epsilon < sum(cost for _, cost in protection.steps) <= epsilon


def test_more_rows_of_a_person_cost_more_noise():
    counts = counts_of(SMALL, np.full((2, 2), 10_000))

    def spread(rows):
        totals = [noise.protected(counts, 1.0, unit="person", most_rows=rows)[1].records for _ in range(40)]
        return np.std(totals)

    assert spread(20) > 5.0 * spread(1)


def test_the_model_is_near_the_truth():
    """With 50,000 records for 9,600 cells: total variation of all pairs with the value."""
    table = population(50_000)
    found, protection = noise.protected(counts_of(WIDE, table), 0.9)
    assert protection.mechanism == "cells"
    dense = np.zeros((*WIDE.sizes, 6))
    np.add.at(dense.reshape(-1, 6), (found.ranks[found.rows], found.values), found.n)
    truth = table.reshape(*WIDE.sizes, 6)
    for gone in range(3):
        one, other = (t.sum(axis=gone) / t.sum() for t in (dense, truth))
        assert np.abs(one - other).sum() / 2.0 < 0.2


@pytest.fixture(scope="module")
def protected_model():
    return Model(*_wrapped(noise.protected(counts_of(WIDE, population(20_000)), 1.0)))


def _wrapped(found):
    return found[0], (found[1],)


def test_a_file_says_how_it_was_protected_and_is_read_again(tmp_path, protected_model):
    write_model(protected_model, tmp_path / "m.parquet")
    again = read_model(tmp_path / "m.parquet")
    assert again == protected_model
    assert again.noise == protected_model.noise
    head = json.loads(pq.read_schema(tmp_path / "m.parquet").metadata[b"elldelta.model"])
    assert head["noise"][0]["epsilon"] == 1.0
    head["noise"][0]["epsilon"] = 1.5
    table = pq.read_table(tmp_path / "m.parquet").replace_schema_metadata(
        {b"elldelta.model": json.dumps(head).encode()}
    )
    pq.write_table(table, tmp_path / "other.parquet")
    with pytest.raises(FileError, match="changed"):
        read_model(tmp_path / "other.parquet")


def test_what_contradicts_itself_is_no_protection():
    steps = (("a", 0.5), ("b", 0.5))
    fine = {"epsilon": 1.0, "delta": 0.0, "unit": "record", "most_rows": 1, "mechanism": "cells",
            "records": 5, "steps": steps}  # fmt: skip
    Protection(**fine)
    for wrong in ({"epsilon": 0.9}, {"delta": 1.0}, {"unit": "city"}, {"mechanism": "none"}, {"records": 0}):
        with pytest.raises(ParameterError):
            Protection(**{**fine, **wrong})


def test_a_plan_promises_twice_and_only_what_is_certain(protected_model):
    made = ed.plan(protected_model, ell=3, releases=2, records=5_000)
    assert ed.Plan.from_dict(made.to_dict()) == made
    assert "epsilon 1" in made.past_promise
    assert made.past == protected_model.noise
    with pytest.raises(RefusedError, match="noise"):
        ed.plan(protected_model, ell=3, releases=1, records=5_000, kind="probabilistic")
    with pytest.raises(RefusedError, match="noise"):
        ed.compose([(made, 2)])
    lie = {**made.to_dict(), "plan_kind": "probabilistic"}
    with pytest.raises(FileError):
        ed.Plan.from_dict(lie)


def test_another_order_keeps_the_protection(protected_model):
    turned = Schema(
        (WIDE.quasi_identifiers[0], Column("city", Categories(tuple("hgfedcba"))), WIDE.quasi_identifiers[2]),
        WIDE.sensitive,
    )
    assert reordered(protected_model, turned).noise == protected_model.noise


def test_owners_merge_what_each_has_protected(protected_model):
    other = Model(*_wrapped(noise.protected(counts_of(WIDE, population(400_000, seed=3)), 0.5)))
    merged = merge_models([protected_model, other])
    assert merged.noise == protected_model.noise + other.noise
    assert merged.n_records == protected_model.n_records + other.n_records
    made = ed.plan(merged, ell=3, releases=2, records=5_000, merge_risk=0.1)
    assert "1 and 0.5" in made.past_promise
    assert "1.5" in made.past_promise
    # A record weighs the same whoever counted it, though the parts of a record differ.
    own = other.counts.n.sum() / other.n_records
    assert merged.counts.n.sum() / merged.n_records == pytest.approx(
        max(own, protected_model.counts.n.sum() / protected_model.n_records), rel=0.01
    )
    with pytest.raises(RefusedError, match="exact"):
        merge_models([protected_model, Model(counts_of(WIDE, population(100)))])


def visits(n, seed=1):
    rng = np.random.default_rng(seed)
    person = rng.integers(0, n // 4, n)
    return pa.table(
        {
            "who": [f"canary-{place}" if place % 50 else None for place in person],
            "g": [("F", "M")[place % 2] for place in person],
            "s": rng.integers(0, 2, n),
        }
    )


def test_a_person_counts_with_few_records():
    """Records per person are bounded in the engine: removing a person removes at most so many."""
    table = visits(2_000)
    for most in (1, 3):
        with ed.connect("duckdb") as engine:
            few = noise.with_fewer_rows(engine.open(table), SMALL, "who", most)
            n = sum(batch.column(2).to_numpy().sum() for batch in few.count_texts(["g", "s"]))
        names = [name for name in table["who"].to_pylist() if name is not None]
        assert n == sum(min(most, names.count(name)) for name in set(names))
    with pytest.raises(ParameterError):
        ed.estimate(table, SMALL, epsilon=1.0, domains_are_public=True, person="s")


def test_which_record_of_a_person_is_counted_does_not_depend_on_its_value():
    """One of two values each, chosen by a digest: about half of them; a fixed order would always take one."""
    table = pa.table({"who": np.repeat(np.arange(2_000), 2), "g": ["F"] * 4_000, "s": [0, 1] * 2_000})
    model = ed.estimate(table, SMALL, epsilon=50.0, domains_are_public=True, person="who")
    shares = np.bincount(model.counts.values, model.counts.n, 2) / model.counts.n.sum()
    assert 0.4 < shares[0] < 0.6


def test_domains_must_be_public_and_nothing_is_read_before():
    with pytest.raises(RefusedError, match="schema"):
        ed.estimate("missing.csv", SMALL, epsilon=1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        ed.estimate("missing.csv", SMALL, epsilon=0.0, domains_are_public=True)
    with pytest.raises(ParameterError, match="needs an epsilon"):
        ed.estimate("missing.csv", SMALL, delta_dp=1e-6)


@pytest.mark.parametrize("n", [1, 60])
def test_few_records_make_a_model_or_are_refused(n):
    """A threshold that no noisy count passes, and counts below zero, end in no error of ours."""
    rng = np.random.default_rng(n)
    table = {"age": rng.integers(0, 100, n), "city": rng.choice(list("abcdefgh"), n), "sex": ["F"] * n}
    table = pa.table({**table, "disease": rng.choice([f"d{value}" for value in range(6)], n)})
    for epsilon in (0.3, 1.0, 5.0):
        for delta_dp in (None, 1e-3):
            with contextlib.suppress(RefusedError):
                made = ed.estimate(table, WIDE, epsilon=epsilon, delta_dp=delta_dp, domains_are_public=True)
                assert made.n_records > 0


def test_nothing_raw_is_in_the_file_or_said(tmp_path, capsys):
    """Neither persons nor the number of records, though everything else about the table is asked for."""
    canary = f"canary-{secrets.token_hex(8)}"
    n = 123_457
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "who": [canary, *(str(place) for place in range(1, n))],
            "g": rng.choice(["F", "M"], n),
            "s": rng.integers(0, 2, n),
        }
    )
    pq.write_table(table, tmp_path / "past.parquet")
    ed.write_schema(SMALL, tmp_path / "schema.toml")
    target = tmp_path / "model.parquet"
    arguments = f"estimate {tmp_path}/past.parquet --schema {tmp_path}/schema.toml -o {target} --person who"
    assert execute([*arguments.split(), "--epsilon", "0.01", "--domains-are-public"]) == 0
    assert execute(["model", "show", str(target)]) == 0
    assert execute(["model", "show", str(target), "--json"]) == 0
    said = "".join(capsys.readouterr())
    metadata = pq.read_schema(target).metadata[b"elldelta.model"].decode()
    for text in (said, metadata, target.read_bytes().decode("latin-1")):
        assert canary not in text
        assert "who" not in text.replace("who know", "").replace("who is", "")
        assert str(n) not in text
        assert f"{n:,}" not in text
    assert "Nobody can tell" in said


def test_several_sensitive_columns_are_refused():
    """Each record would be in one cell for every column, and noise for one cell would be too little."""
    table = pa.table({"g": ["F", "M"] * 50, "s": [0, 1] * 50, "d": ["a", "b"] * 50})
    several = Schema.infer(table, ["g"], ["s", "d"])
    with pytest.raises(ParameterError, match="one sensitive column"):
        ed.estimate(table, several, epsilon=1.0, domains_are_public=True)
