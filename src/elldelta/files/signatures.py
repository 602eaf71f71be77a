"""Keys and signatures (Ed25519) of what is said in JSON, for everybody to check offline.

What is signed is a text of its own: a fixed word for its purpose, then what is said, with the method and the
key. The package `cryptography` is imported where it is used: only whoever signs or checks needs it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elldelta.errors import FileError, InputError
from elldelta.files.atomic import AtomicFiles, read_bytes
from elldelta.files.sealed_json import canonical_json, digest_of_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM = "Ed25519"

MOST_KEY_BYTES = 10_000
"""A file of keys is a few lines; a larger one is something else."""

_SIGNATURE_BYTES = 64
_END = b"-----END PUBLIC KEY-----"


@dataclass(frozen=True, eq=False)
class PublicKey:
    """The key with which everybody can check signatures."""

    _key: Ed25519PublicKey

    @classmethod
    def from_pem(cls, content: bytes, *, source: str = "The key") -> Self:
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
                remedy="Give the public key; the private one stays with its owner.",
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
        return digest_of_parts([self.raw])

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


@dataclass(frozen=True)
class TrustedKeys:
    """Keys of one agency that came by a way that is trusted: the present one first, then former ones.

    A file of them is a PEM bundle, one block after the other. Nothing leads from one key to another: whoever
    is to trust a new key is given it, as they were given the first one.
    """

    keys: tuple[PublicKey, ...]

    @classmethod
    def from_pem(cls, content: bytes, *, source: str = "The key") -> Self:
        """Reads a bundle.

        Raises:
            FileError: One of its blocks is no public Ed25519 key, or there is none.
        """
        *blocks, rest = _checked_size(content, source).split(_END)
        if not blocks or rest.strip():
            PublicKey.from_pem(rest, source=source)  # which says what else it is
            raise _no_key(source, "public")
        keys = [PublicKey.from_pem(block + _END, source=source) for block in blocks]
        return cls(tuple(dict.fromkeys(keys)))

    def to_pem(self) -> bytes:
        """The keys as a PEM bundle."""
        return b"".join(key.to_pem() for key in self.keys)

    def named(self, key_id: str) -> PublicKey | None:
        """The key of this name, or None."""
        return next((key for key in self.keys if key.id == key_id), None)

    @property
    def words(self) -> str:
        """The names of the keys, for messages."""
        more = len(self.keys) - 1
        return self.keys[0].id + (f", and {more} more in its file" if more else "")


def trusted(key: PublicKey | TrustedKeys | str | os.PathLike[str]) -> TrustedKeys:
    """Trusted keys, from one key, or from a file."""
    if isinstance(key, TrustedKeys):
        return key
    return TrustedKeys((key,)) if isinstance(key, PublicKey) else read_public_keys(key)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateKey:
    """A private key; it never appears in a message or in what Python prints of it."""

    _key: Ed25519PrivateKey

    @classmethod
    def create(cls) -> Self:
        """A new key, from the system's source of randomness."""
        _need_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, content: bytes, *, source: str = "The key") -> Self:
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

    def secret_for(self, purpose: bytes) -> bytes:
        """32 secret bytes for another purpose: they follow from the key and tell nothing of it."""
        return hmac.digest(self._key.private_bytes_raw(), purpose, "sha256")

    def __repr__(self) -> str:
        return f"<PrivateKey {self.id}>"


def sign(key: PrivateKey, purpose: bytes, document: Mapping[str, Any]) -> str:
    """The signature of what is said, as it is written into documents.

    Args:
        key: The key.
        purpose: What the signed text begins with: a signature under another word is none for this purpose.
        document: Plain JSON values.
    """
    return base64.b64encode(key.sign(_message(purpose, document, key.id))).decode("ascii")


def holds(key: PublicKey, purpose: bytes, document: Mapping[str, Any], text: str, source: str) -> bool:
    """Whether `sign` wrote the text with this key about exactly this.

    Raises:
        FileError: It is no signature in that spelling.
    """
    return key.holds(_message(purpose, document, key.id), signature_from_text(text, source))


def signature_from_text(text: str, source: str) -> bytes:
    """Reads a signature in the spelling of `sign` only.

    Raises:
        FileError: It is no signature.
    """
    try:
        signature = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise damaged_signature(source) from None
    # Unused bits at the end, or other padding, would be a second spelling.
    if len(signature) != _SIGNATURE_BYTES or base64.b64encode(signature).decode("ascii") != text:
        raise damaged_signature(source)
    return signature


def damaged_signature(source: str) -> FileError:
    """The error for something that is no signature of ours."""
    return FileError(
        f"{source} has been changed or damaged.",
        found="It does not hold what a signature holds.",
        remedy="Fetch the signature from the agency.",
    )


def read_public_keys(path: str | os.PathLike[str]) -> TrustedKeys:
    """Reads one public key, or several, from a file."""
    content = read_bytes(path, "key", MOST_KEY_BYTES)
    return TrustedKeys.from_pem(content, source=f"The key {os.fspath(path)}")


def read_private_key(path: str | os.PathLike[str]) -> PrivateKey:
    """Reads a private key from a file that nobody else may read.

    Raises:
        FileError: It cannot be read, is no such key, or others may read it.
    """
    path = Path(path)
    content = read_bytes(path, "key", MOST_KEY_BYTES)
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        raise FileError(
            f"Others may read the private key {path}.",
            found=f"Its permissions are {mode:04o}.",
            remedy=f"Run: chmod 600 {path}. If somebody may have read it, make a new key.",
        )
    return PrivateKey.from_pem(content, source=f"The key {path}")


def write_key(
    key: PrivateKey | PublicKey | TrustedKeys, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Writes a key, whole or not at all; a private one readable by nobody else."""
    with AtomicFiles(overwrite=overwrite) as files:
        files.stage(path, private=isinstance(key, PrivateKey)).write_bytes(key.to_pem())


def write_key_pair(key: PrivateKey, private: str | os.PathLike[str], public: str | os.PathLike[str]) -> None:
    """Writes both parts of a new key, or none; never over a key that is there."""
    with AtomicFiles(overwrite=False) as files:
        files.stage(private, private=True).write_bytes(key.to_pem())
        files.stage(public).write_bytes(key.public_key.to_pem())


def _message(purpose: bytes, document: Mapping[str, Any], key_id: str) -> bytes:
    return purpose + canonical_json({**document, "algorithm": ALGORITHM, "key_id": key_id})


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


def _no_key(source: str, which: str) -> FileError:
    return FileError(
        f"{source} is not a {which} {ALGORITHM} key.",
        found="It is not PEM, or of another kind, or protected by a password.",
        remedy=f"Give the {which} key as a PEM file.",
    )
