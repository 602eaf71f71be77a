"""What the lines of a ledger say: the first one, and that of a release; and how a line is chained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from elldelta.core.closeness import as_limit
from elldelta.core.partition import Partition, grouping_from_merged
from elldelta.core.updates import Update
from elldelta.errors import ElldeltaError, ParameterError
from elldelta.files import canonical_parts, digest_of_parts, is_digest, members
from elldelta.ledger.sealed import is_whole, numbers_below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from elldelta.core.certificate import CertificateTerms
    from elldelta.core.several import Terms

FORMAT_VERSION = 1
"""Version of the file; others are refused."""

KIND = "elldelta ledger"
RELEASE = "release"
"""The kind of a line that is a release."""
VOID = "void"
"""The kind of a line that takes one back."""

MOST_COUNT = 1 << 53
"""More records of a value than this nobody has."""

MOST_CELLS = 1 << 31
"""Base classes times sensitive values. Ledgers come from servers, too: one line must not fill the memory."""


@dataclass(frozen=True)
class LedgerColumn:
    """What the first line says of a sensitive column, or of columns that are tied together.

    Attributes:
        ell: Values left for everybody who is in linked releases.
        n_values: The number of sensitive values.
        n_witnesses: a_c, one per base class.
        closeness: T, as a fraction such as 1/5; None where the plan promises no closeness.
        name: Its name, where there are several.
    """

    ell: int
    n_values: int
    n_witnesses: tuple[int, ...]
    closeness: str | None = None
    name: str | None = None

    @classmethod
    def of(cls, terms: CertificateTerms) -> LedgerColumn:
        """What the terms of a plan say of it."""
        return cls(
            ell=terms.ell,
            n_values=terms.n_values,
            n_witnesses=tuple(terms.n_witnesses.tolist()),
            closeness=None if terms.closeness is None else str(terms.closeness.limit * terms.releases),
            name=terms.name or None,
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LedgerColumn:
        """Reads what a header's `to_dict` wrote, or raises `ParameterError`."""
        ell, n_values, closeness = document["ell"], document["n_values"], document["closeness"]
        if not all(is_whole(n) and n >= 1 for n in (ell, n_values)) or (
            closeness is not None and str(as_limit(closeness)) != closeness
        ):
            raise ParameterError("The header of a ledger is malformed.")
        n_witnesses = numbers_below(document["n_witnesses"], n_values + 1)
        return cls(ell, n_values, n_witnesses, closeness, document["name"])

    @property
    def n_needed(self) -> int:
        """The witnesses that must survive: none where closeness is all that is promised."""
        return 0 if self.closeness is not None and self.ell == 1 else self.ell

    @property
    def values_left(self) -> str:
        """Words for what is left of it."""
        return f"{self.ell} {'sensitive values' if self.name is None else f'values of {self.name!r}'}"

    @property
    def distance(self) -> str:
        """Words for how far beliefs may be from what the plan says of it."""
        of = "" if self.name is None else f" of {self.name!r}"
        return f"{100 * float(Fraction(self.closeness or 0)):g} percentage points from what the plan says{of}"

    def to_dict(self) -> dict[str, Any]:
        """What is promised of it, as plain JSON values."""
        near = None if self.closeness is None else float(Fraction(self.closeness))
        told = {"name": self.name, "ell": self.ell, "closeness": near}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True)
