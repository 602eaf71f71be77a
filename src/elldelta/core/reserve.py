"""A reserve for those who follow: what an owner leaves in a ledger, so that later owners need not pay for it.

Theorem F admits a release while every base class keeps ell values that no release misses. An owner who
publishes as finely as that allows may use up what the next one needs. With a reserve it publishes a union
only if, besides, the chance that those who follow leave fewer than ell values is small enough. Safety never
depends on it: the chance is computed from the plan's P, and decides only who pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import read_only
from elldelta.core.checks import check_real, check_whole
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.certificate import CertificateTerms

RESERVE_RISK = 0.5
"""The usual rho. Measured on Adult: with 0.3 the first owner loses more than the last, with 0.8 less."""


@dataclass(frozen=True, eq=False)
class Reserve:
    """What must remain likely for those who follow.

    Attributes:
        survival: R x |S|: the chance that no owner who follows misses a value in a base class, read-only.
        risks: The largest chance, per base class, that fewer than ell of the values that survive so far also
            survive those who follow, read-only.
    """

    survival: NDArray[np.float64]
    risks: NDArray[np.float64]

    @classmethod
    def keep(
        cls,
        cells: ArrayLike,
        terms: CertificateTerms,
        *,
        n_records: int,
        followers: int,
        risk: float = RESERVE_RISK,
    ) -> Reserve | None:
        """The reserve for so many owners who follow; None if nobody does.

        Where the chance is not small even if this owner showed every value that survives, it may reach the
        middle between that and certainty: no owner has to keep more than half of what there is.

        Args:
            cells: P(c, s) of the plan, R x |S|; 0 where the plan does not tell it.
            terms: What the ledger has left (`LedgerState.terms_left`); its witnesses are the survivors.
            n_records: The records of each owner who follows.
            followers: How many owners are still expected.
            risk: rho, the largest chance that they leave fewer than ell values.
        """
        followers = check_whole("the number of owners still expected", followers, 0)
        risk = check_real(
            risk, lambda rho: 0.0 < rho < 1.0, "The risk of a reserve must lie between 0 and 1."
        )
        if followers == 0:
            return None
        table = np.asarray(cells, dtype=np.float64)
        if table.shape != terms.membership.shape:
            raise ParameterError(
                "A reserve needs P for every base class and value.",
                found=f"Shapes {table.shape} and {terms.membership.shape}.",
            )
        survival = np.where(terms.membership, (-np.expm1(-n_records * table)) ** followers, 0.0)
        reach = _fewer_than(survival, terms.ell)
        return cls(
            read_only(survival, np.float64), read_only(np.maximum(risk, 0.5 + 0.5 * reach), np.float64)
        )


def _fewer_than(survival: NDArray[np.float64], ell: int) -> NDArray[np.float64]:
    """The chance that fewer than ell values survive, per row: a Poisson-binomial tail."""
    chances = np.zeros((survival.shape[0], ell))
    chances[:, 0] = 1.0
    for column in np.ascontiguousarray(survival.T):
        chances[:, 1:] += column[:, None] * (chances[:, :-1] - chances[:, 1:])
        chances[:, 0] *= 1.0 - column
    total: NDArray[np.float64] = chances.sum(axis=1)
    return total
