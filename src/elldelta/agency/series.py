"""Tables that an owner publishes again: what an agency is told of an update, and how it checks it.

The state, which says who is in the table, stays with the owner. The agency is told its digest, and how many
records came and went in each class. Who stayed follows from that and the release; and those who stayed and
those who went are what the class showed when it was last published, which the agency knows. What is kept is
the line of the ledger, and how many came and went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from elldelta.core.partition import grouping_from_merged
from elldelta.core.updates import Groups
from elldelta.errors import FileError, RefusedError
from elldelta.ledger import Admission, Revision, UpdateSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.agency.admission import Registered
    from elldelta.agency.registration import ValidatedRelease
    from elldelta.core.ledger_state import LedgerState
    from elldelta.ledger import LedgerEntry


def revision_of(update: UpdateSummary | None, counts: NDArray[np.int64]) -> Revision | None:
    """What a registration says has changed; None for a release that stands by itself.

    Args:
        update: What is told of the update.
        counts: What the published classes show, numbered by their first base class.

    Raises:
        FileError: More came than the release shows.
    """
    if update is None:
        return None
    groups = None
    if update.since is not None:
        came, went = update.came.table(*counts.shape), update.went.table(*counts.shape)
        groups = Groups(came, went, counts - came)
        groups = groups.only(groups.changes)
        if (groups.stayers < 0).any():
            raise FileError(
                "The registration contradicts itself.",
                found="More have come than the release shows.",
                remedy="Make the registration again, with the state that was written with the release.",
            )
    return Revision(groups, update.since or "", update.state)


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


def known_update(known: LedgerEntry, revision: Revision, state: LedgerState) -> Admission:
    """The answer to an update whose content is registered: the same one again, or nothing has changed."""
    if known.update is not None and known.update.state == revision.state:
        return Admission(known, state, b"")
    raise RefusedError(
        "The release shows what one that you have registered shows.",
        found="Its content has the same digest; nobody would see a difference.",
        remedy="There is nothing to publish. Keep the state of your last release, and update it later.",
    )


def withheld_by(release: ValidatedRelease, series: Sequence[Registered]) -> tuple[int, ...]:
    """The base classes that an update withholds, after comparing it with what was last published.

    A class shows what it showed when it was last published, or nothing; or those who stayed and those who
    went are what it showed.

    Raises:
        RefusedError: It does not.
    """
    revision, last = release.revision, series[0].entry.update if series else None
    if revision is None or revision.groups is None or last is None or last.state != revision.since:
        return ()  # the first one; or it updates another one, which the ledger refuses
    groups, old = revision.groups, series[0].grouping
    new = grouping_from_merged(release.merged, old.class_of.size)
    if new != old:
        return ()  # other classes, which the ledger refuses
    shown, is_open = np.zeros_like(release.counts), np.ones(new.n_classes, dtype=np.bool_)
    for item in series:
        is_here = is_open.copy()
        is_here[new.class_of[list(item.entry.suppressed)]] = False
        shown[is_here] = item.counts[is_here]
        is_open &= ~is_here
    changes, shows = groups.changes, release.counts.any(axis=1)
    fits = np.where(changes[:, np.newaxis], groups.leavers + groups.stayers, release.counts) == shown
    withheld = ~changes & ~shows & shown.any(axis=1)
    if not (fits.all(axis=1) | withheld).all():
        raise RefusedError(
            "What came and went does not lead from your last release to this one.",
            found=f"In {int((~fits.all(axis=1) & ~withheld).sum())} classes the numbers do not add up.",
            remedy="Make the release again, with the state of your last registered release.",
        )
    return tuple(np.flatnonzero(withheld[new.class_of]).tolist())
