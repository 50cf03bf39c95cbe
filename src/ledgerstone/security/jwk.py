"""Public keys that tokens are checked with: a JSON Web Key Set, RFC 7517. Pure.

Keys of a kind, size or use that we do not take are left out, so that one odd key does not cost the
others. Symmetric keys are never taken: whoever may check could also sign (and an RSA key must not
be mistaken for one).
"""

import base64
import binascii
import re
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ledgerstone.security.strict_json import BadJson, strict_object

MAX_BYTES: Final = 1 << 20
_MAX_KEYS: Final = 256
MAX_KID_CHARACTERS: Final = 1000
_RSA_BITS: Final = range(2048, 8193)
_BASE64URL: Final = re.compile(rb"[A-Za-z0-9_-]*")
_CURVES: Final = {
    "P-256": (ec.SECP256R1, 32),
    "P-384": (ec.SECP384R1, 48),
    "P-521": (ec.SECP521R1, 66),
}

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class VerificationKey(NamedTuple):
    """`alg` is None where the set does not say which algorithm the key is for."""

    kid: str | None
    alg: str | None
    public: PublicKey


def parse_jwks(data: bytes) -> tuple[VerificationKey, ...]:
    """BadJson: it is no key set, or has no key that we take."""
    if len(data) > MAX_BYTES:
        raise BadJson(f"a key set of {len(data)} bytes, at most {MAX_BYTES}")
    listed = strict_object(data).get("keys")
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise BadJson(f"no list of at most {_MAX_KEYS} keys")
    keys = tuple(key for each in listed if (key := _key(each)) is not None)
    if not keys:
        raise BadJson("no key that tokens can be checked with")
    return keys


def decode_base64url(data: bytes) -> bytes:
    """Without padding, and no two texts for the same bytes. ValueError otherwise."""
    if not _BASE64URL.fullmatch(data) or len(data) % 4 == 1:
        raise ValueError("not base64url")
    try:
        decoded = base64.b64decode(data + b"=" * (-len(data) % 4), b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != data:
        raise ValueError("not base64url")
    return decoded


def _key(entry: Any) -> VerificationKey | None:  # noqa: ANN401 - JSON
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    operations = entry.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    kid, alg = entry.get("kid"), entry.get("alg")
    if not isinstance(kid, str | None) or not isinstance(alg, str | None):
        return None
    if kid is not None and len(kid) > MAX_KID_CHARACTERS:
        return None
    try:
        public = _public(entry)
    except (ValueError, TypeError, KeyError):
        return None
    return None if public is None else VerificationKey(kid, alg, public)


def _public(entry: dict[str, Any]) -> PublicKey | None:
    match entry.get("kty"):
        case "RSA":
            modulus, exponent = _number(entry["n"]), _number(entry["e"])
            if modulus.bit_length() not in _RSA_BITS:
                return None
            return rsa.RSAPublicNumbers(exponent, modulus).public_key()
        case "EC":
            curve, size = _CURVES[entry["crv"]]
            x, y = _bytes(entry["x"]), _bytes(entry["y"])
            if len(x) != size or len(y) != size:
                return None
            numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve())
            return numbers.public_key()
        case "OKP" if entry.get("crv") == "Ed25519":
            return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(entry["x"]))
        case _:
            return None


def _bytes(text: str) -> bytes:
    return decode_base64url(text.encode("ascii"))


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text))
