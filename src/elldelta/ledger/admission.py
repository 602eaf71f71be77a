"""Whether a ledger admits one more release, and the line it would get: for ledgers in files and in databases.

Nothing is read or written here. Whoever keeps the lines calls `admit` while nobody else can add one, and adds
the line that it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elldelta._version import __version__
from elldelta.core.certificate import Verdict, certify
from elldelta.core.partition import merged_classes
from elldelta.core.promises import Close, Shown
from elldelta.core.updates import missed_witnesses
from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.ledger.chain import LedgerChain, counted_line
from elldelta.ledger.lines import (
    LedgerEntry,
    UpdateLine,
    counts_of,
    line_bytes,
    listed_misses,
    new_nonce,
)
from elldelta.ledger.totals import LedgerSnapshot
from elldelta.release import verify_published

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from elldelta.core.ledger_state import LedgerState
    from elldelta.core.promises import Promise
    from elldelta.ledger.updates import Revision
    from elldelta.plan.plan import Plan
    from elldelta.release import Published

MOST_OWNER_CHARACTERS = 200


@dataclass(frozen=True, eq=False)
class Admission:
    """A release that a ledger would admit now.

    Attributes:
        entry: The line it would get, or the one it has.
        state: What is left for others afterwards.
        line: The bytes to add to the ledger, with their newline; empty if it has a line already.
        previous: The hash of the line that it would follow.
    """

    entry: LedgerEntry
    state: LedgerState
    line: bytes
    previous: str | None = None

    @property
    def is_new(self) -> bool:
        """False if the same owner has registered the same content before: no line is added."""
        return bool(self.line)


def admit(
    snapshot: LedgerSnapshot,
    verdict: Verdict,
    *,
    owner: str,
    content_digest: str,
    nonce: str,
    revision: Revision | None = None,
) -> Admission:
    """Decides whether a release is admitted (Theorems F, G, H and I); changes nothing.

    Args:
        snapshot: The ledger as it stands, for this owner and this release.
        verdict: What the release shows, as far as the ledger knows, and which promises it keeps.
        owner: The name under which the owner publishes.
        content_digest: The digest of the release's content.
        nonce: Random, see `new_nonce`.
        revision: What has changed since the owner's last release, for a table that is published again and
            again; None for a release that stands by itself.

    Raises:
        RefusedError: The owner has published before, or a promise would be broken.
    """
    owner = check_owner(owner)
    _check_revision(snapshot, owner, revision)
    shown, state, last = verdict.shown, snapshot.state, snapshot.last
    grouping = shown.grouping
    if verdict.promises != state.promises:
        raise ParameterError("The release was checked by other promises than those of the ledger.")
    if snapshot.known is not None and revision is None:
        return Admission(snapshot.known, state, b"")
    if last is not None and revision is None:
        raise _second_release(owner)
    if revision is not None and grouping.n_classes < grouping.n_quasi_identifiers:
        raise RefusedError(
            "A table that is published again has the plan's classes as they are.",
            found="Tables about the same people under two groupings can be subtracted from each other "
            "(differencing), which shows classes that neither of them shows.",
            remedy="Publish it under a plan with fixed classes.",
        )
    line = None
    if revision is not None:
        updates = None if revision.groups is None or last is None else last.sequence
        update = None if revision.groups is None else revision.groups.missed(state.promises, grouping)
        state = state if update is None else state.with_update(owner, update)
        line = UpdateLine.of(update, updates=updates, state=revision.state)
    entry = LedgerEntry(
        sequence=snapshot.n_lines,
        owner=owner,
        content_digest=content_digest,
        suppressed=tuple(np.flatnonzero(shown.left_out[grouping.class_of]).tolist()),
        software=f"elldelta {__version__}",
        update=line,
        nonce=nonce,
        **_line_of(verdict),
    )
    content, line_hash = line_bytes(entry.to_dict(), snapshot.head)
    return Admission(replace(entry, hash=line_hash), state.admit(shown), content, snapshot.head)


def _check_revision(snapshot: LedgerSnapshot, owner: str, revision: Revision | None) -> None:
    """Refuses a table that does not follow the owner's last one: it could be subtracted unseen."""
    last = snapshot.last
    living = None if last is None else last.update
    if revision is None:
        if living is not None:
            raise RefusedError(
                f"{owner!r} publishes this table again and again, and must tell what has changed.",
                found="Its last line in the ledger names a state.",
                remedy="Give the state that was written with the last release. Without it nothing more can "
                "be published under this plan.",
                parameter="since",
            )
        return
    if revision.groups is None and last is not None:
        raise RefusedError(
            f"{owner!r} has published under this plan before.",
            found="A series begins with the first release of an owner; this one would be its second.",
            remedy="Give the state of its last release, or begin a new plan and ledger."
            if living is not None
            else "Releases without a state cannot be updated: begin a new plan and ledger.",
            parameter="since" if living is not None else (),
        )
    if revision.groups is not None:
        _check_since(last, owner, revision.since)


