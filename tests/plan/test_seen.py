"""What was seen in the past: the range that loss is measured against, and what it may tell."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elldelta as ed
from elldelta.errors import SchemaError
from elldelta.plan.classes import FEWER, MOST_POSITIONS, seen_ranges
from elldelta.plan.plan import Plan
from elldelta.schema.column import Column
from elldelta.schema.domains import Categories, Integers
from elldelta.schema.schema import Schema

SICK = ("a", "b", "c", "d")


def model_of(ages, largest=120):
    rng = np.random.default_rng(len(ages))
    table = pd.DataFrame({"age": ages, "sex": rng.choice(["F", "M"], len(ages))})
    table["disease"] = rng.choice(SICK, len(ages))
    columns = (Column("age", Integers(0, largest)), Column("sex", Categories(("F", "M", "X"))))
    return ed.estimate(table, Schema(columns, Column("disease", Categories(SICK))))


def oracle(ages, size):
    """Every range that leaves fewer than 5 records on each side, and of these the shortest."""
    found = [
        (low, high)
        for low in range(size)
        for high in range(low, size)
        if sum(age < low for age in ages) < FEWER and sum(age > high for age in ages) < FEWER
    ]
    return min(found, key=lambda ends: ends[1] - ends[0])


@given(st.lists(st.integers(0, 15), min_size=10, max_size=60))
@settings(max_examples=60)
def test_the_shortest_range_that_tells_nobodys_extreme_value(ages):
    low, high = seen_ranges(model_of(ages, 15))[0]
    assert (low, high) == oracle(ages, 16)


@given(st.lists(st.integers(0, 15), min_size=12, max_size=60), st.integers(0, 11), st.integers(0, 15))
@settings(max_examples=60)
def test_one_person_moves_an_end_to_the_next_of_the_others_at_most(ages, who, age):
    """Without them, or with another value: the ends stay where at least four others are beyond or at them."""
    before, after = (
        seen_ranges(model_of(own, 15))[0] for own in (ages, [*ages[:who], *ages[who + 1 :], age])
    )
    others = sorted(ages[:who] + ages[who + 1 :])
    for low, high in (before, after):
        assert others[3] <= low <= others[4]
        assert others[-5] <= high <= others[-4]


def test_categories_without_an_order_have_no_range_and_few_records_none():
    assert seen_ranges(model_of([30] * 40))[1] == (0, 2)
    assert seen_ranges(model_of([3, 4, 9]))[0] == (0, 120)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    return model_of(np.concatenate((rng.integers(20, 60, 6000), [99])))


def test_loss_is_measured_over_what_was_seen(model):
    made = ed.plan(model, ell=2, releases=1, records=4000)
    assert made.seen[0] == (20, 59)
    assert Plan.from_dict(made.to_dict()) == made
    # by hand: labels clipped to 20..59, over 39 steps, and over 2 steps of three categories
    lows, highs = made.classes.hulls(made.schema)
    ages = (np.clip(highs[:, 0], 20, 59) - np.clip(lows[:, 0], 20, 59)) / 39
    sexes = (highs[:, 1] - lows[:, 1]) / 2
    totals = model.counts.combination_totals
    shares = np.bincount(made.class_of(model.ranks), totals, made.n_classes) / totals.sum()
    assert made.loss(model) == pytest.approx(shares @ (ages + sexes) / 2)
    everybody = ed.plan(model, ell=4, releases=2, records=40)
    assert (everybody.n_classes, everybody.loss(model)) == (1, 1.0)


@pytest.mark.parametrize("largest", [500, MOST_POSITIONS - 1])
def test_a_wider_domain_costs_nothing(largest):
    """The same people: the classes that are found lose the same, however wide the domain is."""
    ages = np.random.default_rng(4).integers(20, 60, 8000)
    found = [
        ed.plan(model, ell=3, releases=1, records=6000)
        for model in (model_of(ages, 70), model_of(ages, largest))
    ]
    losses = [made.loss(model_of(ages, made.schema.sizes[0] - 1)) for made in found]
    assert found[0].n_classes == found[1].n_classes > 10
    assert losses[0] == pytest.approx(losses[1])


def test_a_domain_that_the_search_cannot_count_is_refused_and_named():
    with pytest.raises(SchemaError, match="'age'"):
        ed.plan(model_of([30] * 40, MOST_POSITIONS), ell=2, releases=1, records=40)