class LedgerHeader:
    """The first line: which plan the ledger is about.

    Attributes:
        plan_digest: The digest of the plan.
        releases: t, what a certificate promises without the ledger.
        min_records: r: a witness counts as shown only with at least r records.
        columns: The sensitive columns, each with its own promise. Lines number the values of the first one,
            then those of the next.
        owners: How many owners are expected to publish through it; None: nobody knows.
        moves: Per base class the number of the classes among which somebody may move; None if nobody moves.
    """

    plan_digest: str
    releases: int
    min_records: int
    columns: tuple[LedgerColumn, ...]
    owners: int | None = None
    moves: tuple[int, ...] | None = None

    @classmethod
    def of(cls, plan_digest: str, terms: Terms, owners: int | None = None) -> LedgerHeader:
        """The header for a plan."""
        first = terms.parts[0]
        return cls(
            plan_digest=plan_digest,
            releases=first.releases,
            min_records=first.min_records,
            columns=tuple(map(LedgerColumn.of, terms.parts)),
            owners=owners,
            moves=None if first.moves is None else tuple(first.moves.tolist()),
        )

    @property
    def n_classes(self) -> int:
        """The number of base classes, R."""
        return len(self.columns[0].n_witnesses)

    @property
    def n_values(self) -> int:
        """The number of values of all columns."""
        return sum(column.n_values for column in self.columns)

    @property
    def promises_closeness(self) -> bool:
        """Whether closeness is promised of a column; then lines tell what a release shows."""
        return any(column.closeness is not None for column in self.columns)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the values of every column stand."""
        ends = accumulate(column.n_values for column in self.columns)
        return tuple(slice(end - own.n_values, end) for end, own in zip(ends, self.columns, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The header as plain JSON values."""
        columns = [dict(vars(column)) for column in self.columns]
        return {"kind": KIND, "format": FORMAT_VERSION, **vars(self), "columns": columns}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LedgerHeader:
        """Reads what `to_dict` wrote, or raises `ParameterError`."""
        columns = tuple(map(LedgerColumn.from_dict, document["columns"]))
        if not columns:
            raise ParameterError("The header of a ledger is malformed.")
        moves, n_classes = document["moves"], len(columns[0].n_witnesses)
        header = cls(
            plan_digest=str(document["plan_digest"]),
            releases=document["releases"],
            min_records=document["min_records"],
            columns=columns,
            owners=document["owners"],
            moves=None if moves is None else numbers_below(moves, n_classes),
        )
        numbers = [header.releases, header.min_records]
        if header.owners is not None:
            numbers.append(header.owners)
        names = [column.name for column in columns]
        if (
            not all(is_whole(n) and n >= 1 for n in numbers)
            or any(len(column.n_witnesses) != n_classes for column in columns)
            or (header.moves is not None and len(header.moves) != n_classes)
            or (names != [None] if len(columns) == 1 else not _are_names(names))
        ):
            raise ParameterError("The header of a ledger is malformed.")
        if n_classes * header.n_values > MOST_CELLS:
            raise ParameterError("The header of a ledger names more cells than any plan has.")
        return header


def _are_names(names: Sequence[Any]) -> bool:
    """Whether these are different names of columns; a name may not steer a terminal."""
    are_texts = all(isinstance(name, str) and name and name.isprintable() for name in names)
    return are_texts and len(set(names)) == len(names)


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
    """

    sequence: int
    owner: str
    content_digest: str
    merged: tuple[tuple[int, ...], ...]
    suppressed: tuple[int, ...]
    misses: tuple[tuple[int, ...], ...]
    certified: bool
    software: str
    hash: str = ""
    counts: tuple[tuple[int, ...], ...] | None = None
    update: UpdateLine | None = None

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain JSON values, without hashes."""
        content = {name: value for name, value in vars(self).items() if name != "hash"}
        return {"kind": RELEASE, **content, "update": None if self.update is None else vars(self.update)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], header: LedgerHeader) -> LedgerEntry:
        """Reads what `to_dict` wrote, or raises `ParameterError`."""
        merged = tuple(numbers_below(members, header.n_classes) for members in document["merged"])
        grouping_from_merged(merged, header.n_classes)
        misses = _misses(document["misses"], header)
        suppressed = numbers_below(document["suppressed"], header.n_classes)
        plain = ("sequence", "owner", "content_digest", "certified", "software", "hash")
        texts = [document[name] for name in ("owner", "content_digest", "software")]
        # Ledgers come from servers, too: nothing in them may steer a terminal.
        if not all(isinstance(text, str) and text.isprintable() for text in texts) or not isinstance(
            document["certified"], bool
        ):
            raise ParameterError("An entry of a ledger is malformed.")
        values = {name: document[name] for name in plain}
        update = document["update"]
        if update is not None:
            update = UpdateLine.from_dict(update, header, values["sequence"])
        entry = cls(merged=merged, suppressed=suppressed, misses=misses, update=update, **values)
        if not header.promises_closeness and document["counts"] is None:
            return entry
        counts = tuple(
            (*numbers_below(row[:1], header.n_classes), *numbers_below(row[1:], MOST_COUNT))
            for row in document["counts"]
        )
        entry = replace(entry, counts=counts)
        if not header.promises_closeness or counts_of(*entry.shown(header)) != counts:
            raise ParameterError("The counts of a line are not those of a release.")
        return entry

    @property
    def before_withheld(self) -> int | None:
        """The line that tells what classes last showed which this one withholds; None if there is none."""
        return self.update.updates if self.update is not None and self.suppressed else None

    def shown(self, header: LedgerHeader) -> tuple[NDArray[np.int64], Partition]:
        """What the release shows, as far as the line says it: by published class and value; the grouping."""
        grouping = grouping_from_merged(self.merged, header.n_classes)
        table = np.zeros((grouping.n_classes, header.n_values), dtype=np.int64)
        for base, *numbers in self.counts or ():
            table[grouping.class_of[base]] = numbers
        return table, grouping


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
    joiners: tuple[tuple[int, ...], ...]
    leavers: tuple[tuple[int, ...], ...]
    stayers: tuple[tuple[int, ...], ...]
    state: str

    @classmethod
    def of(cls, update: Update | None, *, updates: int | None, state: str) -> UpdateLine:
        """The line of an update; None is the first table of a series."""
        groups = () if update is None else (update.joiners, update.leavers, update.stayers)
        joiners, leavers, stayers = map(listed_misses, groups) if groups else ((), (), ())
        return cls(updates, joiners, leavers, stayers, state)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], header: LedgerHeader, sequence: int) -> UpdateLine:
        """Reads what an entry's `to_dict` wrote, or raises `ParameterError`."""
        updates, state = document["updates"], document["state"]
        if not (updates is None or (is_whole(updates) and 1 <= updates < sequence)) or not is_digest(state):
            raise ParameterError("An update in a ledger is malformed.")
        groups = [_misses(document[name], header) for name in ("joiners", "leavers", "stayers")]
        if updates is None and any(groups):
            raise ParameterError("The first table of a series changes nothing.")
        return cls(updates, groups[0], groups[1], groups[2], state)

    def missed(self, header: LedgerHeader) -> Update:
        """What the groups miss, base classes x values."""
        return Update(*(missed_table(group, header) for group in (self.joiners, self.leavers, self.stayers)))


