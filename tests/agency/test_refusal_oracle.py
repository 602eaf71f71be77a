"""What a client finds out by trying: nothing about releases that their owners have not published.

The attacker knows everything but the counts: the plan, the agency's code, what is published, and how many
records another owner has. It thinks up tables for the other one, asks what an agency would answer in each of
these worlds, and sorts out those that do not fit the answer it gets.
"""

import itertools

import numpy as np
import pytest
from tests.agency.registrations import HALVES, Agency, make_plan, make_registration

from elldelta.errors import ElldeltaError

N = 12
"""Records of every class of the other owner."""

CLOSE = make_plan(ell=1, n_values=4, witnesses=[[]] * 4, closeness=(0.4, [[1, 1, 1, 1]] * 4))
VALUES = make_plan()
ALONE, OTHER = make_plan(releases=1), make_plan(boxes=HALVES, releases=1)
PROBABILISTIC = make_plan(kind="probabilistic", releases=5, n_values=9, records=20)


def close_rows():
    """What a class of N records can show that is nearly 0.2 away from even shares."""
    rows = (row for row in itertools.product(range(8), repeat=4) if sum(row) == N)
    return [row for row in rows if sum(max(0, 3 - n) for n in row) == 2]


def rows_without(n_missed, n_values):
    """Classes that miss so many of the values."""
    missed = itertools.combinations(range(n_values), n_missed)
    return [tuple(0 if value in one else 3 for value in range(n_values)) for one in missed]


ROWS = {"closeness": (CLOSE, close_rows()), "values": (VALUES, rows_without(2, 6))}
FULL = {
    "closeness": ([1, 3, 4, 4], [4, 1, 3, 4], [4, 4, 1, 3]),
    "values": ([0, 0, 3, 3, 3, 3], [3, 3, 0, 0, 3, 3], [3, 3, 3, 3, 0, 0]),
}
"""What is published, hidden and tried in a class, of which no more than two fit: always refused."""


class World:
    """An agency with a release that is published, and one that is not."""

    def __init__(self, plan, published, hidden, hidden_plan=None):
        self.agency = Agency(*{one.digest: one for one in (plan, hidden_plan or plan)}.values())
        self.plan = plan
        if published is not None:
            self.agency.register(plan, make_registration(plan, published), "published")
        self.agency.hide("hidden")
        self.agency.register(hidden_plan or plan, make_registration(hidden_plan or plan, hidden), "hidden")

    def answer(self, probe, plan=None):
        """What the attacker is told about a table; it is taken back if it is admitted."""
        plan = plan or self.plan
        try:
            entry = self.agency.register(plan, make_registration(plan, probe), "attacker").entry
        except ElldeltaError as error:
            return type(error), error.problem, error.found, error.remedy
        del self.agency.entries[plan.digest][-1], self.agency.sent[plan.digest][-1]
        return entry.sequence, entry.certified


@pytest.mark.parametrize("kind", ROWS)
def test_an_attacker_that_tries_tables_recovers_no_count(kind):
    """One class is kept too far, so that no attempt is admitted; how many others break the promise tells."""
    rng = np.random.default_rng(3)
    plan, rows = ROWS[kind]
    published, secret, probe = (
        np.array([FULL[kind][place], *rng.permutation(rows)[:3]]) for place in range(3)
    )
    n_known = 0
    for base in range(1, 4):
        worlds = {}
        for row in [tuple(secret[base].tolist()), *map(tuple, rng.permutation(rows)[:5].tolist())]:
            imagined = secret.copy()
            imagined[base] = row
            worlds[row] = World(plan, published, imagined)
        truth, left = World(plan, published, secret), set(worlds)
        for row in rng.permutation(rows)[:10]:
            probe[base] = row
            told = truth.answer(probe)
            left = {row for row in left if worlds[row].answer(probe) == told}
        n_known += len(left) == 1
        assert len(worlds) > 4
        assert left == set(worlds)
    assert n_known == 0


def tables(rng, plan, n, most_missed):
    """Tables that pass by themselves, some of whose classes miss values or have no records."""
    for _ in range(n):
        table = rng.integers(2, 4, size=(plan.n_classes, plan.schema.n_values))
        for row in table:
            row[rng.permutation(row.size)[: rng.integers(most_missed + 1)]] = 0
        table[rng.random(plan.n_classes) < 0.1] = 0
        yield table


@pytest.mark.parametrize(
    ("plan", "hidden_plan", "most_missed"),
    [
        pytest.param(VALUES, VALUES, 2, id="certified"),
        pytest.param(PROBABILISTIC, PROBABILISTIC, 1, id="probabilistic"),
        pytest.param(ALONE, OTHER, 4, id="another plan"),
        pytest.param(OTHER, ALONE, 4, id="another plan with finer classes"),
    ],
)
def test_answers_are_the_same_whatever_is_not_published(plan, hidden_plan, most_missed):
    rng, answers = np.random.default_rng(4), set()
    for _ in range(6):
        [published] = tables(rng, plan, 1, most_missed)
        worlds = [
            World(plan, published if plan is hidden_plan else None, hidden, hidden_plan)
            for hidden in tables(rng, hidden_plan, 3, most_missed)
        ]
        # Also what no release may miss, and the table that is hidden in one of the worlds.
        hidden = [world.agency.entries[hidden_plan.digest][-1].counts for world in worlds]
        probes = [*tables(rng, plan, 6, most_missed + 1), *(hidden if plan is hidden_plan else [])]
        for probe in probes:
            told = {world.answer(probe) for world in worlds}
            assert len(told) == 1
            answers |= told
    assert len(answers) > 1
