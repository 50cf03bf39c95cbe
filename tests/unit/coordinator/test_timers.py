"""Deadlines come up once each, in order, wherever they were moved to meanwhile."""

from ledgerstone.coordinator.timers import Timer, TimerKind, Timers

A, B, C = (Timer(TimerKind.SESSION, "group", name) for name in "abc")


def _due(timers: Timers, now_ms: int) -> list[Timer]:
    due = []
    while (timer := timers.pop_due(now_ms)) is not None:
        due.append(timer)
    return due


def test_timers_come_up_in_order_of_their_deadlines_then_of_setting() -> None:
    timers = Timers()
    timers.schedule(B, 20)
    timers.schedule(A, 10)
    timers.schedule(C, 20)

    assert timers.next_deadline_ms == 10
    assert _due(timers, 19) == [A]
    assert _due(timers, 20) == [B, C]
    assert timers.next_deadline_ms is None


def test_moved_timer_comes_up_at_its_last_deadline_only() -> None:
    timers = Timers()
    for deadline_ms in (10, 30, 20, 25):
        timers.schedule(A, deadline_ms)

    assert timers.next_deadline_ms == 25
    assert _due(timers, 24) == []
    assert _due(timers, 100) == [A]


def test_cancelled_timer_never_comes_up_even_when_it_is_set_again() -> None:
    timers = Timers()
    timers.schedule(A, 10)
    timers.cancel(A)
    timers.schedule(A, 40)

    assert A in timers
    assert _due(timers, 39) == []
    assert _due(timers, 40) == [A]


def test_cancelled_timers_leave_no_rubbish_behind() -> None:
    timers = Timers()
    timers.schedule(B, 5)
    for number in range(10_000):
        timers.schedule(Timer(TimerKind.SESSION, "group", str(number)), 10 + number)
        timers.cancel(Timer(TimerKind.SESSION, "group", str(number)))

    assert len(timers._heap) < 100
    assert _due(timers, 10**6) == [B]
