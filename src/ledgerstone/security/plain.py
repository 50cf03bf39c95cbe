"""SASL PLAIN, RFC 4616: `[authzid] NUL user NUL password`. Pure.

Passwords are compared as keyed digests, so neither their length nor a common beginning shows in
time, and a user that is not known costs what a known one does.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from ledgerstone.security.exchange import Accepted, LoginRefused, other_authorization_id

PLAIN: Final = "PLAIN"
_INVALID: Final = "Authentication failed: Invalid username or password"
_TOKENS: Final = 3
# As many characters as a name of a user may have on the wire elsewhere.
MAX_NAME_BYTES: Final = 1024
MAX_PASSWORD_BYTES: Final = 8192


class PlainUsers:
    """Names and passwords, kept as digests under a key of this process."""

    __slots__ = ("_key", "_nobody", "_users")

    def __init__(self, users: Mapping[str, str], key: bytes) -> None:
        self._key = key
        self._users = {name: self._digest(password.encode()) for name, password in users.items()}
        # Nothing has this digest.
        self._nobody = bytes(hashlib.sha256().digest_size)

    def __len__(self) -> int:
        return len(self._users)

    def is_right(self, name: str, password: bytes) -> bool:
        known = self._users.get(name, self._nobody)
        return hmac.compare_digest(known, self._digest(password))

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._key, password, "sha256")


class PlainServer:
    """Kafka's texts. Whether user and password fit is looked at before the authorization id, so
    that it says nothing to who has neither."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def respond(self, data: bytes) -> Accepted:
        parts = data.split(b"\0")
        if len(parts) != _TOKENS:
            reason = f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(parts)}"
            raise _refused(reason)
        authorization_id, name_bytes, password = parts
        if not name_bytes:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        if len(name_bytes) > MAX_NAME_BYTES or len(password) > MAX_PASSWORD_BYTES:
            raise _refused(_INVALID)
        try:
            name = name_bytes.decode()
        except UnicodeDecodeError:
            raise _refused(_INVALID) from None
        if not self._users.is_right(name, password):
            raise _refused(_INVALID)
        if authorization_id and authorization_id != name_bytes:
            raise other_authorization_id()
        return Accepted(b"", name)


class PlainClient:
    mechanism: Final = PLAIN

    def __init__(self, name: str, password: str) -> None:
        self._name, self._password = name, password

    def begin(self) -> bytes:
        return b"\0".join((b"", self._name.encode(), self._password.encode()))

    def respond(self, data: bytes) -> bytes | None:
        return None


def _refused(reason: str) -> LoginRefused:
    return LoginRefused(reason, reason)
