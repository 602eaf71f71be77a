"""The lines of a ledger: one canonical JSON document each, chained by hash.

The first line describes the plan. Every other line is a release, or takes one back that was never visible. A
line holds the hash of the line before it and its own, so nobody can edit, remove, insert or reorder lines
without breaking the chain. Cutting lines off at the end leaves a chain, and that shows to everybody who knows
a later hash (`verify_ledger(head=...)`; each release can keep the hash of its own line). A copy may seal a
line: only its hash stays, so nothing is admitted to such a copy.

A ledger holds no personal value: owners are names that users chose, missed witnesses are positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.ledger_state import LedgerState
from elldelta.errors import ElldeltaError, FileError, ParameterError, counted
from elldelta.files import MALFORMED, check_format, json_object
from elldelta.ledger.lines import (
    FORMAT_VERSION,
    KIND,
    SEALED,
    VOID,
    LedgerEntry,
    LedgerHeader,
    SealedLine,
    VoidLine,
    line_bytes,
    missed_table,
    read_line,
    read_sealed,
)
from elldelta.ledger.totals import LedgerSnapshot, LedgerTotals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from elldelta.core.promises import Promise


@dataclass(frozen=True, eq=False)
class LedgerChain:
    """The intact lines of a ledger.

    Attributes:
        header: The first line.
        entries: All releases, in order, also those that were taken back.
        voided: Sequence numbers of releases that were taken back, on the word of their owners.
        head: The hash of the last line.
        n_lines: How many lines there are; the next one has this sequence number.
        n_bytes: Where they end in the file.
        ends_in_newline: Whether the last of them is followed by its newline.
        tail: What follows in the file: a line that is not complete, or has been damaged.
        is_pending: Whether a commit was interrupted; the next release completes or undoes it.
        sealed: Lines of releases that were not published when the ledger was handed out.
    """

    header: LedgerHeader
    entries: tuple[LedgerEntry, ...]
    voided: frozenset[int]
    head: str
    n_lines: int
    n_bytes: int
    ends_in_newline: bool
    tail: bytes
    is_pending: bool = False
    sealed: tuple[SealedLine, ...] = ()

    @property
    def active(self) -> tuple[LedgerEntry, ...]:
        """The releases that count."""
        return tuple(entry for entry in self.entries if entry.sequence not in self.voided)

    def followed_by(self, entry: LedgerEntry, n_bytes: int) -> LedgerChain:
        """The lines with one more, which takes so many bytes with its newline."""
        entries, n_lines, n_bytes = (*self.entries, entry), self.n_lines + 1, self.n_bytes + n_bytes
        return replace(self, entries=entries, head=entry.hash, n_lines=n_lines, n_bytes=n_bytes)

    @property
    def n_releases(self) -> int:
        """How many releases count."""
        return len(self.active) + self.n_sealed

    @property
    def n_sealed(self) -> int:
        """How many of them are not shown."""
        return sum(line.sequence not in self.voided for line in self.sealed)

    @property
    def owners(self) -> tuple[str, ...]:
        """Their owners, sorted."""
        return tuple(sorted({entry.owner for entry in self.active}))

    @property
    def promise(self) -> str:
        """What the ledger promises, in words."""
        header = self.header
        moves = "" if header.ranges is None else ", also if they move as the plan allows,"
        again = ""
        if any(entry.update is not None and entry.update.updates is not None for entry in self.active):
            again = (
                " Of tables that were published again, this also holds for whoever knows when a person came "
                "to and left the tables of one owner, and is told apart what came, went and stayed, if the "
                "person was there once."
            )
        promises = []
        if header.values:
            left = " and ".join(promise.words for promise in header.values)
            promises.append(f"leave everybody who is in all of them{moves} among at least {left}")
        if header.closeness:
            near = " and ".join(promise.words for promise in header.closeness)
            promises.append(f"keep the shares of linked records, for any set of values, {near}")
        which = counted(self.n_releases, "release") if self.n_releases > 1 else "releases"
        return f"Any of the {which} in this ledger, linked in any way, {' and '.join(promises)}.{again}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must be true for the promise, beyond what the lines themselves say."""
        conditions = []
        if self.n_sealed:
            conditions.append(
                f"Sealed, because they are not published yet: {counted(self.n_sealed, 'release')}. What they "
                "miss, and that they fit, is the word of whoever keeps the ledger."
            )
        if self.voided:
            named = ", ".join(map(str, sorted(self.voided)))
            conditions.append(
                f"Taken back on the word of the owners, who say that they were never published: {named}. If "
                "one of these was published, nothing is promised about it together with the others."
            )
        return tuple(conditions)

    def to_dict(self) -> dict[str, Any]:
        """What is promised, which releases were admitted and what room is left, as plain JSON values."""
        return {
            "plan_digest": self.header.plan_digest,
            "promises": self._promises(),
            "promise": self.promise,
            "conditions": list(self.conditions),
            "sealed": len(self.sealed),
            "owners": len(self.owners),
            "releases": [
                {
                    "sequence": entry.sequence,
                    "owner": entry.owner,
                    "classes_together": sum(map(len, entry.merged)),
                    "classes_missing_values": len(entry.misses),
                    "classes_missing_values_of": self._missing(entry),
                    "certified": entry.certified,
                    "updates": None if entry.update is None else entry.update.updates,
                    "content_digest": entry.content_digest,
                }
                for entry in self.active
            ],
            "classes": self.header.n_classes,
            "interrupted": self.is_pending,
        }

    def _promises(self) -> list[dict[str, Any]]:
        """What is promised of every sensitive column, and what room values have left."""
        return [
            *(
                {
                    "column": promise.column,
                    "ell": promise.ell,
                    "room_min": int(room.min()),
                    "classes_without_room": int((room == 0).sum()),
                }
                for promise, room in zip(self.header.values, self.rooms, strict=True)
            ),
            *(
                {"column": promise.column, "closeness": float(Fraction(promise.limit))}
                for promise in self.header.closeness
            ),
        ]

    def _missing(self, entry: LedgerEntry) -> dict[str, int]:
        """In how many classes a release misses values of each column."""
        missed = missed_table(entry.misses, self.header)
        return {
            promise.column: int(missed[:, slice(*promise.values)].any(axis=1).sum())
            for promise in self.header.values
        }

    @cached_property
    def totals(self) -> LedgerTotals:
        """What the releases that are shown miss together."""
        return reduce(LedgerTotals.joined, self.active, LedgerTotals.none(self.header))

    @cached_property
    def rooms(self) -> tuple[NDArray[np.int64], ...]:
        """Per promise of values: how many more witnesses each base class can lose (Theorems F, H and I).

        It needs no plan. With sealed lines it is at most so many.
        """
        return tuple(
            np.array(promise.n_witnesses, dtype=np.int64) - missed.n_lost - promise.ell
            for promise, missed in zip(self.header.values, self.totals.missed, strict=True)
        )

    @property
    def room(self) -> NDArray[np.int64] | None:
        """How many more witnesses each base class can lose in the column that can lose fewest.

        None where no values are promised.
        """
        return np.min(self.rooms, axis=0) if self.rooms else None

    def state(self, promises: Sequence[Promise]) -> LedgerState:
        """What is left of the promises of a plan that the header describes.

        Releases whose lines are sealed count with the most that the plan lets them miss.
        """
        state = self.totals.state(promises)
        sealed = [line for line in self.sealed if line.sequence not in self.voided]
        if not sealed:
            return state
        return state.beside_unseen(len(sealed), with_updates=any(line.is_update for line in sealed))

    def snapshot(self, state: LedgerState, owner: str, content_digest: str) -> LedgerSnapshot:
        """What deciding about a release of an owner must know."""
        entries = [entry for entry in self.active if entry.owner == owner]
        return LedgerSnapshot(
            state,
            self.n_lines,
            self.head,
            known=next((entry for entry in entries if entry.content_digest == content_digest), None),
            last=entries[-1] if entries else None,
        )

    @property
    def is_living(self) -> bool:
        """Whether some of its tables are published again."""
        return any(entry.update for entry in self.active)


