"""What the lines of a ledger say: the first one, and that of a release; and how a line is chained."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from elldelta.core.closeness import as_limit
from elldelta.core.partition import grouping_from_merged
from elldelta.core.promises import Close, Shown, Values
from elldelta.core.updates import Update
from elldelta.errors import ParameterError, counted
from elldelta.files import (
    canonical_json,
    canonical_parts,
    digest_of_parts,
    fields_of,
    is_digest,
    members,
    record_from,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.core.promises import Promise

FORMAT_VERSION = 1
"""Version of the file; others are refused."""

KIND = "elldelta ledger"
RELEASE = "release"
"""The kind of a line that is a release."""
VOID = "void"
"""The kind of a line that takes one back."""
SEALED = "sealed"
"""The kind of a line that is not shown."""

MOST_COUNT = 1 << 53
"""More records of a value than this nobody has."""

MOST_CELLS = 1 << 31
"""Base classes times sensitive values. Ledgers come from servers, too: one line must not fill the memory."""

MOST_CLOSE_CELLS = 1 << 24
"""The same where only closeness is promised: then nothing in the header is as long as there are classes."""


Misses = tuple[tuple[int, ...], ...]
"""Lists of numbers; per base class that misses witnesses: its number, then the positions of the values."""

Line = TypeVar("Line", "LedgerHeader", "LedgerEntry", "VoidLine")


@dataclass(frozen=True)
class PromisedValues:
    """What the first line says of a promise of values.

    Attributes:
        column: The name of the sensitive column.
        values: Where its values begin and end, among those of all columns.
        ell: Values left for everybody who is in linked releases.
        min_records: r: a witness counts as shown only with at least r records.
        n_witnesses: a_c, one per base class.
    """

    column: str
    values: tuple[int, int]
    ell: int
    min_records: int
    n_witnesses: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_promise(self.column, self.values)
        if min(self.ell, self.min_records) < 1 or min(self.n_witnesses, default=0) < self.ell:
            raise ParameterError("The header of a ledger is malformed.")
        _check_below(self.n_witnesses, self.values[1] - self.values[0] + 1)

    @property
    def words(self) -> str:
        """What is left of the column."""
        each = (
            f" with at least {counted(self.min_records, 'linked record')} each"
            if self.min_records > 1
            else ""
        )
        return f"{counted(self.ell, 'value')} of {self.column!r}{each}"


@dataclass(frozen=True)
class PromisedCloseness:
    """What the first line says of a promise of closeness.

    Attributes:
        column: The name of the sensitive column.
        values: Where its values begin and end, among those of all columns.
        limit: T, as a fraction such as 1/5.
    """

    column: str
    values: tuple[int, int]
    limit: str

    def __post_init__(self) -> None:
        _check_promise(self.column, self.values)
        if str(as_limit(self.limit)) != self.limit:
            raise ParameterError("The header of a ledger is malformed.")

    @property
    def words(self) -> str:
        """How far shares may be from what the plan says of the column."""
        points = f"{100 * float(Fraction(self.limit)):g} percentage points"
        return f"within {points} of what the plan says of {self.column!r}"


def _check_promise(column: str, values: tuple[int, int]) -> None:
    """Refuses a column without values, or with a name that could steer a terminal."""
    if not column or not column.isprintable() or not 0 <= values[0] < values[1]:
        raise ParameterError("The header of a ledger is malformed.")


@dataclass(frozen=True)
class LedgerHeader:
    """The first line: which plan the ledger is about, and what it promises.

    Attributes:
        plan_digest: The digest of the plan.
        releases: t, what a certificate promises without the ledger.
        n_classes: R, the base classes.
        values: The promises of values.
        closeness: The promises of closeness.
        ranges: Per base class the number of the classes among which somebody may move; None if nobody moves.
    """

    plan_digest: str
    releases: int
    n_classes: int
    values: tuple[PromisedValues, ...] = ()
    closeness: tuple[PromisedCloseness, ...] = ()
    ranges: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if (
            not self._promises
            or min(self.releases, self.n_classes) < 1
            or any(len(promise.n_witnesses) != self.n_classes for promise in self.values)
            or (self.ranges is not None and len(self.ranges) != self.n_classes)
        ):
            raise ParameterError("The header of a ledger is malformed.")
        _check_below(self.ranges or (), self.n_classes)
        self._check_columns()
        # A promise of values lists every class, so that a small header cannot name many.
        most = MOST_CELLS if self.values else MOST_CLOSE_CELLS
        if self.n_classes * self.n_values > most:
            raise ParameterError("The header of a ledger names more cells than any plan has.")

    def _check_columns(self) -> None:
        """Refuses promises about one column twice, about no column, or about values of two columns."""
        slices = {promise.column: promise.values for promise in self._promises}
        ends = [0, *(stop for _, stop in sorted(slices.values()))]
        if (
            any(slices[promise.column] != promise.values for promise in self._promises)
            or any(len({one.column for one in kind}) < len(kind) for kind in (self.values, self.closeness))
            or [start for start, _ in sorted(slices.values())] != ends[:-1]
        ):
            raise ParameterError("The promises of a ledger are about other columns than a plan has.")

    @classmethod
    def of(cls, plan_digest: str, promises: Sequence[Promise]) -> LedgerHeader:
        """The header for a plan."""
        values = [promise for promise in promises if isinstance(promise, Values)]
        closeness = [promise for promise in promises if isinstance(promise, Close)]
        ranges = next((promise.ranges for promise in values), None)
        [(releases, n_classes)] = {
            *((promise.releases, len(promise.witnesses)) for promise in values),
            *((promise.releases, len(promise.references)) for promise in closeness),
        }
        return cls(
            plan_digest=plan_digest,
            releases=releases,
            n_classes=n_classes,
            values=tuple(
                PromisedValues(
                    promise.column,
                    (promise.values.start, promise.values.stop),
                    promise.ell,
                    promise.min_records,
                    tuple(promise.n_witnesses.tolist()),
                )
                for promise in values
            ),
            closeness=tuple(
                PromisedCloseness(
                    promise.column, (promise.values.start, promise.values.stop), str(promise.limit)
                )
                for promise in closeness
            ),
            ranges=None if ranges is None else tuple(ranges.tolist()),
        )

    @property
    def _promises(self) -> tuple[PromisedValues | PromisedCloseness, ...]:
        return (*self.values, *self.closeness)

    @property
    def n_values(self) -> int:
        """The number of values of all columns."""
        return max(promise.values[1] for promise in self._promises)

    def to_dict(self) -> dict[str, Any]:
        """The header as plain JSON values."""
        promises = {
            "values": [fields_of(promise) for promise in self.values],
            "closeness": [fields_of(promise) for promise in self.closeness],
        }
        return {"kind": KIND, "format": FORMAT_VERSION, "sequence": 0, **fields_of(self), **promises}


@dataclass(frozen=True)
class LedgerEntry:
    """One admitted release.

    Attributes:
        sequence: The number of its line; the header is 0.
        owner: The name under which the owner publishes.
        content_digest: The digest of the release's content, as in its manifest.
        merged: Base classes that are published together, for published classes of more than one.
        suppressed: Base classes whose records are left out.
        misses: Per base class that misses witnesses: its number, then the positions of the missed values,
            among those of all columns.
        certified: Whether it also passes the certificate, which holds without the ledger (Theorem E).
        software: What wrote the line.
        hash: The hash of the line.
        counts: Where closeness is promised, what the release shows: per published class with a record its
            first base class, then the records of every value; in rising order.
        update: If its owner will publish the table again: which line it updates, what became of the people in
            between, and the digest of the owner's state. None for a release that stands by itself.
        nonce: Random: whoever sees only the hash, or one of a later line, cannot guess what the line says and
            compare hashes.
    """

    sequence: int
    owner: str
    content_digest: str
    merged: Misses
    suppressed: tuple[int, ...]
    misses: Misses
    certified: bool
    software: str
    nonce: str
    hash: str = ""
    counts: Misses | None = None
    update: UpdateLine | None = None

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain JSON values, without hashes."""
        content = {name: value for name, value in fields_of(self).items() if name != "hash"}
        return {"kind": RELEASE, **content, "update": None if self.update is None else fields_of(self.update)}

    def check(self, header: LedgerHeader) -> None:
        """Refuses what cannot be a line of a ledger with this header: lines come from servers, too."""
        texts = (self.owner, self.content_digest, self.software)
        # Nothing may steer a terminal, or look like something else.
        if not all(text.isascii() and text.isprintable() for text in texts) or not re.fullmatch(
            "[0-9a-f]{64}", self.nonce
        ):
            raise ParameterError("An entry of a ledger is malformed.")
        grouping_from_merged(self.merged, header.n_classes)
        _check_below(self.suppressed, header.n_classes)
        _check_misses(self.misses, header)
        if self.update is not None:
            self.update.check(header, self.sequence)
        if not header.closeness:
            if self.counts is not None:
                raise ParameterError("A line tells counts where no closeness is promised.")
            return
        for row in self.counts or ():
            _check_below(row[:1], header.n_classes)
            _check_below(row[1:], MOST_COUNT)
        if self.counts is None or counts_of(self.shown(header)) != self.counts:
            raise ParameterError("The counts of a line are not those of a release.")

    @property
    def before_withheld(self) -> int | None:
        """The line that tells what classes last showed which this one withholds; None if there is none."""
        return self.update.updates if self.update is not None and self.suppressed else None

    def shown(self, header: LedgerHeader) -> Shown:
        """What the release shows, as far as the line says it."""
        grouping = grouping_from_merged(self.merged, header.n_classes)
        table = np.zeros((grouping.n_classes, header.n_values), dtype=np.int64)
        for base, *numbers in self.counts or ():
            table[grouping.class_of[base]] = numbers
        return Shown(table, grouping)


