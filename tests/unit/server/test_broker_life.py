"""A broker's life, one transition at a time."""

from collections.abc import Callable

import pytest

from ledgerstone.errors import LogStorageError, NotController
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ledgerstone.server.broker_life.agent import LifeAgent
from ledgerstone.server.broker_life.machine import BrokerLife, BrokerState, LifeSettings
from ledgerstone.sim.clock import VirtualClock

_REGISTRATION = BrokerRegistrationRequest(broker_id=1, incarnation_id=bytes([7]) * 16)
_EPOCH = 41
T0 = 1_000


class Story:
    """A life, the time, and the request that is in flight."""

    def __init__(self) -> None:
        self.now_ms = T0
        self.life = BrokerLife(_REGISTRATION, LifeSettings(), T0)

    def state(self) -> BrokerState:
        return self.life.state

    def due_in(self) -> int | None:
        deadline = self.life.next_deadline_ms
        return None if deadline is None else deadline - self.now_ms

    def take(self) -> BrokerRegistrationRequest | BrokerHeartbeatRequest | None:
        taken = self.life.take_request(self.now_ms, metadata_offset=99)
        self.life.check_invariants()
        return taken

    def heartbeat(self) -> BrokerHeartbeatRequest:
        taken = self.take()
        assert isinstance(taken, BrokerHeartbeatRequest), taken
        return taken

    def answer(self, answer: BrokerRegistrationResponse | BrokerHeartbeatResponse) -> None:
        self.life.answered(self.now_ms, answer)
        self.life.check_invariants()

    def hears(self, **fields: object) -> None:
        """The next heartbeat goes out and is answered."""
        self.heartbeat()
        self.answer(BrokerHeartbeatResponse(**fields))  # type: ignore[arg-type]

    def wait(self, ms: int | None = None) -> None:
        """Until the next deadline."""
        due = self.due_in() if ms is None else ms
        assert due is not None
        self.now_ms += due

    def register(self) -> None:
        assert self.take() is _REGISTRATION
        self.answer(BrokerRegistrationResponse(broker_epoch=_EPOCH))

    def recover(self) -> None:
        self.register()
        self.hears(is_caught_up=True)
        assert self.state() is BrokerState.RECOVERY

    def run(self) -> None:
        self.recover()
        self.life.ready_to_unfence(self.now_ms)
        self.hears(is_caught_up=True, is_fenced=False)
        assert self.state() is BrokerState.RUNNING


@pytest.fixture
def story() -> Story:
    return Story()


def test_registers_at_once_and_then_heartbeats_at_once(story: Story) -> None:
    assert story.due_in() == 0
    story.register()
    assert story.life.broker_epoch == _EPOCH
    assert story.due_in() == 0
    sent = story.heartbeat()
    assert (sent.broker_id, sent.broker_epoch, sent.current_metadata_offset) == (1, _EPOCH, 99)
    assert sent.want_fence
    assert not sent.want_shut_down


def test_one_request_is_in_flight(story: Story) -> None:
    story.take()
    story.now_ms += 59_000
    assert story.take() is None
    # Only the limit of registering is left to wait for.
    assert story.due_in() == 1_000


def test_a_refused_registration_is_repeated_every_interval(story: Story) -> None:
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    for _ in range(3):
        assert story.take() is _REGISTRATION
        story.answer(BrokerRegistrationResponse(error_code=code))
        assert story.life.last_failure == "DUPLICATE_BROKER_REGISTRATION"
        assert story.due_in() == 2_000
        story.wait()
    story.register()
    assert story.life.last_failure is None


