"""Compiled inner loops: how likely the shares of a class are further from its reference than a limit.

Import this module inside the function that needs it, as with `kernels`. A class has cells of mass, from which
N records are drawn; n of them fall into the class. The reference is the distribution of the class itself, or
another one. It is an estimate: it decides how large classes are and what is expected, never what passes.
"""

from __future__ import annotations

from math import erf, erfc, exp, lgamma, log, log1p, pi, sqrt
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
    n_past: float  # the past records that P was counted in; infinite if P is known


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
def distance_moments(cells: NDArray[Any], total: float, n: float, near: Nearness) -> tuple[float, float]:
    """The mean and the variance of the distance of a class with about n records.

    The shares are taken as normal, except for the mean deviation of a reference that is the class's own. The
    past records are a draw as well: shares differ as if there were 1 / (1 / n + 1 / past) records.
    """
    n = max(1.0, n / (1.0 + near.n_records / near.n_past))
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
            expected = mean_deviation(np.floor(n), p)
            sign = 0.0
        else:
            ratio = shift / deviation
            sign = erf(ratio / sqrt(2.0))
            expected = deviation * sqrt(2.0 / pi) * exp(-0.5 * ratio * ratio) + shift * sign
        mean += expected
        noise += expected - abs(shift)
        if shift == 0.0:
            variance += (1.0 - 2.0 / pi) * square
        else:
            variance += max(0.0, shift * shift + square - expected * expected)
        odds = p / max(1e-12, 1.0 - p) * deviation * (1.0 - abs(sign))
        crossed += odds
        crossed_squares += odds * odds
        signed += sign * p
        signed_squares += sign * sign * p * p
    variance += (crossed * crossed - crossed_squares) / pi
    variance -= (signed * signed - signed_squares) / n
    variance = 0.25 * max(0.0, variance) + (0.25 * noise) ** 2 / n
    return 0.5 * mean, variance


@compiled
def too_far_chance(cells: NDArray[Any], total: float, n: float, near: Nearness) -> float:
    """The estimated chance that a class with about n records is further from its reference than the limit.

    A distance is a sum of absolute values and leans to the right: a normal tail would be ten to a hundred
    times too light at 1e-4. The gamma distribution of the same mean and variance is about right, or a little
    too heavy; its tail is that of Wilson and Hilferty (the cube root is about normal).
    """
    mean, variance = distance_moments(cells, total, n, near)
    if mean <= 0.0 or variance <= 0.0:
        return 1.0 if mean > near.limit else 0.0
    shape = mean * mean / variance
    above = (near.limit / mean) ** (1.0 / 3.0) - 1.0 + 1.0 / (9.0 * shape)
    return 0.5 * erfc(3.0 * above * sqrt(0.5 * shape))


@compiled
def each_too_far_chance(
    table: NDArray[np.float64], scale: float, near: Nearness, references: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`too_far_chance` of every row; 0 for a class without mass.

    Args:
        table: The cells of every class.
        scale: Turns a mass into a probability.
        near: What closeness asks.
        references: What each class is compared with, a row for each; without rows, what `near` says.
    """
    found = np.zeros(table.shape[0])
    for row in range(table.shape[0]):
        total = table[row].sum()
        if total > 0.0:
            compared = near
            if references.shape[0] > 0:
                compared = Nearness(near.limit, near.n_records, references[row], near.prior, near.n_past)
            found[row] = too_far_chance(table[row], total, near.n_records * total * scale, compared)
    return found