@dataclass(frozen=True)
class VoidLine:
    """Takes back a release of which its owner says that it was never visible.

    Attributes:
        sequence: The number of its line.
        voids: The number of the line that it takes back.
        hash: The hash of the line.
    """

    sequence: int
    voids: int
    hash: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The line as plain JSON values, without hashes."""
        content = {name: value for name, value in fields_of(self).items() if name != "hash"}
        return {"kind": VOID, **content}


@dataclass(frozen=True)
class SealedLine:
    """A line that is not shown, because its release is not published yet: others see its hash, little more.

    The hash is a commitment: the line holds a random nonce. It keeps its place, so the chain holds, and the
    line can be compared with the hash once it is shown.

    Attributes:
        sequence: Its number.
        hash: Its hash.
        is_update: Whether it updates a table that its owner publishes again and again: there is no limit to
            what those who came and went show too little of, but what the ledger has left.
    """

    sequence: int
    hash: str
    is_update: bool

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> SealedLine:
        """The line of a release, sealed."""
        update = line["update"]
        return cls(line["sequence"], line["hash"], update is not None and update["updates"] is not None)

    def to_bytes(self, previous: str | None) -> bytes:
        """The line as it stands in a copy, with its newline."""
        return canonical_json({"kind": SEALED, **vars(self), "previous": previous}) + b"\n"


def sealed_lines(lines: Iterable[bytes], hidden: Collection[int]) -> list[bytes]:
    """The lines of a ledger after the first one, those of some releases sealed."""
    documents = [(line, json.loads(line)) for line in lines]
    return [
        SealedLine.of(one).to_bytes(one["previous"]) if one["sequence"] in hidden else line
        for line, one in documents
    ]


@dataclass(frozen=True)
class UpdateLine:
    """What a line says about a table that its owner publishes again and again.

    Attributes:
        updates: The line that it updates; None for the first table of a series.
        joiners: What those who came miss, per base class as in an entry, in classes that have changed.
        leavers: What those who went miss.
        stayers: What those who stayed miss.
        state: The digest of the owner's state, in which a secret keeps anybody from guessing who is in it.
    """

    updates: int | None
    joiners: Misses
    leavers: Misses
    stayers: Misses
    state: str

    @classmethod
    def of(cls, update: Update | None, *, updates: int | None, state: str) -> UpdateLine:
        """The line of an update; None is the first table of a series."""
        groups = () if update is None else (update.joiners, update.leavers, update.stayers)
        joiners, leavers, stayers = map(listed_misses, groups) if groups else ((), (), ())
        return cls(updates, joiners, leavers, stayers, state)

    def check(self, header: LedgerHeader, sequence: int) -> None:
        """Refuses what cannot stand in a line with this number."""
        groups = (self.joiners, self.leavers, self.stayers)
        if not (self.updates is None or 1 <= self.updates < sequence) or not is_digest(self.state):
            raise ParameterError("An update in a ledger is malformed.")
        if self.updates is None and any(groups):
            raise ParameterError("The first table of a series changes nothing.")
        if header.ranges is not None:
            raise ParameterError("Tables whose people move among classes are not published again.")
        for group in groups:
            _check_misses(group, header)

    def missed(self, header: LedgerHeader) -> Update:
        """What the groups miss, base classes x values."""
        return Update(*(missed_table(group, header) for group in (self.joiners, self.leavers, self.stayers)))


def listed_misses(missed: NDArray[np.bool_]) -> Misses:
    """Per base class that misses witnesses: its number, then the positions of the missed values."""
    listed = np.nonzero(missed)[1].tolist()
    stops = np.cumsum(np.count_nonzero(missed, axis=1))
    bases = np.flatnonzero(np.diff(stops, prepend=0))
    places = zip(bases.tolist(), [0, *stops[bases[:-1]].tolist()], stops[bases].tolist(), strict=False)
    return tuple((base, *listed[start:stop]) for base, start, stop in places)


def _check_misses(misses: Misses, header: LedgerHeader) -> None:
    if not all(misses):  # a list of misses names its base class first
        raise ParameterError("The misses of a line name no class.")
    witnesses = [promise.values for promise in header.values]
    for missed in misses:
        _check_below(missed[:1], header.n_classes)
        _check_below(missed[1:], header.n_values)
        if not all(any(a <= value < b for a, b in witnesses) for value in missed[1:]):
            raise ParameterError("A line misses a value of a column without a promise of values.")


def _check_below(numbers: tuple[int, ...], below: int) -> None:
    if numbers and not 0 <= min(numbers) <= max(numbers) < below:
        raise ParameterError(f"Numbers from 0 to {below - 1} were expected.")


def missed_table(misses: Misses, header: LedgerHeader) -> NDArray[np.bool_]:
    """What a line lists as missed, base classes x values."""
    table = np.zeros((header.n_classes, header.n_values), dtype=np.bool_)
    lengths = np.array([len(missed) - 1 for missed in misses], dtype=np.int64)
    bases = np.array([missed[0] for missed in misses], dtype=np.int64)
    values = chain.from_iterable(missed[1:] for missed in misses)
    table[np.repeat(bases, lengths), np.fromiter(values, np.int64, lengths.sum())] = True
    return table


def new_nonce() -> str:
    """What makes the hash of a line a commitment."""
    return secrets.token_hex(32)


def counts_of(shown: Shown) -> Misses:
    """What a release shows, in the one way in which a line says it."""
    firsts = [int(members[0]) for members in shown.grouping]
    filled = np.flatnonzero(shown.has_records).tolist()
    return tuple(sorted((firsts[row], *shown.counts[row].tolist()) for row in filled))


def line_bytes(document: Mapping[str, Any], previous: str | None) -> tuple[bytes, str]:
    """A line of a ledger with its newline, and its hash."""
    chained = {**document, "previous": previous}
    parts = canonical_parts(chained)
    digest = digest_of_parts(members(parts))
    return b"".join((*members(parts | canonical_parts({"hash": digest})), b"\n")), digest


def read_sealed(line: bytes, document: Mapping[str, Any], previous: str | None) -> SealedLine:
    """A sealed line, if it is in its one spelling and follows the one before it.

    Raises:
        ParameterError: It is not.
    """
    made = SealedLine(document["sequence"], document["hash"], document["is_update"])
    types = (type(made.sequence), type(made.is_update))
    if types != (int, bool) or not is_digest(made.hash) or made.to_bytes(previous) != line + b"\n":
        raise ParameterError("A sealed line of a ledger is not intact.")
    return made


def read_line(kind: type[Line], line: bytes, document: Mapping[str, Any], previous: str | None) -> Line:
    """A line of a ledger, if it is in its one spelling, has its own hash and follows the one before it.

    Raises:
        ParameterError: It is not.
    """
    made = record_from(kind, document)
    if line_bytes(made.to_dict(), previous)[0] != line + b"\n":
        raise ParameterError("A line of a ledger is not intact.")
    return made
