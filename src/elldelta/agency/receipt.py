"""The receipt beside a release: which line of the agency's ledger it has, with the agency's signature.

With a signed receipt an owner can prove what the agency has admitted, also when the agency has lost its
ledger or shows another one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elldelta.errors import FileError, ParameterError, RefusedError
from elldelta.files import as_bytes, holds, is_digest, read_json, seal, sign, trusted, unsealed_record
from elldelta.release import manifest_path, read_manifest

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from elldelta.agency.registration import Registration
    from elldelta.files import PrivateKey, PublicKey, TrustedKeys
    from elldelta.release import Manifest

FORMAT_VERSION = 1
"""Version of the file; others are refused."""

KIND = "receipt"

_PURPOSE = b"elldelta/receipt-signature\n"
"""What the signed text begins with: a signature of a plan is none of a receipt."""


@dataclass(frozen=True)
class Receipt:
    """What the agency has answered to a registration; nothing that could not be one is a receipt.

    Attributes:
        server: The address of the agency's server.
        owner: The name under which the agency knows the owner.
        plan_digest: The plan.
        content_digest: The content of the release.
        registration_digest: What was sent; None if the receipt was fetched later.
        sequence: The number of its line in the ledger.
        hash: The hash of the line: shows later whether the ledger still holds it.
        population: The people that the release is about, by the name that the agency has for them.
        key_id: The key with which the agency has signed all that; None if it has not.
        signature: The signature.

    Raises:
        ParameterError: A part of it is not what it must be.
    """

    server: str
    owner: str
    plan_digest: str
    content_digest: str
    registration_digest: str | None
    sequence: int
    hash: str
    population: str
    key_id: str | None = None
    signature: str | None = None

    def __post_init__(self) -> None:
        digests = (self.plan_digest, self.content_digest, self.hash)
        perhaps = (self.registration_digest, self.key_id)
        if (
            not all(map(is_digest, digests))
            or not all(digest is None or is_digest(digest) for digest in perhaps)
            or not all(name.isprintable() for name in (self.server, self.owner, self.population))
            or self.sequence < 1
            or (self.key_id is None) != (self.signature is None)
        ):
            raise ParameterError("What was given is no receipt.")

    def is_about(self, release: Manifest | Registration) -> bool:
        """Whether it is the receipt of this release, under this plan."""
        return (self.plan_digest, self.content_digest) == (release.plan_digest, release.content_digest)

    def verify(self, keys: PublicKey | TrustedKeys, *, source: str = "The receipt") -> None:
        """Checks offline that the agency has signed this admission, with the key that the receipt names.

        Raises:
            FileError: The signature is damaged.
            RefusedError: There is none, or it is by another key, or does not hold.
        """
        known = trusted(keys)
        key = None if self.key_id is None else known.named(self.key_id)
        if self.key_id is None or self.signature is None:
            problem, found = f"{source} is not signed.", "It holds no signature of the agency."
        elif key is None:
            problem = f"{source} was signed with another key."
            found = f"It names the key {self.key_id}; the agency's key is {known.words}."
        elif not holds(key, _PURPOSE, _signed_content(asdict(self)), self.signature, source):
            problem = f"The signature of {source.lower()} does not hold."
            found = "It is about something else."
        else:
            return
        raise RefusedError(
            problem,
            found=found,
            remedy="Ask the agency, by another way than this one, which key is theirs; 'elldelta remote "
            "key' fetches its keys, 'elldelta remote receipt' the receipt once more.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The receipt as plain JSON values, with its digest."""
        return seal(KIND, FORMAT_VERSION, asdict(self))

    def to_bytes(self) -> bytes:
        """The receipt as it stands in its file."""
        return as_bytes(self.to_dict())

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str = "The receipt") -> Self:
        """Reads what `to_dict` wrote; refuses other versions and content that does not match its digest."""
        return unsealed_record(KIND, FORMAT_VERSION, cls, document, source)


def sign_admission(key: PrivateKey, admitted: Mapping[str, Any]) -> dict[str, Any]:
    """The agency's answer with its key and its signature of the line that a release has.

    Args:
        key: The agency's key.
        admitted: "plan", "population", "owner", "content_digest", "sequence" and "hash", and perhaps more.
    """
    content = _signed_content({**admitted, "plan_digest": admitted["plan"]})
    return {**admitted, "key_id": key.id, "signature": sign(key, _PURPOSE, content)}


def receipt_path(release: str | os.PathLike[str]) -> Path:
    """Where the receipt of a release lies: beside it, with `.receipt.json` added to its name."""
    path = Path(release)
    return path.with_name(path.name + ".receipt.json")


def read_receipt(path: str | os.PathLike[str]) -> Receipt:
    """Reads a receipt; refuses other files, other versions and edited ones."""
    return Receipt.from_dict(read_json(Path(path), KIND), source=f"The receipt {path}")


def _signed_content(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """What is signed."""
    signed = ("plan_digest", "population", "owner", "content_digest", "sequence", "hash")
    return {"format": FORMAT_VERSION, **{name: receipt[name] for name in signed}}


def admitted_line(release: Path, agency_key: PublicKey | TrustedKeys | None = None) -> tuple[str, str]:
    """The hash of the line with which a ledger has admitted a release, and its owner, as the release says.

    A release that was written through a ledger names it in its manifest, one that was registered with an
    agency in its receipt.

    Args:
        release: The release, with its manifest beside it.
        agency_key: The agency's public key: there must then be a receipt that it has signed.

    Raises:
        RefusedError: The agency has not signed the receipt.
        FileError: Neither names a line, or the receipt is that of another release.
    """
    manifest = read_manifest(manifest_path(release))
    beside = receipt_path(release)
    if beside.exists():
        receipt = read_receipt(beside)
        if not receipt.is_about(manifest):
            raise FileError(
                f"The receipt {beside} is that of another release.",
                found="Its plan or its content is not the one in the manifest.",
                remedy="Fetch its own one: elldelta remote receipt.",
            )
        if agency_key is not None:
            receipt.verify(agency_key, source=f"The receipt {beside}")
        return receipt.hash, receipt.owner
    if manifest.ledger is None or agency_key is not None:
        raise FileError(
            f"The release {release} was not admitted by a ledger.",
            found="There is no receipt beside it."
            if agency_key is not None
            else "Its manifest names none, and there is no receipt beside it.",
            remedy="Register it with the agency, or release it with a ledger.",
        )
    return str(manifest.ledger["hash"]), str(manifest.ledger["owner"])
