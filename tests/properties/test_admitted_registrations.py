"""Whatever an agency admits, in whatever order owners come: every group of it leaves everybody enough values.

The judge is a loop over every person and every group of releases, on the documents alone
(`tests.oracles.registration`). Broken agencies are found out by the same judge on the same owners.
"""

import numpy as np
import pytest
from tests.agency.registrations import DIAGONAL, Agency, make_plan, make_registration, plain
from tests.oracles import registration as oracle

from elldelta.agency.admission import ledger_chain
from elldelta.agency.linking import PlanReleases, check_linkage
from elldelta.core.partition import Partition
from elldelta.core.promises import Shown
from elldelta.errors import RefusedError
from elldelta.parameters import PLAN_KINDS

NODES = (None, [0, 1, 2, 2], [0, 1, 1, 1], [0, 0, 0, 0])
"""What may be published where the classes of a plan move: its own, or nodes of its tree."""

OTHER_BOXES = (((0, 0), (3, 0)), ((0, 1), (2, 2)), ((3, 1), (3, 1)), ((3, 2), (3, 2)))


def random_plan(rng, *, boxes=DIAGONAL, kind="certified", moves=False):
    n_values = 6
    ell = int(rng.integers(1, 4))
    witnesses = [
        rng.permutation(n_values)[: int(rng.integers(max(ell, 3), n_values + 1))].tolist() for _ in range(4)
    ]
    return make_plan(
        boxes=boxes,
        witnesses=witnesses,
        n_values=n_values,
        ell=ell,
        releases=int(rng.integers(1, 4)),
        records=int(rng.integers(2, 40)),
        kind=kind,
        min_records=int(rng.integers(1, 3)),
        moves=moves,
    )


def random_registration(rng, plan):
    """A table made to hurt: misses, single values, empty classes; of classes that move, any nodes."""
    group_of = None if plan.moving is None else NODES[int(rng.integers(len(NODES)))]
    n_classes = 4 if group_of is None else max(group_of) + 1
    counts = rng.integers(1, 4, (n_classes, plan.schema.n_values))
    counts[rng.random(counts.shape) < rng.choice([0.0, 0.1, 0.25])] = 0
    counts[rng.random(n_classes) < 0.15] = 0
    return make_registration(plan, counts, group_of)


def may_join(plan, admitted, registration):
    """Theorems E and F, from the documents."""
    document, new = plain(plan), plain(registration)
    if not new["cells"]["counts"]:
        return False
    if not oracle.is_certified(document, new):
        return False
    if not plan.is_certified and (
        len(admitted) >= plan.releases
        or registration.n_records < plan.records
        or min(
            len(shown) for base in range(4) if (shown := oracle.shown(document, new, base))
        ) < plan.columns[0].ell
    ):  # fmt: skip
        return False
    return oracle.has_room(document, [*(plain(item) for item in admitted), new])


@pytest.mark.parametrize("kind", [*PLAN_KINDS, "moving"])
def test_one_plan(kind):
    rng = np.random.default_rng(901)
    n_admitted = n_refused = n_tight = 0
    for _ in range(50):
        moves = kind == "moving"
        plan = random_plan(rng, kind="certified" if moves else kind, moves=moves)
        agency = Agency(plan)
        for owner in "ABCDEFGHI":
            registration = random_registration(rng, plan)
            expected = may_join(plan, agency.sent[plan.digest], registration)
            try:
                agency.register(plan, registration, owner)
            except RefusedError as refusal:
                # What subtraction may isolate is another question than what linking leaves.
                isolates = "may isolate people" in refusal.problem
                assert isolates or not expected
                n_refused += 1
            else:
                # Theorem F is enough: the exact linkage never refuses what it admits.
                assert expected
                n_admitted += 1
            if len(agency.lines(plan)) == 6:
                break
        if agency.pairs():
            margin = oracle.fewest_left(agency.pairs())
            assert margin is None or margin >= 0
            n_tight += margin == 0
        ledger_chain(plan, agency.lines(plan))
    # Not an empty promise: owners of both kinds came, and some were left with just ell.
    assert n_admitted > (60 if plan.is_certified else 20)
    assert n_refused > 60
    assert n_tight > 2 or not plan.is_certified  # of the others each misses no more than its share


