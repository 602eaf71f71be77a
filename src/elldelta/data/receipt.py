"""The receipt beside a release: which line of the agency's ledger it has."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elldelta.data.canonical import is_digest
from elldelta.data.json_file import as_bytes, changed, read_json, seal, unseal

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

FORMAT_VERSION = 1
"""Version of the file; old versions are read for ever, newer ones refused."""

KIND = "receipt"


@dataclass(frozen=True)
class Receipt:
    """What the agency has answered to a registration.

    Attributes:
        server: The address of the agency's server.
        owner: The name under which the agency knows the owner.
        plan_digest: The plan.
        content_digest: The content of the release.
        registration_digest: What was sent.
        sequence: The number of its line in the ledger.
        hash: The hash of the line: shows later whether the ledger still holds it.
    """

    server: str
    owner: str
    plan_digest: str
    content_digest: str
    registration_digest: str
    sequence: int
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """The receipt as plain JSON values, with its digest."""
        return seal(KIND, FORMAT_VERSION, asdict(self))

    def to_bytes(self) -> bytes:
        """The receipt as it stands in its file."""
        return as_bytes(self.to_dict())

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The receipt") -> Self:
        """Reads what `to_dict` wrote; refuses newer versions and content that does not match its digest."""
        content = unseal(KIND, FORMAT_VERSION, document, source)
        try:
            receipt = cls(**content)
        except TypeError:
            raise changed(source) from None
        digests = (receipt.plan_digest, receipt.content_digest, receipt.registration_digest, receipt.hash)
        texts: tuple[object, ...] = (receipt.server, receipt.owner)
        if (
            not all(map(is_digest, digests))
            or not all(isinstance(text, str) and text.isprintable() for text in texts)
            or type(receipt.sequence) is not int
        ):
            raise changed(source)
        return receipt


def receipt_path(release: str | os.PathLike[str]) -> Path:
    """Where the receipt of a release lies: beside it, with `.receipt.json` added to its name."""
    path = Path(release)
    return path.with_name(path.name + ".receipt.json")


def read_receipt(path: str | os.PathLike[str]) -> Receipt:
    """Reads a receipt; refuses other files, newer versions and edited ones."""
    return Receipt.from_dict(read_json(Path(path), KIND), source=f"The receipt {path}")
