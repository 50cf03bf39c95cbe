"""Silent workers: counted by looks, and given up once."""

import pytest

from ledgerstone.types import INT64_MAX
from ledgerstone.workers.watch import LOOKS, Watch

TIMEOUT_MS = 60_000
PERIOD_MS = TIMEOUT_MS // LOOKS


def looked(watch: Watch, times: int, *, timeout_ms: int = TIMEOUT_MS) -> list[int]:
    """Looks as often, each time when it is due."""
    found = []
    for _ in range(times):
        found += watch.look(now_ms=watch.next_look_ms, timeout_ms=timeout_ms)
    return found


def test_nobody_is_looked_at_while_nobody_is_at_work() -> None:
    watch = Watch()

    watch.begin(1, now_ms=0, timeout_ms=TIMEOUT_MS)
    during = watch.next_look_ms
    watch.end(1)
    silent = looked(watch, 1)

    assert during == PERIOD_MS
    assert silent == []
    assert watch.next_look_ms == INT64_MAX


def test_silent_worker_is_named_once_when_its_time_is_over() -> None:
    watch = Watch()
    watch.begin(1, now_ms=0, timeout_ms=TIMEOUT_MS)

    early = looked(watch, LOOKS - 1)
    at_ms = watch.next_look_ms
    silent = looked(watch, 1)

    assert (early, at_ms, silent) == ([], TIMEOUT_MS, [1])
    assert looked(watch, LOOKS) == []


def test_worker_that_speaks_now_and_then_is_left_in_peace() -> None:
    watch = Watch()
    watch.begin(1, now_ms=0, timeout_ms=TIMEOUT_MS)

    for _ in range(5):
        assert looked(watch, LOOKS - 1) == []
        watch.heard(1)

    assert looked(watch, LOOKS) == [1]


def test_broker_that_was_stopped_for_an_hour_does_not_blame_its_worker() -> None:
    watch = Watch()
    watch.begin(1, now_ms=0, timeout_ms=TIMEOUT_MS)

    silent = watch.look(now_ms=3_600_000, timeout_ms=TIMEOUT_MS)
    watch.heard(1)

    assert silent == []
    assert looked(watch, LOOKS - 1) == []


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_timeout_of_zero_never_comes(when: str) -> None:
    watch = Watch()
    watch.begin(1, now_ms=0, timeout_ms=0 if when == "from the start" else TIMEOUT_MS)

    silent = looked(watch, 2 * LOOKS, timeout_ms=0)

    assert silent == []
    assert watch.next_look_ms == INT64_MAX
