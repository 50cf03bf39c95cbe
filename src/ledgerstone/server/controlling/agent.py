"""The active controller by the clock: what is due, and a sign of life in the log. Grade D.

While another node leads, it does nothing. Decisions that time brings about are the controller's
(`Controller.due`): fencing, leader balance, unclean elections. They are taken one at a time, so
heartbeats that arrive in between count.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.messages.metadata_records import NoOpRecord
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result

# A process that was stopped, or a machine without time, finds sessions expired when it wakes. The
# heartbeats that came meanwhile wait in its sockets: they are read before anything is decided.
GRACE_MS: Final = 200


class Controlling:
    """`idle_interval_ms` is metadata.max.idle.interval.ms; 0: no sign of life. `is_alone`: this is
    the only node, and no other one could follow."""

    def __init__(
        self,
        link: ControllerLink,
        clock: Clock,
        *,
        idle_interval_ms: int,
        is_alone: Callable[[], bool],
    ) -> None:
        self._link = link
        self._clock = clock
        self._idle_interval_ms = idle_interval_ms
        self._is_alone = is_alone
        # Where the log ended when it was looked at last.
        self._seen_end_offset = -1
        self._noop_ms: int | None = None
        # Decisions wait until then.
        self._grace_ms = 0

    @property
    def next_deadline_ms(self) -> int | None:
        due_ms = self._due_ms
        noop_ms = self._noop_ms if self._writes_noops else None
        if self._writes_noops and noop_ms is None:
            return 0  # To begin with.
        return min((ms for ms in (due_ms, noop_ms) if ms is not None), default=None)

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        self._decide(now_ms)
        self._show_life(now_ms)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    # -- decisions ----------------------------------------------------------------------------

    @property
    def _due_ms(self) -> int | None:
        due_ms = self._link.next_deadline_ms
        return None if due_ms is None else max(due_ms, self._grace_ms)

    def _decide(self, now_ms: int) -> None:
        due_ms = self._link.next_deadline_ms
        if due_ms is None or now_ms < max(due_ms, self._grace_ms):
            return
        if self._grace_ms < due_ms:
            self._grace_ms = now_ms + GRACE_MS
            return
        self._link.act_on_time()

    # -- signs of life ------------------------------------------------------------------------

    @property
    def _writes_noops(self) -> bool:
        return bool(self._idle_interval_ms) and self._link.is_active and not self._is_alone()

    def _show_life(self, now_ms: int) -> None:
        """Followers and metrics see that the quorum moves, also when nothing happens."""
        if not self._writes_noops:
            self._noop_ms = None
            return
        if self._noop_ms is not None and now_ms < self._noop_ms:
            return
        end_offset = self._link.quorum.end_offset
        if end_offset == self._seen_end_offset:
            # A disk that refuses it: the subscriber of the link has heard of that.
            with suppress(KafkaError, StorageError, OSError):
                self._link.write([NoOpRecord()])
            end_offset = self._link.quorum.end_offset
        self._seen_end_offset = end_offset
        self._noop_ms = now_ms + self._idle_interval_ms
