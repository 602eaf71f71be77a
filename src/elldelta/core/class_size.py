"""How likely a class holds fewer than k records of a release: exact binomial tails.

A class of probability m holds Bin(N, m) of N records. One with records, but fewer than k, is not published;
one without any is nobody's. The chance of fewer than k, none among them, is on the safe side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_ROUND_UP = 1.0 + 1e-9
"""The library's relative error is far below that."""


def shortfalls_upper(masses: ArrayLike, n_records: int, k: int) -> NDArray[np.float64]:
    """P(Bin(N, m) < k) for classes of these probabilities, rounded up; 0 for k = 1, which asks nothing.

    Args:
        masses: m, or lower bounds on it: the chance falls with m.
        n_records: N, or a lower bound on it.
        k: The fewest records of a class.

    >>> shortfalls_upper([0.5, 1.0], 2, 2).round(6).tolist()
    [0.75, 0.0]
    """
    shares = np.clip(np.asarray(masses, dtype=np.float64), 0.0, 1.0)
    if k <= 1:
        return np.zeros(shares.shape)
    from scipy.stats import binom

    chances: NDArray[np.float64] = np.minimum(1.0, binom.cdf(k - 1, n_records, shares) * _ROUND_UP)
    return chances


def least_mass(n_records: int, k: int, limit: float, *, per_class: bool) -> float:
    """The smallest probability of a class that seldom enough holds fewer than k records; more than 1 if none.

    Args:
        n_records: N.
        k: The fewest records of a class.
        limit: The largest chance of a class, or of all classes together: there are at most 1 / m of them.
        per_class: Which of the two it is.
    """
    if k <= 1:
        return 0.0

    def is_enough(mass: float) -> bool:
        chance = float(shortfalls_upper(mass, n_records, k))
        return chance <= (limit if per_class else limit * mass)

    low, high = 0.0, 1.0
    if not is_enough(high):
        return 2.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
