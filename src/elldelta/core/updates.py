"""What an adversary may know of tables that an owner publishes again and again (Theorem I).

New minus old counts of a class is what the joiners brought minus what the leavers took; whoever tells these
apart also sees those who stayed. So an update shows up to three more tables per class: joiners, leavers,
stayers. Somebody with one stay is in every whole table that is used, in at most one group of joiners, in at
most one later group of leavers, and among the stayers in between. What none of these misses survives.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.certificate import missing_witnesses, read_only
from elldelta.core.checks import check_whole
from elldelta.errors import ParameterError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.core.partition import Partition
    from elldelta.core.several import Terms

MOST_UNIONS = 1_000_000
"""How many ways to come and go are looked at; beyond them a ledger is refused, not believed."""

MOST_STAYS = MOST_AT_ONCE = 100
"""More stays, or owners at once, are not promised: nothing could ever be published again."""


def check_rules(at_once: object, stays: object) -> tuple[int, int]:
    """Returns owners at once and stays of a promise, if they are whole numbers in their range."""
    return (
        check_whole("the number of owners whose changes are known", at_once, 1, MOST_AT_ONCE),
        check_whole("the number of stays", stays, 1, MOST_STAYS),
    )


def chance_of_change(
    cells: NDArray[np.float64], ell: int, n_records: int, turnover: float, min_records: int = 1
) -> NDArray[np.float64]:
    """The chance that a class can change in one update, by Theorem I; an estimate, one number per class.

    Of N records a share comes, as many go, the rest stays, all drawn from P. A value survives if none of the
    three groups misses it; the number of survivors is a sum of independent terms, which must reach ell.

    Args:
        cells: P of every class and value; values that are no witnesses count as impossible.
        ell: Values to be left.
        n_records: N.
        turnover: The share that comes, and that goes.
        min_records: Records with which a value counts as present.
    """
    from scipy.stats import poisson

    survives = np.ones_like(cells)
    for share in (turnover, turnover, 1.0 - turnover):
        survives *= poisson.sf(min_records - 1, share * n_records * cells)
    fewer = np.zeros((cells.shape[0], ell))  # the chances that 0, 1, ... ell - 1 survive
    fewer[:, 0] = 1.0
    for own in survives.T[:, :, None]:
        fewer = fewer * (1.0 - own) + np.pad(fewer, ((0, 0), (1, 0)))[:, :-1] * own
    chances: NDArray[np.float64] = np.maximum(0.0, 1.0 - fewer.sum(axis=1))
    return chances


@dataclass(frozen=True, eq=False)
class Groups:
    """Records of one update by published class and value, apart by what became of them.

    Attributes:
        joiners: Records that came since the class was last published.
        leavers: Records that went.
        stayers: Records that are in both. A class without joiners and leavers has not changed.
    """

    joiners: NDArray[np.int64]
    leavers: NDArray[np.int64]
    stayers: NDArray[np.int64]

    @property
    def changes(self) -> NDArray[np.bool_]:
        """Whether a class changes, one bool per published class."""
        changed: NDArray[np.bool_] = np.any(self.joiners + self.leavers, axis=1)
        return changed

    def only(self, classes: NDArray[np.bool_]) -> Groups:
        """The same where only some classes change; the others stay as they were last published."""
        kept = np.where(classes, 1, 0)[:, np.newaxis]
        return Groups(self.joiners * kept, self.leavers * kept, self.stayers * kept)

    def missed(self, terms: Terms, grouping: Partition) -> Update:
        """What each of the groups misses of the witnesses of every base class; nothing where it is empty."""
        changed = self.only(self.changes)
        return Update(
            *(
                read_only(missing_witnesses(group, terms, grouping), np.bool_)
                for group in (changed.joiners, changed.leavers, changed.stayers)
            )
        )


@dataclass(frozen=True, eq=False)
class Update:
    """What the groups of one update miss, R x |S| each: M_J, M_L, and the misses of the stayers."""

    joiners: NDArray[np.bool_]
    leavers: NDArray[np.bool_]
    stayers: NDArray[np.bool_]

    def of(self, values: slice) -> Update:
        """The same about some of the values."""
        return Update(self.joiners[:, values], self.leavers[:, values], self.stayers[:, values])

    def beside(self, others: Sequence[Update]) -> Update:
        """The same about the values of this one, then about those of the others."""
        every = [(each.joiners, each.leavers, each.stayers) for each in (self, *others)]
        return Update(*(np.concatenate(group, axis=1) for group in zip(*every, strict=True)))


@dataclass(frozen=True, eq=False)
class Series:
    """The updates of all owners of a ledger, and what an adversary may know of them.

    Attributes:
        updates: Per owner its updates, in their order.
        at_once: w: at how many owners the adversary may know when a person came and went.
        stays: v: how often a person may have been in an owner's table, with gaps in between.
    """

    updates: Mapping[str, Sequence[Update]]
    at_once: int = 1
    stays: int = 1

    def __post_init__(self) -> None:
        check_rules(self.at_once, self.stays)
        object.__setattr__(self, "updates", {owner: tuple(own) for owner, own in self.updates.items() if own})
        # Every choice of owners, times the ways at each: added up one owner after the other.
        n_known = min(self.at_once, len(self.updates))
        unions = [1, *[0] * n_known]
        for own in self.updates.values():
            n_ways = _n_ways(len(own), self.stays)
            for chosen in range(n_known, 0, -1):
                unions[chosen] += unions[chosen - 1] * n_ways
        n_unions = unions[n_known]
        if n_unions > MOST_UNIONS:
            raise RefusedError(
                "There are too many ways in which people may have come and gone to look at all of them.",
                found=f"{n_unions:,} ways, with {self.stays} stays and {self.at_once} owners at once.",
                remedy="Begin a new plan and ledger, or promise fewer stays or owners at once.",
            )

    def with_update(self, owner: str, update: Update) -> Series:
        """The same with one more update of an owner."""
        updates = {**self.updates, owner: (*self.updates.get(owner, ()), update)}
        return Series(updates, self.at_once, self.stays)

    def of(self, values: slice) -> Series:
        """The same about some of the values: those of one of several sensitive columns."""
        updates = {owner: [update.of(values) for update in own] for owner, own in self.updates.items()}
        return Series(updates, self.at_once, self.stays)

    def most_missed(self, missed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many witnesses of each base class may be crossed out, at the worst (Theorem I). Exact.

        Args:
            missed: U without stayers: what whole tables miss, R x |S|.
        """
        shape = missed.shape
        whole = _packed(missed)
        most = _number(whole)
        ways = [list(_ways(own, self.stays, shape)) for own in self.updates.values()]
        for known in combinations(ways, min(self.at_once, len(ways))):
            for groups in product(*known):
                union = whole
                for group in groups:
                    union = union | group
                np.maximum(most, _number(union), out=most)
        return most


