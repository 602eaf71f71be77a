"""Algorithm 1: how many records to wait for, and what that number says in the other directions.

With classes in which ell cells have probability at least p, a record misses one such cell with probability
at most 1 - p, so N records miss it with probability at most (1 - p)^N. There are at most m classes with ell
cells each: m ell (1 - p)^N <= delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_beta, check_delta, check_ell, check_eta, check_p, check_whole
from elldelta.core.distribution import check_marginal, frozen
from elldelta.core.witnesses import Witnesses
from elldelta.errors import ParameterError, RefusedError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.distribution import JointDistribution

_ROUND_UP = 1.0 + 1e-12
"""Covers the rounding of an exponential whose exponent is above -750."""

_TINY = 1e-306
"""More than what is lost to underflow."""

_SMALLEST_DELTA = 1e-305


@dataclass(frozen=True)
class Mechanism:
    """The setting of Algorithm 1: |Q|, the ranked marginal of S, ell and p, all checked.

    Attributes:
        n_quasi_identifiers: |Q|.
        ell: The diversity wanted.
        p: The probability that ell cells of every class must reach.
        p_ell: The ell-th largest marginal, the largest p possible.
        classes_upper: m, an upper bound on the number of classes (Lemma 2).
        eta: The error of the distribution in total variation: a cell that seems to have probability p may
            have only p - eta.
    """

    n_quasi_identifiers: int
    ell: int
    p: float
    p_ell: float
    classes_upper: float
    eta: float = 0.0

    @classmethod
    def create(
        cls, marginal: ArrayLike, n_quasi_identifiers: int, ell: int, p: float, eta: float = 0.0
    ) -> Mechanism:
        """Checks the parameters and computes m = min(|Q|, 1/(ell p), Σ_{i>=ell} p_i / p).

        The classes are counted under the distribution at hand, so m needs no correction for its error.
        """
        probabilities = ranked(check_marginal(marginal))
        n_quasi_identifiers = check_whole("the number of quasi-identifiers", n_quasi_identifiers)
        ell = check_ell(ell, probabilities.size)
        p_ell = min(1.0, float(probabilities[ell - 1]))  # a sum of shares can exceed 1 in its last digit
        p = check_p(p, p_ell, ell)
        if p <= check_eta(eta):
            raise RefusedError(
                "The error of the model is as large as the cells the promise relies on.",
                found=f"eta is {eta:g}, p is {p:g}, and p cannot exceed p_ell = {p_ell:g}.",
                remedy="Choose a larger p or a smaller ell, or estimate the model from more records.",
            )
        m = min(n_quasi_identifiers, 1.0 / (ell * p), math.fsum(probabilities[ell - 1 :]) / p)
        return cls(n_quasi_identifiers, ell, p, p_ell, m, eta)

    @classmethod
    def from_beta(
        cls, marginal: ArrayLike, n_quasi_identifiers: int, ell: int, beta: float, eta: float = 0.0
    ) -> Mechanism:
        """The paper's parametrisation p = beta p_ell."""
        return cls.create(marginal, n_quasi_identifiers, ell, check_beta(beta) * p_ell(marginal, ell), eta)

    @property
    def p_lower(self) -> float:
        """What ell cells of every class reach for certain: p - eta."""
        return self.p - self.eta

    def records_exact(self, delta: float) -> float:
        """N before rounding up: ln(m ell / delta) / ln(1 / (1 - p)); 1 for p = 1."""
        delta = check_delta(delta)
        if self.p_lower >= 1.0:
            return 1.0
        return (math.log(self.classes_upper * self.ell) - math.log(delta)) / -math.log1p(-self.p_lower)

    def records(self, delta: float) -> int:
        """The records to wait for (Theorem 1), rounded up until the promise really holds."""
        return _fewest(self.records_exact(delta), self.delta_reached, delta)

    def delta_reached(self, n_records: int) -> float:
        """The failure probability that N records guarantee: m ell (1 - p)^N, at most 1."""
        return union_bound(self.classes_upper, self.ell, self.p_lower, n_records)


