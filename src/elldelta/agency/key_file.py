"""The agency's public keys as an owner has them: in a file, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from elldelta.agency.http import unexpected
from elldelta.errors import FileError, ParameterError
from elldelta.files import TrustedKeys, check_writable, read_public_keys

if TYPE_CHECKING:
    from elldelta.agency.http import AgencyServer


def fetch_keys(server: AgencyServer) -> TrustedKeys:
    """The keys that the server says are the agency's, the present one first.

    Raises:
        RemoteError: There is no key, or not the one that its name says.
    """
    document = server.get("key").json()
    text = document.get("public_keys")
    if not isinstance(text, str):
        raise unexpected("It tells no key.")
    try:
        keys = TrustedKeys.from_pem(text.encode("utf-8", "replace"), source="The key of the server")
    except FileError as problem:
        raise unexpected(problem.problem) from None
    if document.get("id") != keys.keys[0].id:
        raise unexpected("The key is not the one that it names.")
    return keys


def chosen_keys(
    server: AgencyServer, agency_key: Path | None, trust_first_key: Path | None
) -> tuple[TrustedKeys, bool]:
    """The keys of a file that was named, or the server's own if they are to be believed this once.

    Returns:
        The keys, and whether they are the server's own, which are still to be written.
    """
    if (agency_key is None) == (trust_first_key is None):
        raise ParameterError(
            "A plan is checked with the agency's key.",
            found="No key was named, or in two ways.",
            remedy="Give `agency_key=FILE`. If you have no key yet: `trust_first_key=FILE`, and compare "
            "its name with the agency on the telephone.",
        )
    path = Path(agency_key or trust_first_key or "")
    if agency_key is not None or path.exists():
        return read_public_keys(path), False
    check_writable(path, overwrite=False)
    return fetch_keys(server), True
