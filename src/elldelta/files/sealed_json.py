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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from elldelta.errors import ElldeltaError, FileError, ParameterError
from elldelta.files.atomic import read_bytes
from elldelta.files.records import MisfitError, record_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SealedRecord = TypeVar("SealedRecord", bound="Sealed")

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_LISTS = {list, tuple}
_SCALARS = {type(None), bool, int, str}
"""Types whose values are all plain; a list of them needs no look at each."""
_NUMBERS = {int, float}

MANY_ROWS, MOST_REPEATED = 1000, 100_000
"""Tables of so many rows are looked at for numbers that repeat, of which so many may be different."""


def canonical_json(document: Any) -> bytes:  # noqa: ANN401 (any plain JSON value)
    """The canonical bytes of a plain JSON value: sorted keys, no white space, UTF-8, floats by `repr`.

    >>> canonical_json({"b": 1, "a": [0.5, "é", None]}).decode()
    '{"a":[0.5,"é",null],"b":1}'
    """
    text = _repeated_numbers(document)
    if not text:
        _check_plain(document)
        text = json.dumps(
            document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError(
            "A document for a digest must be valid Unicode.",
            found="A text holds half of a surrogate pair.",
        ) from None


def canonical_parts(
    document: Mapping[str, Any], written: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, bytes]:
    """The canonical bytes of every member of a JSON object, of which some may be written already."""
    return {
        name: written.get(name) or canonical_json(name) + b":" + canonical_json(value)
        for name, value in document.items()
    }


def members(parts: Mapping[str, bytes]) -> Iterator[bytes]:
    """The canonical bytes of a JSON object from those of its members, one after the other."""
    for place, name in enumerate(sorted(parts)):
        yield b"," if place else b"{"
        yield parts[name]
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


def sealed_bytes(
    kind: str, version: int, content: Mapping[str, Any], written: Mapping[str, bytes] = MappingProxyType({})
) -> tuple[str, bytes]:
    """The digest of what `seal` returns, and its bytes as they stand in a file; values are written once.

    Members whose canonical bytes are known already (`unseal`) need not be written again.

    >>> made = seal("thing", 1, {"a": 0.5})
    >>> sealed_bytes("thing", 1, {"a": 0.5}) == (made["digest"], as_bytes(made))
    True
    """
    parts = canonical_parts({"kind": f"elldelta {kind}", "format": version, **content}, written)
    digest = digest_of_parts(members(parts))
    return digest, b"".join((*members(parts | canonical_parts({"digest": digest})), b"\n"))


def unseal(kind: str, version: int, document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Checks what `seal` added and returns the rest; see `unsealed_parts`."""
    return unsealed_parts(kind, version, document, source)[0]


def unsealed_parts(
    kind: str, version: int, document: Mapping[str, Any], source: str
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Checks what `seal` added and returns the rest, and the canonical bytes of every member.

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
        parts = canonical_parts(content)
        intact = digest_of_parts(members(parts)) == document.get("digest")
    except (ElldeltaError, RecursionError):  # nested deeper than anything of ours
        intact = False
    if not intact:
        raise changed(source)
    return {key: value for key, value in content.items() if key not in ("kind", "format")}, parts


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


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Reads a JSON object from a file, or says what is wrong with the file."""
    document = json_object(read_bytes(path, kind))
    if document is None:
        raise FileError(
            f"{os.fspath(path)} is not a {kind}.",
            found="It is not a JSON object.",
            remedy=f"Give a {kind} that elldelta has written.",
        )
    return document


def json_object(content: bytes) -> dict[str, Any] | None:
    """The JSON object that the bytes are; None if they are something else, or can be read in two ways."""
    try:
        document = json.loads(
            content,
            object_pairs_hook=_without_doubles,
            parse_constant=_refuse,
            parse_float=_Floats().__getitem__,
        )
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


class _Floats(dict[str, float]):
    """The floats that were read so far by their spelling: in large tables few are different."""

    def __missing__(self, text: str) -> float:
        number = float(text)
        if len(self) < MOST_REPEATED:
            self[text] = number
        return number


def _repeated_numbers(document: object) -> str:
    """The JSON of a large table of numbers of which few are different: each is spelled out once, else ""."""
    if not isinstance(document, list | tuple) or len(document) < MANY_ROWS:
        return ""
    if not set(map(type, document)) <= _LISTS:
        return ""
    kinds = set(map(type, chain.from_iterable(document)))
    if kinds not in ({float}, {int}):
        return ""
    texts = {number: repr(number) for number in set(chain.from_iterable(document))}
    if len(texts) > MOST_REPEATED:
        return ""
    # 0.0 is equal to -0.0, and not spelled alike.
    if kinds == {float} and (0.0 in texts or not all(map(math.isfinite, texts))):
        return ""
    return f"[{','.join(['[' + ','.join([texts[number] for number in row]) + ']' for row in document])}]"


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
        case None | bool() | int() | float() | str():
            pass
        case _:
            raise _not_plain(f"A value of type {type(document).__name__}")


def _not_finite() -> ParameterError:
    return _not_plain("A number that is not finite")


def _not_plain(what: str) -> ParameterError:
    return ParameterError("A document for a digest must hold plain JSON values.", found=f"{what} was found.")