def two_plans(rng):
    """Two plans for one population: other classes, another ell."""
    first = random_plan(rng)
    second = random_plan(rng, boxes=OTHER_BOXES)
    return first, second


def registered_under(rng, agency, plans):
    n_refused_for_linkage = 0
    for owner in "ABCDEFGHIJ":
        plan = plans[int(rng.integers(2))]
        try:
            agency.register(plan, random_registration(rng, plan), owner)
        except RefusedError as refusal:
            n_refused_for_linkage += "Linked with what is registered" in refusal.problem
        if len(agency.pairs()) == 6:
            break
    return n_refused_for_linkage


def test_several_plans_for_one_population():
    rng = np.random.default_rng(902)
    n_mixed = n_refused_for_linkage = 0
    for _ in range(40):
        plans = two_plans(rng)
        agency = Agency(*plans)
        n_refused_for_linkage += registered_under(rng, agency, plans)
        if agency.pairs():
            margin = oracle.fewest_left(agency.pairs())
            assert margin is None or margin >= 0
        n_mixed += all(agency.lines(plan) for plan in plans)
    assert n_mixed > 8
    assert n_refused_for_linkage > 10


class ForgetfulAgency(Agency):
    """Broken: it does not link with the releases of other plans."""

    def register(self, plan, registration, owner):
        others, self.entries = self.entries, {plan.digest: self.entries[plan.digest]}
        try:
            return super().register(plan, registration, owner)
        finally:
            self.entries = others


def test_an_agency_that_looks_at_one_plan_at_a_time_is_found_out():
    rng = np.random.default_rng(902)
    n_found = 0
    for _ in range(40):
        plans = two_plans(rng)
        agency = ForgetfulAgency(*plans)
        registered_under(rng, agency, plans)
        if agency.pairs():
            margin = oracle.fewest_left(agency.pairs())
            n_found += margin is not None and margin < 0
    assert n_found > 5


def released_without_a_ledger(plan, before):
    """What releases of a plan show, whether a ledger would have admitted them or not."""
    sent = [each for own, each in before if own is plan]
    return PlanReleases(plan, tuple(Shown(each.cells.table(4, 6), Partition(range(4))) for each in sent))


def test_the_exact_linkage_is_exact():
    """It refuses a release if and only if some group with it leaves somebody with too little.

    What was there before need not be admissible here; and Theorem F is seen to be no idle caution.
    """
    rng = np.random.default_rng(903)
    n_refused = n_passed = 0
    for _ in range(60):
        plans = two_plans(rng)
        made = [
            (plan, random_registration(rng, plan))
            for plan in (plans[int(rng.integers(2))] for _ in range(int(rng.integers(1, 5))))
        ]
        *before, (plan, new) = made
        margin = oracle.fewest_left([(plain(own), plain(sent)) for own, sent in made], len(before))
        released = [released_without_a_ledger(own, before) for own in plans]
        asked = plan, Partition(range(4)), new.cells.table(4, 6), released
        if margin is not None and margin < 0:
            n_refused += 1
            with pytest.raises(
                RefusedError, match=r"Linked with what is registered.*Fewer than \d values?"
            ) as refusal:
                check_linkage(*asked)
            assert refusal.value.remedy
        else:
            n_passed += 1
            check_linkage(*asked)
    assert min(n_refused, n_passed) > 10


def test_the_ledger_refuses_what_would_hurt():
    """Some of what Theorem F refuses would really take somebody below ell; none of what it admits does."""
    rng = np.random.default_rng(904)
    n_hurt = 0
    for number in range(60):
        plan = random_plan(rng, moves=number % 2 == 1)
        agency = Agency(plan)
        for owner in "ABCDEF":
            registration = random_registration(rng, plan)
            try:
                agency.register(plan, registration, owner)
            except RefusedError as refusal:
                if "Together with the releases in the ledger" in refusal.problem:
                    pairs = [*agency.pairs(), (plain(plan), plain(registration))]
                    n_hurt += oracle.fewest_left(pairs) < 0
    assert n_hurt > 5
