"""Signatures of plans: an owner checks offline that a plan is the agency's (Ed25519).

A signature lies beside its plan, as `plan.json.sig`. What is signed is not the file but a short text of its
own: a fixed word for what is being said, the version of the format, the key and the digest of the plan. The
digest covers everything a plan says, so a plan that is written down differently (other white space) keeps its
signature, and a plan that says anything else does not.

The package `cryptography` is imported where it is used: only whoever signs or checks needs it.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elldelta.errors import FileError, InputError, ParameterError, RefusedError
from elldelta.files.atomic import AtomicFiles
from elldelta.files.canonical import canonical_json, digest_of_bytes, is_digest
from elldelta.files.json_file import as_bytes, read_json
from elldelta.plan.plan import KIND as PLAN_KIND
from elldelta.plan.plan import Plan, read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT_VERSION = 1
"""Version of the document; old versions are read for ever, newer ones refused."""

KIND = "elldelta plan signature"

ALGORITHM = "Ed25519"

MOST_KEY_BYTES = 10_000
"""A key file is a few lines; a larger one is something else."""

_SIGNATURE_BYTES = 64
_DOMAIN = b"elldelta/plan-signature\n"
"""What every signed text begins with: a signature of this key under anything else is none of a plan."""

_KEYS = frozenset({"kind", "format", "algorithm", "key_id", "plan_digest", "signature"})


@dataclass(frozen=True, eq=False)
class PublicKey:
    """The key with which everybody can check the agency's signatures."""

    _key: Ed25519PublicKey

    @classmethod
    def from_pem(cls, content: bytes, *, source: str = "The agency's key") -> Self:
        """Reads a public key.

        Raises:
            FileError: It is no public Ed25519 key; a private one is refused too, it must not travel.
        """
        _need_cryptography()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        if b"PRIVATE KEY" in content:
            raise FileError(
                f"{source} is a private key.",
                found="A public key is needed here.",
                remedy="Give the public key; the private one stays with the agency.",
            )
        try:
            key = load_pem_public_key(_checked_size(content, source))
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise _no_key(source, "public")
        return cls(key)

    @property
    def raw(self) -> bytes:
        """The 32 bytes of the key."""
        return self._key.public_bytes_raw()

    @property
    def id(self) -> str:
        """The digest of the raw key: short enough to be read out on the telephone, at least in part."""
        return digest_of_bytes(self.raw)

    def to_pem(self) -> bytes:
        """The key as a PEM file."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def holds(self, message: bytes, signature: bytes) -> bool:
        """Whether a signature of this key is one of exactly this message."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)


