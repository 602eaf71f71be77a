"""The agency's key as an owner has it: in a file, and beside it the links to further keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elldelta.agency.http import unexpected
from elldelta.errors import FileError, ParameterError
from elldelta.files import PublicKey, TrustedKeys, check_writable, stage_links, trusted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elldelta.agency.http import AgencyServer
    from elldelta.files import AtomicFiles


def fetch_key(server: AgencyServer) -> PublicKey:
    """The key that the server says is the agency's.

    Raises:
        RemoteError: There is no key, or not the one that its name says.
    """
    return _told(server.get("key").json())


def _told(document: Mapping[str, Any]) -> PublicKey:
    text = document.get("public_key")
    if not isinstance(text, str):
        raise unexpected("It tells no key.")
    try:
        key = PublicKey.from_pem(text.encode("utf-8", "replace"), source="The key of the server")
    except FileError as problem:
        raise unexpected(problem.problem) from None
    if document.get("id") != key.id:
        raise unexpected("The key is not the one that it names.")
    return key


@dataclass(frozen=True)
class KeyFile:
    """The file of the agency's key, the keys that are trusted because of it, and what is to be written.

    Attributes:
        path: The file of the key that is trusted; links lie beside it.
        keys: The keys.
        is_first: Whether the key is believed because it came first, and is still to be written.
        is_more: Whether the server has shown links that do not lie beside the file yet.
    """

    path: Path
    keys: TrustedKeys
    is_first: bool = False
    is_more: bool = False

    @classmethod
    def chosen(cls, server: AgencyServer, agency_key: Path | None, trust_first_key: Path | None) -> KeyFile:
        """The key that was named, or the server's own if it is to be believed this once."""
        if (agency_key is None) == (trust_first_key is None):
            raise ParameterError(
                "A plan is checked with the agency's key.",
                found="No key was named, or in two ways.",
                remedy="Give `agency_key=FILE`. If you have no key yet: `trust_first_key=FILE`, and compare "
                "its name with the agency on the telephone.",
            )
        path = Path(agency_key or trust_first_key or "")
        if agency_key is not None or path.exists():
            return cls.followed(server, path)
        check_writable(path, overwrite=False)
        document = server.get("key").json()
        keys = TrustedKeys.of(_told(document), _links(document))
        return cls(path, keys, is_first=True, is_more=bool(keys.links))

    @classmethod
    def followed(cls, server: AgencyServer, path: Path) -> KeyFile:
        """The key of a file, and all that it vouches for, also by links that the server shows."""
        known = trusted(path)
        keys = known.with_links(_links(server.get("key").json()))
        return cls(path, keys, is_more=len(keys.links) > len(known.links))

    def stage(self, files: AtomicFiles) -> None:
        """Writes what is new, together with other files; a key that is there is never replaced."""
        if self.is_first:
            files.stage(self.path).write_bytes(self.keys.pinned.to_pem())
        if self.is_more:
            stage_links(files, self.path, self.keys)


def _links(document: Mapping[str, Any]) -> list[object]:
    """The links that the server shows with its key; earlier versions show none."""
    links = document.get("links")
    return links if isinstance(links, list) else []
