"""Seals of the audit log: signatures under what the chain has come to. Pure. Format in README.md.

Whoever can write the files can also write another chain that fits together. A seal is a line that
only the node's key can make, so a chain with other lines lacks it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.security.audit_chain import ChainEnd

SEAL: Final = "audit.seal"
SECRET_BYTES: Final = 32
KEY_BYTES: Final = 32
_PURPOSE: Final = b"ledgerstone audit seal 1"


def _signing_seed(secret: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) without a salt of its own; one block of 32 bytes."""
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), secret, "sha256")
    return hmac.digest(extracted, _PURPOSE + b"\1", "sha256")


def _signed(node: int, end: ChainEnd) -> bytes:
    return b"%s %d %s" % (_PURPOSE, node, str(end).encode("ascii"))


def public_key_of(secret: bytes) -> str:
    """In hexadecimal digits."""
    # Not at the head: a broker without an audit log does without it, and so does `audit show`.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(_signing_seed(secret))
    return key.public_key().public_bytes_raw().hex()


def seal_facts(secret: bytes, *, node: int, end: ChainEnd) -> dict[str, Any]:
    """Of the line that follows `end`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(_signing_seed(secret))
    return {
        "upto": end.seq,
        "key": key.public_key().public_bytes_raw().hex(),
        "sig": key.sign(_signed(node, end)).hex(),
    }


def is_good_seal(line: Mapping[str, Any]) -> bool:
    """Whether a line of this kind is signed by the key that it names, for the line before it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    end = ChainEnd(line["seq"] - 1, str(line["prev"]))
    if line.get("upto") != end.seq:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(line["key"]))
        key.verify(bytes.fromhex(line["sig"]), _signed(line["node"], end))
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return False
    return True
