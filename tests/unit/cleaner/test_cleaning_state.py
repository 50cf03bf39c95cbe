"""Who may touch a partition: Kafka's table, row by row."""

import pytest

from ledgerstone.cleaner.cleaning_state import CleaningStanding, CleaningState, CleaningStates
from ledgerstone.errors import InvariantViolation
from ledgerstone.types import TopicPartition

TP = TopicPartition("topic", 0)


def test_grabbed_partition_is_in_progress_and_free_when_done() -> None:
    states = CleaningStates()

    states.grab(TP)
    during = states.of(TP)
    counted = states.done(TP)

    assert during == CleaningStanding(CleaningState.IN_PROGRESS, 0)
    assert counted
    assert states.is_free(TP)


def test_pass_that_was_aborted_leaves_its_partition_paused_and_does_not_count() -> None:
    """A pass ends in each of the states it can find."""
    states = CleaningStates()
    states.grab(TP)

    was_cleaned = states.abort_and_pause(TP)
    noticed = states.done(TP)

    assert was_cleaned
    assert not noticed
    assert states.of(TP) == CleaningStanding(CleaningState.PAUSED, 1)


def test_as_many_resumes_as_pauses_make_a_partition_free() -> None:
    """Pauses and aborts nest; each needs its own resume."""
    states = CleaningStates()
    states.abort_and_pause(TP)
    states.abort_and_pause(TP)

    states.resume(TP)
    between = states.of(TP)
    states.resume(TP)

    assert between == CleaningStanding(CleaningState.PAUSED, 1)
    assert states.is_free(TP)


def test_topic_deleted_during_a_pass_is_free_once_the_worker_has_noticed() -> None:
    """Aborted and resumed, and no caller waits for the worker."""
    states = CleaningStates()
    states.grab(TP)

    states.abort(TP)
    before = states.of(TP)
    states.done(TP)

    assert before.state is CleaningState.ABORTED
    assert states.is_free(TP)


def test_second_abort_before_the_worker_notices_is_one_more_pause() -> None:
    states = CleaningStates()
    states.grab(TP)
    states.abort_and_pause(TP)

    was_cleaned = states.abort_and_pause(TP)
    states.done(TP)

    assert not was_cleaned
    assert states.of(TP) == CleaningStanding(CleaningState.PAUSED, 2)


def test_paused_partition_cannot_be_grabbed() -> None:
    states = CleaningStates()
    states.abort_and_pause(TP)

    with pytest.raises(InvariantViolation, match="topic-0: grab while paused"):
        states.grab(TP)


def test_partition_in_progress_cannot_be_grabbed_twice() -> None:
    states = CleaningStates()
    states.grab(TP)

    with pytest.raises(InvariantViolation, match="grab while in progress"):
        states.grab(TP)


def test_done_is_illegal_for_a_partition_nobody_cleans() -> None:
    """In state none, and in state paused."""
    states = CleaningStates()
    with pytest.raises(InvariantViolation, match="done while free"):
        states.done(TP)

    states.abort_and_pause(TP)

    with pytest.raises(InvariantViolation, match="done while paused"):
        states.done(TP)


def test_resume_is_illegal_for_a_partition_that_is_not_paused() -> None:
    states = CleaningStates()
    with pytest.raises(InvariantViolation, match="resume while free"):
        states.resume(TP)

    states.grab(TP)

    with pytest.raises(InvariantViolation, match="resume while in progress"):
        states.resume(TP)


def test_more_resumes_than_pauses_are_illegal_while_a_worker_has_not_noticed() -> None:
    states = CleaningStates()
    states.grab(TP)
    states.abort(TP)

    with pytest.raises(InvariantViolation, match="resume while aborted, 0 pauses"):
        states.resume(TP)


def test_partitions_do_not_disturb_each_other() -> None:
    states = CleaningStates()
    other = TopicPartition("topic", 1)
    states.grab(TP)

    states.abort_and_pause(other)

    assert states.is_cleaned(TP)
    assert states.of(other).state is CleaningState.PAUSED
    states.check_invariants()