def first_line(header: LedgerHeader) -> bytes:
    """The line with which a ledger begins; it follows from the plan alone."""
    return line_bytes(header.to_dict(), None)[0]


def parse_chain(content: bytes, source: str) -> LedgerChain:
    """Reads the lines of a ledger and checks hashes, order, and Theorem F at the end.

    A last line that is not intact is not judged here but handed back as the tail.

    Raises:
        FileError: It is no ledger, of another version, or a line other than the last one is not intact.
    """
    lines = content.split(b"\n")
    first = json_object(lines[0])
    if first is None or first.get("kind") != KIND:
        raise FileError(
            f"{source} is not a ledger.",
            found="It does not begin with the line of a ledger.",
            remedy="Give a ledger that elldelta has written, or the name of a new file.",
        )
    check_format(source, first.get("format"), FORMAT_VERSION)
    try:
        header = read_line(LedgerHeader, lines[0], first, None)
    except MALFORMED:
        raise damaged(source, 1) from None
    entries: list[LedgerEntry] = []
    sealed: list[SealedLine] = []
    voids: list[VoidLine] = []
    releases: set[int] = set()
    head = str(first["hash"])
    n_bytes = len(lines[0])
    n_lines = 1
    # After the last newline there is nothing, or the beginning of a line.
    n_complete = len(lines) - 1 if not lines[-1] else len(lines)
    for number in range(1, n_complete):
        try:
            line = _read(lines[number], head, header)
            if line.sequence != number:
                raise ParameterError("A line of a ledger has the wrong number.")
            if isinstance(line, LedgerEntry):
                entries.append(line)
                releases.add(number)
            elif isinstance(line, SealedLine):
                sealed.append(line)
                releases.add(number)
            elif line.voids in releases:
                voids.append(line)
            else:
                raise ParameterError("A line takes back what is no release.")
        except MALFORMED:
            if number < n_complete - 1:
                raise damaged(source, number + 1) from None
            break
        head = line.hash
        n_bytes += 1 + len(lines[number])
        n_lines += 1
    ends_in_newline = content[n_bytes : n_bytes + 1] == b"\n"
    n_bytes += ends_in_newline
    chain = LedgerChain(
        header=header,
        entries=tuple(entries),
        voided=frozenset(line.voids for line in voids),
        sealed=tuple(sealed),
        head=head,
        n_lines=n_lines,
        n_bytes=n_bytes,
        ends_in_newline=ends_in_newline,
        tail=content[n_bytes:],
    )
    n_below = max((int((room < 0).sum()) for room in chain.rooms), default=0)
    if n_below:
        raise FileError(
            f"{source} does not keep its promise.",
            found=f"{counted(n_below, 'base class is', 'base classes are')} left with fewer "
            "witnesses than it promises.",
            remedy="It was not written by elldelta; link the releases themselves to see what they show.",
        )
    return chain


