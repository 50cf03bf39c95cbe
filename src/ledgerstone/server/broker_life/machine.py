"""A broker's life as the controllers see it: register, heartbeat, leave. Pure.

    STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN

One request is in flight at a time. The owner sends what `take_request` returns, when
`next_deadline_ms` has come, and reports the answer. A failure waits a full heartbeat interval; a
wish of the broker is sent at once.
"""

import enum
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

# While STARTING, so that a broker with nothing to recover is soon there.
_STARTING_INTERVAL_MS: Final = 10
_NO_CONTROLLER_PAUSE_MS: Final = 100
_NO_EPOCH: Final = -1


class BrokerState(enum.IntEnum):
    """Kafka's numbers: the metric BrokerState shows them."""

    STARTING = 1  # Catches up with the metadata.
    RECOVERY = 2  # Caught up: opens its logs, still fenced.
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6  # Waits until the controller has moved its leaderships.
    SHUTTING_DOWN = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeSettings:
    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    registration_timeout_ms: int = 60_000
    controlled_shutdown_ms: int = 300_000
    # How long a failed log directory may stay unknown to the controller.
    directory_failure_ms: int = 30_000


class BrokerLife:
    """Invariants: at most one request in flight; the state only moves forward.

    `broker_epoch` is -1 until the first registration. A registration the controller has forgotten
    (STALE_BROKER_EPOCH) is repeated with the same incarnation, and the state stays."""

    def __init__(
        self, registration: BrokerRegistrationRequest, settings: LifeSettings, now_ms: int
    ) -> None:
        self.state = BrokerState.STARTING
        self.broker_epoch = _NO_EPOCH
        # What the controller said last.
        self.is_fenced = True
        # Why the last request failed; None once one succeeded.
        self.last_failure: str | None = None
        # Set when the broker could not register in time: the process has to exit.
        self.has_given_up = False
        # Set when the controller could not be told of a failed log directory: the process has to
        # exit, or others would go on to believe in its replicas.
        self.could_not_tell = False
        # Whether the controller let the broker go, rather than the broker giving up on it.
        self.was_released = False
        self._registration = registration
        self._settings = settings
        self._is_registered = False
        self._wants_unfencing = False
        self._is_in_flight = False
        self._is_hurried = False
        self._next_ms = now_ms
        self._register_by_ms: int | None = now_ms + settings.registration_timeout_ms
        self._last_contact_ms = now_ms
        self._shut_down_by_ms: int | None = None
        # Log directories that failed: in every heartbeat, for as long as the process lives.
        self._offline_dirs: list[bytes] = []
        # Those that no answered heartbeat has named yet, and by when one must have.
        self._untold_dirs: dict[bytes, int] = {}
        self._in_flight_dirs: tuple[bytes, ...] = ()

    # -- time -----------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if self.state is BrokerState.SHUTTING_DOWN or self.has_given_up:
            return None
        due = [] if self._is_in_flight else [self._next_ms]
        if self._register_by_ms is not None:
            due.append(self._register_by_ms)
        if (leave_ms := self._leave_ms) is not None:
            due.append(leave_ms)
        due += self._untold_dirs.values()
        return min(due, default=None)

    @property
    def _leave_ms(self) -> int | None:
        """When a controlled shutdown stops waiting. Without contact for a session the controller
        has fenced this broker, or there is no controller: neither is worth waiting for."""
        if self._shut_down_by_ms is None:
            return None
        return min(self._shut_down_by_ms, self._last_contact_ms + self._settings.session_timeout_ms)

    def take_request(
        self, now_ms: int, metadata_offset: int
    ) -> BrokerRegistrationRequest | BrokerHeartbeatRequest | None:
        """What is due. `metadata_offset` is the last one that this broker has applied."""
        self._look_at_limits(now_ms)
        is_over = self.state is BrokerState.SHUTTING_DOWN or self.has_given_up
        if is_over or self._is_in_flight or now_ms < self._next_ms:
            return None
        self._is_in_flight = True
        self._is_hurried = False
        if not self._is_registered:
            self._in_flight_dirs = ()
            return self._registration
        self._in_flight_dirs = tuple(self._offline_dirs)
        return BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=metadata_offset,
            want_fence=not self._wants_unfencing,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline_dirs),
        )

    def _look_at_limits(self, now_ms: int) -> None:
        if self._register_by_ms is not None and now_ms >= self._register_by_ms:
            self.has_given_up = True
        if any(now_ms >= by_ms for by_ms in self._untold_dirs.values()):
            self.could_not_tell = True
            self._untold_dirs.clear()
        if (leave_ms := self._leave_ms) is not None and now_ms >= leave_ms:
            self._shut_down()

    # -- answers --------------------------------------------------------------------------------

    def answered(
        self, now_ms: int, answer: BrokerRegistrationResponse | BrokerHeartbeatResponse
    ) -> None:
        self._is_in_flight = False
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if answer.error_code:
            self._refused(now_ms, answer)
            return
        self._last_contact_ms = now_ms
        self.last_failure = None
        if isinstance(answer, BrokerRegistrationResponse):
            self.broker_epoch = answer.broker_epoch
            self._is_registered = True
            self._register_by_ms = None
            self._next_ms = now_ms
        else:
            self._heard(now_ms, answer)

    def _refused(
        self, now_ms: int, answer: BrokerRegistrationResponse | BrokerHeartbeatResponse
    ) -> None:
        code = answer.error_code
        is_stale = code == ErrorCode.STALE_BROKER_EPOCH
        if is_stale and isinstance(answer, BrokerHeartbeatResponse):
            self._is_registered = False
            self.is_fenced = True
            if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                # Another process has the node id, or an operator has unregistered this broker.
                self._shut_down()
                return
        self.failed(now_ms, _name_of(code))
        if code == ErrorCode.REQUEST_TIMED_OUT and not self._is_registered:
            # The channel has looked for a controller for a whole interval already.
            self._wait(now_ms, _NO_CONTROLLER_PAUSE_MS)

    def failed(self, now_ms: int, reason: str) -> None:
        """No answer, or one that says no."""
        self._is_in_flight = False
        self.last_failure = reason
        self._wait(now_ms, self._settings.heartbeat_interval_ms)

    def _heard(self, now_ms: int, answer: BrokerHeartbeatResponse) -> None:
        for directory_id in self._in_flight_dirs:
            self._untold_dirs.pop(directory_id, None)
        self.is_fenced = answer.is_fenced
        interval_ms = self._settings.heartbeat_interval_ms
        match self.state:
            case BrokerState.STARTING:
                if answer.is_caught_up:
                    self.state = BrokerState.RECOVERY
                interval_ms = _STARTING_INTERVAL_MS
            case BrokerState.RECOVERY if not answer.is_fenced:
                self.state = BrokerState.RUNNING
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN if answer.should_shut_down:
                self.was_released = True
                self._shut_down()
        self._wait(now_ms, interval_ms)

    def _wait(self, now_ms: int, ms: int) -> None:
        self._next_ms = now_ms if self._is_hurried else now_ms + ms

    # -- wishes ---------------------------------------------------------------------------------

    def ready_to_unfence(self, now_ms: int) -> None:
        """The logs are recovered and the first metadata is applied."""
        if not self._wants_unfencing:
            self._wants_unfencing = True
            self._hurry(now_ms)

    def directory_failed(self, now_ms: int, directory_id: bytes) -> None:
        """A log directory is offline: the controller must know, or clients find no leader."""
        if directory_id not in self._offline_dirs:
            self._offline_dirs.append(directory_id)
            self._untold_dirs[directory_id] = now_ms + self._settings.directory_failure_ms
            self._hurry(now_ms)

    def leave(self, now_ms: int) -> None:
        """Asks the controller to move this broker's leaderships. A broker that does not run yet
        leads nothing, and leaves at once."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._shut_down_by_ms = now_ms + self._settings.controlled_shutdown_ms
            # The limit of silence counts from here: the last heartbeat may be old.
            self._last_contact_ms = now_ms
            self._hurry(now_ms)
        elif self.state < BrokerState.RUNNING:
            self._shut_down()

    def leave_now(self) -> None:
        """Without waiting for the controller."""
        self._shut_down()

    def _hurry(self, now_ms: int) -> None:
        self._next_ms = now_ms
        self._is_hurried = True

    def _shut_down(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        self._register_by_ms = self._shut_down_by_ms = None

    def check_invariants(self) -> None:
        assert self._is_registered <= (self.broker_epoch != _NO_EPOCH)
        assert not (self._register_by_ms is not None and self._is_registered)
        assert (self._shut_down_by_ms is not None) == (
            self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
