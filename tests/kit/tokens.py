"""An issuer of tokens for tests: keys of every kind, their set, and what they sign."""

import base64
import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER, AUDIENCE = "https://issuer.example", "ledgerstone"
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: dict[str, tuple[ec.EllipticCurve, str, int]] = {
    "ES256": (ec.SECP256R1(), "P-256", 32),
    "ES384": (ec.SECP384R1(), "P-384", 48),
    "ES512": (ec.SECP521R1(), "P-521", 66),
}
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *_CURVES,
    "EdDSA",
)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int, size: int) -> str:
    return encoded(value.to_bytes(size))


class Issuer:
    """Its keys have the names of their algorithms; those of RSA are one key."""

    def __init__(self) -> None:
        self._rsa = rsa.generate_private_key(65537, 2048)
        self._curves = {alg: ec.generate_private_key(each[0]) for alg, each in _CURVES.items()}
        self._ed = ed25519.Ed25519PrivateKey.generate()

    def key_set(self) -> bytes:
        return json.dumps({"keys": [self._entry(alg) for alg in ALGORITHMS]}).encode()

    def _entry(self, alg: str) -> dict[str, Any]:
        about = {"kid": alg, "alg": alg, "use": "sig"}
        if alg == "EdDSA":
            raw = self._ed.public_key().public_bytes_raw()
            return {**about, "kty": "OKP", "crv": "Ed25519", "x": encoded(raw)}
        if alg in _CURVES:
            numbers, (_, name, size) = (
                self._curves[alg].public_key().public_numbers(),
                _CURVES[alg],
            )
            x, y = _number(numbers.x, size), _number(numbers.y, size)
            return {**about, "kty": "EC", "crv": name, "x": x, "y": y}
        public = self._rsa.public_key().public_numbers()
        return {**about, "kty": "RSA", "n": _number(public.n, 256), "e": _number(public.e, 3)}

    def token(
        self,
        now_s: float,
        alg: str = "RS256",
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A good one unless told otherwise; a claim that is None is left out."""
        head = {"alg": alg, "kid": alg, "typ": "JWT", **(header or {})}
        said = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": int(now_s),
            "exp": int(now_s) + 600,
            **claims,
        }
        body = {key: value for key, value in said.items() if value is not None}
        return self.signed(alg, json.dumps(head).encode(), json.dumps(body).encode())

    def signed(self, alg: str, head: bytes, body: bytes) -> str:
        content = f"{encoded(head)}.{encoded(body)}"
        return f"{content}.{encoded(self._signature(alg, content.encode()))}"

    def _signature(self, alg: str, content: bytes) -> bytes:
        if alg == "EdDSA":
            return self._ed.sign(content)
        digest = _HASHES[alg[2:]]
        if alg in _CURVES:
            made = self._curves[alg].sign(content, ec.ECDSA(digest))
            size = _CURVES[alg][2]
            return b"".join(each.to_bytes(size) for each in decode_dss_signature(made))
        pad: padding.AsymmetricPadding = padding.PKCS1v15()
        if alg.startswith("PS"):
            pad = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)
        return self._rsa.sign(content, pad, digest)
