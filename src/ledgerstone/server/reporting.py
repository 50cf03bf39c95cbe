"""What the runtime writes to the log about connections and faults, at a bounded rate. Shell.

Anyone who can connect can be closed or meet a fault as often as they like, so each kind gets one
line a minute; the next line says how many were suppressed.
"""

import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.server.effects import Close
from ledgerstone.server.throttle import INTERVAL_MS, LogThrottle, shown

_LOG: Final = logging.getLogger(__name__)


class Reporting:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._throttle = LogThrottle()

    def accept_paused(self, error: OSError) -> None:
        suppressed = self._throttle.admit("accept paused", self._now_ms())
        if suppressed is not None:
            _LOG.warning("accept paused reason=%s suppressed=%d", error, suppressed)

    def closed(self, effect: Close, peer: str) -> None:
        kind = f"connection closed kind={effect.kind}"
        suppressed = self._throttle.admit(kind, self._now_ms())
        if suppressed is not None:
            _LOG.info(
                "%s connection=%d peer=%s reason=%s suppressed=%d",
                kind, effect.connection, peer, shown(effect.reason), suppressed,
            )  # fmt: skip

    def lost(self, connection: int, error: OSError) -> None:
        _LOG.debug("connection lost connection=%d reason=%s", connection, error)

    def greeting_failed(self, listener: str, peer: str, error: OSError) -> None:
        kind = f"tls handshake failed listener={listener} reason={error}"
        suppressed = self._throttle.admit(kind, self._now_ms())
        if suppressed is not None:
            _LOG.warning("%s peer=%s suppressed=%d", kind, peer, suppressed)

    def fault(self, kind: str, peer: str) -> None:
        """In an except clause: the first of a minute is logged with its traceback."""
        suppressed = self._throttle.admit(kind, self._now_ms())
        if suppressed is not None:
            _LOG.exception("%s peer=%s suppressed=%d", kind, peer, suppressed)

    def leftovers(self, *, is_last: bool = False) -> None:
        """Logs what was suppressed in minutes that are over, or at the end in all of them."""
        now_ms = self._now_ms() + (INTERVAL_MS if is_last else 0)
        for kind, suppressed in self._throttle.leftovers(now_ms):
            _LOG.info("%s suppressed=%d", kind, suppressed)
