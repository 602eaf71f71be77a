"""JSON documents under a digest: one spelling for each, and one way to seal, check and read them.

Plans, manifests, receipts and whatever comes next have the same digest everywhere for the same content.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from elldelta.errors import ElldeltaError, FileError, ParameterError
from elldelta.files.atomic import read_bytes
from elldelta.files.number_columns import NumberColumn, taken_out
from elldelta.files.records import MisfitError, record_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SealedRecord = TypeVar("SealedRecord", bound="Sealed")

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_LISTS = {list, tuple}
_SCALARS = {type(None), bool, int, str}
"""Types whose values are all plain; a list of them needs no look at each."""
_NUMBERS = {int, float}
_PLACE = re.compile(rb'\{"":\d+\}')


def canonical_json(document: Any) -> bytes:  # noqa: ANN401 (any plain JSON value)
    """The canonical bytes of a plain JSON value: sorted keys, no white space, UTF-8, floats by `repr`.

    >>> canonical_json({"b": 1, "a": [0.5, "é", None]}).decode()
    '{"a":[0.5,"é",null],"b":1}'
    """
    return b"".join(_pieces(document))


def _pieces(document: Any) -> Iterator[bytes | memoryview]:  # noqa: ANN401 (any plain JSON value)
    """The canonical bytes piece by piece: columns of numbers are not copied."""
    text, columns = skeleton(document)
    begin = 0
    for match, column in zip(_PLACE.finditer(text) if columns else (), columns, strict=True):
        yield from (text[begin : match.start()], b"[", column.text, b"]")
        begin = match.end()
    yield text[begin:]


def skeleton(document: Any) -> tuple[bytes, list[NumberColumn]]:  # noqa: ANN401 (any plain JSON value)
    """The canonical bytes with an object of the key "" in the place of each column of numbers, and these."""
    _check_plain(document)
    columns: list[NumberColumn] = []

    def placed(column: NumberColumn) -> dict[str, int]:
        columns.append(column)
        return {"": column.numbers.size}

    text = json.dumps(
        document,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=placed,
    )
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError(
            "A document for a digest must be valid Unicode.",
            found="A text holds half of a surrogate pair.",
        ) from None
    if columns and len(_PLACE.findall(content)) != len(columns):
        raise _not_plain("An empty key beside columns of numbers")
    return content, columns


def canonical_parts(document: Mapping[str, Any]) -> dict[str, tuple[bytes | memoryview, ...]]:
    """The canonical bytes of every member of a JSON object, in pieces."""
    return {name: (canonical_json(name), b":", *_pieces(value)) for name, value in document.items()}


def members(parts: Mapping[str, Iterable[bytes | memoryview]]) -> Iterator[bytes | memoryview]:
    """The canonical bytes of a JSON object from those of its members, one after the other."""
    for place, name in enumerate(sorted(parts)):
        yield b"," if place else b"{"
        yield from parts[name]
    yield b"}" if parts else b"{}"


def digest(document: Any) -> str:  # noqa: ANN401 (any plain JSON value)
    """The SHA-256 of the canonical bytes, as `sha256:` and 64 hexadecimal digits."""
    return digest_of_parts([canonical_json(document)])


def digest_of_parts(parts: Iterable[bytes | memoryview]) -> str:
    """The SHA-256 of canonical bytes that come part by part, and need not be in memory together."""
    content = hashlib.sha256()
    for part in parts:
        content.update(part)
    return "sha256:" + content.hexdigest()


def is_digest(value: object) -> bool:
    """Whether something is written like our digests: `sha256:` and 64 hexadecimal digits."""
    return isinstance(value, str) and _DIGEST.match(value) is not None


def seal(kind: str, version: int, content: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the kind, the version of the format, and the digest of everything."""
    document = {"kind": f"elldelta {kind}", "format": version, **content}
    return {**document, "digest": digest(document)}


def sealed_bytes(kind: str, version: int, content: Mapping[str, Any]) -> tuple[str, bytes]:
    """The digest of what `seal` returns, and its bytes as they stand in a file; values are written once.

    >>> made = seal("thing", 1, {"a": 0.5})
    >>> sealed_bytes("thing", 1, {"a": 0.5}) == (made["digest"], as_bytes(made))
    True
    """
    parts = canonical_parts({"kind": f"elldelta {kind}", "format": version, **content})
    digest = digest_of_parts(members(parts))
    return digest, b"".join((*members(parts | canonical_parts({"digest": digest})), b"\n"))


