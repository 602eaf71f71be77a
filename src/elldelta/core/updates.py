"""What an adversary may know of tables that an owner publishes again and again (Theorem I).

New minus old counts of a class is what the joiners brought minus what the leavers took; whoever tells these
apart also sees those who stayed. So an update shows up to three more tables per class: joiners, leavers,
stayers. Somebody with one stay is in every whole table that is used, in at most one group of joiners, in at
most one later group of leavers, and among the stayers in between. What none of these misses survives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.core.promises import Shown, Values
from elldelta.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.core.partition import Partition
    from elldelta.core.promises import Promise


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

    def missed(self, promises: Sequence[Promise], grouping: Partition) -> Update:
        """What each of the groups misses of the witnesses of every base class; nothing where it is empty."""
        changed = self.only(self.changes)
        return Update(
            *(
                missed_witnesses(promises, Shown(group, grouping))
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


@dataclass(frozen=True, eq=False)
class Series:
    """The updates of all owners of a ledger, about each of which an adversary may know who came and went.

    Attributes:
        updates: Per owner its updates, in their order.
    """

    updates: Mapping[str, Sequence[Update]]

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "updates", {owner: tuple(updates) for owner, updates in self.updates.items() if updates}
        )

    def with_update(self, owner: str, update: Update) -> Series:
        """The same with one more update of an owner."""
        return Series({**self.updates, owner: (*self.updates.get(owner, ()), update)})

    def of(self, values: slice) -> Series:
        """The same about some of the values: those of one of several sensitive columns."""
        return Series(
            {owner: [update.of(values) for update in updates] for owner, updates in self.updates.items()}
        )

    def most_missed(self, missed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many witnesses of each base class may be crossed out, at the worst (Theorem I). Exact.

        Args:
            missed: U without stayers: what whole tables miss, R x |S|.
        """
        whole = _packed(missed)
        most = _number(whole)
        for updates in self.updates.values():
            for groups in _ways(updates, missed.shape):
                np.maximum(most, _number(whole | groups), out=most)
        return most


NO_SERIES = Series({})
"""What a ledger begins with: nobody has published again."""


def _ways(updates: Sequence[Update], shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    """What is crossed out for somebody who came and went in each possible way, packed; with all stayers."""
    if any(group.shape != shape for one in updates for group in (one.joiners, one.leavers, one.stayers)):
        raise ParameterError("Updates of a ledger are about the same base classes and values.")
    stayers = _packed(np.logical_or.reduce([one.stayers for one in updates]))
    leavers = [_packed(one.leavers) for one in updates]
    # In the table from the beginning, or from one of the updates on.
    begins = [(0, stayers), *((at + 1, stayers | _packed(one.joiners)) for at, one in enumerate(updates))]
    for first, since in begins:
        yield since
        for gone in leavers[first:]:
            yield since | gone


def _packed(missed: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(missed, axis=1)


def _number(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    number: NDArray[np.int64] = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
    return number


def missed_witnesses(promises: Sequence[Promise], shown: Shown) -> NDArray[np.bool_]:
    """What a release misses of the witnesses of all columns, R x |S|: what a ledger remembers of it."""
    shape = (shown.grouping.n_quasi_identifiers, shown.counts.shape[1])
    missed = np.zeros(shape, dtype=np.bool_)
    for promise in promises:
        if isinstance(promise, Values):
            missed[:, promise.values] = promise.missed(shown)
    return frozen(missed, np.bool_)
