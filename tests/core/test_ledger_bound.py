"""The chance that all owners together show fewer than ell values of a class, against exact enumeration."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.occupancy import class_failures_upper


def shown_by(cells, n_records):
    """The exact chance of every set of values that N records show; the rest of the people are elsewhere."""
    chances, values = {}, range(len(cells))
    sets = [frozenset(some) for size in range(len(cells) + 1) for some in combinations(values, size)]
    for shown in sets:
        # Inclusion and exclusion over the values of the set that are missing all the same.
        chances[shown] = sum(
            (-1) ** (len(shown) - len(kept))
            * (1.0 - sum(cells[v] for v in values if v not in kept)) ** n_records
            for kept in sets
            if kept <= shown
        )
    return chances


def exact(cells, ell, n_records, owners):
    chances = shown_by(cells, n_records)
    return sum(
        np.prod([chances[one] for one in sets])
        for sets in product(chances, repeat=owners)
        if len(frozenset.intersection(*sets)) < ell
    )


@pytest.mark.parametrize("n_records", [60, 400])
@pytest.mark.parametrize(("ell", "owners"), [(1, 1), (1, 2), (2, 2), (3, 2), (2, 3)])
def test_never_below_the_exact_chance_and_near_it(ell, owners, n_records):
    rng = np.random.default_rng(ell * 10 + owners)
    for _ in range(4):
        cells = rng.dirichlet(np.ones(5))[:4] * 8.0 / n_records
        found = class_failures_upper(cells[np.newaxis], ell, n_records, owners, checked_by="ledger")
        wanted = exact(cells.tolist(), ell, n_records, owners)
        assert wanted <= found.failures_upper[0]
        # Fewer records by three standard deviations, which is the price of independence.
        fewer = exact(cells.tolist(), ell, int(n_records - 3.5 * n_records**0.5), owners)
        assert found.failures_upper[0] <= 1.05 * fewer + 0.02
        assert found.witnesses.counts.tolist() == [4]
        assert sorted(found.witnesses.values.tolist()) == [0, 1, 2, 3]


def test_the_smallest_chances_are_not_lost():
    """Both of two values must be left: one of them is missing from one of two releases of 200 records."""
    cells, n_records = np.array([[0.625, 0.25]]), 200
    missing = [2 * (1 - Fraction(cell)) ** n_records for cell in cells[0]]
    found = class_failures_upper(cells, 2, n_records, 2, checked_by="ledger").failures_upper[0]
    assert 0.99 * float(max(missing)) <= found < 1e-15


def test_failures_count_once_for_all_owners_together():
    cells = np.array([[0.05, 0.03, 0.02], [0.04, 0.04, 0.01]])
    found = class_failures_upper(cells, 2, 80, 2, checked_by="ledger")
    bound = SharpBound(2, 80, 2, checked_by="ledger")
    assert bound.total(found.failures_upper) == pytest.approx(found.failures_upper.sum())
