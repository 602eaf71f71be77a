"""Closeness of releases of several plans together, against exact sums and against what releases show."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.oracles import closeness as oracle

import elldelta as ed
from elldelta.plan.compose import compose
from elldelta.release import open_published

VALUES = ("flu", "gout", "mumps", "rash")


@pytest.fixture(scope="module")
def world():
    """Two plans of one population with different classes, one for values only, and how to draw people."""
    rng = np.random.default_rng(11)

    def people(n):
        age = rng.integers(0, 6, n)
        value = (age // 2 + rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])) % 4
        return pa.table({"age": age, "disease": np.array(VALUES)[value]})

    past = people(6000)
    schema = ed.Schema.infer(past, quasi_identifiers=["age"], sensitive="disease")
    model = ed.estimate(past, schema)
    fine = ed.plan(model, closeness=0.2, releases=2, records=3000)
    overall = ed.plan(model, closeness=0.9, closeness_to="overall", releases=1, records=3000)
    plain = ed.plan(model, ell=2, releases=1, records=3000)
    return fine, overall, plain, people


def shares_at(plan, age):
    """What a plan says about people of an age."""
    base = int(plan.class_of(np.array([age]))[0])
    return oracle.shares(plan.promises[0].references[base])


def test_closeness_adds_up_within_a_plan(world):
    fine, *_ = world
    for number in (1, 2, 5):
        (found,) = compose([(fine, number)]).columns[0].closeness
        assert found.plan == fine.digest
        assert found.promised == 0.2
        assert found.distance_upper == pytest.approx(number * 0.1)
    assert compose([(fine, 10)]).columns[0].closeness[0].distance_upper is None
    assert compose([(fine, 2)]).to_dict()["columns"][0]["closeness"][0]["distance_upper"] == pytest.approx(
        0.2
    )


def test_another_plan_costs_the_way_between_the_references_for_each_of_its_releases(world):
    fine, overall, *_ = world
    found = compose([(fine, 3), (overall, 1)]).columns[0].closeness
    far = [oracle.furthest_set(shares_at(fine, age), shares_at(overall, age)) for age in range(6)]
    totals = [
        Fraction(3, 10) + Fraction(9, 10) + max(far),
        Fraction(9, 10) + 3 * (Fraction(1, 10) + max(far)),
    ]
    for item, total in zip(found, totals, strict=True):
        assert (item.distance_upper is None) == (total >= 1)


def test_what_releases_of_two_plans_show_is_within_the_sum(world):
    fine, _, _, people = world
    other = ed.plan(ed.estimate(people(5000), fine.schema), closeness=0.3, releases=2, records=3000)
    releases = [(fine, ed.release(people(3000), fine)), (other, ed.release(people(3000), other))]
    bounds = {
        item.plan: item.distance_upper for item in compose([(fine, 1), (other, 1)]).columns[0].closeness
    }
    published = [(plan, open_published(release)) for plan, release in releases]
    n_asked = 0
    for age in range(6):
        rows = []
        for plan, item in published:
            base = int(plan.class_of(np.array([age]))[0])
            rows.append(item.counts[item.grouping.class_of[base]].tolist())
        if not all(map(sum, rows)):
            continue
        linked = [min(pair) for pair in zip(*rows, strict=True)]
        for plan, _ in releases:
            distance = oracle.furthest_set(oracle.shares(linked), shares_at(plan, age))
            assert float(distance) <= bounds[plan.digest]
            n_asked += 1
    assert n_asked


def test_a_plan_without_closeness_promises_nothing_about_belief(world):
    fine, _, plain, _ = world
    (found,) = compose([(fine, 1), (plain, 1)]).columns[0].closeness
    assert found.distance_upper is None
    assert not compose([(plain, 1)]).to_dict()["columns"][0]["closeness"]
