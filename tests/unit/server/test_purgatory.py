"""Requests that wait: woken, expired, forgotten, each exactly once."""

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.heartbeat import HeartbeatResponse
from ledgerstone.server.purgatory import Purgatory
from ledgerstone.server.request import Parked, Request
from ledgerstone.server.session import Session
from ledgerstone.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
DONE = HeartbeatResponse()


def request(connection: int = 1) -> Request:
    return Request(connection, 1, 0, 0, None, Session("host"), 0)


def parked(*keys: TopicPartition, deadline_ms: int = 100, answers: list[bool]) -> Parked:
    """Answers when told to by the first of `answers`, and always when time is up."""

    def attempt(time_is_up: bool) -> ApiMessage | None:
        return DONE if answers.pop(0) or time_is_up else None

    return Parked(attempt=attempt, deadline_ms=deadline_ms, keys=keys)


def test_growth_of_any_partition_named_wakes_it_and_only_once() -> None:
    purgatory, waiting = Purgatory(), request()
    purgatory.park(waiting, parked(A, B, answers=[True]))

    woken = purgatory.wake(B)
    again = purgatory.wake(A), purgatory.expire(1_000)

    assert woken == [(waiting, DONE)]
    assert again == ([], [])
    assert len(purgatory) == 0


def test_request_that_is_not_satisfied_waits_on_and_is_answered_when_time_is_up() -> None:
    purgatory, waiting = Purgatory(), request()
    purgatory.park(waiting, parked(A, answers=[False, False]))

    woken = purgatory.wake(A)
    early = purgatory.expire(99)
    late = purgatory.expire(100)

    assert (woken, early) == ([], [])
    assert late == [(waiting, DONE)]


def test_next_deadline_is_the_earliest_of_those_that_still_wait() -> None:
    purgatory = Purgatory()
    purgatory.park(request(1), parked(A, deadline_ms=50, answers=[True]))
    purgatory.park(request(2), parked(B, deadline_ms=70, answers=[True]))

    first = purgatory.next_deadline_ms
    purgatory.wake(A)
    second = purgatory.next_deadline_ms
    purgatory.forget(2)

    assert (first, second, purgatory.next_deadline_ms) == (50, 70, None)


class Watched(Request):
    """Counts how often anybody asks whose it is."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        if name == "connection":
            Watched.looks += 1
        return super().__getattribute__(name)


def test_connection_that_leaves_costs_nothing_for_the_others_that_wait() -> None:
    """Thousands may leave in the same moment."""
    purgatory = Purgatory()
    for number in range(1000):
        waiting = Watched(number, 1, 0, 0, None, Session("host"), 0)
        purgatory.park(waiting, parked(A, B, answers=[]))
    Watched.looks = 0

    for number in range(999):
        purgatory.forget(number)

    assert Watched.looks <= 2 * 999
    assert [each.connection for each in purgatory.requests()] == [999]
    purgatory.forget(999)
    assert (len(purgatory), purgatory.awaited) == (0, {})


def test_deadlines_of_those_that_have_left_are_not_kept() -> None:
    purgatory, kept = Purgatory(), request(2)
    purgatory.park(kept, parked(B, deadline_ms=50, answers=[True]))

    for _ in range(1000):
        purgatory.park(request(1), parked(A, deadline_ms=1 << 31, answers=[True]))
        purgatory.wake(A)

    assert len(purgatory._deadlines) < 100
    assert purgatory.next_deadline_ms == 50
    assert purgatory.expire(50) == [(kept, DONE)]


def test_forgetting_a_connection_leaves_the_others_of_the_same_partition() -> None:
    purgatory, kept = Purgatory(), request(2)
    purgatory.park(request(1), parked(A, answers=[True]))
    purgatory.park(kept, parked(A, answers=[True]))

    purgatory.forget(1)

    assert list(purgatory.requests()) == [kept]
    assert purgatory.wake(A) == [(kept, DONE)]


def test_requests_due_at_the_same_time_are_answered_in_the_order_they_came() -> None:
    purgatory, waiting = Purgatory(), [request(number) for number in range(5)]
    for one in waiting:
        purgatory.park(one, parked(A, answers=[False]))

    answered = purgatory.expire(100)

    assert [one for one, _ in answered] == waiting
