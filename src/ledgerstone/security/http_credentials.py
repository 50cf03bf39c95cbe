"""What a request says about who it is from: Authorization, cookies, the header of a proxy. Pure.

Strict: what is not what the RFC says is nobody.
"""

import hmac
import ipaddress
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.security.passwords import NamedPassword

MAX_TOKEN_BYTES: Final = 16 << 10
USER_HEADER: Final = "X-Forwarded-User"
SECRET_HEADER: Final = "X-Ledgerstone-Proxy-Secret"
_MAX_NAME: Final = 1024

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BearerToken(NamedTuple):
    token: bytes

    def __repr__(self) -> str:
        return "BearerToken()"


class Unreadable(Exception):
    """There are credentials, and they are none."""


def authorization_in(headers: Mapping[str, str]) -> NamedPassword | BearerToken | None:
    """None: nothing is said."""
    text = headers.get("authorization")
    if text is None:
        return None
    scheme, _, rest = text.partition(" ")
    rest = rest.strip()
    if scheme.lower() == "basic":
        return _basic(rest)
    if scheme.lower() == "bearer" and rest and len(rest) <= MAX_TOKEN_BYTES and rest.isascii():
        return BearerToken(rest.encode())
    raise Unreadable("Authorization must be Basic or Bearer")


def _basic(text: str) -> NamedPassword:
    """RFC 7617, with UTF-8."""
    try:
        name, colon, password = b64decode(text, validate=True).partition(b":")
        given = NamedPassword(name.decode(), password)
    except (Base64Error, ValueError):
        raise Unreadable("Authorization: Basic is not base64 of name:password") from None
    if not colon or not given.is_possible:
        raise Unreadable("Authorization: Basic needs a name and a password")
    return given


def cookie_in(headers: Mapping[str, str], name: str) -> str | None:
    """The first of that name. Cookies of others on this host may be anything."""
    for part in headers.get("cookie", "").split(";"):
        key, equals, value = part.strip().partition("=")
        if equals and key == name:
            return value
    return None


def is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a form comes from a page of ours: browsers say so in one of two headers. A page that
    hides where it is from says `null`, and is somebody else's."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site") == "same-origin"
    return bool(headers.get("host")) and urlsplit(origin).netloc == headers.get("host")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """One that has asked who it is already, and says so in a header."""

    networks: tuple[Network, ...]
    secret: str = field(repr=False)
    user_header: str = USER_HEADER

    def user_in(self, headers: Mapping[str, str], host: str) -> str | None:
        """None: nothing is said of a user. Unreadable: somebody else says it."""
        name = headers.get(self.user_header.lower())
        secret = headers.get(SECRET_HEADER.lower())
        if name is None and secret is None:
            return None
        is_secret = hmac.compare_digest((secret or "").encode(), self.secret.encode())
        if not is_secret or not self._is_from(host):
            raise Unreadable(f"{self.user_header} is only taken from a trusted proxy")
        if name is None:
            return None
        if not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
            raise Unreadable(f"{self.user_header} is no name")
        return name

    def _is_from(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if address.version == 6 and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in each for each in self.networks)
