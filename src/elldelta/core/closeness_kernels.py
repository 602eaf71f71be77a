"""Compiled inner loops: how likely the shares of a class are further from its reference than a limit.

Import this module inside the function that needs it, as with `kernels`. A class has cells of mass, from which
N records are drawn; n of them fall into the class. The reference is the distribution of the class itself, or
another one. What is estimated decides only how large classes are.
"""

from __future__ import annotations

from math import erf, exp, lgamma, log, log1p, pi, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elldelta.core.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE = 1e7
"""From so many records on the mean deviation is bounded by the standard deviation: logarithms of factorials
would no longer be exact enough."""


class Nearness(NamedTuple):
    """What closeness asks of a class."""

    limit: float  # in total variation; 0 if it asks nothing
    n_records: float  # N
    reference: NDArray[np.float64]  # of all classes, or of length 0: each class has its own distribution
    prior: NDArray[np.float64]  # mass that smoothes the distribution of a class, or of length 0
    spare: float  # the largest probability of a class that may be given up, because that loses less
    quantile: float  # standard deviations above the mean that must be within the limit


@compiled
def mean_deviation(n: float, p: float) -> float:
    """E|X - np| / n for X ~ Bin(n, p), n whole: De Moivre's formula, rounded up, or a bound if n is large."""
    if p <= 0.0 or p >= 1.0:
        return 0.0
    if n > LARGE:
        return sqrt(p * (1.0 - p) / n)
    above = min(n, np.floor(n * p) + 1.0)
    logs = lgamma(n + 1.0) - lgamma(above + 1.0) - lgamma(n - above + 1.0)
    logs += above * log(p) + (n - above + 1.0) * log1p(-p)
    return float(min(sqrt(p * (1.0 - p) / n), 2.0 * above / n * exp(logs) * (1.0 + 1e-6)))


@compiled
def likely_distance(cells: NDArray[Any], total: float, n: float, near: Nearness) -> float:
    """A quantile of the distance of a class with about n records: its mean, and standard deviations above it.

    The shares are taken as normal, except for the mean deviation of a reference that is the class's own.
    """
    n = max(1.0, n)
    mean = 0.0
    variance = 0.0
    crossed = 0.0
    crossed_squares = 0.0
    signed = 0.0
    signed_squares = 0.0
    noise = 0.0
    smoothed = total + near.prior.sum()
    for value in range(cells.size):
        p = cells[value] / total
        if near.prior.size > 0:
            p = (cells[value] + near.prior[value]) / smoothed
        square = p * (1.0 - p) / n
        deviation = sqrt(square)
        shift = p - near.reference[value] if near.reference.size > 0 else 0.0
        if deviation == 0.0:
            mean += abs(shift)
            continue
        if shift == 0.0:
            own = mean_deviation(np.floor(n), p)
            sign = 0.0
        else:
            ratio = shift / deviation
            sign = erf(ratio / sqrt(2.0))
            own = deviation * sqrt(2.0 / pi) * exp(-0.5 * ratio * ratio) + shift * sign
        mean += own
        noise += own - abs(shift)
        if shift == 0.0:
            variance += (1.0 - 2.0 / pi) * square
        else:
            variance += max(0.0, shift * shift + square - own * own)
        odds = p / max(1e-12, 1.0 - p) * deviation * (1.0 - abs(sign))
        crossed += odds
        crossed_squares += odds * odds
        signed += sign * p
        signed_squares += sign * sign * p * p
    variance += (crossed * crossed - crossed_squares) / pi
    variance -= (signed * signed - signed_squares) / n
    variance = 0.25 * max(0.0, variance) + (0.25 * noise) ** 2 / n
    return 0.5 * mean + near.quantile * sqrt(variance)


@compiled
def each_likely_distance(table: NDArray[np.float64], scale: float, near: Nearness) -> NDArray[np.float64]:
    """`likely_distance` of every row; 0 for a class without mass."""
    found = np.zeros(table.shape[0])
    for row in range(table.shape[0]):
        total = table[row].sum()
        if total > 0.0:
            found[row] = likely_distance(table[row], total, near.n_records * total * scale, near)
    return found