def listed_misses(missed: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """Per base class that misses witnesses: its number, then the positions of the missed values."""
    listed = np.nonzero(missed)[1].tolist()
    stops = np.cumsum(np.count_nonzero(missed, axis=1))
    bases = np.flatnonzero(np.diff(stops, prepend=0))
    places = zip(bases.tolist(), [0, *stops[bases[:-1]].tolist()], stops[bases].tolist(), strict=False)
    return tuple((base, *listed[start:stop]) for base, start, stop in places)


def _misses(listed: Any, header: LedgerHeader) -> tuple[tuple[int, ...], ...]:  # noqa: ANN401 (from a file)
    if not all(listed):  # a list of misses names its base class first
        raise ParameterError("The misses of a line name no class.")
    n_classes, n_values = header.n_classes, header.n_values
    return tuple(
        numbers_below(missed[:1], n_classes) + numbers_below(missed[1:], n_values) for missed in listed
    )


def missed_table(misses: tuple[tuple[int, ...], ...], header: LedgerHeader) -> NDArray[np.bool_]:
    """What a line lists as missed, base classes x values."""
    table = np.zeros((header.n_classes, header.n_values), dtype=np.bool_)
    lengths = np.array([len(missed) - 1 for missed in misses], dtype=np.int64)
    bases = np.array([missed[0] for missed in misses], dtype=np.int64)
    values = chain.from_iterable(missed[1:] for missed in misses)
    table[np.repeat(bases, lengths), np.fromiter(values, np.int64, lengths.sum())] = True
    return table


def counts_of(shown: NDArray[np.int64], grouping: Partition) -> tuple[tuple[int, ...], ...]:
    """What a release shows, in the one way in which a line says it."""
    firsts = [int(members[0]) for members in grouping]
    filled = np.flatnonzero(shown.any(axis=1)).tolist()
    return tuple(sorted((firsts[row], *shown[row].tolist()) for row in filled))


def void_line(sequence: int, voids: int, *, on_word: bool = False) -> dict[str, Any]:
    """The line that takes back a release that was never visible, perhaps on the word of its owner."""
    return {"kind": VOID, "sequence": sequence, "voids": voids, "on_word": on_word}


def line_bytes(document: Mapping[str, Any], previous: str | None) -> tuple[bytes, str]:
    """A line of a ledger with its newline, and its hash."""
    chained = {**document, "previous": previous}
    parts = canonical_parts(chained)
    own = digest_of_parts(members(parts))
    return b"".join((*members(parts | canonical_parts({"hash": own})), b"\n")), own


def is_intact(line: bytes, document: Mapping[str, Any], previous: str | None) -> bool:
    """Whether a line is in its one spelling, has its own hash, and follows the one before it."""
    try:
        parts = canonical_parts(document)
    except ElldeltaError:
        return False
    content = {key: part for key, part in parts.items() if key != "hash"}
    return (
        document.get("hash") == digest_of_parts(members(content))
        and "previous" in document
        and document["previous"] == previous
        and b"".join(members(parts)) == line
    )
