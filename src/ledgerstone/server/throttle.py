"""How often the same thing is worth a line of the log. Pure: time is handed in.

What strangers can cause, they can cause a thousand times a second. So the first of a kind is told
at once, and the others of the same minute only as a number.
"""

from collections.abc import Iterator
from typing import Final

from ledgerstone.dataclasses import dataclass, field

INTERVAL_MS: Final = 60_000
# Longest text from outside in such a line.
_SHOWN: Final = 200


@dataclass(slots=True)
class _Kind:
    told_ms: int
    suppressed: int = 0


@dataclass(slots=True)
class LogThrottle:
    """Kinds are named by us, never by strangers, so there are few of them."""

    _kinds: dict[str, _Kind] = field(default_factory=dict)

    def admit(self, kind: str, now_ms: int) -> int | None:
        """How many of the kind were not told since the last that was; None: do not tell this one
        either."""
        known = self._kinds.get(kind)
        if known is not None and now_ms - known.told_ms < INTERVAL_MS:
            known.suppressed += 1
            return None
        self._kinds[kind] = _Kind(now_ms)
        return 0 if known is None else known.suppressed

    def leftovers(self, now_ms: int) -> Iterator[tuple[str, int]]:
        """What was not told of kinds that have stopped since; each once."""
        for kind, known in self._kinds.items():
            if known.suppressed and now_ms - known.told_ms >= INTERVAL_MS:
                suppressed, known.suppressed = known.suppressed, 0
                yield kind, suppressed


def shown(text: object) -> str:
    """At most so much of it as a line has room for."""
    whole = str(text)
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…"