def union_bound(n_classes: float, ell: int, p: float, n_records: int) -> float:
    """R ell (1 - p)^N, an upper bound on the failure of R classes with ell cells >= p each; at most 1.

    Errs upwards, also in its last digits. With the true number of classes in place of m it is never worse
    than the paper's bound, because m is an upper bound on that number.
    """
    n_records = check_whole("the number of records", n_records)
    if p >= 1.0:
        return 0.0
    return min(1.0, math.exp(math.log(n_classes * ell) + n_records * math.log1p(-p)) * _ROUND_UP + _TINY)


def _fewest(about: float, bound: Callable[[int], float], delta: float) -> int:
    """The fewest records, from about so many on, for which a falling bound is at most delta."""
    if delta < _SMALLEST_DELTA:
        raise ParameterError(
            "delta is too small to be computed with.",
            found=f"It is {delta:g}.",
            remedy=f"Use at least {_SMALLEST_DELTA:g}.",
        )
    high = max(1, math.ceil(about))
    low, step = high - 1, 1
    while bound(high) > delta:  # the bound errs upwards, and for a tiny p it falls slowly
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= delta else (middle, high)
    return high


def p_ell(marginal: ArrayLike, ell: int) -> float:
    """The ell-th largest marginal probability, the upper end of the range of p."""
    probabilities = ranked(check_marginal(marginal))
    return min(1.0, float(probabilities[check_ell(ell, probabilities.size) - 1]))


def smallest_p(
    marginal: ArrayLike,
    n_quasi_identifiers: int,
    ell: int,
    delta: float,
    n_records: int,
    eta: float = 0.0,
) -> float:
    """The smallest p whose N is at most the records at hand: the finest classes they can pay for.

    N falls as p grows, so this is a bisection; the p returned is the end of the last interval for which
    the constraint was checked.

    Raises:
        RefusedError: Even p_ell, the coarsest choice, needs more records.
    """
    check_whole("the number of records", n_records)
    probabilities = check_marginal(marginal)
    high = Mechanism.from_beta(probabilities, n_quasi_identifiers, ell, 1.0, eta)
    needed = high.records(delta)
    if needed > n_records:
        raise RefusedError(
            f"{counted(n_records, 'record is', 'records are')} not enough for ell = {ell} and delta "
            f"= {delta:g}.",
            found=f"Even a single class for everybody needs {counted(needed, 'record')}.",
            remedy=f"Wait for {counted(needed, 'record')}, or choose a smaller ell or a larger delta.",
        )
    low, best = eta, high.p
    while best - low > 1e-15 * best:
        middle = low + (best - low) / 2
        if middle in (low, best):
            break
        mechanism = Mechanism.create(probabilities, n_quasi_identifiers, ell, middle, eta)
        if mechanism.records_exact(delta) <= n_records and mechanism.records(delta) <= n_records:
            best = middle
        else:
            low = middle
    return best


def most_probable(masses: JointDistribution, ell: int) -> Witnesses:
    """The ell most probable values of each class, ties by index: the witnesses S_c|ell of Theorem 2."""
    blocks = [np.argsort(-block, axis=1, kind="stable")[:, :ell] for _, block in masses.dense_blocks()]
    values = np.concatenate(blocks)
    return Witnesses(np.full(len(values), values.shape[1]), values.ravel())


def uniform_marginal(n_values: int) -> NDArray[np.float64]:
    """The uniform distribution on `n_values` values."""
    n_values = check_whole("the number of values", n_values)
    return frozen(np.full(n_values, 1.0 / n_values))


def geometric_marginal(n_values: int, ratio: float) -> NDArray[np.float64]:
    """P_S(s) proportional to ratio^(s-1), as in the paper's Section 5."""
    n_values = check_whole("the number of values", n_values)
    if not 0.0 < ratio < 1.0:
        raise ParameterError(
            "The ratio of a geometric marginal must lie strictly between 0 and 1.",
            found=f"It is {ratio}.",
            remedy="The paper uses 0.95. A ratio of 1 is the uniform marginal.",
        )
    weights = ratio ** np.arange(n_values)
    return frozen(weights / weights.sum())


def ranked(marginal: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities from large to small: p_1 >= p_2 >= ..."""
    return frozen(np.sort(marginal)[::-1])