NO_SERIES = Series({})
"""What a ledger begins with: nobody has published again."""


def _ways(updates: Sequence[Update], stays: int, shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    """What is crossed out for somebody who came and went in each possible way, packed; with all stayers."""
    if any(group.shape != shape for one in updates for group in (one.joiners, one.leavers, one.stayers)):
        raise ParameterError("Updates of a ledger are about the same base classes and values.")
    stayers = _packed(np.logical_or.reduce([one.stayers for one in updates]))
    joiners = [_packed(one.joiners) for one in updates]
    leavers = [_packed(one.leavers) for one in updates]

    def on(union: NDArray[np.uint8], first: int, is_in: bool, left: int) -> Iterator[NDArray[np.uint8]]:
        """All that may follow: who is in may leave, who is out may join if it has a stay left."""
        yield union
        for at in range(first, len(updates)):
            if is_in:
                yield from on(union | leavers[at], at + 1, False, left)
            elif left:
                yield from on(union | joiners[at], at + 1, True, left - 1)

    yield from on(stayers, 0, True, stays - 1)  # in the table from the beginning
    for at in range(len(updates)):
        yield from on(stayers | joiners[at], at + 1, True, stays - 1)


def _n_ways(n_updates: int, stays: int) -> int:
    """How many unions `_ways` yields."""
    # Per number of events: chosen in rising order, alternating; somebody who begins outside has them all.
    from math import comb

    inside = sum(comb(n_updates, events) for events in range(min(2 * stays, n_updates + 1)))
    outside = sum(comb(n_updates, events) for events in range(1, min(2 * stays, n_updates) + 1))
    return inside + outside


def _packed(missed: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(missed, axis=1)


def _number(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    number: NDArray[np.int64] = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
    return number
