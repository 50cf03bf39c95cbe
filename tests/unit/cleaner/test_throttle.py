"""How a pass is slowed down, on a clock that only moves during waits."""

import pytest

from ledgerstone.cleaner.throttle import CHECK_INTERVAL_MS, Throttle
from ledgerstone.errors import CleaningAborted
from ledgerstone.sim.clock import VirtualClock


def _throttle(bytes_per_second: float) -> tuple[Throttle, VirtualClock, list[int]]:
    clock = VirtualClock(start_ms=0)
    waits: list[int] = []

    def sleep(milliseconds: int) -> None:
        waits.append(milliseconds)
        clock.advance(ms=milliseconds)

    return Throttle(bytes_per_second, clock=clock, sleep_ms=sleep), clock, waits


def _nothing() -> None:
    pass


def test_rate_is_kept_over_spans_longer_than_the_interval() -> None:
    throttle, clock, waits = _throttle(1000)

    throttle.charge(600, _nothing)
    clock.advance(ms=CHECK_INTERVAL_MS + 100)
    throttle.charge(400, _nothing)

    assert sum(waits) == 1000 - 400
    assert clock.monotonic_ms() - 0 >= 1000


def test_nobody_waits_within_the_interval_or_below_the_rate() -> None:
    throttle, clock, waits = _throttle(1000)

    throttle.charge(10**9, _nothing)
    assert waits == []

    slow, clock, waits = _throttle(1000)
    clock.advance(ms=2000)
    slow.charge(1999, _nothing)
    assert waits == []


def test_a_new_span_begins_after_each_check() -> None:
    throttle, clock, waits = _throttle(1000)
    clock.advance(ms=2000)
    throttle.charge(0, _nothing)

    clock.advance(ms=400)
    throttle.charge(500, _nothing)

    # The two seconds in which nothing was moved earn no credit.
    assert sum(waits) == 100


def test_long_wait_is_given_up_when_the_pass_is() -> None:
    throttle, clock, waits = _throttle(1)
    clock.advance(ms=1000)

    def abort() -> None:
        if len(waits) == 3:
            raise CleaningAborted("given up")

    with pytest.raises(CleaningAborted):
        throttle.charge(1 << 20, abort)

    assert len(waits) == 3
    assert max(waits) <= 300


def test_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes per second"):
        _throttle(0)
