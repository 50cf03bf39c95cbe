"""The same thing again and again is told once a minute, with how often it was."""

from ledgerstone.server.throttle import INTERVAL_MS, LogThrottle, shown


def test_first_is_told_at_once_and_the_others_of_its_minute_as_a_number() -> None:
    throttle = LogThrottle()
    assert throttle.admit("a", 1000) == 0
    assert [throttle.admit("a", 1000 + ms) for ms in range(50)] == [None] * 50
    assert throttle.admit("b", 1001) == 0, "another kind"
    assert throttle.admit("a", 1000 + INTERVAL_MS) == 50
    assert throttle.admit("a", 1000 + 3 * INTERVAL_MS) == 0


def test_what_stopped_is_told_once_its_minute_is_over() -> None:
    throttle = LogThrottle()
    for ms in range(5):
        throttle.admit("a", ms)
    assert list(throttle.leftovers(INTERVAL_MS - 1)) == []
    assert list(throttle.leftovers(INTERVAL_MS)) == [("a", 4)]
    assert list(throttle.leftovers(INTERVAL_MS)) == []


def test_text_of_strangers_has_an_end() -> None:
    assert shown("x" * 200) == "x" * 200
    assert len(shown("x" * 100_000)) == 201
