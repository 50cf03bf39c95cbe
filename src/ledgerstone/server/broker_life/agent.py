"""Carries a broker's life out: sends what is due to the active controller. Grade D."""

import logging
from collections.abc import Callable
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import BrokerRegistrationResponse
from ledgerstone.server.broker_life.machine import BrokerLife, BrokerState
from ledgerstone.server.effects import Effect, Halt
from ledgerstone.server.results import Result

_LOG: Final = logging.getLogger(__name__)

# What a controller on this node may refuse a decision with; nothing of it is true then.
DISK_REFUSED: Final = (KafkaError, StorageError, OSError)

AskController = Callable[[ApiMessage, Callable[[ApiMessage], None]], None]


class LifeAgent:
    """`Agent`. `applied_offset` is that of the last metadata record this broker has applied;
    `on_change` is called in the turn in which the state has changed."""

    def __init__(
        self,
        life: BrokerLife,
        *,
        clock: Clock,
        ask: AskController,
        applied_offset: Callable[[], int],
    ) -> None:
        self.life = life
        self.on_change: Callable[[BrokerState], None] | None = None
        self._clock = clock
        self._ask = ask
        self._applied_offset = applied_offset
        self._seen = life.state
        self._reported: str | None = None

    @property
    def next_deadline_ms(self) -> int | None:
        return self.life.next_deadline_ms

    def tick(self) -> list[Effect]:
        request = self.life.take_request(self._clock.monotonic_ms(), self._applied_offset())
        if request is not None:
            try:
                self._ask(request, self._answered)
            except DISK_REFUSED as error:
                # This node is the controller, and its disk takes nothing.
                self.life.failed(self._clock.monotonic_ms(), str(error))
        self._notice()
        if self.life.could_not_tell:
            return [Halt("the controller could not be told of a failed log directory in time")]
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    def ready_to_unfence(self) -> None:
        self.life.ready_to_unfence(self._clock.monotonic_ms())

    def directory_failed(self, directory_id: bytes) -> None:
        self.life.directory_failed(self._clock.monotonic_ms(), directory_id)

    def leave(self) -> None:
        self.life.leave(self._clock.monotonic_ms())
        self._notice()

    def leave_now(self) -> None:
        self.life.leave_now()
        self._notice()

    def _answered(self, answer: ApiMessage) -> None:
        assert isinstance(answer, BrokerRegistrationResponse | BrokerHeartbeatResponse), answer
        self.life.answered(self._clock.monotonic_ms(), answer)
        self._report(answer)
        self._notice()

    def _report(self, answer: BrokerRegistrationResponse | BrokerHeartbeatResponse) -> None:
        """A line when something else happens than before, not one for every attempt."""
        failure = self.life.last_failure
        if failure is not None and failure != self._reported:
            what = "heartbeat" if isinstance(answer, BrokerHeartbeatResponse) else "registration"
            _LOG.warning("%s failed reason=%s", what, failure)
        elif failure is None and isinstance(answer, BrokerRegistrationResponse):
            _LOG.info("broker registered broker_epoch=%d", self.life.broker_epoch)
        self._reported = failure

    def _notice(self) -> None:
        state = self.life.state
        if state is self._seen:
            return
        _LOG.info("broker state from=%s to=%s", self._seen.name, state.name)
        self._seen = state
        if self.on_change is not None:
            self.on_change(state)
