"""Which line of a ledger a release has, by what lies beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elldelta.agency.receipt import read_receipt, receipt_path
from elldelta.errors import FileError
from elldelta.release.manifest import manifest_path, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from elldelta.files import PublicKey


def admitted_hash(release: Path, agency_key: PublicKey | None = None) -> str:
    """The hash of the line with which a ledger has admitted a release.

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
        if (receipt.plan_digest, receipt.content_digest) != (manifest.plan_digest, manifest.content_digest):
            raise FileError(
                f"The receipt {beside} is that of another release.",
                found="Its plan or its content is not the one in the manifest.",
                remedy="Register the release again; that fetches its receipt.",
            )
        if agency_key is not None:
            receipt.verify(agency_key, source=f"The receipt {beside}")
        return receipt.hash
    if manifest.ledger is None or agency_key is not None:
        raise FileError(
            f"The release {release} was not admitted by a ledger.",
            found="There is no receipt beside it."
            if agency_key is not None
            else "Its manifest names none, and there is no receipt beside it.",
            remedy="Register it with the agency, or release it with --ledger.",
        )
    return str(manifest.ledger["hash"])
