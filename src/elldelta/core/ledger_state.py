"""What all releases of a plan together no longer show, and have used of its closeness (Theorems F and G).

A certificate promises t releases because it must assume the worst of the others. Whoever sees the releases
in order knows better. Let M_j(c) be the witnesses of base class c that release j misses. As long as A_c
without the union of all M_j(c) has at least ell values, in every base class, every subset of the releases
links to at least ell values. Where the plan promises closeness, the smallest shares f_j(s) are kept besides:
as long as E = sum_s max_j (pi_c(s) - f_j(s))^+ is at most T in every base class, every subset of the releases
stays within T of the plan's references.

Somebody who moves among classes R meets what one release misses in one class and another release in another.
For them either of two is enough (Theorem H): A without what any release misses in any class of R has at least
ell values, or |A| less the most that each release misses in a class of R, added up, is at least ell.

Where owners publish again after people came and went, what the groups of these updates miss is crossed out
beside it (Theorem I, `elldelta.core.updates`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import LATER
from elldelta.core.closeness import SmallestShares
from elldelta.core.distribution import frozen
from elldelta.core.partition import Partition
from elldelta.core.updates import NO_SERIES, Series, Update
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from elldelta.core.certificate import CertificateTerms
    from elldelta.core.closeness import ClosenessTerms

    Shown = tuple[NDArray[np.int64], Partition]
    """What a release shows: records by published class and value, and the published class of base classes."""


@dataclass(frozen=True, eq=False)
class LedgerState:
    """What the admitted releases miss together, and the smallest shares that any of them shows.

    Attributes:
        terms: The plan's witnesses, ell, and records that make a witness present.
        missed: R x |S|: witnesses that at least one admitted release does not show, read-only.
        n_releases: How many releases were admitted.
        spent: Where people move: per base class what one class that they may move to misses at most, added
            up over the releases, read-only; None where nobody moves.
        smallest: Where closeness is promised, the smallest share of every value in every base class.
        series: What owners have changed in tables that they published again; only where nobody moves.
    """

    terms: CertificateTerms
    missed: NDArray[np.bool_]
    n_releases: int = 0
    spent: NDArray[np.int64] | None = None
    smallest: SmallestShares | None = None
    series: Series = NO_SERIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "missed", self._check(self.missed))
        if self.terms.moves is not None:
            spent = frozen(
                np.zeros_like(self.terms.moves) if self.spent is None else self.spent, np.int64, copy=True
            )
            # Added up over releases, what the worst class misses is at least what any class misses in all.
            least = most(self.missed.sum(axis=1), self.terms.moves)
            if spent.shape != least.shape or (spent < least).any():
                raise ParameterError("What releases miss where people move does not fit what they miss.")
            object.__setattr__(self, "spent", spent)
            if self.series.updates:
                raise ParameterError("Tables whose people move among classes are not published again.")
        if (self.room < 0).any():
            raise ParameterError("A ledger must leave ell witnesses in every base class.")
        if self.terms.closeness is None:
            object.__setattr__(self, "smallest", None)
            return
        if self.smallest is None:
            object.__setattr__(self, "smallest", SmallestShares.none(*self.missed.shape))
        nothing = np.zeros((1, self.terms.n_values), dtype=np.int64)
        if self.too_far((nothing, Partition.single(self.terms.n_classes))).any():
            raise ParameterError("A ledger must stay close to the reference of every base class.")

    @property
    def parts(self) -> tuple[LedgerState, ...]:
        """What is left of every sensitive column: of this one (`elldelta.core.several` has several)."""
        return (self,)

    @classmethod
    def empty(cls, terms: CertificateTerms) -> LedgerState:
        """The state before the first release."""
        return cls(terms, np.zeros(terms.membership.shape, dtype=np.bool_))

    @cached_property
    def survivors(self) -> NDArray[np.bool_]:
        """R x |S|: witnesses that every admitted release shows wherever it has a record and people may be."""
        return frozen(self.terms.membership & ~anywhere(self.missed, self.terms.moves), np.bool_)

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """How many more witnesses each base class can lose: what is left beyond ell."""
        return frozen(self._left(self.missed, self.spent) - self.terms.n_needed, np.int64)

    @cached_property
    def closeness_left(self) -> ClosenessTerms | None:
        """What the next release must keep so that all of them stay within T; None where it is not promised.

        A certificate asks each of t releases for T / t. Whoever sees all of them asks E for T itself.
        """
        closeness = self.terms.closeness
        if closeness is None or self.smallest is None:
            return None
        return closeness.with_others(self.smallest, closeness.limit * self.terms.releases)

    def too_far(self, shown: Shown | None) -> NDArray[np.bool_]:
        """Whether a base class would be further than T from its reference with one more release; exactly."""
        left = self.closeness_left
        if left is None:
            return np.zeros(self.terms.n_classes, dtype=np.bool_)
        if shown is None:
            raise ParameterError("The plan promises closeness: a ledger must know what a release shows.")
        return left.is_too_far(*shown)

    def _left(self, missed: NDArray[np.bool_], spent: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """How many values are left in each base class, at the worst for those who came and went.

        By the better of two counts where people move.
        """
        left = self.terms.n_witnesses - self.series.most_missed(anywhere(missed, self.terms.moves))
        return left if spent is None else np.maximum(left, self.terms.n_witnesses - spent)

    def shortfall(self, misses: ArrayLike) -> NDArray[np.int64]:
        """By how much each base class would fall below ell with one more release; 0 where it would not."""
        missed = self._check(misses)
        left = self._left(self.missed | missed, self._spent(missed))
        short: NDArray[np.int64] = np.maximum(0, self.terms.n_needed - left).astype(np.int64)
        return short

    def _spent(self, missed: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        if self.spent is None or self.terms.moves is None:
            return None
        spent: NDArray[np.int64] = self.spent + most(missed.sum(axis=1), self.terms.moves)
        return spent

    def admits(self, misses: ArrayLike, shown: Shown | None = None) -> bool:
        """Whether Theorems F and G would still hold with one more release."""
        return not self.shortfall(misses).any() and not self.too_far(shown).any()

    def admit(self, misses: ArrayLike, shown: Shown | None = None) -> LedgerState:
        """The state with one more release; this one stays as it is.

        Args:
            misses: M(c) of the release, R x |S|, as `Certificate.missed` tells it.
            shown: What it shows; needed where the plan promises closeness.

        Raises:
            RefusedError: Some base class would be left with fewer than ell witnesses, or be too far from its
                reference.
        """
        missed = self._check(misses)
        n_below = int((self.shortfall(missed) > 0).sum())
        if n_below:
            raise RefusedError(
                f"Together with the releases in the ledger this one could show fewer than {self.terms.ell} "
                f"values{self.terms.of_column}.",
                found=f"{n_below} of {self.terms.n_classes} base classes would fall below "
                f"ell = {self.terms.ell} after {self.n_releases} admitted releases.",
                remedy=LATER,
            )
        n_far = int(self.too_far(shown).sum())
        if n_far and self.closeness_left is not None:
            raise RefusedError(
                "Together with the releases in the ledger this one could lead further away from what the "
                f"plan says{self.terms.of_column} than was promised.",
                found=f"{n_far} of {self.terms.n_classes} base classes would be further than "
                f"{float(self.closeness_left.limit):g} from their references after {self.n_releases} "
                "admitted releases.",
                remedy=LATER,
            )
        smallest = None
        if self.smallest is not None and shown is not None:
            smallest = self.smallest.joined(*shown)
        return LedgerState(
            self.terms, self.missed | missed, self.n_releases + 1, self._spent(missed), smallest, self.series
        )

    def with_update(self, owner: str, update: Update) -> LedgerState:
        """The state in which an owner has changed its table so; its new whole table is admitted as any other.

        Raises:
            RefusedError: Whoever knows who came and went could be left with fewer than ell witnesses.
        """
        series = self.series.with_update(owner, update)
        left = self.terms.n_witnesses - series.most_missed(self.missed)
        n_below = int((left < self.terms.n_needed).sum())
        if n_below:
            raise RefusedError(
                "Whoever knows when people came and went would be left with fewer than "
                f"{self.terms.ell} values{self.terms.of_column}.",
                found=f"{n_below} of {self.terms.n_classes} base classes would fall below.",
                remedy="Publish these classes as they were last published, or leave them out.",
            )
        return replace(self, series=series)

    def terms_left(self) -> CertificateTerms:
        """What the next release must show to be admitted, as terms of a certificate.

        A release is certified under these terms exactly if Theorems F and G admit it: the witnesses are the
        survivors, each base class may miss as many of them as it has room, and closeness is what the smallest
        shares so far leave of T. So whatever makes classes pass a certificate makes them fit a ledger.
        With updates they ask for a little more than Theorem I does: for how many survivors, not for which.

        Where people move, such a release is admitted, and others may be: all witnesses count as long as each
        release may miss one more of them in its worst class. Afterwards the first ell survivors must all be
        shown: then no union of misses takes them away.
        """
        witnesses, allowances = self.survivors, self.room
        if self.spent is not None:
            spare = self.terms.n_witnesses - self.spent - self.terms.ell
            by_number = (spare > 0) | (witnesses.sum(axis=1) < self.terms.ell)
            firsts = witnesses & (np.cumsum(witnesses, axis=1) <= self.terms.ell)
            witnesses = np.where(by_number[:, None], self.terms.membership, firsts)
            allowances = np.where(by_number, spare, 0)
        return replace(
            self.terms,
            membership=witnesses,
            allowances=allowances,
            releases=1,
            closeness=self.closeness_left,
        )

    def _check(self, misses: ArrayLike) -> NDArray[np.bool_]:
        missed = frozen(misses, np.bool_, copy=True)
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


def anywhere(missed: NDArray[np.bool_], moves: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """Per base class what is missed in any class that people there may move to; None: they do not move."""
    if moves is None:
        return missed
    union = np.zeros((int(moves.max()) + 1, missed.shape[1]), dtype=np.bool_)
    np.logical_or.at(union, moves, missed)
    return union[moves]


def most(numbers: NDArray[np.int64], moves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per base class the largest number of any class that people there may move to."""
    largest = np.zeros(int(moves.max()) + 1, dtype=np.int64)
    np.maximum.at(largest, moves, numbers)
    return largest[moves]
