"""What became of the records of a table that is published again, by class and value, and what is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.updates import Groups
from elldelta.engines import state_sql

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOLD, CHANGE, WITHHOLD = range(3)
"""What becomes of a class: it stays as it was last published, it changes, or it is not published for now."""


class Outcomes:
    """What became of the records of every class and value."""

    def __init__(self, cells: list[NDArray[np.int64]], n_classes: int, n_values: int) -> None:
        classes, values, kinds, n, waited = cells
        self._tables = np.zeros((8, n_classes, n_values), dtype=np.int64)
        np.add.at(self._tables, (kinds, classes, values), n)
        waits = np.isin(kinds, (state_sql.JOIN, state_sql.LEAVE))
        self.longest_wait = np.zeros(n_classes, dtype=np.int64)
        np.maximum.at(self.longest_wait, classes[waits], waited[waits] + 1)
        self.most_waited = int(waited[kinds != state_sql.OUT].max(initial=0))

    def table(self, *kinds: int) -> NDArray[np.int64]:
        """Records of some kinds, by class and value."""
        total: NDArray[np.int64] = self._tables[list(kinds)].sum(axis=0)
        return total

    @property
    def groups(self) -> Groups:
        """Who came, went and stayed, if everything changed."""
        return Groups(
            self.table(state_sql.JOIN),
            self.table(state_sql.LEAVE, state_sql.MUST),
            self.table(state_sql.STAY, state_sql.MOVE),
        )

    @property
    def if_changed(self) -> NDArray[np.int64]:
        """What would be published if everything changed."""
        return self.table(state_sql.STAY, state_sql.MOVE, state_sql.JOIN)

    def published(self, decisions: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is published."""
        held = self.table(state_sql.STAY, state_sql.MOVE, state_sql.LEAVE)
        table = np.where((decisions == CHANGE)[:, np.newaxis], self.if_changed, held)
        table[decisions == WITHHOLD] = 0
        return table

    def numbers(self, decisions: NDArray[np.int64]) -> dict[str, int]:
        """What the manifest says."""
        does_change, holds, withheld = (decisions == one for one in (CHANGE, HOLD, WITHHOLD))
        was = self.table(state_sql.STAY, state_sql.MOVE, state_sql.LEAVE, state_sql.MUST).any(
            axis=1
        ) | self.if_changed.any(axis=1)
        changes = self.groups.changes
        joiners, leavers = self.groups.joiners, self.groups.leavers
        return {
            "classes_changed": int((does_change & changes).sum()),
            "classes_unchanged": int((was & ~changes & ~withheld).sum()),
            "classes_waiting": int((holds & changes).sum()),
            "classes_withheld": int(withheld.sum()),
            "records_joined": int(joiners[does_change].sum()),
            "records_left": int(leavers[does_change].sum()),
            "records_waiting": int(joiners[~does_change].sum()),
            "records_lingering": int(leavers[holds].sum()),
            "records_moved": int(self.table(state_sql.MOVE).sum()),
            "records_returned": int(self.table(state_sql.RETURN).sum()),
            "longest_wait": self.most_waited,
        }