def unseal(kind: str, version: int, document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Checks what `seal` added and returns the rest.

    Raises:
        FileError: It is another kind of document, of another version, or does not match its digest.
    """
    if document.get("kind") != f"elldelta {kind}":
        raise FileError(
            f"{source} is not a {kind}.",
            found="It is JSON of another kind.",
            remedy=f"Give a {kind} that elldelta has written.",
        )
    check_format(source, document.get("format"), version)
    content = {key: value for key, value in document.items() if key != "digest"}
    try:
        intact = digest_of_parts(members(canonical_parts(content))) == document.get("digest")
    except (ElldeltaError, RecursionError):  # nested deeper than anything of ours
        intact = False
    if not intact:
        raise changed(source)
    return {key: value for key, value in content.items() if key not in ("kind", "format")}


class Sealed(Protocol):
    """A record that is written under a seal."""

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON values, with its digest."""


def unsealed_record(
    kind: str, version: int, record: type[SealedRecord], document: Mapping[str, Any], source: str
) -> SealedRecord:
    """Checks what `seal` added and makes the record that the rest describes, to the letter.

    Raises:
        FileError: It is another kind of document, of another version, or not what `to_dict` has written.
    """
    try:
        made = record_from(record, unseal(kind, version, document, source))
    except MisfitError as problem:
        raise changed(source, problem.words) from None
    if made.to_dict()["digest"] != document["digest"]:
        raise changed(source, "It holds a key that is not known here, or is written in another way.")
    return made


def check_format(source: str, found: object, version: int) -> None:
    """Refuses a document that is written in another version of its format than the one that is known here.

    Raises:
        FileError: It is another version, or none at all.
    """
    if type(found) is not int or found != version:
        version_found = str(found) if type(found) is int else "unreadable"
        raise FileError(
            f"{source} was written by another version of elldelta.",
            found=f"Its format is {version_found}; the one known here is {version}.",
            remedy="Use the elldelta that has written it, or make it again with this one.",
        )


def changed(source: str, found: str = "Its content does not match its digest.") -> FileError:
    """The error for a document that somebody has edited, or a disk has damaged."""
    return FileError(
        f"{source} has been changed or damaged.",
        found=found,
        remedy="Fetch the original from whoever made it.",
    )


def as_bytes(document: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a sealed document, as they stand in its file."""
    return canonical_json(dict(document)) + b"\n"


def read_json(path: str | os.PathLike[str], kind: str, *, columns: bool = False) -> dict[str, Any]:
    """Reads a JSON object from a file, or says what is wrong with the file; see `json_object`."""
    document = json_object(read_bytes(path, kind), columns=columns)
    if document is None:
        raise FileError(
            f"{os.fspath(path)} is not a {kind}.",
            found="It is not a JSON object.",
            remedy=f"Give a {kind} that elldelta has written.",
        )
    return document


def json_object(content: bytes, *, columns: bool = False) -> dict[str, Any] | None:
    """The JSON object that the bytes are; None if they are something else, or can be read in two ways.

    Args:
        content: The bytes.
        columns: Whether long lists of whole numbers come as columns (`NumberColumn`).
    """
    if columns:
        rest, found = taken_out(content)
        hook = _Columns(found)
        try:
            document = json.loads(rest, object_pairs_hook=hook, parse_constant=_refuse)
        except (KeyError, ValueError, RecursionError):  # perhaps a text or an object only looks like a column
            return json_object(content)
        return document if isinstance(document, dict) and not hook.left else json_object(content)
    try:
        document = json.loads(content, object_pairs_hook=_without_doubles, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError
    return document


def _refuse(_: str) -> None:
    raise ValueError


class _Columns:
    """Puts the columns that were taken out of a document back to their places, as what they are."""

    def __init__(self, columns: Sequence[NumberColumn]) -> None:
        self.n_columns, self.left = len(columns), dict(enumerate(columns))

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any] | NumberColumn:
        if self.n_columns and len(pairs) == 1 and pairs[0][0] == "" and type(pairs[0][1]) is int:
            return self.left.pop(pairs[0][1])  # each stands in one place
        return _without_doubles(pairs)


def _check_plain(document: object) -> None:
    # json.dumps would accept integer keys and write them as text, so that two different documents share a
    # digest; NaN would be written as something that is not JSON.
    match document:
        case dict():
            for key, value in document.items():
                if not isinstance(key, str):
                    raise _not_plain(f"A key of type {type(key).__name__}")
                _check_plain(value)
        case list() | tuple():
            kinds = set(map(type, document))
            if document and kinds <= _LISTS:  # all rows of a table at once
                inner = set(map(type, chain.from_iterable(document)))
                _check_plain([] if inner <= _SCALARS else list(chain.from_iterable(document)))
            elif float in kinds and kinds <= _NUMBERS:
                # Whole numbers may be too large to be asked whether they are finite.
                floats = [value for value in document if type(value) is float]
                if not all(map(math.isfinite, floats)):
                    raise _not_finite()
            elif not kinds <= _SCALARS:
                for value in document:
                    _check_plain(value)
        case float() if not math.isfinite(document):
            raise _not_finite()
        case None | bool() | int() | float() | str() | NumberColumn():
            pass
        case _:
            raise _not_plain(f"A value of type {type(document).__name__}")


def _not_finite() -> ParameterError:
    return _not_plain("A number that is not finite")


def _not_plain(what: str) -> ParameterError:
    return ParameterError("A document for a digest must hold plain JSON values.", found=f"{what} was found.")
