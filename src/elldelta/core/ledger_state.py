"""What all releases of a plan together no longer show (Theorem F).

A certificate promises t releases because it must assume the worst of the others. Whoever sees the releases
in order knows better. Let M_j(c) be the witnesses of base class c that release j misses. As long as A_c
without the union of all M_j(c) has at least ell values, in every base class, every subset of the releases
links to at least ell values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import CertificateTerms, read_only
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class LedgerState:
    """The union of what the admitted releases miss.

    Attributes:
        terms: The plan's witnesses, ell, and records that make a witness present.
        missed: R x |S|: witnesses that at least one admitted release does not show, read-only.
        n_releases: How many releases were admitted.
    """

    terms: CertificateTerms
    missed: NDArray[np.bool_]
    n_releases: int = 0

    def __post_init__(self) -> None:
        missed = self._check(self.missed)
        if (self.terms.n_witnesses - missed.sum(axis=1) < self.terms.ell).any():
            raise ParameterError("A ledger must leave ell witnesses in every base class.")
        object.__setattr__(self, "missed", missed)

    @classmethod
    def empty(cls, terms: CertificateTerms) -> LedgerState:
        """The state before the first release."""
        return cls(terms, np.zeros(terms.membership.shape, dtype=np.bool_))

    @cached_property
    def survivors(self) -> NDArray[np.bool_]:
        """R x |S|: witnesses that every admitted release shows wherever it has a record."""
        return read_only(self.terms.membership & ~self.missed, np.bool_)

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """How many more witnesses each base class can lose: its survivors beyond ell."""
        return read_only(self.survivors.sum(axis=1) - self.terms.ell, np.int64)

    def shortfall(self, misses: ArrayLike) -> NDArray[np.int64]:
        """By how much each base class would fall below ell with one more release; 0 where it would not."""
        missed = self._check(misses)
        left = (self.survivors & ~missed).sum(axis=1)
        short: NDArray[np.int64] = np.maximum(0, self.terms.ell - left).astype(np.int64)
        return short

    def admits(self, misses: ArrayLike) -> bool:
        """Whether Theorem F would still hold with one more release."""
        return not self.shortfall(misses).any()

    def admit(self, misses: ArrayLike) -> LedgerState:
        """The state with one more release; this one stays as it is.

        Args:
            misses: M(c) of the release, R x |S|, as `Certificate.missed` tells it.

        Raises:
            RefusedError: Some base class would be left with fewer than ell witnesses.
        """
        missed = self._check(misses)
        n_below = int((self.shortfall(missed) > 0).sum())
        if n_below:
            raise RefusedError(
                f"Together with the releases in the ledger this one could show fewer than {self.terms.ell} "
                "values.",
                found=f"{n_below} of {self.terms.n_classes} base classes would fall below "
                f"ell = {self.terms.ell} after {self.n_releases} admitted releases.",
                remedy="Publish coarser classes (merge until it is admitted), leave the records of these "
                "classes out, or wait for a size or date that was announced beforehand.",
            )
        return LedgerState(self.terms, self.missed | missed, self.n_releases + 1)

    def terms_left(self) -> CertificateTerms:
        """What the next release must show to be admitted, as terms of a certificate.

        A release is certified under these terms exactly if Theorem F admits it: the witnesses are the
        survivors, and each base class may miss as many of them as it has room. So whatever merges or
        suppresses for a certificate also does so for a ledger.
        """
        return CertificateTerms(
            self.survivors, self.room, self.terms.ell, releases=1, min_records=self.terms.min_records
        )

    def _check(self, misses: ArrayLike) -> NDArray[np.bool_]:
        missed = read_only(misses, np.bool_)
        if missed.shape != self.terms.membership.shape:
            raise ParameterError(
                f"The ledger is about {self.terms.n_classes} base classes and "
                f"{self.terms.n_values} sensitive values.",
                found=f"Misses of the shape {missed.shape}.",
            )
        if (missed & ~self.terms.membership).any():
            raise ParameterError(
                "Only witnesses can be missed.", found="A missed value is no witness of its class."
            )
        return missed
