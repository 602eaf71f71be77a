"""What all releases of a plan together have left of its promises (Theorems F, G, H and I).

A certificate promises t releases because it must assume the worst of the others. Whoever sees the releases
in order knows better. Let M_j(c) be the witnesses of base class c that release j misses. As long as A_c
without the union of all M_j(c) has at least ell values, in every base class, every subset of the releases
links to at least ell values (Theorem F). Of closeness the smallest shares f_j(s) are kept: as long as
E = sum_s max_j (pi_c(s) - f_j(s))^+ is at most T, every subset stays within T of the references (Theorem G).

Somebody who moves among classes R meets what one release misses in one class and another release in another.
For them either of two is enough (Theorem H): A without what any release misses in any class of R has at least
ell values, or |A| less the most that each release misses in a class of R, added up, is at least ell.

Where owners publish again after people came and went, what the groups of these updates miss is crossed out
beside it (Theorem I, `elldelta.core.updates`).

Somebody may decide without seeing some of the releases (`LedgerState.beside_unseen`). Each of these is
certified, so it misses at most b_c and is at most T / t away: that much is added for it, and the answer tells
nothing about it. Where a release adds nothing to what is known, it is admitted whatever the others show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import certify
from elldelta.core.closeness import SmallestShares
from elldelta.core.distribution import frozen
from elldelta.core.partition import max_over_range, union_over_range
from elldelta.core.promises import LATER, Close, Shown, Values
from elldelta.core.updates import NO_SERIES, Series, Update
from elldelta.errors import ParameterError, RefusedError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from elldelta.core.promises import Promise


@dataclass(frozen=True, eq=False)
class Missed:
    """What releases miss of the witnesses of one column: all that a ledger remembers for a promise of values.

    Attributes:
        union: R x |S|: witnesses that at least one release does not show, read-only.
        ranges: Per base class the number of the classes among which somebody may move; None: nobody moves.
        by_number: Where people move: per base class what one class that they may move to misses at most,
            added up over the releases, read-only; None where nobody moves.
        series: What owners have changed in tables that they published again; only where nobody moves.
    """

    union: NDArray[np.bool_]
    ranges: NDArray[np.int64] | None = None
    by_number: NDArray[np.int64] | None = None
    series: Series = NO_SERIES

    def __post_init__(self) -> None:
        union = frozen(self.union, np.bool_, copy=True)
        object.__setattr__(self, "union", union)
        if self.ranges is None:
            return
        number = np.zeros_like(self.ranges) if self.by_number is None else self.by_number
        # Added up over releases, what the worst class misses is at least what any class misses in all.
        least = max_over_range(union.sum(axis=1), self.ranges)
        if number.shape != least.shape or (number < least).any():
            raise ParameterError("What releases miss where people move does not fit what they miss.")
        object.__setattr__(self, "by_number", frozen(number, np.int64, copy=True))
        if self.series.updates:
            raise ParameterError("Tables whose people move among classes are not published again.")

    @classmethod
    def nothing(cls, shape: tuple[int, ...], ranges: NDArray[np.int64] | None = None) -> Missed:
        """Before the first release of a plan with so many classes and values."""
        return cls(np.zeros(shape, dtype=np.bool_), ranges)

    def joined(self, missed: NDArray[np.bool_]) -> Missed:
        """With one more release that misses this, R x |S|."""
        number = self.by_number
        if self.ranges is not None and number is not None:
            number = number + max_over_range(missed.sum(axis=1), self.ranges)
        return replace(self, union=self.union | missed, by_number=number)

    def with_update(self, owner: str, update: Update) -> Missed:
        """With one more change of an owner's table."""
        return replace(self, series=self.series.with_update(owner, update))

    def added_by(self, missed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """In which base classes one more release, or group, that misses this may cross out more than before.

        Where nobody moves: where it misses what no other release misses.
        """
        if self.ranges is None:
            found: NDArray[np.bool_] = np.any(missed & ~self.union, axis=1)
            return found
        return max_over_range(np.any(missed, axis=1, keepdims=True).sum(axis=1), self.ranges) > 0

    @cached_property
    def n_lost(self) -> NDArray[np.int64]:
        """How many witnesses of each base class somebody can lose at the worst (Theorems F, H and I). Exact.

        By the better of two counts where people move.
        """
        lost = self.series.most_missed(union_over_range(self.union, self.ranges))
        return lost if self.by_number is None else np.minimum(lost, self.by_number)


@dataclass(frozen=True, eq=False)
class LinkedValues:
    """A promise of values to everybody who is in any releases of a ledger, decided exactly.

    What Theorems H and I ask for is not how many witnesses one release misses in a class, so that it is a
    promise beside `Values`.

    Attributes:
        promise: What the plan promises.
        missed: What the admitted releases miss.
        unseen: How many witnesses of each base class releases that are not among these miss at most; None:
            there are none.
    """

    promise: Values
    missed: Missed
    unseen: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        witnesses, missed = self.promise.witnesses, self.missed.union
        if missed.shape != witnesses.shape:
            raise ParameterError(
                f"The ledger is about {counted(witnesses.shape[0], 'base class', 'base classes')} "
                f"and {counted(witnesses.shape[1], 'sensitive value')}.",
                found=f"Misses of the shape {missed.shape}.",
            )
        if (missed & ~witnesses).any():
            raise ParameterError(
                "Only witnesses can be missed.", found="A missed value is no witness of its class."
            )

    @property
    def values(self) -> slice:
        """Where the values of its column stand in a table of counts."""
        return self.promise.values

    @cached_property
    def room(self) -> NDArray[np.int64]:
        """How many more witnesses each base class can lose: what is left beyond ell; below 0 none."""
        unseen = 0 if self.unseen is None else self.unseen
        return frozen(self.promise.n_witnesses - self.missed.n_lost - unseen - self.promise.ell, np.int64)

    @property
    def shortfall(self) -> NDArray[np.int64]:
        """By how much each base class is below ell; 0 where it is not."""
        short: NDArray[np.int64] = np.maximum(0, -self.room)
        return short

    def violation(self, shown: Shown) -> NDArray[np.int64]:
        """By how much each base class would fall below ell with one more release; 0 where it would not."""
        added = self.missed.added_by(self.promise.missed(shown))
        return np.where(added, self.after(shown).shortfall, 0)

    def violation_of_update(self, owner: str, update: Update) -> NDArray[np.int64]:
        """By how much each base class would fall below ell if an owner's table had changed so."""
        groups = update.of(self.values)
        added = self.missed.added_by(groups.joiners | groups.leavers | groups.stayers)
        return np.where(added, self.with_update(owner, update).shortfall, 0)

    def after(self, shown: Shown) -> LinkedValues:
        """The promise with one more release."""
        return replace(self, missed=self.missed.joined(self.promise.missed(shown)))

    def with_update(self, owner: str, update: Update) -> LinkedValues:
        """The promise in which an owner has changed its table so, told over the values of all columns."""
        return replace(self, missed=self.missed.with_update(owner, update.of(self.values)))

    @property
    def broken(self) -> str:
        """What it is called where it is broken."""
        return self.promise.broken

    def words(self, violation: NDArray[Any]) -> str:
        """How many classes break it."""
        return self.promise.words(violation)

    def left(self) -> Values:
        """What the next release must show to be admitted, class by class.

        A release keeps it exactly if Theorem F admits it: the witnesses are the survivors, and each base
        class may miss as many of them as it has room. So whatever makes classes pass a certificate makes them
        fit a ledger. With updates it asks for a little more than Theorem I does: for how many survivors, not
        for which.

        Where people move, such a release is admitted, and others may be: all witnesses count as long as each
        release may miss one more of them in its worst class. Afterwards the first ell survivors must all be
        shown: then no union of misses takes them away.
        """
        promise = self.promise
        survivors = promise.witnesses & ~union_over_range(self.missed.union, promise.ranges)
        if self.missed.by_number is None:
            return promise.with_room(survivors, np.maximum(0, self.room))
        unseen = 0 if self.unseen is None else self.unseen
        spare = promise.n_witnesses - self.missed.by_number - unseen - promise.ell
        by_number = (spare > 0) | (survivors.sum(axis=1) < promise.ell) | (self.unseen is not None)
        firsts = survivors & (np.cumsum(survivors, axis=1) <= promise.ell)
        return promise.with_room(
            np.where(by_number[:, None], promise.witnesses, firsts),
            np.where(by_number, np.maximum(0, spare), 0),
        )


@dataclass(frozen=True, eq=False)
class LedgerState:
    """What the admitted releases have left of a plan's promises: a reduce over the lines of a ledger.

    Attributes:
        promises: What the plan promises, each release by itself.
        linked: What releases share of it, of all of them together, decided exactly: values and closeness.
        n_releases: How many releases were admitted.
        n_unseen: How many of them count with the most that they may miss, because nobody here sees them.
    """

    promises: tuple[Promise, ...]
    linked: tuple[Promise, ...]
    n_releases: int = 0
    n_unseen: int = 0

    @classmethod
    def empty(cls, promises: Sequence[Promise]) -> LedgerState:
        """The state before the first release."""
        return cls.of(
            promises,
            [
                Missed.nothing(promise.witnesses.shape, promise.ranges)
                for promise in promises
                if isinstance(promise, Values)
            ],
            [
                SmallestShares.none(*promise.references.shape)
                for promise in promises
                if isinstance(promise, Close)
            ],
        )

    @classmethod
    def of(
        cls,
        promises: Sequence[Promise],
        missed: Sequence[Missed],
        smallest: Sequence[SmallestShares],
        n_releases: int = 0,
    ) -> LedgerState:
        """The state that lines tell.

        Args:
            promises: What the plan promises.
            missed: For every promise of values what the releases miss.
            smallest: For every promise of closeness the smallest shares that they show.
            n_releases: How many releases there are.

        Raises:
            ParameterError: The releases do not keep what is promised, or miss what is no witness.
        """
        of_values, of_shares = iter(missed), iter(smallest)
        linked: list[Promise] = []
        for promise in promises:
            if isinstance(promise, Values):
                values = LinkedValues(promise, next(of_values))
                is_broken = values.shortfall.any()
                linked.append(values)
            elif isinstance(promise, Close):
                close = promise.beside(next(of_shares))
                is_broken = close.violation(close.nobody).any()
                linked.append(close)
            else:
                continue
            if is_broken:
                raise ParameterError(
                    "A ledger must leave ell witnesses in every base class, and stay close to its reference."
                )
        return cls(tuple(promises), tuple(linked), n_releases)

    def beside_unseen(self, n_unseen: int, *, with_updates: bool = False) -> LedgerState:
        """The state if more releases were admitted that are not seen, each of them certified.

        Args:
            n_unseen: How many.
            with_updates: Whether a table that is published again is among them. What its groups miss has no
                limit but what is left.
        """
        linked: list[Promise] = []
        for one in self.linked:
            if isinstance(one, LinkedValues):
                promise = one.promise
                unseen = promise.n_witnesses if with_updates else n_unseen * promise.allowances
                linked.append(replace(one, unseen=np.minimum(unseen, promise.n_witnesses)))
            elif isinstance(one, Close):
                planned = next(
                    each for each in self.promises if isinstance(each, Close) and each.values == one.values
                )
                linked.append(replace(one, unseen=n_unseen * planned.allowed))
        return replace(self, linked=tuple(linked), n_releases=self.n_releases + n_unseen, n_unseen=n_unseen)

    @cached_property
    def rooms(self) -> tuple[NDArray[np.int64], ...]:
        """For every promise of values how many more witnesses each base class can lose."""
        return tuple(one.room for one in self.linked if isinstance(one, LinkedValues))

    def violations(self, shown: Shown, update: tuple[str, Update] | None = None) -> tuple[NDArray[Any], ...]:
        """By how much every promise would be broken with one more release; exactly.

        Args:
            shown: What it shows.
            update: If it is a table that its owner publishes again: the owner, and what has changed.
        """
        if update is None:
            return certify(self.linked, shown).violations
        changed = (
            one.violation_of_update(*update) if isinstance(one, LinkedValues) else 0 for one in self.linked
        )
        afterwards = certify(self._updated(*update).linked, shown).violations
        return tuple(np.maximum(*both) for both in zip(changed, afterwards, strict=True))

    def admits(self, shown: Shown) -> bool:
        """Whether every promise would still be kept with one more release (Theorems F, G, H and I)."""
        return not any(violation.any() for violation in self.violations(shown))

    def admit(self, shown: Shown) -> LedgerState:
        """The state with one more release; this one stays as it is.

        Raises:
            RefusedError: A promise would be broken.
        """
        violations = certify(self.linked, shown).violations
        broken = [one for one, by in zip(self.linked, violations, strict=True) if by.any()]
        if broken:
            raise self._refusal("Together with the releases in the ledger this one would break", broken)
        return replace(
            self,
            linked=tuple(promise.after(shown) for promise in self.linked),
            n_releases=self.n_releases + 1,
        )

    def with_update(self, owner: str, update: Update) -> LedgerState:
        """The state in which an owner has changed its table so; its new whole table is admitted as any other.

        Raises:
            RefusedError: Whoever knows who came and went could be left with fewer than ell witnesses.
        """
        broken = [
            one
            for one in self.linked
            if isinstance(one, LinkedValues) and one.violation_of_update(owner, update).any()
        ]
        if broken:
            raise self._refusal("Whoever knows when people came and went would be told more than", broken)
        return self._updated(owner, update)

    def _refusal(self, what: str, broken: Sequence[Promise]) -> RefusedError:
        """The refusal that says which promises would be broken, and nothing about the other releases."""
        promises = " ".join(f"{one.broken}." for one in broken)
        unseen = (
            f" {counted(self.n_unseen, 'release is', 'releases are')} not published yet, and "
            f"{'counts' if self.n_unseen == 1 else 'count'} with the most that the plan lets a release miss."
            if self.n_unseen
            else ""
        )
        return RefusedError(f"{what} what the plan promises.", found=promises + unseen, remedy=LATER)

    def _updated(self, owner: str, update: Update) -> LedgerState:
        linked = tuple(
            one.with_update(owner, update) if isinstance(one, LinkedValues) else one for one in self.linked
        )
        return replace(self, linked=linked)

    def left(self) -> tuple[Promise, ...]:
        """What the next release must show to be admitted, as promises that every class keeps by itself."""
        alone = (promise for promise in self.promises if not isinstance(promise, Values | Close))
        return (*(one.left() if isinstance(one, LinkedValues) else one for one in self.linked), *alone)
