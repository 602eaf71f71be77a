"""What a plan says of the failure of classes: from the definition, however many are computed at once."""

from fractions import Fraction

import numpy as np
import pytest
from tests.agency.registrations import make_plan
from tests.oracles.regions import chance_to_miss

from elldelta.core.generalize.bounds import SharpBound
from elldelta.core.witnesses import Witnesses
from elldelta.plan import failure


@pytest.fixture(scope="module")
def classes():
    """Classes of three to six witnesses, among them some of which fewer would do better."""
    rng = np.random.default_rng(3)
    counts = rng.integers(3, 7, 20)
    values = np.concatenate([rng.permutation(6)[:count] for count in counts])
    cells = np.round(rng.uniform(0.05, 0.16, counts.sum()), 2)
    cells[np.cumsum(counts) - 1] /= 50.0
    return Witnesses(counts, values), cells


@pytest.mark.parametrize("releases", [1, 2])
def test_it_is_at_least_the_exact_chance_to_miss_too_many(classes, releases):
    witnesses, cells = classes
    found = failure._failures(witnesses, 6, cells, SharpBound(2, 40, releases, checked_by="owner"))
    for row, upper in enumerate(found):
        shares = [Fraction(str(cell)) for cell in cells[slice(*witnesses.offsets[row : row + 2])]]
        exact = chance_to_miss(shares, 40, (len(shares) - 2) // releases)
        assert float(exact) <= upper
    assert found.min() < 0.05 < found.max()


def test_each_class_fails_as_it_does_alone(classes):
    witnesses, cells = classes
    bound = SharpBound(2, 40, 2, checked_by="owner")
    together = failure._failures(witnesses, 6, cells, bound)
    alone = [
        failure._failures(
            witnesses.at(np.array([row])), 6, cells[slice(*witnesses.offsets[row : row + 2])], bound
        )
        for row in range(len(witnesses))
    ]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-12)


def test_a_plan_fails_as_much_however_many_classes_are_computed_at_once(monkeypatch):
    plan = make_plan()
    expected = failure.sharp_failures(plan)
    monkeypatch.setattr(failure, "_MOST_DENSE", 1)
    assert failure.sharp_failures(plan) == pytest.approx(expected, rel=1e-12)
    assert plan.n_classes > 2
