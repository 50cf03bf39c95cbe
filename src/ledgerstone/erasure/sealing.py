"""A key that is still needed in clear, sealed; and the signature under a receipt. Grade P.

Between the request and the tombstone the key must survive a restart, so the journal holds it under
ChaCha20-Poly1305, bound to its erasure. Chance is handed in. Contract: README.md, "Secrets".
"""

from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from ledgerstone.clock import Dice
from ledgerstone.erasure.key_print import PrintKey
from ledgerstone.errors import CorruptRecord

FINGERPRINT: Final = "SHA256:"
FINGERPRINT_DIGITS: Final = 32
BOX_BYTES: Final = 32
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


def box_of(seed: bytes) -> bytes:
    """The public half of what others seal for: X25519."""
    return X25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def seal_for(box: bytes, data: bytes, *, context: bytes, dice: Dice) -> bytes:
    """For whoever has the seed of `box`: the public half of a key made for this once, a nonce and
    the cipher. ValueError where `box` is none."""
    once = X25519PrivateKey.from_private_bytes(dice.random_bytes(BOX_BYTES))
    public = once.public_key().public_bytes_raw()
    shared = once.exchange(X25519PublicKey.from_public_bytes(box))
    nonce = dice.random_bytes(_NONCE_BYTES)
    cipher = ChaCha20Poly1305(_box_key(shared, public, box, context))
    return public + nonce + cipher.encrypt(nonce, data, context)


def open_box(seed: bytes, sealed: bytes, *, context: bytes) -> bytes:
    """ValueError where it was sealed for another, or was changed."""
    if len(sealed) < BOX_BYTES + _NONCE_BYTES + _TAG_BYTES:
        raise ValueError(f"{len(sealed)} bytes are nothing that was sealed")
    public, rest = sealed[:BOX_BYTES], sealed[BOX_BYTES:]
    shared = X25519PrivateKey.from_private_bytes(seed).exchange(
        X25519PublicKey.from_public_bytes(public)
    )
    cipher = ChaCha20Poly1305(_box_key(shared, public, box_of(seed), context))
    try:
        return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], context)
    except InvalidTag:
        raise ValueError("it was sealed for another, or was changed") from None


def _box_key(shared: bytes, public: bytes, box: bytes, context: bytes) -> bytes:
    return sha256(b"ledgerstone box" + shared + public + box + context).digest()


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
