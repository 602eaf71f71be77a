"""What an agency admits under plans for closeness: exactly what Theorem G allows, within and across plans."""

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from tests.agency.registrations import NONCE, Agency, full, make_plan, make_registration
from tests.oracles import closeness as oracle

from elldelta.agency.admission import check_registration
from elldelta.agency.registration import validate_registration
from elldelta.errors import RefusedError
from elldelta.plan.common_cells import common_cells

REFERENCES = [[10, 10, 10, 10, 10, 10]] * 4
BOTH = make_plan(closeness=(0.4, REFERENCES))  # two values, and 0.2 for each of two releases
CLOSE = make_plan(ell=1, witnesses=[[]] * 4, closeness=(0.4, REFERENCES))
HALVES = (((0, 0), (3, 0)), ((0, 1), (3, 2)))
OTHER = make_plan(
    boxes=HALVES, ell=1, witnesses=[[]] * 2, closeness=(0.6, [[10, 10, 10, 10, 10, 10], [30, 10, 5, 5, 5, 5]])
)
PLAIN = make_plan(boxes=HALVES)


def shifted(plan, base, value, by, n=10):
    """Counts as the reference says, but for some records of one value that have another."""
    counts = full(plan, n=n)
    counts[base, value] -= by
    counts[base, (value + 3) % 6] += by
    return counts


@pytest.mark.parametrize("plan", [BOTH, CLOSE], ids=["both", "closeness alone"])
def test_counts_that_pass_values_but_not_closeness_are_refused(plan):
    agency = Agency(plan)
    skewed = full(plan)
    skewed[1] = [95, 1, 1, 1, 1, 1]  # all six values, and everybody knows
    with pytest.raises(RefusedError, match="certificate"):
        agency.register(plan, make_registration(plan, skewed), "A")
    assert agency.lines(plan) == []


@pytest.mark.parametrize("plan", [BOTH, CLOSE], ids=["both", "closeness alone"])
def test_more_than_t_releases_are_admitted_while_the_smallest_shares_allow_it(plan):
    agency = Agency(plan)
    for number, owner in enumerate("ABCDE"):
        admission = agency.register(
            plan, make_registration(plan, shifted(plan, 0, 0, 10, n=10 + number)), owner
        )
    assert admission.state.n_releases == 5 > plan.releases
    assert admission.entry.counts is not None
    assert admission.entry.certified
    agency.register(plan, make_registration(plan, shifted(plan, 0, 1, 10)), "F")
    before = agency.lines(plan)
    with pytest.raises(RefusedError, match="away from the reference"):
        agency.register(plan, make_registration(plan, shifted(plan, 0, 2, 10)), "G")
    assert agency.lines(plan) == before
    agency.register(plan, make_registration(plan, shifted(plan, 1, 2, 10)), "G")


def cells_of(plans):
    """The class of every common cell under each plan."""
    return common_cells(plans[0].schema, [plan.classes for plan in plans])


def furthest(agency, plans):
    """Per plan with closeness: how much further somebody in one of its releases can be led than promised.

    Every group of everything that was admitted, every cell, every set of values.
    """
    classes = dict(zip([plan.digest for plan in plans], cells_of(plans), strict=True))
    sent = [(plan, item) for plan in plans for item in agency.entries[plan.digest]]
    worst = Fraction(-1)
    for group in chain.from_iterable(combinations(sent, n) for n in range(1, len(sent) + 1)):
        for cell in range(len(classes[plans[0].digest])):
            rows = []
            for plan, item in group:
                base = classes[plan.digest][cell]
                rows.append(item.counts[item.grouping.class_of[base]].tolist())
            linked = [min(numbers) for numbers in zip(*rows, strict=True)]
            if not all(map(sum, rows)):
                continue
            for plan, _ in group:
                if plan.columns[0].closeness is not None:
                    reference = plan.promises[-2].references[classes[plan.digest][cell]]
                    assert sum(linked)
                    distance = oracle.furthest_set(oracle.shares(linked), oracle.shares(reference))
                    worst = max(worst, distance - Fraction(str(plan.columns[0].closeness.limit)))
    return worst


def registered(rng, plans, kind=Agency, evenness=3.0):
    """An agency to which owners sent releases of several plans, and how many it refused for linking."""
    agency, n_refused = kind(*plans), 0
    for owner in "ABCDE":
        plan = plans[int(rng.integers(len(plans)))]
        near = np.full((plan.n_classes, 6), evenness)
        if plan.columns[0].closeness is not None:
            near = 120.0 * plan.promises[-2].shares
        counts = np.stack([rng.multinomial(90, rng.dirichlet(row)) for row in near])
        counts[rng.random(plan.n_classes) < 0.2] = 0
        try:
            agency.register(plan, make_registration(plan, counts), owner)
        except RefusedError as refusal:
            n_refused += "Linked with what is registered" in refusal.problem
    return agency, n_refused


@pytest.mark.parametrize("others", [OTHER, PLAIN], ids=["another closeness", "values only"])
def test_whatever_is_admitted_under_several_plans_stays_as_close_as_each_promises(others):
    rng = np.random.default_rng(5)
    plans, n_mixed, n_refused = (CLOSE, others), 0, 0
    for _ in range(15):
        agency, refused = registered(rng, plans)
        n_refused += refused
        n_mixed += all(agency.lines(plan) for plan in plans)
        assert furthest(agency, plans) <= 0
    assert n_mixed > 5
    assert n_refused > (5 if others.columns[0].closeness is None else 0)


class ForgetfulAgency(Agency):
    """Broken: it does not link with the releases of other plans."""

    def context(self, plan, examined, owner):
        others, self.entries = self.entries, {plan.digest: self.entries[plan.digest]}
        try:
            return super().context(plan, examined, owner)
        finally:
            self.entries = others


def test_an_agency_that_looks_at_one_plan_at_a_time_is_found_out():
    rng, plans = np.random.default_rng(6), (CLOSE, PLAIN)
    worst = [furthest(registered(rng, plans, ForgetfulAgency, 0.8)[0], plans) for _ in range(10)]
    assert sum(margin > 0 for margin in worst) > 3


def test_the_same_again_is_the_same_line():
    agency = Agency(CLOSE)
    registration = make_registration(CLOSE, shifted(CLOSE, 0, 0, 10))
    first = agency.register(CLOSE, registration, "A")
    assert agency.register(CLOSE, registration, "A").entry == first.entry
    release = validate_registration(CLOSE, registration, owner="A")
    assert not check_registration(release, agency.context(CLOSE, release, "A"), owner="A", nonce=NONCE).is_new
