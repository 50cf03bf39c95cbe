"""A key that is still needed in clear, sealed; and the signature under a receipt. Grade P.

Between the request and the tombstone the key must survive a restart, so the journal holds it under
ChaCha20-Poly1305, bound to its erasure. Chance is handed in. Contract: README.md, "Secrets".
"""

from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from ledgerstone.clock import Dice
from ledgerstone.erasure.key_print import PrintKey
from ledgerstone.errors import CorruptRecord

FINGERPRINT: Final = "SHA256:"
FINGERPRINT_DIGITS: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


def seal(key: bytes, *, erasure_id: str, print_key: PrintKey, dice: Dice) -> bytes:
    nonce = dice.random_bytes(_NONCE_BYTES)
    cipher = ChaCha20Poly1305(print_key.seal_key)
    return nonce + cipher.encrypt(nonce, key, erasure_id.encode())


def unseal(sealed: bytes, *, erasure_id: str, print_key: PrintKey) -> bytes:
    """CorruptRecord where it was sealed for another erasure, with another salt, or was changed."""
    cipher = ChaCha20Poly1305(print_key.seal_key)
    try:
        if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            raise InvalidTag
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], erasure_id.encode())
    except InvalidTag:
        raise CorruptRecord(
            f"{erasure_id}: the sealed key ({len(sealed)} bytes) does not open; were the secrets "
            "replaced?"
        ) from None


def public_key_of(signing_seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(signing_seed).public_key().public_bytes_raw()


def fingerprint_of(public_key: bytes) -> str:
    """Short enough to be read over the telephone, too long to be met by trying keys."""
    return FINGERPRINT + sha256(public_key).hexdigest()[:FINGERPRINT_DIGITS]


def sign(signing_seed: bytes, data: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(signing_seed).sign(data)


def is_signed_by(public_key: bytes, signature: bytes, data: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
