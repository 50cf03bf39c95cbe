"""A controller that registers: once, again after failures, and when it is forgotten."""

import pytest

from ledgerstone.metadata.delta import difference
from ledgerstone.metadata.image import ControllerImage, MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ledgerstone.server.broker_life.controller_registration import ControllerRegistering
from ledgerstone.server.controller_link import OnAnswer
from ledgerstone.sim.clock import VirtualClock

_MINE = bytes([1]) * 16
_OTHER = bytes([2]) * 16


class Desk:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.image = MetadataImage(cluster_id="c")
        self.asked: list[OnAnswer] = []
        self.agent = ControllerRegistering(
            ControllerRegistrationRequest(controller_id=3, incarnation_id=_MINE),
            clock=self.clock,
            ask=self._ask,
            image=lambda: self.image,
        )

    def _ask(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        self.asked.append(on_answer)

    def due_in(self) -> int | None:
        due_ms = self.agent.next_deadline_ms
        return None if due_ms is None else due_ms - self.clock.monotonic_ms()

    def tick(self) -> int:
        """At the deadline; how many requests are out then."""
        due_ms = self.due_in()
        assert due_ms is not None
        self.clock.advance(ms=due_ms)
        assert self.agent.tick() == []
        return len(self.asked)

    def answer(self, code: int = 0) -> None:
        self.asked.pop()(ControllerRegistrationResponse(error_code=code))

    def know(self, incarnation_id: bytes) -> None:
        before = self.image
        known = ControllerImage(controller_id=3, incarnation_id=incarnation_id, endpoints=())
        self.image = MetadataImage(cluster_id="c", controllers={3: known})
        self.agent.metadata_changed(difference(before, self.image))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_registers_once_and_is_quiet_when_the_record_has_come(desk: Desk) -> None:
    assert desk.due_in() == 0
    assert desk.tick() == 1
    assert desk.due_in() is None
    desk.answer()
    desk.know(_MINE)
    assert desk.tick() == 0
    assert desk.due_in() is None


def test_failures_are_repeated_with_longer_pauses(desk: Desk) -> None:
    pauses = []
    for _ in range(12):
        assert desk.tick() == 1
        desk.answer(ErrorCode.REQUEST_TIMED_OUT)
        pauses.append(desk.due_in())
    assert pauses[:4] == [100, 200, 400, 800]
    assert pauses[-1] == 30_000
    desk.tick()
    desk.answer()
    # The next failure starts over.
    desk.tick()
    desk.answer(ErrorCode.NOT_CONTROLLER)
    assert desk.due_in() == 100


def test_a_record_that_does_not_come_is_asked_for_again(desk: Desk) -> None:
    desk.tick()
    desk.answer()
    assert desk.due_in() == 1_000
    assert desk.tick() == 1


def test_another_process_under_the_same_id_makes_it_register_again(desk: Desk) -> None:
    desk.know(_MINE)
    assert desk.tick() == 0
    desk.know(_OTHER)
    assert desk.due_in() == 0
    assert desk.tick() == 1