@dataclass(frozen=True, eq=False, repr=False)
class AgencyKey:
    """The agency's private key; it never appears in a message or in what Python prints of it."""

    _key: Ed25519PrivateKey

    @classmethod
    def create(cls) -> Self:
        """A new key, from the system's source of randomness."""
        _need_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, content: bytes, *, source: str = "The agency's key") -> Self:
        """Reads a private key that `to_pem` wrote.

        Raises:
            FileError: It is no private Ed25519 key, or is protected by a password.
        """
        _need_cryptography()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(_checked_size(content, source), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise _no_key(source, "private")
        return cls(key)

    def to_pem(self) -> bytes:
        """The private key as a PEM file; keep it to yourself."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def public_key(self) -> PublicKey:
        """The key for everybody else."""
        return PublicKey(self._key.public_key())

    @property
    def id(self) -> str:
        """The name of the key: that of its public part."""
        return self.public_key.id

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"<AgencyKey {self.id}>"


def sign_plan(plan: Plan, key: AgencyKey) -> dict[str, Any]:
    """Signs a plan; the document that is returned lies beside it as `plan.json.sig`."""
    signature = key.sign(_message(plan.digest, key.id))
    return {
        "kind": KIND,
        "format": FORMAT_VERSION,
        "algorithm": ALGORITHM,
        "key_id": key.id,
        "plan_digest": plan.digest,
        "signature": signature_text(signature),
    }


def verify_plan_signature(
    plan: Plan, document: Mapping[str, Any], public_key: PublicKey, *, source: str = "The signature"
) -> None:
    """Checks that the agency has signed exactly this plan.

    Raises:
        FileError: The document is no signature, is damaged, or of a newer version.
        RefusedError: It is of another plan or another key, or does not hold.
    """
    if signed_digest(document, public_key, source=source) != plan.digest:
        raise _other_plan(source)


def signed_digest(
    document: Mapping[str, Any], public_key: PublicKey, *, source: str = "The signature"
) -> str:
    """The digest of the plan that a signature document vouches for, once it is clear that it does.

    Raises:
        FileError: The document is no signature, is damaged, or of a newer version.
        RefusedError: It is by another key, or does not hold.
    """
    signature = _parsed(document, source)
    if document["key_id"] != public_key.id:
        raise RefusedError(
            f"{source} was made with another key.",
            found=f"It names the key {document['key_id']}; the agency's key is {public_key.id}.",
            remedy="Ask the agency, by another way than this one, which key is theirs.",
        )
    if not public_key.holds(_message(document["plan_digest"], public_key.id), signature):
        raise RefusedError(
            f"{source} does not hold.",
            found="It was not made by the owner of the agency's key, or has been changed.",
            remedy="Do not use the plan; fetch it again from the agency.",
        )
    return str(document["plan_digest"])


def signature_text(signature: bytes) -> str:
    """A signature as it is written into documents."""
    return base64.b64encode(signature).decode("ascii")


def signature_from_text(text: str, source: str) -> bytes:
    """Reads what `signature_text` wrote, in that spelling only.

    Raises:
        FileError: It is no signature.
    """
    try:
        signature = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _damaged(source) from None
    # Unused bits at the end, or other padding, would be a second spelling.
    if len(signature) != _SIGNATURE_BYTES or signature_text(signature) != text:
        raise _damaged(source)
    return signature


def signature_path(plan: str | os.PathLike[str]) -> Path:
    """Where the signature of a plan lies: beside it, with `.sig` added to its name."""
    path = Path(plan)
    return path.with_name(path.name + ".sig")


def read_signature(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a signature document from a file; whether it holds is another question."""
    document = read_json(Path(path), "plan signature")
    _parsed(document, f"The signature {os.fspath(path)}")
    return document


def signature_bytes(document: Mapping[str, Any]) -> bytes:
    """A signature document as it stands in its file."""
    return as_bytes(document)


def read_signed_plan(path: str | os.PathLike[str], public_key: PublicKey) -> Plan:
    """Reads a plan that the agency has signed; its signature lies beside it.

    The signature is checked before anything of the plan is interpreted.

    Raises:
        FileError: Plan or signature is missing or damaged.
        RefusedError: The agency has not signed this plan.
    """
    beside = signature_path(path)
    if not beside.exists():
        raise FileError(
            f"The plan {os.fspath(path)} comes without a signature.",
            found=f"There is no file {beside}.",
            remedy="Fetch the signature from the agency and put it beside the plan.",
        )
    source = f"The signature {beside}"
    vouched = signed_digest(read_signature(beside), public_key, source=source)
    document = read_json(Path(path), PLAN_KIND)
    if document.get("digest") != vouched:
        raise _other_plan(source)
    return Plan.from_dict(document, source=f"The plan {os.fspath(path)}")


def given_plan(
    plan: Plan | str | os.PathLike[str], agency_key: PublicKey | str | os.PathLike[str] | None = None
) -> tuple[Plan, tuple[Path, ...]]:
    """A plan that is given as it is or as its file, and the files that it comes from.

    Args:
        plan: The plan, or its file.
        agency_key: The agency's public key, or its file: then nothing else of the plan is read before its
            signature, which lies beside it, holds.
    """
    if isinstance(plan, Plan):
        if agency_key is not None:
            raise ParameterError(
                "The signature of a plan is checked where it is read.",
                found="A key was given, and a plan that is no file.",
                remedy="Give the file of the plan, with its signature beside it.",
            )
        return plan, ()
    files = (Path(plan), signature_path(plan))
    if agency_key is None:
        return read_plan(files[0]), files
    key = agency_key if isinstance(agency_key, PublicKey) else read_public_key(agency_key)
    return read_signed_plan(plan, key), files


def read_public_key(path: str | os.PathLike[str]) -> PublicKey:
    """Reads the agency's public key from a file."""
    return PublicKey.from_pem(_read_key_file(Path(path)), source=f"The key {os.fspath(path)}")


def read_agency_key(path: str | os.PathLike[str]) -> AgencyKey:
    """Reads the agency's private key from a file that nobody else may read.

    Raises:
        FileError: It cannot be read, is no such key, or others may read it.
    """
    path = Path(path)
    content = _read_key_file(path)
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise FileError(
            f"Others may read the private key {path}.",
            found=f"Its permissions are {stat.S_IMODE(path.stat().st_mode):04o}.",
            remedy=f"Run: chmod 600 {path}. If somebody may have read it, make a new key.",
        )
    return AgencyKey.from_pem(content, source=f"The key {path}")


def write_agency_key(key: AgencyKey, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes a private key, whole or not at all, readable by nobody else."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path, private=True).write_bytes(key.to_pem())


def write_public_key(key: PublicKey, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes a public key, whole or not at all."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path).write_bytes(key.to_pem())


def write_key_pair(key: AgencyKey, private: str | os.PathLike[str], public: str | os.PathLike[str]) -> None:
    """Writes both parts of a new key, or none; never over a key that is there."""
    with AtomicFiles(overwrite=False) as files:
        files.stage(private, private=True).write_bytes(key.to_pem())
        files.stage(public).write_bytes(key.public_key.to_pem())


def write_signature(
    document: Mapping[str, Any], plan: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Writes a signature beside its plan."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(signature_path(plan)).write_bytes(signature_bytes(document))


def _message(plan_digest: str, key_id: str) -> bytes:
    """What is signed."""
    said = {"format": FORMAT_VERSION, "algorithm": ALGORITHM, "key_id": key_id, "plan_digest": plan_digest}
    return _DOMAIN + canonical_json(said)


def _parsed(document: Mapping[str, Any], source: str) -> bytes:
    """The bytes of the signature, from a document that is exactly what `sign_plan` writes."""
    if document.get("kind") != KIND:
        raise FileError(
            f"{source} is not the signature of a plan.",
            found="It is JSON of another kind.",
            remedy="Fetch the signature from the agency.",
        )
    version = document.get("format")
    if type(version) is not int or version != FORMAT_VERSION:
        raise FileError(
            f"{source} is of a version that is not known here.",
            found=f"The newest version known is {FORMAT_VERSION}.",
            remedy="Update elldelta.",
        )
    if document.get("algorithm") != ALGORITHM:
        raise FileError(
            f"{source} uses a method that is not known here.",
            found=f"Plans are signed with {ALGORITHM}.",
            remedy="Update elldelta.",
        )
    digests = (document.get("key_id"), document.get("plan_digest"))
    text = document.get("signature")
    if document.keys() != _KEYS or not all(is_digest(value) for value in digests) or type(text) is not str:
        raise _damaged(source)
    return signature_from_text(text, source)


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401 (only whether it is there)
    except ImportError:
        raise InputError(
            "Signatures need the package 'cryptography'.",
            found="It is not installed.",
            remedy="Run: pip install 'elldelta[remote]'",
        ) from None


def _checked_size(content: bytes, source: str) -> bytes:
    if len(content) > MOST_KEY_BYTES:
        raise FileError(f"{source} is not a key.", found="It is too large.", remedy="Give a PEM file.")
    return content


def _read_key_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_KEY_BYTES + 1)
    except FileNotFoundError:
        raise FileError(
            f"There is no key {path}.", found="The file does not exist.", remedy="Check its name."
        ) from None
    except OSError as problem:
        raise FileError(
            f"The key {path} cannot be read.", found=f"The system says: {problem.strerror}."
        ) from None


def _no_key(source: str, which: str) -> FileError:
    return FileError(
        f"{source} is not a {which} {ALGORITHM} key.",
        found="It is not PEM, or of another kind, or protected by a password.",
        remedy=f"Give the {which} key as a PEM file.",
    )


def _damaged(source: str) -> FileError:
    return FileError(
        f"{source} has been changed or damaged.",
        found="It does not hold what a signature holds.",
        remedy="Fetch the signature from the agency.",
    )


def _other_plan(source: str) -> RefusedError:
    return RefusedError(
        f"{source} is about another plan.",
        found="The agency has not signed the plan that lies here.",
        remedy="Do not use the plan; fetch plan and signature again from the agency.",
    )
