"""What a release needs under a plan whose classes move: always the same key and name."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from elldelta.files import PrivateKey

KEY = PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
COINS = {"key": KEY, "announced": "the first quarter"}
