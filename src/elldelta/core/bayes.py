"""How sure an adversary can be about one value, if what it does not know is independent.

The paper counts values. Somebody who knows the distribution P can do more than count: a value that a class
shows more often than P leads one to expect is more likely to be the person's. For releases whose other
records are independent draws from P, Bayes' rule gives

    posterior(s) ∝ P(s | q) · Π_j n_j(c_j, s) / P(c_j, s).

Why: without the person, the counts of a class are multinomial; with a person of value s, one of the n_j(s)
records is theirs, and the probability of the rest differs from that of the whole by n_j(s) / P(c_j, s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.linked_shares import LargestGain, parts_of, reference_shares
from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.linkage import ReleasedCounts
    from elldelta.core.linked_shares import Gain

MOST_WORK = 200_000_000
"""Probabilities that a search through all groups may compute."""

_LEAST = 1e-12
"""What a reference that excludes a value is taken to say of it, because a release may show it."""


def posterior(
    prior: NDArray[np.float64],
    counts: Sequence[NDArray[np.int64]],
    masses: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """The probability of each value, for somebody who is in all releases.

    Args:
        prior: P(s | q) for each cell: cells x values. Rows need not sum to 1.
        counts: Per release n_j(c_j, s), in the same cells.
        masses: Per release P(c_j, s), or anything proportional to it within a row.

    Returns:
        Cells x values; rows sum to 1, or are 0 where no value is possible.
    """
    for table, mass in zip(counts, masses, strict=True):
        if ((table > 0) & ~(mass > 0)).any():
            raise DistributionError(
                "A release shows a value that has probability 0.",
                found=f"{int(((table > 0) & ~(mass > 0)).sum())} cells.",
                remedy="Use a distribution that gives every value that occurs a positive probability.",
            )
    possible = prior > 0
    for table in counts:
        possible = possible & (table > 0)
    # In logarithms: a product over many releases leaves the range of floating point.
    with np.errstate(divide="ignore"):
        log_weight = np.where(possible, np.log(np.where(possible, prior, 1.0)), -np.inf)
        for table, mass in zip(counts, masses, strict=True):
            log_weight += np.log(np.where(possible, table, 1)) - np.log(np.where(possible, mass, 1.0))
    return _normalized(log_weight)


def _normalized(log_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of logarithms as distributions; a row without any weight is 0."""
    highest = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - np.where(np.isfinite(highest), highest, 0.0))
    total = weight.sum(axis=1, keepdims=True)
    return weight / np.where(total > 0, total, 1.0)


def gain_by_bayes(
    releases: Sequence[ReleasedCounts],
    reference_of: ArrayLike,
    weights: ArrayLike,
    masses: Sequence[NDArray[np.float64]],
    *,
    most_work: int = MOST_WORK,
) -> Gain | None:
    """The largest probability of one value in any group of releases, and the largest gain; None for nobody.

    Every group is asked. If that is too much work, a bound takes its place, which is never smaller: against
    each other value on its own, the worst group holds the releases that speak against that one.

    Args:
        releases: Releases over the same cells and values.
        reference_of: The reference of each cell: P(s | q).
        weights: References x values: numbers that are proportional to the reference distribution.
        masses: Per release, for each of its classes, P(c_j, s) up to a factor.
        most_work: Probabilities that the search through all groups may compute.
    """
    prior_of = _positive(weights)
    expected = [_positive(table) for table in masses]
    of, best = np.asarray(reference_of, dtype=np.int64), LargestGain()
    n_cells, n_values = len(of), prior_of.shape[1]
    is_exact = (2 ** min(len(releases), 62) - 1) * n_cells * n_values <= most_work
    for tables, cells in parts_of(releases, numbers_each=0 if is_exact else n_values**2):
        prior = prior_of[of[cells]]
        own = [mass[item.partition.class_of[cells]] for mass, item in zip(expected, releases, strict=True)]
        if not is_exact:
            best.take(_bounds(prior, tables, own), prior)
            continue
        with np.errstate(divide="ignore"):
            ratios = [np.log(table) - np.log(mass) for table, mass in zip(tables, own, strict=True)]
        waiting = [(np.log(prior), 0)]  # every group once, from the one that lacks its last release
        while waiting:
            weight, place = waiting.pop()
            for index in range(place, len(releases)):
                with_it = weight + ratios[index]
                best.take(_uncertain(with_it), prior)
                waiting.append((with_it, index + 1))
    return best.found(is_exact=is_exact)


def _uncertain(log_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of logarithms as distributions; 1 only where no other value is possible, whatever the rounding."""
    found, several = _normalized(log_weight), np.isfinite(log_weight).sum(axis=1, keepdims=True) > 1
    return np.where(several, np.minimum(found, np.nextafter(1.0, 0.0)), found)


def smoothed(table: NDArray[np.int64], overall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Records per cell and value, with one more record per cell spread as the whole is.

    An estimate from past records gives many cells probability 0; that alone must make nobody certain.
    """
    return table + overall


def _bounds(
    prior: NDArray[np.float64], tables: NDArray[np.int64], masses: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """What the probability of each value is at most, whichever group of releases somebody is in."""
    shape = (*prior.shape, prior.shape[1])
    against = np.broadcast_to(np.log(prior)[:, None, :] - np.log(prior)[:, :, None], shape).copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        for table, mass in zip(tables, masses, strict=True):
            ratio = np.log(table) - np.log(mass)
            step = ratio[:, None, :] - ratio[:, :, None]  # of every value against each
            shows = (table > 0)[:, :, None]  # nobody with another value is in this release
            against += np.where(shows, np.minimum(step, 0.0), 0.0)
    bounds: NDArray[np.float64] = 1.0 / np.exp(against).sum(axis=2)
    return np.where(tables.any(axis=0), bounds, 0.0)


def _positive(table: ArrayLike) -> NDArray[np.float64]:
    """Rows as distributions in which no value is impossible."""
    shares = np.maximum(reference_shares(table), _LEAST)
    positive: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return positive
