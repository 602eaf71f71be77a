"""What the releases of a ledger miss together, and what deciding about one more must know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.closeness import SmallestShares
from elldelta.core.ledger_state import LedgerState, Missed
from elldelta.ledger.lines import missed_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elldelta.core.promises import Promise
    from elldelta.core.updates import Update
    from elldelta.ledger.lines import LedgerEntry, LedgerHeader


@dataclass(frozen=True, eq=False)
class LedgerSnapshot:
    """What deciding about one more release must know of a ledger: where it ends, and what is left.

    Attributes:
        state: What the releases so far miss together.
        n_lines: How many lines there are; the next one has this sequence number.
        head: The hash of the last line.
        known: The line of this very release, if it is in the ledger already.
        last: The last release of its owner; None if there is none.
    """

    state: LedgerState
    n_lines: int
    head: str
    known: LedgerEntry | None = None
    last: LedgerEntry | None = None


@dataclass(frozen=True, eq=False)
class LedgerTotals:
    """What the releases of a ledger miss together, and their smallest shares: a reduce over the lines.

    Attributes:
        header: The first line.
        misses: For every promise of values what whole tables miss.
        smallest: For every promise of closeness the smallest shares.
        updates: Of tables that were published again, the number of each line, its owner, and what its groups
            miss.
        n_releases: How many releases were joined.
    """

    header: LedgerHeader
    misses: tuple[Missed, ...]
    smallest: tuple[SmallestShares, ...]
    updates: tuple[tuple[int, str, Update], ...] = ()
    n_releases: int = 0

    @classmethod
    def none(cls, header: LedgerHeader) -> LedgerTotals:
        """Before the first release."""
        ranges = None if header.ranges is None else np.array(header.ranges, dtype=np.int64)
        sizes = (
            [stop - start for start, stop in (promise.values for promise in kind)]
            for kind in (header.values, header.closeness)
        )
        of_values, of_shares = sizes
        return cls(
            header,
            tuple(Missed.nothing((header.n_classes, size), ranges) for size in of_values),
            tuple(SmallestShares.none(header.n_classes, size) for size in of_shares),
        )

    def joined(self, entry: LedgerEntry) -> LedgerTotals:
        """With one more release; in which order they are joined does not matter."""
        header, updates = self.header, self.updates
        missed = missed_table(entry.misses, header)
        if entry.update is not None and entry.update.updates is not None:
            updates = (*updates, (entry.sequence, entry.owner, entry.update.missed(header)))
        smallest = self.smallest
        if smallest:
            shown = entry.shown(header)
            smallest = tuple(
                one.joined(shown.counts[:, slice(*promise.values)], shown.grouping)
                for one, promise in zip(smallest, header.closeness, strict=True)
            )
        return replace(
            self,
            misses=tuple(
                one.joined(missed[:, slice(*promise.values)])
                for one, promise in zip(self.misses, header.values, strict=True)
            ),
            smallest=smallest,
            updates=updates,
            n_releases=self.n_releases + 1,
        )

    @cached_property
    def missed(self) -> tuple[Missed, ...]:
        """For every promise of values what tables miss, and what has changed in those published again."""
        found = []
        for one, promise in zip(self.misses, self.header.values, strict=True):
            for _, owner, update in sorted(self.updates, key=lambda item: item[0]):
                one = one.with_update(owner, update.of(slice(*promise.values)))  # noqa: PLW2901
            found.append(one)
        return tuple(found)

    def state(self, promises: Sequence[Promise]) -> LedgerState:
        """What is left of the promises of a plan that the header describes."""
        return LedgerState.of(promises, self.missed, self.smallest, self.n_releases)
