"""Tables that an owner publishes again: what an agency is told of an update, and how it checks it.

The state, which says who is in the table, stays with the owner. The agency is told its digest, and how many
records came and went in each class. Who stayed follows from that and the release; and those who stayed and
those who went are what the class showed when it was last published, which the agency knows. What is kept is
the line of the ledger, and how many came and went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.distribution import frozen
from elldelta.core.partition import grouping_from_merged
from elldelta.core.updates import Groups
from elldelta.errors import FileError, RefusedError
from elldelta.files import is_digest
from elldelta.ledger import Admission
from elldelta.release import Revision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.agency.admission import Registered
    from elldelta.agency.registration import Examined
    from elldelta.core.several import AnyState
    from elldelta.ledger import LedgerEntry

MOST_RECORDS = 2**53 - 1
"""More records than this cannot be added up everywhere without a rounding error, and nobody has them."""

_BEGUN = frozenset({"state"})
_UPDATE = _BEGUN | {"since", "came", "went"}
"""What is told of a table that is published again: the first time, and later."""


def checked_update(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is told of a table that is published again, if it can be that; raises for anything else."""
    is_update = told.keys() == _UPDATE
    if not is_digest(told["state"]) or not (told.keys() == _BEGUN or is_update):
        raise ValueError
    if is_update and not (
        is_digest(told["since"]) and all(is_in_order(numbers_of(told[name])) for name in ("came", "went"))
    ):
        raise ValueError
    return told


def revision_of(told: Mapping[str, Any] | None, counts: NDArray[np.int64]) -> Revision | None:
    """What a registration says has changed; None for a release that stands by itself.

    Args:
        told: What is told of the update, as `checked_update` has found it.
        counts: What the published classes show, numbered by their first base class.

    Raises:
        FileError: More came than the release shows.
    """
    if told is None:
        return None
    groups = None
    if "since" in told:
        came, went = (table_of(numbers_of(told[name]), *counts.shape) for name in ("came", "went"))
        groups = Groups(came, went, counts - came)
        groups = groups.only(groups.changes)
        if (groups.stayers < 0).any():
            raise FileError(
                "The registration contradicts itself.",
                found="More have come than the release shows.",
                remedy="Make the registration again, with the state that was written with the release.",
            )
    return Revision(groups, told.get("since", ""), told["state"])


def changes_of(revision: Revision) -> dict[str, int]:
    """How much of a table has changed since it was last published; empty the first time."""
    groups = revision.groups
    if groups is None:
        return {}
    return {
        "classes_changed": int(groups.changes.sum()),
        "records_joined": int(groups.joiners.sum()),
        "records_left": int(groups.leavers.sum()),
    }


def known_update(known: LedgerEntry, revision: Revision, state: AnyState) -> Admission:
    """The answer to an update whose content is registered: the same one again, or nothing has changed."""
    if known.update is not None and known.update.state == revision.state:
        return Admission(known, state, b"")
    raise RefusedError(
        "The release shows what one that you have registered shows.",
        found="Its content has the same digest; nobody would see a difference.",
        remedy="There is nothing to publish. Keep the state of your last release, and update it later.",
    )


def withheld_by(examined: Examined, series: Sequence[Registered]) -> tuple[int, ...]:
    """The base classes that an update withholds, after comparing it with what was last published.

    A class shows what it showed when it was last published, or nothing; or those who stayed and those who
    went are what it showed.

    Raises:
        RefusedError: It does not.
    """
    revision, last = examined.revision, series[0].entry.update if series else None
    if revision is None or revision.groups is None or last is None or last.state != revision.since:
        return ()  # the first one; or it updates another one, which the ledger refuses
    groups, old = revision.groups, series[0].grouping
    new = grouping_from_merged(examined.merged, old.class_of.size)
    if new != old:
        return ()  # other classes, which the ledger refuses
    shown, is_open = np.zeros_like(examined.counts), np.ones(new.n_classes, dtype=np.bool_)
    for item in series:
        is_here = is_open.copy()
        is_here[new.class_of[list(item.entry.suppressed)]] = False
        shown[is_here] = item.counts[is_here]
        is_open &= ~is_here
    changes, shows = groups.changes, examined.counts.any(axis=1)
    fits = np.where(changes[:, np.newaxis], groups.leavers + groups.stayers, examined.counts) == shown
    withheld = ~changes & ~shows & shown.any(axis=1)
    if not (fits.all(axis=1) | withheld).all():
        raise RefusedError(
            "What came and went does not lead from your last release to this one.",
            found=f"In {int((~fits.all(axis=1) & ~withheld).sum())} classes the numbers do not add up.",
            remedy="Make the release again, with the state of your last registered release.",
        )
    return tuple(np.flatnonzero(withheld[new.class_of]).tolist())


def table_of(cells: NDArray[np.int64], n_classes: int, n_values: int) -> NDArray[np.int64]:
    """Counts as a table, classes x values."""
    rows, values, counts = cells
    if (rows >= n_classes).any() or (values >= n_values).any():
        raise FileError(
            "The registration counts classes or values that the release does not have.",
            found=f"There are {n_classes} classes and {n_values} sensitive values.",
            remedy="Make the registration from the release and the plan it was made with.",
        )
    table = np.zeros((n_classes, n_values), dtype=np.int64)
    table[rows, values] = counts
    return table


def numbers_of(lists: list[Any]) -> NDArray[np.int64]:
    """Lists of whole numbers as the rows of an array; raises for anything else."""
    # Python's own numbers are looked at before numpy's: those take True for 1.
    if not all(isinstance(numbers, list) and set(map(type, numbers)) <= {int} for numbers in lists):
        raise TypeError
    return frozen(np.array(lists, dtype=np.int64), np.int64)


def is_in_order(cells: NDArray[np.int64]) -> bool:
    """Whether these are counts, and written in their only order."""
    rows, values, counts = cells
    steps = np.diff(rows)
    rises = (steps > 0) | ((steps == 0) & (np.diff(values) > 0))
    n_records = sum(counts.tolist())  # Python's numbers do not wrap around
    return bool(rises.all() and (cells >= 0).all() and (counts >= 1).all()) and n_records <= MOST_RECORDS
