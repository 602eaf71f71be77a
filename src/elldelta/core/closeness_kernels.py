"""Compiled inner loops: how likely the shares of a class are further from its reference than a limit.

Import this module inside the function that needs it, as with `kernels`. A class has cells of mass, from which
N records are drawn; n of them fall into the class. The reference is the distribution of the class itself, or
another one. What is estimated decides only how large classes are; what is bounded is proved in
`docs/theory/closeness.md`.
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

STEPS = 17
"""Numbers of records, half a standard deviation apart, at which the tail of a class is evaluated."""


class Nearness(NamedTuple):
    """What closeness asks of a class."""

    limit: float  # in total variation; 0 if it asks nothing
    n_records: float  # N
    reference: NDArray[np.float64]  # of all classes, or of length 0: each class has its own distribution
    prior: NDArray[np.float64]  # mass that smoothes the distribution of a class, or of length 0
    spare: float  # the largest probability of a class that may be given up, because that loses less
    quantile: float  # standard deviations above the mean that must be within the limit
    weight: float  # for sums of proved failures: the number of releases


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
def tail_upper(shares: NDArray[np.float64], n: float, room: float) -> float:
    """Upper bound on the chance that n records are further than `room`, and their bias, from the shares.

    The smaller of McDiarmid's inequality around the mean and Weissman's over all sets of values.
    """
    if room <= 0.0:
        return 1.0
    bound = exp(min(0.0, log(2.0) * shares.size - 2.0 * n * room * room))
    above = room
    for share in shares:
        above -= 0.5 * mean_deviation(n, share)
    if above > 0.0:
        bound = min(bound, exp(-2.0 * n * above * above))
    return min(1.0, bound * (1.0 + 1e-9))


@compiled
def too_far_upper(
    shares: NDArray[np.float64], mass: float, bias: float, n_records: float, limit: float
) -> float:
    """Upper bound on the chance that a class of a release of N records is further than the limit from shares.

    n ~ Bin(N, P(c)), and the tail for n records falls with n: summed by parts over some n, with Chernoff's
    bound on the chance of fewer records than that.

    Args:
        shares: The reference.
        mass: P(c), or less.
        bias: TV between the distribution of the class and the reference, or more.
        n_records: N.
        limit: In total variation.
    """
    room = limit - bias - 1e-12
    deviation = sqrt(n_records * mass * max(0.0, 1.0 - mass))
    failure = 0.0
    before = 1.0
    for step in range(STEPS):
        n = np.ceil(n_records * mass - 0.5 * (STEPS - 1 - step) * deviation)
        if n < 1.0:
            continue
        tail = min(before, tail_upper(shares, n, room))
        failure += fewer_upper(n, n_records, mass) * (before - tail)
        before = tail
    return min(1.0, failure + before)


@compiled
def fewer_upper(n: float, n_records: float, mass: float) -> float:
    """Chernoff's bound on Pr[Bin(N, mass) < n]."""
    share = (n - 1.0) / n_records
    if share >= mass:
        return 1.0
    if mass >= 1.0:
        return 0.0
    divergence = (1.0 - share) * log((1.0 - share) / (1.0 - mass))
    if share > 0.0:
        divergence += share * log(share / mass)
    return min(1.0, exp(-n_records * max(0.0, divergence)) * (1.0 + 1e-9))


@compiled
def failure_of(cells: NDArray[Any], total: float, mass: float, near: Nearness) -> float:
    """`too_far_upper` of a class whose reference is its own distribution or that of all classes."""
    if near.reference.size == 0:
        return too_far_upper(cells / total, mass, 0.0, near.n_records, near.limit)
    bias = 0.0
    for value in range(cells.size):
        bias += max(0.0, near.reference[value] - cells[value] / total)
    return too_far_upper(near.reference, mass, bias, near.n_records, near.limit)


@compiled
def each_too_far_upper(
    shares: NDArray[np.float64],
    masses: NDArray[np.float64],
    biases: NDArray[np.float64],
    n_records: float,
    limit: float,
) -> NDArray[np.float64]:
    """`too_far_upper` of every class; shares have one row for each, or one for all."""
    found = np.empty(masses.size)
    for row in range(masses.size):
        own = shares[min(row, shares.shape[0] - 1)]
        found[row] = too_far_upper(own, masses[row], biases[row], n_records, limit)
    return found


@compiled
def each_likely_distance(table: NDArray[np.float64], scale: float, near: Nearness) -> NDArray[np.float64]:
    """`likely_distance` of every row; 0 for a class without mass."""
    found = np.zeros(table.shape[0])
    for row in range(table.shape[0]):
        total = table[row].sum()
        if total > 0.0:
            found[row] = likely_distance(table[row], total, near.n_records * total * scale, near)
    return found
