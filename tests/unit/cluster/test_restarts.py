"""When a node that ended is started again."""

from ledgerstone.cluster.restarts import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    MOST_IN_A_ROW,
    STEADY_MS,
    Restarts,
)


def test_pause_doubles_until_the_node_is_given_up() -> None:
    restarts = Restarts()

    pauses = [restarts.ended(lived_ms=10) for _ in range(MOST_IN_A_ROW)]

    assert pauses == [*(FIRST_PAUSE_MS << n for n in range(MOST_IN_A_ROW - 1)), None]
    assert restarts.total == MOST_IN_A_ROW - 1
    assert max(each or 0 for each in pauses) <= LONGEST_PAUSE_MS


def test_node_that_ran_for_a_while_starts_over() -> None:
    restarts = Restarts()
    for _ in range(MOST_IN_A_ROW - 1):
        restarts.ended(lived_ms=10)

    assert restarts.ended(lived_ms=STEADY_MS) == FIRST_PAUSE_MS


def test_operator_can_have_a_node_that_was_given_up_started() -> None:
    restarts = Restarts()
    while restarts.ended(lived_ms=10) is not None:
        pass

    restarts.forgive()

    assert restarts.ended(lived_ms=10) == FIRST_PAUSE_MS
