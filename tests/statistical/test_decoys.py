"""Whether decoys are as likely as the plan states, from many announced names: Theorem K rests on that.

The heights of 400,000 leaves are compared with the stated law by a chi-squared test. False alarms: a correct
law is rejected with probability below 1e-6. Power: laws in which decoys are a tenth rarer, go on a third less
often, or start one step too high are rejected, and so are coins that neighbouring leaves share.
"""

import numpy as np
import pytest
from scipy import stats

from elldelta.core.moving import Moving, decoy_heights

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
N_LEAVES, N_NAMES = 1_000, 400
HIGHEST = 3  # heights from here on are counted together


def law(rho, q):
    """The chances of the heights 0, 1, 2, and of 3 and more."""
    return np.array([1 - rho, rho * (1 - q), rho * q * (1 - q), rho * q**2])


def drawn(moving):
    names = (f"release {number}" for number in range(N_NAMES))
    return np.stack([decoy_heights(moving, b"s" * 32, "a plan", name, N_LEAVES) for name in names])


def p_value(heights, chances):
    found = np.bincount(np.minimum(heights, HIGHEST).ravel(), minlength=HIGHEST + 1)
    return stats.chisquare(found, chances / chances.sum() * heights.size).pvalue


@pytest.mark.parametrize(("rho", "q"), [(0.05, 0.1), (0.3, 0.4)])
def test_heights_follow_the_law_of_the_plan(rho, q):
    heights = drawn(Moving(0.1, rho, q))

    assert p_value(heights, law(rho, q)) > FALSE_ALARM
    for broken in (law(0.9 * rho, q), law(rho, q * 2 / 3), law(rho * q, q)):
        assert p_value(heights, broken) < FALSE_ALARM


def test_leaves_and_names_draw_independently():
    is_decoy = drawn(Moving(0.1)) > 0

    def together(one, other):
        return stats.binomtest(int((one & other).sum()), one.size, 0.05**2).pvalue

    assert together(is_decoy[:, :-1], is_decoy[:, 1:]) > FALSE_ALARM
    assert together(is_decoy[:-1], is_decoy[1:]) > FALSE_ALARM
    # One leaf in a hundred that copies its neighbour would be noticed.
    copied = is_decoy.copy()
    copied[:, 1::100] = copied[:, ::100]
    assert together(copied[:, :-1], copied[:, 1:]) < FALSE_ALARM
