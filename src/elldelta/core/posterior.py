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

from elldelta.errors import DistributionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CONDITION = (
    "independent remainders: the records of other people are independent draws from P in every release, "
    "and no other person is in two of them"
)


def posterior(
    prior: NDArray[np.float64],
    counts: Sequence[NDArray[np.int64]],
    masses: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """The adversary's belief about each value, for somebody who is in all releases.

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
    highest = log_weight.max(axis=1, keepdims=True)
    weight = np.where(possible, np.exp(log_weight - np.where(np.isfinite(highest), highest, 0.0)), 0.0)
    total = weight.sum(axis=1, keepdims=True)
    return weight / np.where(total > 0, total, 1.0)


def smoothed(table: NDArray[np.int64], overall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Records per cell and value, with one more record per cell spread as the whole is.

    An estimate from past records gives many cells probability 0; that alone must make nobody certain.
    """
    return table + overall