def _second_release(owner: str) -> RefusedError:
    """A second table that stands by itself: whoever subtracts the first one sees who came."""
    return RefusedError(
        f"{owner!r} has published under this plan before.",
        found="Whoever subtracts that release from this one sees the people who came or went in between.",
        remedy="Publish tables that change with a state from the first release on, under a new plan and "
        "ledger. If nobody in this table was in the earlier one, it is another owner's: give it another "
        "name.",
        parameter=("state", "since", "owner"),
    )


def _check_since(last: LedgerEntry | None, owner: str, since: str) -> None:
    if last is None or last.update is None or last.update.state != since:
        raise RefusedError(
            f"The state is not that of the last release of {owner!r}.",
            found="Its digest is not the one in the owner's last line: it is older, has been used already, "
            "belongs to another owner or ledger, is damaged, or is no state at all.",
            remedy="Give the state that was written with the last release.",
        )


class ReadLedger:
    """A ledger as it stands, and whether it would admit a release; use it as a context manager.

    Attributes:
        promises: What the plan promises.
        chain: The lines.
    """

    _computed: tuple[LedgerChain, LedgerState] | None = None

    def __init__(self, promises: Sequence[Promise], chain: LedgerChain) -> None:
        self.promises = promises
        self.chain = chain

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the reading."""

    @property
    def state(self) -> LedgerState:
        """What the admitted releases have left of the promises; computed once for the same lines."""
        if self._computed is None or self._computed[0] is not self.chain:
            self._computed = self.chain, self.chain.state(self.promises)
        return self._computed[1]

    def has_published(self, owner: str) -> bool:
        """Whether a release of an owner counts."""
        return check_owner(owner) in self.chain.owners

    def before(self, owner: str) -> ReadLedger:
        """The ledger as it stood when an owner published a table that stands by itself; else as it stands.

        Who makes that release again, because its files are lost, gets the same one, which is then known.
        """
        published = [entry for entry in self.chain.active if entry.owner == owner]
        if not published or published[-1].update is not None:
            return self
        entries = tuple(entry for entry in self.chain.entries if entry.sequence < published[-1].sequence)
        return ReadLedger(self.promises, replace(self.chain, entries=entries))

    def check_since(self, owner: str, since: str) -> None:
        """Refuses the digest of a state that is not that of an owner's last release."""
        published = [entry for entry in self.chain.active if entry.owner == owner]
        _check_since(published[-1] if published else None, owner, since)

    def check(
        self,
        verdict: Verdict,
        *,
        owner: str,
        content_digest: str,
        revision: Revision | None = None,
    ) -> Admission:
        """Decides whether a release is admitted; changes nothing.

        Args:
            verdict: What is published, and which promises of the plan it keeps.
            owner: The name under which the owner publishes.
            content_digest: The digest of the release's content.
            revision: What has changed, for a table that is published again and again.

        Raises:
            RefusedError: The owner has published before, another one has nearly the same name, or the promise
                would no longer hold.
        """
        _check_name(owner, self.chain.owners)
        return admit(
            self.chain.snapshot(self.state, owner, content_digest),
            verdict,
            owner=owner,
            content_digest=content_digest,
            nonce=new_nonce(),
            revision=revision,
        )


