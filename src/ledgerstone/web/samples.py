"""The last minutes of throughput, for the chart. Grade D, over a broker.

Taken once a second while a page is open. Without one, no samples are taken, which leaves a gap.
"""

import json
from collections import deque
from typing import Final, NamedTuple

from ledgerstone.server.broker import Broker

KEPT: Final = 300


class TrafficSample(NamedTuple):
    at_ms: int  # wall time
    bytes_in_per_s: int
    bytes_out_per_s: int
    requests_per_s: int


class _Totals(NamedTuple):
    monotonic_ms: int
    bytes_in: int
    bytes_out: int
    requests: int


class Samples:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._ring: deque[TrafficSample] = deque(maxlen=KEPT)
        self._before: _Totals | None = None

    def take(self) -> None:
        now, before = self._totals(), self._before
        self._before = now
        if before is None or now.monotonic_ms <= before.monotonic_ms:
            return
        elapsed_ms = now.monotonic_ms - before.monotonic_ms
        rates = [
            # A deleted topic's totals go with it.
            max(after - earlier, 0) * 1000 // elapsed_ms
            for after, earlier in zip(now[1:], before[1:], strict=True)
        ]
        self._ring.append(TrafficSample(self._broker.clock.now_ms(), *rates))

    def pause(self) -> None:
        """The last page was closed: the time until the next one must not count into a rate."""
        self._before = None

    @property
    def latest(self) -> TrafficSample | None:
        return self._ring[-1] if self._ring else None

    def as_json(self) -> str:
        return json.dumps(list(self._ring), separators=(",", ":"))

    def latest_json(self) -> str:
        return json.dumps([self.latest] if self.latest else [], separators=(",", ":"))

    def _totals(self) -> _Totals:
        counters = self._broker.counters
        return _Totals(
            self._broker.clock.monotonic_ms(),
            sum(counters.bytes_in.values()),
            sum(counters.bytes_out.values()),
            sum(counters.requests.values()),
        )
