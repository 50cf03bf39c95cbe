"""Which logins are written down: the first of a principal from a host in each hour. Pure."""

from typing import Final

HOUR_MS: Final = 3_600_000
# Remembered in an hour; those beyond are counted.
MOST_REMEMBERED: Final = 10_000


class FirstLogins:
    __slots__ = ("_hour", "_seen", "uncounted")

    def __init__(self) -> None:
        self._hour = -1
        self._seen: dict[tuple[str, str], None] = {}
        self.uncounted = 0

    def is_first(self, principal: str, host: str, now_ms: int) -> bool:
        if now_ms // HOUR_MS != self._hour:
            self._hour = now_ms // HOUR_MS
            self._seen.clear()
        login = (principal, host)
        if login in self._seen:
            return False
        if len(self._seen) >= MOST_REMEMBERED:
            self.uncounted += 1
            return False
        self._seen[login] = None
        return True

    def take_uncounted(self) -> int:
        """How many more there were than could be remembered, since this was last asked."""
        count, self.uncounted = self.uncounted, 0
        return count
