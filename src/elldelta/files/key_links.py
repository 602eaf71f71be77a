"""Links between keys: one key of somebody vouches for another one, so that whoever trusts one can follow.

An agency that makes a new key lets the old one say "this is my successor", and the new one "that was mine".
Whoever has the old key by a way that they trust, and is shown these links by anybody, finds the new one; no
link is believed that does not begin at a key that is trusted. From a key that is trusted only because it was
somebody's before, nothing is followed: it may have vouched for one that was stolen since. A thief of a key
can make links, too: a key that was stolen must be replaced by another way than this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from elldelta.errors import FileError
from elldelta.files.sealed_json import as_bytes, read_json
from elldelta.files.signatures import ALGORITHM, PublicKey, holds, read_public_key, sign

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from elldelta.files.atomic import AtomicFiles
    from elldelta.files.signatures import PrivateKey

KIND = "elldelta key link"
FORMAT_VERSION = 1
"""Version of a link; old versions are read for ever, newer ones are not followed."""

MOST_LINKS = 1000
"""Links that are looked at; nobody has so many keys."""

_PURPOSE = b"elldelta/key-link\n"
_KEYS = frozenset({"kind", "format", "says", "algorithm", "key_id", "public_key", "signature"})
_FILE_KIND = "elldelta key links"


Says = Literal["successor", "former"]


def link_keys(signer: PrivateKey, other: PublicKey, says: Says) -> dict[str, Any]:
    """The document in which one key says that another one takes its place, or was there before it."""
    said = _said(says, other.to_pem().decode("ascii"))
    document = {"kind": KIND, **said, "algorithm": ALGORITHM, "key_id": signer.id}
    return {**document, "signature": sign(signer, _PURPOSE, said)}


@dataclass(frozen=True)
class TrustedKeys:
    """A key that is trusted, and all that it vouches for, from link to link.

    Attributes:
        pinned: The key that came by a way that is trusted.
        links: The links that hold and begin at a trusted key, in the order in which they were followed.
        keys: All trusted keys, by their names.
    """

    pinned: PublicKey
    links: tuple[Mapping[str, Any], ...]
    keys: Mapping[str, PublicKey]

    @classmethod
    def of(cls, pinned: PublicKey, links: Iterable[object] = ()) -> Self:
        """Follows links, from anybody; those that are none, or lead nowhere, are left out."""
        given = [link for link in list(links)[:MOST_LINKS] if isinstance(link, dict)]
        line, followed = {pinned.id: pinned}, list[Mapping[str, Any]]()
        n_before = 0
        while n_before < len(line):  # from successor to successor
            n_before = len(line)
            followed += _reached(given, "successor", line, line)
        keys = dict(line)
        followed += _reached(given, "former", line, keys)
        return cls(pinned, tuple(followed), MappingProxyType(keys))

    def with_links(self, links: Iterable[object]) -> Self:
        """The same with more links to follow."""
        return type(self).of(self.pinned, [*self.links, *links])

    def named(self, key_id: str) -> PublicKey | None:
        """The trusted key of this name, or None."""
        return self.keys.get(key_id)

    @property
    def words(self) -> str:
        """The names of the keys, for messages."""
        more = len(self.keys) - 1
        return self.pinned.id + (f", which vouches for {more} more" if more else "")


def trusted(key: PublicKey | TrustedKeys | str | os.PathLike[str]) -> TrustedKeys:
    """Trusted keys, from the key, or from its file with the links that lie beside it."""
    if isinstance(key, TrustedKeys):
        return key
    if isinstance(key, PublicKey):
        return TrustedKeys.of(key)
    path, beside = Path(key), links_path(key)
    pinned = read_public_key(path)
    if not beside.exists():
        return TrustedKeys.of(pinned)
    document = read_json(beside, "file of key links")
    links = document.get("links")
    if document.get("kind") != _FILE_KIND or not isinstance(links, list):
        raise FileError(
            f"{beside} is not a file of key links.",
            found="It is JSON of another kind.",
            remedy="Remove it; the next command that asks the agency's server fetches the links again.",
        )
    return TrustedKeys.of(pinned, links)


def links_path(key: str | os.PathLike[str]) -> Path:
    """Where the links of a key's file lie: beside it, with `.links` added to its name."""
    path = Path(key)
    return path.with_name(path.name + ".links")


def stage_links(files: AtomicFiles, key: str | os.PathLike[str], keys: TrustedKeys) -> None:
    """Writes links beside the file of the key at which they begin, together with other files."""
    content = as_bytes({"kind": _FILE_KIND, "links": [dict(link) for link in keys.links]})
    files.stage(links_path(key)).write_bytes(content)


def _reached(
    links: Sequence[Mapping[str, Any]],
    says: Says,
    signers: Mapping[str, PublicKey],
    keys: dict[str, PublicKey],
) -> list[Mapping[str, Any]]:
    """Adds the keys that links of one kind lead to, and returns these links."""
    followed = []
    for link in links:
        signer = signers.get(str(link.get("key_id")))
        found = None if signer is None or link.get("says") != says else _linked(signer, link)
        if found is not None and found.id not in keys:
            keys[found.id] = found
            followed.append(link)
    return followed


def _said(says: object, public_key: str) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, "says": says, "public_key": public_key}


def _linked(signer: PublicKey, link: Mapping[str, Any]) -> PublicKey | None:
    """The key that a link leads to; None if it is no link of this signer."""
    text = link.get("public_key")
    if (
        link.keys() != _KEYS
        or type(link["format"]) is not int
        or (link["kind"], link["format"], link["algorithm"]) != (KIND, FORMAT_VERSION, ALGORITHM)
        or type(text) is not str
        or type(link["signature"]) is not str
    ):
        return None
    try:
        if not holds(signer, _PURPOSE, _said(link["says"], text), link["signature"], "The link"):
            return None
        return PublicKey.from_pem(text.encode("ascii", "replace"))
    except FileError:
        return None