def _line_of(verdict: Verdict) -> dict[str, Any]:
    """What a line says that everybody who holds the release can compute again."""
    is_close = any(isinstance(promise, Close) for promise in verdict.promises)
    return {
        "merged": tuple(sorted(tuple(members) for members in merged_classes(verdict.shown.grouping))),
        "misses": listed_misses(missed_witnesses(verdict.promises, verdict.shown)),
        "certified": verdict.is_certified,
        "counts": counts_of(verdict.shown) if is_close else None,
    }


def check_line(
    chain: LedgerChain, published: Published, line_hash: str, owner: str, plan: Plan | None, source: str
) -> LedgerEntry:
    """Compares the line that a release names with the release itself; returns the line.

    Args:
        chain: The lines of the ledger.
        published: The release, as it was read from its file.
        line_hash: The hash of the line with which the release says that it was admitted.
        owner: The owner under whose name it says so.
        plan: The plan; with it all that the line says is computed again from the release.
        source: Words for the ledger.

    Raises:
        FileError: There is no such line, it is that of another release, or it does not say what is missing.
    """
    entry, claimed = counted_line(chain, line_hash, source), published.manifest.ledger
    number = claimed["sequence"] if claimed is not None and claimed["hash"] == line_hash else entry.sequence
    other = [
        words
        for words, is_other in (
            ("its content", entry.content_digest != published.digest),
            ("its owner", entry.owner != owner),
            ("its number", entry.sequence != number),
        )
        if is_other
    ]
    if other:
        raise FileError(
            f"{source} has not admitted the release {published.name}.",
            found=f"The line that it names is about another release: {' and '.join(other)} differ.",
            remedy="Do not rely on this release: nobody has counted what it misses.",
        )
    if plan is None:
        return entry
    verify_published(published, plan)
    expected = _line_of(certify(plan.promises, Shown(published.counts, published.grouping)))
    wrong = [name for name, value in expected.items() if getattr(entry, name) != value]
    if published.counts[np.unique(published.grouping.class_of[list(entry.suppressed)])].any():
        wrong.append("suppressed")
    if wrong:
        raise FileError(
            f"{source} is wrong about the release {published.name}.",
            found=f"Line {entry.sequence} does not say what the release shows: {', '.join(wrong)}.",
            remedy="It was not written by elldelta; link the releases themselves to see what they show.",
        )
    return entry


def check_owner(owner: str) -> str:
    """Returns the name of an owner, or refuses one that another could look like.

    Owners must be told apart: one that publishes under two names is taken for two. So their names have
    letters of one alphabet, in which no two letters look the same, and capitals make no difference.
    """
    if not (0 < len(owner) <= MOST_OWNER_CHARACTERS and owner.isascii() and owner.isprintable()):
        raise ParameterError(
            f"An owner is a name of 1 to {MOST_OWNER_CHARACTERS} printable ASCII characters.",
            found="It is empty, too long, or has other characters: some look the same as others.",
            remedy="Write it with the letters a to z: Klinik Sued.",
        )
    if owner != owner.strip():
        raise ParameterError("The name of an owner must not begin or end with a space.")
    return owner


def _check_name(owner: str, known: Sequence[str]) -> None:
    """Refuses a new owner with the name of another one in another spelling: it may be the same one."""
    alike = [name for name in known if folded_owner(name) == folded_owner(owner)]
    if alike and owner not in known:
        raise RefusedError(
            f"The ledger knows {alike[0]!r}, whose name is nearly that of {owner!r}.",
            found="They differ in capitals or spaces only. An owner that publishes under two names is taken "
            "for two, and nobody looks at what subtracting its releases shows.",
            remedy="Give the name in the ledger; or, if it is another owner, a name that differs more.",
        )


def folded_owner(name: str) -> str:
    """What the names of two owners must differ in: one rule for ledgers in files and in databases."""
    return " ".join(name.lower().split())
