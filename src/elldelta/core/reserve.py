"""A reserve for those who follow: what an owner leaves in a ledger, so that later owners need not pay for it.

Theorem F admits a release while every base class keeps ell values that no release misses. An owner who
publishes as finely as that allows may use up what the next one needs. With a reserve it publishes a union
only if, besides, the chance is small enough that those who follow leave fewer than ell values in the same
union. Safety never depends on it: the chance is computed from the plan's P, and decides only who pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.checks import check_real, check_whole
from elldelta.core.distribution import frozen
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.certificate import CertificateTerms

RESERVE_RISK = 0.5
"""The usual rho. Measured on Adult: with 0.3 the first owner loses more than the last, with 0.8 less."""


@dataclass(frozen=True, eq=False)
class Reserve:
    """What must remain likely for those who follow: that they can publish the same union.

    Attributes:
        expected: R x |S|: the records that one of them expects in a base class, read-only.
        followers: How many owners are still expected.
        risk: rho, the largest chance that fewer than ell of the values that survive so far in a base class
            also survive them all, if they publish it in the same union.
    """

    expected: NDArray[np.float64]
    followers: int
    risk: float

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
        return cls(frozen(n_records * table, np.float64), followers, risk)
