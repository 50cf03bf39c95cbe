"""Who is logged in to the page: sessions, how long they count, and what ends them. Pure.

A browser holds a secret of 32 random bytes; here is only its digest, so that what is kept lets
nobody in. A session ends when it was not used for a while, after half a day in any case, and when
what it rests on has changed: the user's password, or the ACLs that are about the user.
"""

import hashlib
import hmac
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.security.principal import Principal

SECRET_BYTES: Final = 32
IDLE_MS: Final = 30 * 60_000
LONGEST_MS: Final = 12 * 3_600_000
# In all, and of one principal; the oldest ends for a new one.
MOST_SESSIONS: Final = 1024
MOST_OF_ONE: Final = 32


@dataclass(slots=True, eq=False)
class WebSession:
    """Times are monotonic. `rests_on` is what must not change: a digest that whoever opens the
    session makes, and makes again."""

    principal: Principal
    rests_on: bytes
    opened_ms: int
    used_ms: int
    is_over: bool = False

    def ends_by_time(self, now_ms: int) -> bool:
        return now_ms - self.used_ms >= IDLE_MS or now_ms - self.opened_ms >= LONGEST_MS


class WebSessions:
    def __init__(self) -> None:
        # By the digest of the secret; the one opened first comes first.
        self._sessions: dict[bytes, WebSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, secret: str, principal: Principal, rests_on: bytes, now_ms: int) -> WebSession:
        """`secret` is fresh: one that a browser brought along is never made one of a session."""
        self._drop_ended(now_ms)
        of_one = [key for key, each in self._sessions.items() if each.principal == principal]
        for key in of_one[: max(len(of_one) + 1 - MOST_OF_ONE, 0)]:
            self._end(key)
        while len(self._sessions) >= MOST_SESSIONS:
            self._end(next(iter(self._sessions)))
        session = WebSession(principal, rests_on, now_ms, now_ms)
        self._sessions[_digest(secret)] = session
        return session

    def find(self, secret: str, now_ms: int) -> WebSession | None:
        key = _digest(secret)
        session = self._sessions.get(key)
        if session is None:
            return None
        if session.ends_by_time(now_ms):
            self._end(key)
            return None
        return session

    def close(self, secret: str) -> None:
        key = _digest(secret)
        if key in self._sessions:
            self._end(key)

    def _end(self, key: bytes) -> None:
        self._sessions.pop(key).is_over = True

    def _drop_ended(self, now_ms: int) -> None:
        for key in [key for key, each in self._sessions.items() if each.ends_by_time(now_ms)]:
            self._end(key)


def form_secret(secret: str) -> str:
    """What every form of a session carries. It does not tell the session's own."""
    return hmac.new(secret.encode(), b"form", hashlib.sha256).hexdigest()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
