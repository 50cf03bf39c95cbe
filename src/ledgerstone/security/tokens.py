"""Whether a token lets somebody in: signature, issuer, audience, times, name. Pure.

As Kafka's validator with a key set, and stricter where that lets more through: issuer and audience
must be expected, and a token from the future is none.
"""

from typing import Any, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.security.jwk import VerificationKey
from ledgerstone.security.jws import BadToken, UnknownKey, verified_claims

_MAX_NAME_BYTES: Final = 1024


class TokenKeys:
    """The newest key set, set by whoever fetches it. `misses_key`: a token named a key that is not
    there, and a newer set may have it."""

    __slots__ = ("keys", "misses_key")

    def __init__(self) -> None:
        self.keys: tuple[VerificationKey, ...] = ()
        self.misses_key = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    keys: TokenKeys
    issuer: str
    audiences: tuple[str, ...]
    name_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidToken:
    name: str
    expires_ms: int
    scopes: tuple[str, ...]


def validate_token(token: bytes, rules: TokenRules, now_ms: int) -> ValidToken:
    """BadToken says what is wrong, without the token."""
    try:
        claims = verified_claims(token, rules.keys.keys)
    except UnknownKey:
        rules.keys.misses_key = True
        raise
    if claims.get("iss") != rules.issuer:
        raise BadToken("it is from another issuer")
    if not set(_texts(claims, "aud")) & set(rules.audiences):
        raise BadToken("it is for another audience")
    expires_ms, issued_ms = _time(claims, "exp"), _time(claims, "iat")
    skew_ms = rules.clock_skew_ms
    if now_ms - skew_ms >= expires_ms:
        raise BadToken("it has expired")
    if issued_ms > now_ms + skew_ms or issued_ms > expires_ms:
        raise BadToken("it was issued in the future, or after its end")
    if "nbf" in claims and now_ms + skew_ms < _time(claims, "nbf"):
        raise BadToken("it does not count yet")
    return ValidToken(
        name=_name(claims, rules.name_claim),
        expires_ms=expires_ms,
        scopes=_scopes(claims, rules.scope_claim),
    )


def _name(claims: dict[str, Any], key: str) -> str:
    """Kafka takes the spaces around it away. To the issuer that may be somebody else's name."""
    name = claims.get(key)
    if not isinstance(name, str) or not name or name != name.strip():
        raise BadToken(f"the claim {key} is no name")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise BadToken(f"the claim {key} is no text") from None
    if size > _MAX_NAME_BYTES:
        raise BadToken(f"the claim {key} is no name")
    return name


def _time(claims: dict[str, Any], key: str) -> int:
    value = claims.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise BadToken(f"the claim {key} is no time")
    return int(value * 1000)


def _texts(claims: dict[str, Any], key: str) -> list[str]:
    value = claims.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise BadToken(f"the claim {key} is no text and no list of texts")
    return values


def _scopes(claims: dict[str, Any], key: str) -> tuple[str, ...]:
    """A text of words, or a list; no scope twice and none empty."""
    value = claims.get(key, [])
    scopes = value.split() if isinstance(value, str) else _texts(claims, key)
    if len(dict.fromkeys(scopes)) != len(scopes) or not all(map(str.strip, scopes)):
        raise BadToken(f"the claim {key} has a scope twice, or an empty one")
    return tuple(scopes)