def parse_line(
    line: bytes, header: LedgerHeader, source: str, previous: str | None = None
) -> LedgerEntry | SealedLine | VoidLine:
    """One line; nothing else of the chain is read.

    Args:
        line: The line, with its newline.
        header: The first line.
        source: Words for the ledger.
        previous: The hash of the line before it; None believes what the line says.

    Raises:
        FileError: The line is not intact, or does not follow the one before it.
    """
    content = line.removesuffix(b"\n")
    document = json_object(content) or {}
    try:
        return _read(content, previous or document.get("previous"), header)
    except MALFORMED:
        number = document.get("sequence")
        raise damaged(source, number + 1 if isinstance(number, int) else 0) from None


def damaged(source: str, line: int) -> FileError:
    """The error for a line that somebody has edited, moved, or a disk has damaged."""
    return FileError(
        f"{source} has been changed or damaged.",
        found=f"{f'Line {line}' if line else 'A line'} does not match its hash, or does not follow the line "
        "before it.",
        remedy="Restore the ledger from a copy; a ledger is only ever added to.",
    )


def check_plan(chain: LedgerChain, plan_digest: str, promises: Sequence[Promise], source: str) -> LedgerState:
    """What a ledger has left; refuses one about another plan, with other rules, or with other witnesses."""
    header = LedgerHeader.of(plan_digest, promises)
    if chain.header.plan_digest != header.plan_digest:
        raise other_plan(source)
    if chain.header != header:
        raise FileError(
            f"{source} was begun with other rules.",
            found="Its ell, t, witnesses or records per witness are not those of the plan.",
            remedy="Use the same rules for all releases of a ledger.",
        )
    try:
        return chain.state(promises)
    except ElldeltaError:
        raise FileError(
            f"{source} does not fit its plan.",
            found="A missed value is no witness of its class, or the releases are further from the plan's "
            "references than was promised.",
            remedy="It was not written by elldelta; link the releases themselves to see what they show.",
        ) from None


def counted_line(chain: LedgerChain, line_hash: str, source: str) -> LedgerEntry:
    """The release whose line has a hash; refuses a ledger that does not hold it, or has taken it back."""
    entry = next((entry for entry in chain.entries if entry.hash == line_hash), None)
    if entry is None:
        is_sealed = any(line.hash == line_hash for line in chain.sealed)
        raise FileError(
            f"{source} does not {'show' if is_sealed else 'hold'} a line that it must hold.",
            found="It is sealed: its release was not published yet when this copy was handed out."
            if is_sealed
            else f"None of its {counted(len(chain.entries), 'release')} has the given hash.",
            remedy="Fetch the ledger again."
            if is_sealed
            else "Lines were cut off at the end, or it is another ledger: restore it from a copy.",
        )
    if entry.sequence in chain.voided:
        raise FileError(
            f"{source} does not count a release that it must count.",
            found="A later line takes it back, as if nobody had ever seen it, and makes room for others.",
            remedy="Whoever holds the release shows that it was published: restore the ledger from a copy.",
        )
    return entry


def other_plan(source: str) -> FileError:
    """The error for a ledger of another plan."""
    return FileError(
        f"{source} is about another plan.",
        found="The digests of the plans differ; misses under one plan say nothing about another's classes.",
        remedy="Keep one ledger per plan, and link releases of different plans with an audit.",
    )


def _read(line: bytes, previous: str | None, header: LedgerHeader) -> LedgerEntry | SealedLine | VoidLine:
    """One line after the first, if it is intact and can stand in a ledger with this header."""
    document = json_object(line) or {}
    if document.get("kind") == SEALED:
        return read_sealed(line, document, previous)
    if document.get("kind") == VOID:
        return read_line(VoidLine, line, document, previous)
    entry = read_line(LedgerEntry, line, document, previous)
    entry.check(header)
    return entry
