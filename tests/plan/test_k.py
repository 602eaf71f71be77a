"""Plans for k records in every class: what they promise, recomputed, and what releases of them hold."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import elldelta as ed
from elldelta.core.certificate import certify
from elldelta.core.promises import Shown
from elldelta.errors import FileError, ParameterError
from elldelta.files import seal
from elldelta.plan.consistency import contradiction
from elldelta.plan.failure import sharp_failures
from elldelta.plan.plan import Plan
from elldelta.plan.words import rounded_up

RECORDS, K = 3000, 30


def people(n_people=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 40, n_people),
            "zip": np.array(list("ABCD"))[rng.integers(0, 4, n_people)],
            "disease": np.array(list("abcdef"))[rng.integers(0, 6, n_people)],
            "income": np.array(["low", "mid", "high"])[rng.integers(0, 3, n_people)],
        }
    )


def model_of(*sensitive):
    past = people()
    schema = ed.Schema.infer(past, ["age", "zip"], sensitive, widen={"age": "no"})
    return ed.estimate(past, schema)


@pytest.fixture(scope="module")
def one():
    return model_of("disease")


@pytest.fixture(scope="module")
def two():
    return model_of("disease", "income")


WISHES = {
    "fixed": {"releases": 2},
    "r records of a witness": {"releases": 2, "min_records": 2},
    "owners": {"owners": 3},
    "people who move": {"releases": 2, "movers": "any"},
}


def check_failure(made, model):
    """The failure of k, from the past records of the witnesses, and at most what values can add to it."""
    counts = np.zeros((made.n_classes, model.schema.n_values))
    np.add.at(counts, made.class_of(model.ranks), model.counts.dense())
    masses = [
        counts[row, values].sum() / counts.sum() for row, values in enumerate(made.columns[0].witnesses)
    ]
    short = made.n_planned * sum(binom.cdf(K - 1, RECORDS, mass) for mass in masses)
    assert short > 0.0
    assert short * (1 - 1e-9) <= made.failure_upper
    told, _ = sharp_failures(made, k=K)
    assert made.failure_upper == min(made.n_planned * made.delta, float(rounded_up(told)))


@pytest.mark.parametrize("name", WISHES)
def test_the_failure_is_that_of_the_values_and_of_k(one, name):
    wish = WISHES[name]
    plain = ed.plan(one, ell=2, records=RECORDS, **wish)
    made = ed.plan(one, ell=2, records=RECORDS, k=K, **wish)
    assert plain.k == 2 * plain.min_records
    assert made.k == made.promises[-1].k == K
    assert "No published class holds" not in plain.promise
    assert f"No published class holds fewer than {K} records." in made.promise
    assert made.n_classes < plain.n_classes + (made.min_records > 1)  # which need larger classes anyway
    check_failure(made, one)
    assert made.failure_upper <= made.n_planned * made.delta
    assert Plan.from_dict(made.to_dict()) == made
    # A larger k in the file does not follow from the classes, and no smaller one is what was asked for.
    content = {key: value for key, value in made.to_dict().items() if key not in ("kind", "format", "digest")}
    with pytest.raises(FileError):
        Plan.from_dict(seal("plan", 1, {**content, "k": 5 * K}))
    larger = replace(made, k=5 * K, promise="", conditions=())
    assert "failure probability" in contradiction(larger)


def test_owners_drawn_from_the_model_hold_k_as_often_as_is_promised(one):
    """Of 3,000 owners at most 0.05 fall short: more than 0.075 are seen in fewer than one of a million runs.

    Under the plan without k nearly all of them do.
    """
    rng, counts = np.random.default_rng(1), one.counts.dense()
    drawn = rng.multinomial(RECORDS, (counts / counts.sum()).ravel(), 3000).reshape(3000, *counts.shape)
    short = {}
    for k in (None, K):
        made = ed.plan(one, ell=2, releases=1, records=RECORDS, delta=0.05, k=k)
        sizes = np.zeros((3000, made.n_classes))
        np.add.at(sizes.T, made.class_of(one.ranks), drawn.sum(axis=2).T)
        short[k] = ((sizes > 0) & (sizes < K)).any(axis=1).mean()
    assert short[K] < 0.075
    assert short[None] > 0.5


def test_classes_that_move_fall_short_one_by_one(one):
    made = ed.plan(one, ell=2, releases=1, records=RECORDS, merge_risk=0.1, k=K)
    fixed = ed.plan(one, ell=2, releases=1, records=RECORDS, k=K)
    assert made.n_classes > fixed.n_classes
    sizes = np.bincount(made.class_of(one.ranks), one.counts.dense().sum(axis=1))
    assert binom.cdf(K - 1, RECORDS, sizes / sizes.sum()).max() <= 0.1
    assert "does not pass with probability at most 0.1" in made.promise
    assert contradiction(made) is None
    # All classes together hold everybody, and fail only in their values.
    assert made.failure_upper < 1e-9
    larger = replace(made, k=100, promise="", conditions=())
    assert "its merge risk is 0.1" in contradiction(larger)


def test_the_largest_ell_of_several_columns_implies_it_for_all(two):
    ells = {"disease": 4, "income": 2}
    plain = ed.plan(two, ell=ells, releases=1, records=RECORDS)
    assert plain.promises[-1].k == 4
    asked = ed.plan(two, ell=ells, releases=1, records=RECORDS, k=4)
    assert asked == plain  # nothing more than was there
    made = ed.plan(two, ell=ells, releases=1, records=RECORDS, k=K)
    assert made.promises[-1].k == K
    assert made.n_classes < plain.n_classes
    assert Plan.from_dict(made.to_dict()) == made
    for index in range(2):
        check_failure(made.for_column(index), two.for_column(index))
    owner = people(RECORDS, seed=5)
    assert ed.release(owner, made).manifest.records_released == RECORDS
    counts = np.zeros((made.n_classes, 9), dtype=np.int64)
    counts[0] = [2, 2, 1, 1, 1, 1, 3, 3, 2]  # eight records of all values
    verdict = certify(made.promises, Shown.of(counts))
    assert verdict.reasons == (f"Fewer than {K} records in 1 of {made.n_classes} classes.",)


def test_k_is_for_certified_plans(one):
    for kind in ("probabilistic", "paper"):
        with pytest.raises(ParameterError, match="certified plan"):
            ed.plan(one, ell=2, releases=1, records=RECORDS, kind=kind, k=K)
    with pytest.raises(ParameterError, match="fewest records of a class"):
        ed.plan(one, ell=2, releases=1, records=RECORDS, k=0)
