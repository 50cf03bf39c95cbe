"""Parts of a broker that failed over committed metadata. Grade D, through the clock.

The records are durable by then, and every node has them: whoever failed over them here would do so
on every other node, and again after a start. So the fault stays where it is. The other parts are
told, operators see it, and the node goes on, as Kafka does with its publishers of metadata. A
contradiction is no such fault: InvariantViolation and failed assertions end the node.
"""

import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.errors import InvariantViolation
from ledgerstone.server.throttle import LogThrottle, shown

_LOG: Final = logging.getLogger(__name__)


class ApplyFaults:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Kafka's `metadata-apply-error-count`, since the start.
        self.count = 0
        # The last fault of each part. Parts are named by us, so there are few.
        self.by_part: dict[str, str] = {}
        self._told = LogThrottle()

    def guard(self, part: str, about: str, tell: Callable[[], None]) -> bool:
        """Tells one part what is committed; returns whether it took that. `about`: what it is
        told of, for the log."""
        try:
            tell()
        except (InvariantViolation, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the others must follow
            self._failed(part, about, error)
            return False
        return True

    def _failed(self, part: str, about: str, error: Exception) -> None:
        self.count += 1
        kind = type(error).__name__
        self.by_part[part] = f"{kind}: {shown(error)}"
        suppressed = self._told.admit(f"{part} {kind}", self._clock.monotonic_ms())
        if suppressed is not None:
            _LOG.error(
                "committed metadata not applied part=%s about=%s suppressed=%d",
                part,
                about,
                suppressed,
                exc_info=error,
            )

    def complaints(self) -> list[str]:
        """What /readyz says until the next start, at which every part is told everything anew."""
        return [
            f"metadata: {part} did not take a change; {reason}"
            for part, reason in self.by_part.items()
        ]
