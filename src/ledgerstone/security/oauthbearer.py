"""SASL OAUTHBEARER, RFC 7628: how a token is said, both sides. Pure.

A token that is refused is answered with a challenge that says so; the client takes note with one
byte, and only then is the login over.
"""

import re
from collections.abc import Callable
from typing import Final

from ledgerstone.security.exchange import (
    OAUTHBEARER,
    Accepted,
    Challenge,
    LoginRefused,
    other_authorization_id,
)
from ledgerstone.security.jws import BadToken
from ledgerstone.security.tokens import TokenRules, validate_token

_SEPARATOR: Final = "\x01"
_INVALID: Final = '{"status":"invalid_token"}'
_MAX_BYTES: Final = 32 << 10
# `n,[a=who],` then pairs of which one is `auth`, each ended by the separator, and one more.
_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<who>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,"
    r"(?P<pairs>(?:\x01[A-Za-z]+=[\x21-\x7e \t\r\n]+)+)\x01\x01"
)
_AUTH: Final = re.compile(r"(?i:bearer) +(?P<token>[-_.~+/A-Za-z0-9]+=*)")


class OauthServer:
    def __init__(self, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._refused: str | None = None

    def respond(self, data: bytes) -> Challenge | Accepted:
        if self._refused is not None:
            raise LoginRefused(self._refused, _INVALID)
        token, who = _read(data)
        try:
            valid = validate_token(token, self._rules, self._now_ms())
        except BadToken as error:
            self._refused = str(error)
            return Challenge(_INVALID.encode())
        if who and who != valid.name:
            raise other_authorization_id("the token's principal name")
        return Accepted(b"", valid.name, valid.expires_ms)


def _read(data: bytes) -> tuple[bytes, str]:
    if len(data) > _MAX_BYTES:
        raise LoginRefused(f"an OAUTHBEARER message of {len(data)} bytes")
    try:
        matched = _MESSAGE.fullmatch(data.decode())
    except UnicodeDecodeError:
        matched = None
    if matched is None:
        raise LoginRefused("Invalid OAUTHBEARER client first message")
    pairs = [pair.partition("=") for pair in matched["pairs"].split(_SEPARATOR)[1:]]
    values = {key: value for key, _, value in pairs}
    auth = _AUTH.fullmatch(values.get("auth", ""))
    if auth is None or len(values) != len(pairs):
        raise LoginRefused("Invalid OAUTHBEARER client first message: no bearer token in it")
    who = (matched["who"] or "").replace("=2C", ",").replace("=3D", "=")
    return auth["token"].encode(), who


class OauthClient:
    mechanism: Final = OAUTHBEARER

    def __init__(self, token: str) -> None:
        self._token = token

    def begin(self) -> bytes:
        return f"n,,{_SEPARATOR}auth=Bearer {self._token}{_SEPARATOR}{_SEPARATOR}".encode()

    def respond(self, data: bytes) -> bytes | None:
        """Any challenge is a refusal: it is noted, and the reason comes with the next answer."""
        return _SEPARATOR.encode() if data else None
