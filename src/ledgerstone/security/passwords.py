"""Whether a name and a password belong together, where a client sends both. Pure.

As HTTP's Basic does. Passwords are checked against users of PLAIN and keys of SCRAM: whoever can
log in on the Kafka port can here. A user that is not known costs what a known one does. The check
of SCRAM takes milliseconds on purpose, so it is a thing of its own that a thread can run.
"""

import hmac
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledgerstone.security.plain import MAX_NAME_BYTES, MAX_PASSWORD_BYTES, PlainUsers
from ledgerstone.security.scram_keys import (
    ScramCredential,
    ScramMechanism,
    client_key_of,
    fake_credential,
    salt_password,
    stored_key_of,
)
from ledgerstone.security.scram_server import ScramUsers

# How long a right password is remembered, and how many are.
REMEMBERED_MS: Final = 60_000
MOST_REMEMBERED: Final = 1024


class NamedPassword(NamedTuple):
    name: str
    password: bytes

    def __repr__(self) -> str:
        return f"NamedPassword({self.name!r})"

    @property
    def is_possible(self) -> bool:
        name_bytes = len(self.name.encode("utf-8", "replace"))
        return 0 < name_bytes <= MAX_NAME_BYTES and 0 < len(self.password) <= MAX_PASSWORD_BYTES


class _Remembered(NamedTuple):
    keys: tuple[ScramCredential | None, ...]
    until_ms: int


class Passwords:
    """`plain` are the users of each listener. `secret` is of this process."""

    def __init__(
        self,
        *,
        plain: Sequence[PlainUsers],
        mechanisms: Sequence[ScramMechanism],
        scram_users: ScramUsers,
        secret: bytes,
    ) -> None:
        self._plain = tuple(plain)
        self._mechanisms = tuple(mechanisms)
        self._scram_users = scram_users
        self._secret = secret
        self._remembered: dict[bytes, _Remembered] = {}

    @property
    def has_users(self) -> bool:
        return bool(self._plain or self._mechanisms)

    def key_of(self, given: NamedPassword) -> bytes:
        """Tells name and password apart from all others, and tells neither."""
        text = given.name.encode("utf-8", "replace") + b"\0" + given.password
        return hmac.digest(self._secret, text, "sha256")

    def keys_of(self, name: str) -> tuple[ScramCredential | None, ...]:
        """What is stored of a user now; another password is another one."""
        return tuple(self._scram_users.find(each, name) for each in self._mechanisms)

    def is_remembered(self, given: NamedPassword, now_ms: int) -> bool:
        found = self._remembered.get(self.key_of(given))
        return (
            found is not None and now_ms < found.until_ms and found.keys == self.keys_of(given.name)
        )

    def remember(self, given: NamedPassword, now_ms: int) -> None:
        """One that was right."""
        key = self.key_of(given)
        self._remembered.pop(key, None)
        self._remembered[key] = _Remembered(self.keys_of(given.name), now_ms + REMEMBERED_MS)
        while len(self._remembered) > MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def is_plain_user(self, given: NamedPassword) -> bool:
        """Cheap. Each listener is asked, whatever the others said."""
        return sum(each.is_right(given.name, given.password) for each in self._plain) > 0

    def check(self, given: NamedPassword) -> "ScramCheck":
        return ScramCheck(
            given.password,
            [
                (each, self._scram_users.find(each, given.name) or self._fake(each, given.name))
                for each in self._mechanisms
            ],
        )

    def _fake(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        looks = self._scram_users.usual_looks(mechanism)
        return fake_credential(mechanism, name, self._secret, looks)


class ScramCheck:
    """May run in a thread: it looks at nothing but what it was given."""

    def __init__(
        self, password: bytes, against: Sequence[tuple[ScramMechanism, ScramCredential]]
    ) -> None:
        self._password = password
        self._against = against

    def is_right(self) -> bool:
        """All are looked at, so that the first one to fit does not show."""
        return sum(self._fits(*each) for each in self._against) > 0

    def _fits(self, mechanism: ScramMechanism, known: ScramCredential) -> bool:
        salted = salt_password(mechanism, self._password, known.salt, known.iterations)
        stored = stored_key_of(mechanism, client_key_of(mechanism, salted))
        return hmac.compare_digest(stored, known.stored_key)
