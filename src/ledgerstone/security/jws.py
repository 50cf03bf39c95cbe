"""Signed tokens: a JWS in its compact form, RFC 7515, checked against a key set. Pure.

The key decides which algorithms it may be used with, never the token alone. `none` and HMAC are not
there. Headers that we would have to understand (`crit`) are refused.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from ledgerstone.security.jwk import (
    MAX_KID_CHARACTERS,
    PublicKey,
    VerificationKey,
    decode_base64url,
)
from ledgerstone.security.strict_json import BadJson, strict_object

MAX_TOKEN_BYTES: Final = 16 << 10
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
# With the curve and the size of one number of a signature.
_CURVES: Final = {
    "ES256": ("secp256r1", 32),
    "ES384": ("secp384r1", 48),
    "ES512": ("secp521r1", 66),
}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Keys that are tried for a token that names none.
_MAX_TRIED: Final = 8


class BadToken(Exception):
    """Not signed by a key of the set. The text holds nothing of the token."""


class UnknownKey(BadToken):
    """The set has no key of that name; a newer one may."""


class _Header(NamedTuple):
    alg: str
    kid: str | None


def verified_claims(token: bytes, keys: Iterable[VerificationKey]) -> dict[str, Any]:
    """What the token says, once its signature is found right."""
    if len(token) > MAX_TOKEN_BYTES:
        raise BadToken(f"a token of {len(token)} bytes, at most {MAX_TOKEN_BYTES}")
    parts = token.split(b".")
    if len(parts) != 3:
        raise BadToken("not a signed token")
    try:
        header = _header(strict_object(decode_base64url(parts[0])))
        payload, signature = decode_base64url(parts[1]), decode_base64url(parts[2])
    except BadJson as error:
        raise BadToken(f"the header is {error}") from None
    except ValueError:
        raise BadToken("not base64url") from None
    signed = parts[0] + b"." + parts[1]
    candidates = _candidates(header, keys)
    if not any(_is_signed(header.alg, each.public, signed, signature) for each in candidates):
        raise BadToken("the signature is wrong")
    try:
        return strict_object(payload)
    except BadJson as error:
        raise BadToken(f"the claims are {error}") from None


def _header(found: dict[str, Any]) -> _Header:
    if "crit" in found:
        raise BadToken("the header has what we would have to understand")
    alg, kid = found.get("alg"), found.get("kid")
    if not isinstance(alg, str) or (alg not in _RSA and alg not in _CURVES and alg != "EdDSA"):
        raise BadToken("the algorithm is not one that we take")
    if not isinstance(kid, str | None) or len(kid or "") > MAX_KID_CHARACTERS:
        raise BadToken("the name of the key is malformed")
    return _Header(alg, kid)


def _candidates(header: _Header, keys: Iterable[VerificationKey]) -> list[VerificationKey]:
    named = [each for each in keys if header.kid is None or each.kid == header.kid]
    if not named:
        raise UnknownKey("no key of that name is known")
    fitting = [
        each for each in named if each.alg in (None, header.alg) and _fits(header.alg, each.public)
    ]
    if not fitting or len(fitting) > _MAX_TRIED:
        raise BadToken("no key of that name is for the algorithm")
    return fitting


def _fits(alg: str, public: PublicKey) -> bool:
    if isinstance(public, ec.EllipticCurvePublicKey):
        return alg in _CURVES and public.curve.name == _CURVES[alg][0]
    return alg in _RSA if isinstance(public, rsa.RSAPublicKey) else alg == "EdDSA"


def _is_signed(alg: str, public: PublicKey, signed: bytes, signature: bytes) -> bool:
    try:
        _verify(alg, public, signed, signature)
    except (InvalidSignature, ValueError):
        return False
    return True


def _verify(alg: str, public: PublicKey, signed: bytes, signature: bytes) -> None:
    if isinstance(public, ed25519.Ed25519PublicKey):
        public.verify(signature, signed)
        return
    digest = _HASHES[alg[2:]]
    if isinstance(public, ec.EllipticCurvePublicKey):
        size = _CURVES[alg][1]
        if len(signature) != 2 * size:
            raise ValueError("a signature of another size")
        r, s = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
        public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(digest))
        return
    pad: padding.AsymmetricPadding = padding.PKCS1v15()
    if alg.startswith("PS"):
        pad = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)
    public.verify(signature, signed, pad, digest)
