"""Whether a ledger admits one more release, and the line it would get: for ledgers in files and in databases.

Nothing is read or written here. Whoever keeps the lines calls `admit` while nobody else can add one, and adds
the line that it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from elldelta._version import __version__
from elldelta.core.certificate import CertificateTerms, missing_witnesses
from elldelta.core.partition import Partition, merged_classes
from elldelta.errors import ParameterError, RefusedError
from elldelta.ledger.chain import LedgerChain, LedgerEntry, line_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from elldelta.core.ledger_state import LedgerState

MOST_OWNER_CHARACTERS = 200


@dataclass(frozen=True, eq=False)
class Admission:
    """A release that a ledger would admit now.

    Attributes:
        entry: The line it would get, or the one it has.
        state: What is left for others afterwards.
        line: The bytes to add to the ledger, with their newline; empty if it has a line already.
    """

    entry: LedgerEntry
    state: LedgerState
    line: bytes

    @property
    def is_new(self) -> bool:
        """False if the same owner has registered the same content before: no line is added."""
        return bool(self.line)


def admit(
    chain: LedgerChain,
    terms: CertificateTerms,
    grouping: Partition,
    counts: NDArray[np.int64],
    *,
    owner: str,
    content_digest: str,
    suppressed: tuple[int, ...] = (),
) -> Admission:
    """Decides whether a release is admitted (Theorem F); changes nothing.

    Args:
        chain: The ledger as it stands.
        terms: What its plan asks.
        grouping: The published class of every base class.
        counts: What the published classes show, classes x values.
        owner: The name under which the owner publishes.
        content_digest: The digest of the release's content.
        suppressed: Base classes whose records are left out, as far as the ledger is told.

    Raises:
        RefusedError: The owner has published other classes before, or Theorem F would no longer hold.
    """
    owner = check_owner(owner)
    grouping = terms.check_grouping(grouping)
    if counts.shape != (grouping.n_classes, terms.n_values):
        raise ParameterError("The release is about other classes or sensitive values than the ledger.")
    state = chain.state(terms)
    known = chain.find(owner, content_digest)
    if known is not None:
        return Admission(known, state, b"")
    merged = tuple(sorted(tuple(members) for members in merged_classes(grouping)))
    kept = chain.grouping_of(owner)
    if kept is not None and tuple(sorted(map(tuple, merged_classes(kept)))) != merged:
        raise RefusedError(
            f"{owner!r} has published under this plan before, with other classes.",
            found="Tables about the same people under two groupings can be subtracted from each other "
            "(differencing), which shows classes that neither of them shows.",
            remedy="Use the classes of the earlier release, which the ledger remembers.",
        )
    missed = missing_witnesses(counts, terms, grouping)
    after = state.admit(missed)
    entry = LedgerEntry(
        sequence=chain.n_lines,
        owner=owner,
        content_digest=content_digest,
        merged=merged,
        suppressed=suppressed,
        misses=tuple(
            (int(base), *np.flatnonzero(missed[base]).tolist()) for base in np.flatnonzero(missed.any(axis=1))
        ),
        certified=not bool((missed.sum(axis=1) > terms.allowances).any()),
        software=f"elldelta {__version__}",
    )
    line, own = line_bytes(entry.to_dict(), chain.head)
    return Admission(replace(entry, hash=own), after, line)


def check_owner(owner: str) -> str:
    """Returns the name of an owner, or refuses one that could not be told from others."""
    if not 0 < len(owner) <= MOST_OWNER_CHARACTERS or not owner.isprintable():
        raise ParameterError(
            f"An owner is a name of 1 to {MOST_OWNER_CHARACTERS} printable characters.",
            found="It is empty, too long, or holds control characters.",
        )
    if owner != owner.strip():
        raise ParameterError("The name of an owner must not begin or end with a space.")
    return owner