def test_a_registration_that_found_no_controller_is_repeated_soon(story: Story) -> None:
    """The channel has waited for one all the time."""
    story.take()
    story.wait(ms=2_000)
    story.answer(BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    assert story.due_in() == 100
    story.wait()
    story.register()
    # A heartbeat that finds none waits its interval.
    story.heartbeat()
    story.answer(BrokerHeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    assert story.due_in() == 2_000


def test_a_broker_that_cannot_register_for_a_minute_gives_up(story: Story) -> None:
    while not story.life.has_given_up:
        assert story.now_ms < T0 + 60_000
        if story.take() is not None:
            story.life.failed(story.now_ms, "no controller is known")
        story.wait()
        story.take()
    assert story.now_ms == T0 + 60_000
    assert story.due_in() is None
    assert story.life.last_failure == "no controller is known"


def test_the_limit_of_registering_ends_with_the_first_registration(story: Story) -> None:
    story.register()
    for _ in range(100):
        story.heartbeat()
        story.life.failed(story.now_ms, "lost")
        story.wait()
    assert story.now_ms > T0 + 60_000
    assert not story.life.has_given_up


def test_starting_asks_every_ten_milliseconds_until_it_has_caught_up(story: Story) -> None:
    story.register()
    for _ in range(3):
        story.hears(is_caught_up=False)
        assert story.state() is BrokerState.STARTING
        assert story.due_in() == 10
        story.wait()
    story.hears(is_caught_up=True)
    assert story.state() is BrokerState.RECOVERY
    assert story.due_in() == 10


def test_recovery_goes_on_until_the_broker_is_unfenced(story: Story) -> None:
    story.recover()
    story.wait()
    assert story.heartbeat().want_fence
    story.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
    assert story.state() is BrokerState.RECOVERY
    assert story.due_in() == 2_000
    story.wait(ms=300)
    story.life.ready_to_unfence(story.now_ms)
    assert story.due_in() == 0
    assert not story.heartbeat().want_fence
    story.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
    assert story.state() is BrokerState.RECOVERY
    story.wait()
    story.hears(is_caught_up=True, is_fenced=False)
    assert story.state() is BrokerState.RUNNING
    assert not story.life.is_fenced


def test_a_wish_made_while_a_heartbeat_is_in_flight_goes_out_right_after_it(story: Story) -> None:
    story.recover()
    story.wait()
    story.heartbeat()
    story.life.ready_to_unfence(story.now_ms)
    assert story.due_in() is None
    story.wait(ms=30)
    story.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
    assert story.due_in() == 0
    assert not story.heartbeat().want_fence


def test_a_broker_ready_before_it_has_caught_up_stays_starting(story: Story) -> None:
    story.register()
    story.life.ready_to_unfence(story.now_ms)
    story.hears(is_caught_up=False, is_fenced=True)
    assert story.state() is BrokerState.STARTING


def test_running_heartbeats_every_interval_and_survives_failures(story: Story) -> None:
    story.run()
    for _ in range(3):
        assert story.due_in() == 2_000
        story.wait()
        story.heartbeat()
        story.wait(ms=500)
        story.life.failed(story.now_ms, "connection lost")
        assert story.due_in() == 2_000
        assert story.state() is BrokerState.RUNNING


def test_a_fenced_broker_stays_running_and_asks_to_be_unfenced(story: Story) -> None:
    story.run()
    story.wait()
    story.hears(is_fenced=True)
    assert story.state() is BrokerState.RUNNING
    assert story.life.is_fenced
    story.wait()
    assert not story.heartbeat().want_fence


def test_a_stale_epoch_registers_again_with_the_same_incarnation(story: Story) -> None:
    story.run()
    story.wait()
    story.hears(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert story.due_in() == 2_000
    assert story.life.is_fenced
    story.wait()
    assert story.take() is _REGISTRATION
    story.answer(BrokerRegistrationResponse(broker_epoch=77))
    assert story.state() is BrokerState.RUNNING
    sent = story.heartbeat()
    assert sent.broker_epoch == 77
    assert not sent.want_fence


def test_leaving_waits_until_the_controller_lets_go(story: Story) -> None:
    story.run()
    story.wait(ms=100)
    story.life.leave(story.now_ms)
    assert story.state() is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert story.due_in() == 0
    assert story.heartbeat().want_shut_down
    story.answer(BrokerHeartbeatResponse(is_fenced=False, should_shut_down=False))
    assert story.due_in() == 2_000
    story.wait()
    story.hears(is_fenced=True, should_shut_down=True)
    assert story.state() is BrokerState.SHUTTING_DOWN
    assert story.life.was_released
    assert story.due_in() is None
    assert story.take() is None


def test_should_shut_down_is_not_heard_by_a_broker_that_did_not_ask(story: Story) -> None:
    story.run()
    story.wait()
    story.hears(is_fenced=False, should_shut_down=True)
    assert story.state() is BrokerState.RUNNING


@pytest.mark.parametrize("stage", ["unregistered", "registered", "recovering"])
def test_a_broker_that_does_not_run_yet_leaves_at_once(story: Story, stage: str) -> None:
    if stage == "registered":
        story.register()
    elif stage == "recovering":
        story.recover()
    story.life.leave(story.now_ms)
    assert story.state() is BrokerState.SHUTTING_DOWN
    assert not story.life.was_released


def test_leaving_ends_after_its_limit(story: Story) -> None:
    story.run()
    story.life.leave(story.now_ms)
    began_ms = story.now_ms
    while story.state() is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        if story.take() is not None:
            story.answer(BrokerHeartbeatResponse(is_fenced=False))
            story.wait()
    assert story.now_ms - began_ms == 300_000
    assert not story.life.was_released


def test_leaving_does_not_wait_longer_than_a_session_for_a_silent_controller(story: Story) -> None:
    story.run()
    story.wait(ms=60_000)
    story.life.leave(story.now_ms)
    began_ms = story.now_ms
    while story.state() is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        if story.take() is not None:
            story.life.failed(story.now_ms, "no controller is known")
        if story.due_in() is not None:
            story.wait()
    assert story.now_ms - began_ms == 9_000


def test_leaving_a_cluster_that_has_forgotten_the_broker_does_not_wait(story: Story) -> None:
    story.run()
    story.life.leave(story.now_ms)
    story.hears(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert story.state() is BrokerState.SHUTTING_DOWN


def test_leaving_twice_is_leaving_once(story: Story) -> None:
    story.run()
    story.life.leave(story.now_ms)
    story.wait(ms=5_000)
    limit_ms = story.life._leave_ms
    story.life.leave(story.now_ms)
    assert story.life._leave_ms == limit_ms
    story.life.leave_now()
    assert story.state() is BrokerState.SHUTTING_DOWN


def test_an_answer_that_comes_after_the_end_changes_nothing(story: Story) -> None:
    story.run()
    story.wait()
    story.heartbeat()
    story.life.leave_now()
    story.answer(BrokerHeartbeatResponse(is_fenced=False))
    assert story.state() is BrokerState.SHUTTING_DOWN
    assert story.due_in() is None


# -- the agent --------------------------------------------------------------------------------


def test_a_controller_here_whose_disk_refuses_is_asked_again() -> None:
    clock = VirtualClock()
    asked: list[ApiMessage] = []
    refusals = [LogStorageError("No space left"), NotController("another one leads")]

    def ask(request: ApiMessage, on_answer: Callable[[ApiMessage], None]) -> None:
        asked.append(request)
        if refusals:
            raise refusals.pop()
        on_answer(BrokerRegistrationResponse(broker_epoch=_EPOCH))

    life = BrokerLife(_REGISTRATION, LifeSettings(), clock.monotonic_ms())
    agent = LifeAgent(life, clock=clock, ask=ask, applied_offset=lambda: 0)
    agent.tick()
    assert life.last_failure == "another one leads"
    for _ in range(2):
        clock.advance(ms=2_000)
        agent.tick()
    assert asked == [_REGISTRATION] * 3
    assert life.broker_epoch == _EPOCH


def test_the_agent_tells_of_every_state_once() -> None:
    clock = VirtualClock()
    life = BrokerLife(_REGISTRATION, LifeSettings(), clock.monotonic_ms())

    def ask(request: ApiMessage, on_answer: Callable[[ApiMessage], None]) -> None:
        if isinstance(request, BrokerRegistrationRequest):
            on_answer(BrokerRegistrationResponse(broker_epoch=_EPOCH))
        else:
            assert isinstance(request, BrokerHeartbeatRequest)
            on_answer(
                BrokerHeartbeatResponse(
                    is_caught_up=True,
                    is_fenced=request.want_fence,
                    should_shut_down=request.want_shut_down,
                )
            )

    agent = LifeAgent(life, clock=clock, ask=ask, applied_offset=lambda: 0)
    seen: list[BrokerState] = []
    agent.on_change = seen.append
    agent.tick()
    agent.tick()
    agent.ready_to_unfence()
    agent.tick()
    agent.leave()
    agent.tick()
    agent.leave_now()
    assert seen == [
        BrokerState.RECOVERY,
        BrokerState.RUNNING,
        BrokerState.PENDING_CONTROLLED_SHUTDOWN,
        BrokerState.SHUTTING_DOWN,
    ]
    assert life.was_released
    assert agent.next_deadline_ms is None


# -- failed log directories -----------------------------------------------------------------------

FAILED_DIR = bytes(15) + b"\xc8"


def test_a_failed_directory_is_told_at_once_and_in_every_heartbeat(story: Story) -> None:
    story.run()

    story.life.directory_failed(story.now_ms, FAILED_DIR)

    assert story.due_in() == 0
    for _ in range(3):
        assert story.heartbeat().offline_log_dirs == [FAILED_DIR]
        story.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        story.wait()
    story.wait(60_000)
    story.take()
    assert not story.life.could_not_tell


def test_a_failed_directory_that_cannot_be_told_ends_the_process(story: Story) -> None:
    story.run()
    # Already in flight: it does not name the directory, so its answer does not count.
    story.wait()
    before = story.heartbeat()
    story.life.directory_failed(story.now_ms, FAILED_DIR)
    story.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert before.offline_log_dirs == []

    for _ in range(14):
        story.heartbeat()
        story.life.failed(story.now_ms, "no answer")
        story.wait()
    assert not story.life.could_not_tell
    story.wait(4_000)
    story.take()

    assert story.life.could_not_tell
