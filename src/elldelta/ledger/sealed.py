"""Lines of a ledger that are not shown to everybody: of a release that its owner has not published yet.

A sealed line keeps its place and its hash, so the chain holds and the line can be compared once it is shown.
It names no owner and no content. What the releases behind all sealed lines miss together stands in the last
of them: which values survive in a class, and not whose release misses the others. What those who came, went
and stayed miss stands there, too, as far as a class has room for all of it at once: nobody is in all of these
groups, so that together they may miss more than a ledger allows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elldelta.errors import ParameterError
from elldelta.files import canonical_json, is_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from elldelta.ledger.lines import LedgerHeader

KIND = "sealed"
_KEYS = frozenset({"kind", "sequence", "previous", "hash", "misses"})


@dataclass(frozen=True)
class SealedLine:
    """A line that is not shown.

    Attributes:
        sequence: Its number.
        hash: Its hash.
        misses: Of the last one: per base class what all releases behind sealed lines miss, as in an entry.
    """

    sequence: int
    hash: str
    misses: tuple[tuple[int, ...], ...]


def sealed_lines(lines: Sequence[bytes], hidden: Collection[int], header: LedgerHeader) -> list[bytes]:
    """The lines of a ledger with some of them sealed.

    Args:
        lines: All lines after the first one, with their newlines.
        hidden: The numbers of releases that are not to be shown.
        header: The first line.
    """
    documents = [json.loads(line) for line in lines]
    voided = {document["voids"] for document in documents if document["kind"] == "void"}
    counted = [one for one in documents if one["kind"] != "void" and one["sequence"] not in voided]
    unseen = [document for document in counted if document["sequence"] in hidden]
    seen = [document for document in counted if document["sequence"] not in hidden]
    whole, crossed_out = _missed(unseen), _missed(counted)
    for base, values in _missed(seen, groups=True).items():
        crossed_out.setdefault(base, set()).update(values)
    for base, values in _missed(unseen, groups=True).items():
        known = crossed_out.get(base, set())
        for column, own in zip(header.columns, header.slices, strict=True):
            place = range(own.start, own.stop)
            room = column.n_witnesses[base] - column.n_needed - len(known.intersection(place))
            if room >= 0:
                new = sorted(values.intersection(place) - known)[:room]
                whole.setdefault(base, set()).update(values.intersection(place, known), new)
    together = [[base, *sorted(whole[base])] for base in sorted(whole) if whole[base]]
    last = unseen[-1]["sequence"] if unseen else None
    return [
        _sealed(document, together if document["sequence"] == last else [])
        if document["sequence"] in hidden
        else line
        for line, document in zip(lines, documents, strict=True)
    ]


def _missed(documents: Iterable[Mapping[str, Any]], *, groups: bool = False) -> dict[int, set[int]]:
    """Per base class what whole tables miss; or those who came, went and stayed."""
    union: dict[int, set[int]] = {}
    for document in documents:
        update = document["update"] or {}
        names = ("joiners", "leavers", "stayers")
        for listed in [update.get(name, ()) for name in names] if groups else [document["misses"]]:
            for base, *values in listed:
                union.setdefault(base, set()).update(values)
    return union


def is_sealed(line: bytes, document: Mapping[str, Any], previous: str | None) -> bool:
    """Whether a line is a sealed one, in the one spelling that there is, and follows the one before it."""
    return (
        document.keys() == _KEYS
        and document["kind"] == KIND
        and document["previous"] == previous
        and is_digest(document["hash"])
        and canonical_json(dict(document)) == line
    )


def read_sealed(document: Mapping[str, Any], n_classes: int, n_values: int) -> SealedLine:
    """What a sealed line says, or raises `ParameterError`."""
    misses = tuple(
        (*numbers_below(missed[:1], n_classes), *numbers_below(missed[1:], n_values))
        for missed in document["misses"]
    )
    if not all(len(missed) > 1 for missed in misses):
        raise ParameterError("A sealed line of a ledger is malformed.")
    return SealedLine(document["sequence"], document["hash"], misses)


def on_word(numbers: Collection[int]) -> tuple[str, ...]:
    """The condition under which a ledger promises what it does, if releases were taken back on a word."""
    if not numbers:
        return ()
    named = ", ".join(map(str, sorted(numbers)))
    return (
        f"Taken back on the word of the owners, who say that they were never published: {named}. If one of "
        "these was published, nothing is promised about it together with the others.",
    )


def numbers_below(values: Any, below: int) -> tuple[int, ...]:  # noqa: ANN401 (whatever the file holds)
    """Whole numbers from 0 on, or raises `ParameterError`."""
    is_plain = isinstance(values, list) and set(map(type, values)) <= {int}  # truth values have another type
    if not is_plain or (values and not 0 <= min(values) <= max(values) < below):
        raise ParameterError(f"Numbers from 0 to {below - 1} were expected.")
    return tuple(values)


def is_whole(value: object) -> bool:
    """Whether something is a whole number, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _sealed(document: Mapping[str, Any], misses: list[list[int]]) -> bytes:
    kept = {name: document[name] for name in ("sequence", "previous", "hash")}
    return canonical_json({"kind": KIND, **kept, "misses": misses}) + b"\n"
